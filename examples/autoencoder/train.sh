#!/bin/sh
# train.sh - a deep autoencoder on MNIST: 784 pixels through 30 numbers and
# back.
. "$(dirname "$0")/../lib.sh"

here=examples/autoencoder
solver=models/autoencoder/solver.prototxt
mnist_databases
if [ -n "$short" ]; then
    changed $solver $here/work/solver.prototxt max_iter=40 test_iter=2 \
        test_interval=20 display=10 snapshot=0 \
        "snapshot_prefix=\"$here/work/autoencoder\""
    solver=$here/work/solver.prototxt
fi
train $here/work/train.log $solver
say "squared error of an image $(last_score $here/work/train.log l2_error);" \
    "curves in $here/work/train.svg"
