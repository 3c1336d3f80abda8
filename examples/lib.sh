# lib.sh - what the examples have in common.  A train.sh begins with
#
#     . "$(dirname "$0")/../lib.sh"
#
# and is then in the project's folder, with these settings from outside:
#
#     CORTADO=path        the program (build/cortado, or the installed one)
#     CORTADO_DATA=dir    a local copy of the data
#     CORTADO_OFFLINE=1   no download: CORTADO_DATA or made-up data
#     CORTADO_SHORT=1     a few iterations on a few images, to see it run
set -eu
cd "$(dirname "$0")/../.."

short=${CORTADO_SHORT:-}

# On a machine with other work, threads that wait give way instead of spinning.
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-passive}"

say()
{
    printf '%s\n' "$*"
}

die()
{
    printf '%s: %s\n' "$0" "$*" >&2
    exit 1
}

cortado=${CORTADO:-${BUILD:-build}/cortado}
if [ ! -x "$cortado" ]; then
    cortado=$(command -v cortado) ||
        die "no program: run 'make' first, or set CORTADO=path/to/cortado"
fi

# fetch URL FILE: false without a network, and then there is no FILE.
fetch()
{
    [ -z "${CORTADO_OFFLINE:-}$short" ] || return 1
    if command -v curl >/dev/null; then
        curl -fsSL --connect-timeout 5 --max-time 900 -o "$2.part" "$1"
    elif command -v wget >/dev/null; then
        wget -q -T 5 -t 1 -O "$2.part" "$1"
    else
        return 1
    fi || { rm -f "$2.part"; return 1; }
    mv "$2.part" "$2"
}

# local_data PATH...: the first that is there below CORTADO_DATA.
local_data()
{
    [ -n "${CORTADO_DATA:-}" ] || return 1
    for below in "$@"; do
        if [ -e "$CORTADO_DATA/$below" ]; then
            printf '%s\n' "$CORTADO_DATA/$below"
            return 0
        fi
    done
    return 1
}

# missing FOLDER DATABASE: true when it is to be made, also when all there is
# are the few images of a short run.
missing()
{
    if [ -d "$1/$2" ] && { [ -n "$short" ] || [ ! -e "$1/out/short" ]; }; then
        return 1
    fi
    mkdir -p "$1/out"
    rm -rf "$1/out/short" "$1/"*_lmdb
    [ -z "$short" ] || : >"$1/out/short"
}

# made_up FORM NAME FOLDER TRAIN TEST: databases FOLDER/NAME_{train,test}_lmdb
# of drawn digits.
made_up()
{
    mkdir -p "$3/out"
    rm -rf "$3/out/digits_"*
    "$cortado" make_digits --form="$1" --train="$4" --test="$5" "$3/out"
    for part in train test; do
        mv "$3/out/digits_"*"${part}_lmdb" "$3/$2_${part}_lmdb"
    done
}

# The four idx files of MNIST, unpacked into $1; false when there is no way
# to them.
mnist_files()
{
    base=https://ossci-datasets.s3.amazonaws.com/mnist
    mkdir -p "$1"
    for file in train-images-idx3-ubyte train-labels-idx1-ubyte \
                t10k-images-idx3-ubyte t10k-labels-idx1-ubyte; do
        [ ! -e "$1/$file" ] || continue
        if from=$(local_data "mnist/$file" "$file"); then
            cp "$from" "$1/$file"
        elif from=$(local_data "mnist/$file.gz" "$file.gz"); then
            gzip -dc "$from" >"$1/$file.part" || return 1
            mv "$1/$file.part" "$1/$file"
        elif fetch "$base/$file.gz" "$1/$file.gz"; then
            gzip -d "$1/$file.gz" || return 1
        else
            return 1
        fi
    done
}

# examples/mnist/mnist_{train,test}_lmdb, unless they are there.
mnist_databases()
{
    to=examples/mnist n=10000
    missing $to mnist_test_lmdb || return 0
    [ -z "$short" ] || n=1000
    if [ -z "$short" ] && mnist_files $to/data; then
        say "MNIST:"
        "$cortado" convert_mnist_data $to/data/train-images-idx3-ubyte \
            $to/data/train-labels-idx1-ubyte $to/mnist_train_lmdb
        "$cortado" convert_mnist_data $to/data/t10k-images-idx3-ubyte \
            $to/data/t10k-labels-idx1-ubyte $to/mnist_test_lmdb
    else
        say "No MNIST here (see examples/README.md): made-up digits instead."
        made_up gray mnist $to $n 2000
    fi
}

# changed FILE TO KEY=VALUE...: a copy of a prototxt with other values.
changed()
{
    from=$1 to=$2
    shift 2
    mkdir -p "$(dirname "$to")"
    cp "$from" "$to"
    for pair in "$@"; do
        sed "s|^\( *${pair%%=*}:\).*|\1 ${pair#*=}|" "$to" >"$to.part"
        mv "$to.part" "$to"
    done
}

# What matters of a training log, line by line.
show_progress()
{
    at=0
    live=
    [ ! -t 1 ] || live='\r'
    while IFS= read -r line; do
        case $line in
        *"Testing net (#"*)
            at=${line##*Iteration }
            at=${at%%,*} ;;
        *"Test net output #"*)
            what=${line##*Test net output #}
            what=${what#*: }
            printf "$live  iteration %6d   test %-44s\n" "$at" \
                "${what%% (\**}" ;;
        *"Iteration "*"iter/s"*", loss = "*)
            n=${line##*Iteration }
            printf "$live  iteration %6d   loss %-12s%s" "${n%% *}" \
                "${line##*loss = }" "${live:+      }"
            [ -n "$live" ] || echo ;;
        "Live page: "*)
            printf "%s\n" "$line" ;;
        [EFW][0-9]*)
            printf "%s\n" "$line" >&2 ;;
        esac
    done
    [ -z "$live" ] || printf '\r'
}

# train LOG SOLVER [FLAGS]: trains, shows progress, keeps the log, draws its
# curves beside it.
train()
{
    log=$1 solver=$2
    shift 2
    mkdir -p "$(dirname "$log")"
    rm -f "$log.failed"
    {
        "$cortado" train --solver="$solver" "$@" 2>&1 || : >"$log.failed"
    } | tee "$log" | show_progress
    if [ -e "$log.failed" ]; then
        rm -f "$log.failed"
        tail -n 5 "$log" >&2
        die "training failed; the whole log is $log"
    fi
    "$cortado" plot --title="$solver" "$log" "${log%.log}.svg"
}

# last_score LOG NAME: the last value of a test output.
last_score()
{
    sed -n "s/.*Test net output #[0-9]*: $2 = \([^ ]*\).*/\1/p" "$1" |
        tail -n 1
}
