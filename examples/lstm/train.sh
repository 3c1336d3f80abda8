#!/bin/sh
# train.sh - an LSTM that reads digits row by row.
. "$(dirname "$0")/../lib.sh"

here=examples/lstm
solver=models/lstm/solver.prototxt
mnist_databases
if [ -n "$short" ]; then
    changed $solver $here/out/solver.prototxt max_iter=40 test_iter=5 \
        test_interval=20 display=10 snapshot=0 \
        "snapshot_prefix=\"$here/out/lstm\""
    solver=$here/out/solver.prototxt
fi
train $here/out/train.log $solver
say "accuracy $(last_score $here/out/train.log accuracy);" \
    "curves in $here/out/train.svg"
