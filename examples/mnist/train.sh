#!/bin/sh
# train.sh - LeNet on MNIST, with Caffe's solver: 99 % after 10,000
# iterations.
. "$(dirname "$0")/../lib.sh"

here=examples/mnist
solver=models/lenet/solver.prototxt
mnist_databases
if [ -n "$short" ]; then
    changed $solver $here/out/solver.prototxt max_iter=60 test_iter=10 \
        test_interval=30 display=10 snapshot=0 \
        "snapshot_prefix=\"$here/out/lenet\""
    solver=$here/out/solver.prototxt
fi
train $here/out/train.log $solver
say "accuracy $(last_score $here/out/train.log accuracy);" \
    "curves in $here/out/train.svg"
