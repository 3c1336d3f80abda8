#!/bin/sh
# demo.sh - what `make demo` runs: draws digits, trains LeNet on them, tests
# it and draws the curves.  Everything it makes is in build/demo.
. "$(dirname "$0")/../lib.sh"

out=build/demo
mkdir -p $out
if [ ! -d $out/digits_test_lmdb ]; then
    say "Drawing 10,000 digits to learn from and 2,000 to be tested on."
    rm -rf $out/digits_train_lmdb
    "$cortado" make_digits $out
fi

say "Training LeNet on them."
start=$(date +%s)
rm -rf $out/run
train $out/lenet.log examples/digits/lenet_solver.prototxt --http=0 \
    --run=$out/run
seconds=$(($(date +%s) - start))
"$cortado" plot --title="LeNet on drawn digits" $out/lenet.log $out/lenet.svg

score=$(last_score $out/lenet.log accuracy)
say ""
say "Test accuracy: $(awk "BEGIN { printf \"%.2f %%\", 100 * ${score:-0} }")" \
    "after $seconds seconds of training."
say "The curves:    $PWD/$out/lenet.svg"
say "The log:       $PWD/$out/lenet.log"
say "The live page: $cortado board $out/run"
awk "BEGIN { exit !(${score:-0} >= 0.97) }" ||
    die "that is less than the 97 % this net reaches"
