# Completion of cortado(1) for fish.

set -l commands train test time summary device_query plot make_digits
set -l none "not __fish_seen_subcommand_from $commands"
set -l state "__fish_seen_subcommand_from train test time summary"

complete -c cortado -f
complete -c cortado -n $none -a train -d 'train, resume or fine-tune a net'
complete -c cortado -n $none -a test -d 'score a model'
complete -c cortado -n $none -a time -d 'measure every layer'
complete -c cortado -n $none -a summary -d 'print shapes and memory'
complete -c cortado -n $none -a device_query -d 'print what computes here'
complete -c cortado -n $none -a plot -d 'draw the curves of a log'
complete -c cortado -n $none -a make_digits -d 'make up digits to train on'
complete -c cortado -n $none -l version -d 'print the version'
complete -c cortado -l help -d 'explain'

complete -c cortado -n '__fish_seen_subcommand_from train' -l solver -rF
complete -c cortado -n '__fish_seen_subcommand_from train' -l snapshot -rF
complete -c cortado -n '__fish_seen_subcommand_from train test' -l weights -rF
complete -c cortado -n '__fish_seen_subcommand_from test time' -l model -rF
complete -c cortado -n '__fish_seen_subcommand_from test time' \
    -l iterations -x
complete -c cortado -n '__fish_seen_subcommand_from time summary' -l phase \
    -xa 'TRAIN TEST'
complete -c cortado -n '__fish_seen_subcommand_from summary' -F
complete -c cortado -n $state -l level -x
complete -c cortado -n $state -l stage -x
complete -c cortado -n $state -l threads -x
complete -c cortado -n '__fish_seen_subcommand_from plot' -F
complete -c cortado -n '__fish_seen_subcommand_from plot' -l title -x
complete -c cortado -n '__fish_seen_subcommand_from make_digits' -F
complete -c cortado -n '__fish_seen_subcommand_from make_digits' \
    -l form -xa 'gray pairs color'
complete -c cortado -n '__fish_seen_subcommand_from make_digits' \
    -l backend -xa 'lmdb leveldb'
complete -c cortado -n '__fish_seen_subcommand_from make_digits' -l images
for flag in train test seed
    complete -c cortado -n '__fish_seen_subcommand_from make_digits' -l $flag -x
end
complete -c cortado -n '__fish_seen_subcommand_from train' \
    -l sigint_effect -xa 'snapshot stop none'
complete -c cortado -n '__fish_seen_subcommand_from train' \
    -l sighup_effect -xa 'snapshot stop none'
complete -c cortado -n '__fish_seen_subcommand_from train' \
    -l on_nan -xa 'stop continue'
