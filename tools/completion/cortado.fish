# Completion of cortado(1) for fish.  Commands and flags are those that the
# program's own --help lists.

function __cortado_commands
    cortado --help 2>/dev/null | string match -r '^  [a-z].*' |
        string replace -r '^  (\S+) +' '$1\t'
end

function __cortado_flags
    set -l words (commandline -opc)
    cortado $words[2] --help 2>/dev/null | string match -r '^  --.*' |
        string replace -r '^  (--[a-z_]+)\S* *' '$1\t'
end

function __cortado_after
    set -l words (commandline -opc)
    string match -qr -- $argv[1] $words[-1]
end

complete -c cortado -n __fish_use_subcommand -f -a '(__cortado_commands)'
complete -c cortado -n 'not __fish_use_subcommand' -a '(__cortado_flags)'
complete -c cortado -n "__cortado_after '--phase\$'" -f -a 'TRAIN TEST'
complete -c cortado -n "__cortado_after '_effect\$'" -f \
    -a 'snapshot stop none'
complete -c cortado -n "__cortado_after '--on_nan\$'" -f -a 'stop continue'
complete -c cortado -n "__cortado_after '--form\$'" -f -a 'gray pairs color'
complete -c cortado -n "__cortado_after '--backend\$'" -f -a 'lmdb leveldb'
