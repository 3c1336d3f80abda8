#compdef cortado
# Completion of cortado(1) for zsh.

_cortado()
{
    local -a commands state_flags
    commands=(
        'train:train, resume or fine-tune a net'
        'test:score a model'
        'time:measure every layer'
        'summary:print shapes, parameters and memory'
        'device_query:print what there is to compute on'
        'plot:draw the curves of a training log'
        'make_digits:make up a set of digits to train on'
    )
    state_flags=(
        '--level=[level of the net state]:level:'
        '--stage=[stages of the net state]:stages:'
        '--threads=[CPU threads]:number:'
        '--help[explain the flags]'
    )
    if ((CURRENT == 2)); then
        _describe command commands
        _arguments '--help[explain the commands]' '--version[print the version]'
        return
    fi
    case $words[2] in
    train)
        _arguments $state_flags \
            '--solver=[solver prototxt]:file:_files -g "*.prototxt"' \
            '--snapshot=[solverstate or auto]:file:_files -g "*.(solverstate|h5)"' \
            '--weights=[initial weights]:file:_files -g "*.(caffemodel|h5)"' \
            '--sigint_effect=[what SIGINT does]:effect:(snapshot stop none)' \
            '--sighup_effect=[what SIGHUP does]:effect:(snapshot stop none)' \
            '--on_nan=[what a loss that is not finite does]:what:(stop continue)' ;;
    test)
        _arguments $state_flags \
            '--model=[net prototxt]:file:_files -g "*.prototxt"' \
            '--weights=[weights]:file:_files -g "*.(caffemodel|h5)"' \
            '--iterations=[batches]:number:' ;;
    time)
        _arguments $state_flags \
            '--model=[net prototxt]:file:_files -g "*.prototxt"' \
            '--phase=[phase]:phase:(TRAIN TEST)' \
            '--iterations=[batches]:number:' ;;
    summary)
        _arguments $state_flags '--phase=[phase]:phase:(TRAIN TEST)' \
            '1:skip:' '2:net prototxt:_files -g "*.prototxt"' ;;
    plot)
        _arguments '--title=[what stands above]:text:' \
            '1:skip:' '2:log:_files' '3:SVG file:_files' ;;
    make_digits)
        _arguments '--train=[training images]:number:' \
            '--test=[test images]:number:' '--seed=[seed]:number:' \
            '--form=[form of images]:form:(gray pairs color)' \
            '--backend=[database]:backend:(lmdb leveldb)' \
            '--images[write PNG files]' '1:skip:' '2:folder:_files -/' ;;
    esac
}

_cortado "$@"
