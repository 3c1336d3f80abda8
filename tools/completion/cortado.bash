# Completion of cortado(1) for bash.

_cortado()
{
    local cur prev flag command flags net word i
    COMPREPLY=()
    # Bash splits words at `=`: look at the flag before it.
    cur=${COMP_WORDS[COMP_CWORD]}
    prev=
    [ "$COMP_CWORD" -gt 0 ] && prev=${COMP_WORDS[COMP_CWORD - 1]}
    if [ "$cur" = "=" ]; then
        flag=$prev
        cur=
    elif [ "$prev" = "=" ]; then
        flag=${COMP_WORDS[COMP_CWORD - 2]}
    else
        flag=$prev
    fi

    command=
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        case $word in
        train | test | time | summary | device_query | plot | make_digits)
            command=$word
            break ;;
        esac
    done

    case ${flag##*-} in
    solver | model)
        COMPREPLY=($(compgen -f -X '!*.prototxt' -- "$cur")
                   $(compgen -d -- "$cur"))
        return ;;
    weights)
        COMPREPLY=($(compgen -f -X '!*.caffemodel' -- "$cur")
                   $(compgen -f -X '!*.h5' -- "$cur")
                   $(compgen -d -- "$cur"))
        return ;;
    snapshot)
        COMPREPLY=($(compgen -W auto -- "$cur")
                   $(compgen -f -X '!*.solverstate' -- "$cur")
                   $(compgen -f -X '!*.solverstate.h5' -- "$cur")
                   $(compgen -d -- "$cur"))
        return ;;
    phase)
        COMPREPLY=($(compgen -W "TRAIN TEST" -- "$cur"))
        return ;;
    sigint_effect | sighup_effect)
        COMPREPLY=($(compgen -W "snapshot stop none" -- "$cur"))
        return ;;
    nan | on_nan)
        COMPREPLY=($(compgen -W "stop continue" -- "$cur"))
        return ;;
    form)
        COMPREPLY=($(compgen -W "gray pairs color" -- "$cur"))
        return ;;
    backend)
        COMPREPLY=($(compgen -W "lmdb leveldb" -- "$cur"))
        return ;;
    iterations | level | stage | gpu | threads | title | seed)
        return ;;
    esac

    net="--level= --stage= --threads= --gpu="
    case $command in
    '') COMPREPLY=($(compgen -W "train test time summary device_query
                                 plot make_digits --help --version" -- "$cur"))
        return ;;
    train) flags="--solver= --snapshot= --weights= $net
                  --sigint_effect= --sighup_effect= --on_nan=" ;;
    test) flags="--model= --weights= --iterations= $net" ;;
    time) flags="--model= --iterations= --phase= $net" ;;
    plot)
        flags="--title="
        COMPREPLY=($(compgen -f -- "$cur")) ;;
    make_digits)
        flags="--train= --test= --seed= --form= --backend= --images"
        COMPREPLY=($(compgen -d -- "$cur")) ;;
    summary)
        flags="--phase= $net"
        COMPREPLY=($(compgen -f -X '!*.prototxt' -- "$cur")
                   $(compgen -d -- "$cur")) ;;
    *) flags= ;;
    esac
    COMPREPLY+=($(compgen -W "$flags --help" -- "$cur"))
    [[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace
    return 0
}

complete -o filenames -F _cortado cortado
