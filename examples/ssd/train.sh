#!/bin/sh
# train.sh - a small SSD learns to find shapes: mAP 0.9 in a few minutes on a
# CPU.  RANKS=4 trains with four ranks.
. "$(dirname "$0")/../lib.sh"

here=examples/ssd
solver=$here/solver.prototxt
train_n=2000 test_n=400
if [ -n "$short" ]; then
    train_n=200 test_n=20
    changed $solver $here/out/solver.prototxt max_iter=20 test_iter=1 \
        test_interval=20 display=10 snapshot=0
    solver=$here/out/solver.prototxt
fi
if missing $here shapes_test_lmdb; then
    "$cortado" make_shapes --train=$train_n --test=$test_n $here
fi
set --
[ -z "${RANKS:-}" ] || set -- --ranks="$RANKS" --batch=global
train $here/out/train.log $solver "$@"
say "mAP $(last_score $here/out/train.log detection_eval);" \
    "curves in $here/out/train.svg"
