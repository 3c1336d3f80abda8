/* cmd_trace.c - `cortado trace`: what a traced iteration was spent on. */
#include <stdio.h>

#include "command.h"
#include "flags.h"
#include "help.h"
#include "observe/trace_file.h"

int cmd_trace(int argc, char **argv)
{
    int iteration = -1;
    const struct flag flags[] = {
        FLAG("iteration", &iteration),
        FLAG_END,
    };
    struct ct_text text = { 0 };
    enum ct_status st;
    bool helped;

    if (!flags_parse(flags, &argc, argv, &helped))
        return helped ? EXIT_DONE : EXIT_USAGE;
    if (argc != 2) {
        fprintf(stderr, "cortado trace: needs one trace file\n");
        help_usage(stderr, command_named("trace"));
        return EXIT_USAGE;
    }
    st = ct_trace_explain(argv[1], iteration, &text);
    if (st == CT_OK)
        fputs(text.s, stdout);
    ct_text_fini(&text);
    return st == CT_OK ? EXIT_DONE : command_failed(st);
}
