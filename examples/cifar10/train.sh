#!/bin/sh
# train.sh [quick|full] - Caffe's CIFAR-10 nets, with its solvers one after
# the other.
. "$(dirname "$0")/../lib.sh"

here=examples/cifar10
net=${1:-quick}

# A tree train/<class>/*, test/<class>/* below $1 becomes the databases.
from_images()
{
    for part in train test; do
        (cd "$1/$part" && find . -type f | sed 's|^\./||' | LC_ALL=C sort) |
        awk -F/ '$1 != last { label = last == "" ? 0 : label + 1; last = $1 }
                 { print $0, label }' >$here/out/$part.txt
        "$cortado" convert_imageset --shuffle "$1/$part/" \
            $here/out/$part.txt $here/cifar10_${part}_lmdb
    done
}

# data_batch_1.bin to test_batch.bin, or an image tree: prints which folder.
find_data()
{
    if from=$(local_data cifar10/cifar-10-batches-bin cifar-10-batches-bin \
                         cifar10/data_batch_1.bin data_batch_1.bin \
                         cifar10/train train); then
        [ -d "$from" ] && [ "$(basename "$from")" != train ] ||
            from=$(dirname "$from")
        printf '%s\n' "$from"
        return
    fi
    mkdir -p $here/data
    if from=$(local_data cifar10/train.tar.gz train.tar.gz); then
        for part in train test; do
            [ -d $here/data/$part ] ||
                tar -xzf "$(dirname "$from")/$part.tar.gz" -C $here/data
        done
        printf '%s\n' $here/data
        return
    fi
    tar=$(local_data cifar10/cifar-10-binary.tar.gz \
                     cifar-10-binary.tar.gz) || {
        tar=$here/data/cifar-10-binary.tar.gz
        [ -e $tar ] || fetch \
            https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz $tar
    } || return 1
    tar -xzf "$tar" -C $here/data
    printf '%s\n' $here/data/cifar-10-batches-bin
}

databases()
{
    if [ -n "$short" ]; then
        made_up color cifar10 $here 1000 1000
    elif ! from=$(find_data); then
        say "No CIFAR-10 here (see examples/README.md): coloured digits."
        made_up color cifar10 $here 10000 10000
    elif [ -e "$from/data_batch_1.bin" ]; then
        "$cortado" convert_cifar_data "$from" $here lmdb
    else
        from_images "$from"
    fi
    "$cortado" compute_image_mean $here/cifar10_train_lmdb \
        $here/mean.binaryproto
}

case $net in
quick) stages="solver solver_lr1" ;;
full) stages="solver solver_lr1 solver_lr2" ;;
*) die "there is quick and full, no $net" ;;
esac

if missing $here cifar10_test_lmdb || [ ! -e $here/mean.binaryproto ]; then
    rm -rf $here/cifar10_*_lmdb $here/mean.binaryproto
    databases
fi
models=models/cifar10_$net
if [ -n "$short" ]; then
    changed $models/solver.prototxt $here/out/solver.prototxt max_iter=20 \
        test_iter=5 test_interval=10 display=5 snapshot=0 \
        "snapshot_prefix=\"$here/out/cifar10\""
    train $here/out/train.log $here/out/solver.prototxt
else
    # Each stage goes on from the last snapshot of the one before.
    from=
    : >$here/out/train.log
    for stage in $stages; do
        train $here/out/$stage.log $models/$stage.prototxt \
            ${from:+--snapshot=$from}
        cat $here/out/$stage.log >>$here/out/train.log
        last=$(sed -n 's/^max_iter: //p' $models/$stage.prototxt)
        from=$models/cifar10_${net}_iter_$last.solverstate
    done
    "$cortado" plot --title="cifar10_$net" $here/out/train.log \
        $here/out/train.svg
fi
say "accuracy $(last_score $here/out/train.log accuracy);" \
    "curves in $here/out/train.svg"
