#!/bin/sh
# train.sh [CAFFEMODEL] - finetuning: LeNet's trained layers under new
# outputs, and the same training from nothing to compare with.
. "$(dirname "$0")/../lib.sh"

here=examples/finetune
weights=${1:-$here/out/base_iter_500.caffemodel}
mkdir -p $here/out

# Something to start from: LeNet after 500 iterations on drawn digits.
if [ ! -e "$weights" ]; then
    [ $# -eq 0 ] || die "there is no $weights"
    n=500
    [ -z "$short" ] || n=60
    say "Training LeNet to start from."
    rm -rf $here/out/digits_*_lmdb
    "$cortado" make_digits $here/out
    sed "s|build/demo/|$here/out/|" examples/digits/lenet_train_test.prototxt \
        >$here/out/base_train_test.prototxt
    changed examples/digits/lenet_solver.prototxt \
        $here/out/base_solver.prototxt max_iter=$n snapshot=$n \
        "net=\"$here/out/base_train_test.prototxt\"" \
        "snapshot_prefix=\"$here/out/base\""
    train $here/out/base.log $here/out/base_solver.prototxt
    weights=$here/out/base_iter_$n.caffemodel
fi

# A few hundred images by another hand.
if [ ! -d $here/few_test_lmdb ]; then
    rm -rf $here/few_train_lmdb $here/out/few
    "$cortado" make_digits --seed=7 --train=300 --test=2000 $here/out/few
    for part in train test; do
        mv $here/out/few/digits_${part}_lmdb $here/few_${part}_lmdb
    done
fi

solver=$here/solver.prototxt
if [ -n "$short" ]; then
    changed $solver $here/out/solver.prototxt max_iter=30 test_interval=15
    solver=$here/out/solver.prototxt
fi
say "From the trained weights:"
train $here/out/train.log $solver --weights="$weights"
say "From nothing:"
train $here/out/scratch.log $solver
say "accuracy $(last_score $here/out/train.log accuracy) finetuned," \
    "$(last_score $here/out/scratch.log accuracy) from nothing;" \
    "curves in $here/out/train.svg and scratch.svg"
