#!/bin/sh
# train.sh - a siamese net on pairs of digits.
. "$(dirname "$0")/../lib.sh"

here=examples/siamese
solver=models/siamese/solver.prototxt
if missing $here mnist_siamese_test_lmdb; then
    if [ -n "$short" ]; then
        made_up pairs mnist_siamese $here 1000 1000
    else
        made_up pairs mnist_siamese $here 20000 10000
    fi
fi
if [ -n "$short" ]; then
    changed $solver $here/out/solver.prototxt max_iter=40 test_iter=10 \
        test_interval=20 display=10 snapshot=0 \
        "snapshot_prefix=\"$here/out/siamese\""
else
    # Caffe's 50,000 iterations gain little after the first few thousand.
    changed $solver $here/out/solver.prototxt max_iter=10000
fi
train $here/out/train.log $here/out/solver.prototxt
say "contrastive loss $(last_score $here/out/train.log loss);" \
    "curves in $here/out/train.svg"
