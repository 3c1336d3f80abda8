/* cmd_autopsy.c - `cortado autopsy`: why a run with many ranks stopped. */
#include <stdio.h>

#include "command.h"
#include "flags.h"
#include "help.h"
#include "observe/autopsy.h"

int cmd_autopsy(int argc, char **argv)
{
    const struct flag flags[] = { FLAG_END };
    struct ct_text text       = { 0 };
    enum ct_status st;
    bool helped;

    if (!flags_parse(flags, &argc, argv, &helped))
        return helped ? EXIT_DONE : EXIT_USAGE;
    if (argc != 2) {
        fprintf(stderr, "cortado autopsy: needs one run folder\n");
        help_usage(stderr, command_named("autopsy"));
        return EXIT_USAGE;
    }
    st = ct_autopsy(argv[1], &text);
    if (st == CT_OK)
        fputs(text.s, stdout);
    ct_text_fini(&text);
    return st == CT_OK ? EXIT_DONE : command_failed(st);
}
