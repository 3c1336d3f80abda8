#compdef cortado
# Completion of cortado(1) for zsh.  Commands and flags are those that the
# program's own --help lists.

_cortado()
{
    local -a commands flags
    if ((CURRENT == 2)); then
        commands=(${(f)"$($words[1] --help 2>/dev/null |
            awk '/^  [a-z]/ { name = $1; $1 = ""; print name ":" substr($0, 2) }')"})
        _describe command commands
        return
    fi
    case $words[CURRENT-1] in
    --(solver|model)) _files -g '*.prototxt' ;;
    --weights) _files -g '*.(caffemodel|h5)' ;;
    --snapshot) _alternative 'word:word:(auto)' \
        'file:file:_files -g "*.(solverstate|h5)"' ;;
    --phase) compadd TRAIN TEST ;;
    --*_effect) compadd snapshot stop none ;;
    --on_nan) compadd stop continue ;;
    --form) compadd gray pairs color ;;
    --backend) compadd lmdb leveldb ;;
    *)
        if [[ $PREFIX == -* ]]; then
            flags=(${(f)"$($words[1] $words[2] --help 2>/dev/null |
                awk '/^  --/ { name = $1; sub(/=.*/, "", name); $1 = ""
                    print name ":" substr($0, 2) }')"})
            _describe flag flags
        else
            _files
        fi ;;
    esac
}

_cortado "$@"
