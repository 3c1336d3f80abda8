# Completion of cortado(1) for bash.  Commands and flags are those that the
# program's own --help lists.

_cortado_files()
{
    local cur=$1 pattern
    shift
    for pattern; do
        COMPREPLY+=($(compgen -f -X "!*$pattern" -- "$cur"))
    done
    COMPREPLY+=($(compgen -d -- "$cur"))
}

_cortado()
{
    local cur prev flag program
    COMPREPLY=()
    program=${COMP_WORDS[0]}
    cur=${COMP_WORDS[COMP_CWORD]}
    prev=${COMP_WORDS[COMP_CWORD - 1]}

    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "$("$program" --help 2>/dev/null |
            awk '/^  [a-z]/ { print $1 }') --help --version" -- "$cur"))
        return
    fi

    # Bash splits words at `=`: look at the flag before it.
    flag=$prev
    if [ "$cur" = "=" ]; then
        cur=
    elif [ "$prev" = "=" ]; then
        flag=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    case $flag in
    -*solver | -*model) _cortado_files "$cur" .prototxt ;;
    -*weights) _cortado_files "$cur" .caffemodel .h5 ;;
    -*snapshot)
        COMPREPLY=($(compgen -W auto -- "$cur"))
        _cortado_files "$cur" .solverstate .solverstate.h5 ;;
    -*phase) COMPREPLY=($(compgen -W "TRAIN TEST" -- "$cur")) ;;
    -*_effect) COMPREPLY=($(compgen -W "snapshot stop none" -- "$cur")) ;;
    -*on[-_]nan) COMPREPLY=($(compgen -W "stop continue" -- "$cur")) ;;
    -*form) COMPREPLY=($(compgen -W "gray pairs color" -- "$cur")) ;;
    -*backend) COMPREPLY=($(compgen -W "lmdb leveldb" -- "$cur")) ;;
    *)
        if [[ $cur == -* ]]; then
            COMPREPLY=($(compgen -W "$("$program" "${COMP_WORDS[1]}" --help \
                2>/dev/null | sed -n 's/^  \(--[a-z_]*\).*/\1/p') --help" -- "$cur"))
        else
            COMPREPLY=($(compgen -f -- "$cur"))
        fi ;;
    esac
}

complete -o filenames -F _cortado cortado
