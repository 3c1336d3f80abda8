#!/bin/sh
# train.sh - a deep autoencoder on MNIST: 784 pixels through 30 numbers and
# back.
. "$(dirname "$0")/../lib.sh"

here=examples/autoencoder
solver=models/autoencoder/solver.prototxt
mnist_databases
if [ -n "$short" ]; then
    changed $solver $here/out/solver.prototxt max_iter=40 test_iter=2 \
        test_interval=20 display=10 snapshot=0 \
        "snapshot_prefix=\"$here/out/autoencoder\""
    solver=$here/out/solver.prototxt
fi
train $here/out/train.log $solver
say "squared error of an image $(last_score $here/out/train.log l2_error);" \
    "curves in $here/out/train.svg"
