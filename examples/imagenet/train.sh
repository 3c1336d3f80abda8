#!/bin/sh
# train.sh [MODEL] - from image files to a training run, for any net of
# models/ that reads ILSVRC12 (bvlc_reference_caffenet when none is named).
#
# CORTADO_DATA (or CORTADO_DATA/ilsvrc12) holds train/, val/, train.txt and
# val.txt, a line "file label" an image.
. "$(dirname "$0")/../lib.sh"

here=examples/imagenet
model=${1:-bvlc_reference_caffenet}
[ -e "models/$model/solver.prototxt" ] || die "there is no models/$model"
mkdir -p $here/out

# to_database PART: 256 x 256, as JPEG, so that a database is 20 times
# smaller.
to_database()
{
    "$cortado" convert_imageset --shuffle --resize_height=256 \
        --resize_width=256 --encoded --encode_type=jpg "$from/$1/" \
        "$from/$1.txt" $here/ilsvrc12_$1_lmdb
}

if [ ! -d $here/ilsvrc12_val_lmdb ]; then
    rm -rf $here/ilsvrc12_train_lmdb
    if list=$(local_data ilsvrc12/train.txt train.txt); then
        from=$(dirname "$list")
    else
        say "No ILSVRC12 here (see examples/imagenet/README.md):" \
            "coloured digits, to show the way."
        short=1
        from=$here/out/images
        rm -rf $from
        "$cortado" make_digits --form=color --images --train=512 --test=128 \
            $from
        for part in train val; do
            made=$part
            [ $part = train ] || made="test"
            mv $from/digits_color_$made $from/$part
            mv $from/digits_color_$made.txt $from/$part.txt
        done
    fi
    to_database train
    to_database val
    "$cortado" compute_image_mean $here/ilsvrc12_train_lmdb \
        $here/imagenet_mean.binaryproto
    [ -z "$short" ] || : >$here/out/stand-in
fi

solver=models/$model/solver.prototxt
if [ -n "$short" ] || [ -e $here/out/stand-in ]; then
    # A few small batches, on which nothing is learned.
    changed models/$model/train_val.prototxt $here/out/train_val.prototxt \
        batch_size=8
    changed $solver $here/out/solver.prototxt max_iter=6 test_iter=1 \
        test_interval=3 display=1 snapshot=0 iter_size=1 \
        "net=\"$here/out/train_val.prototxt\"" \
        "snapshot_prefix=\"$here/out/$model\""
    solver=$here/out/solver.prototxt
fi
train $here/out/train.log $solver
say "curves in $here/out/train.svg"
