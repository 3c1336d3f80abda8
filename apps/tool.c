/* tool.c - what the commands that work on databases and files share. */
#include "tool.h"

#include <stdio.h>

#include "data/survey.h"
#include "help.h"

bool tool_parse(const struct flag *flags, int least, int most, int *argc,
                char **argv, int *code)
{
    bool helped;

    *code = EXIT_USAGE;
    if (!flags_parse(flags, argc, argv, &helped)) {
        *code = helped ? EXIT_DONE : EXIT_USAGE;
        return false;
    }
    if (*argc - 1 >= least && *argc - 1 <= most)
        return true;
    fprintf(stderr, "cortado %s: %d arguments are too %s\n", argv[0],
            *argc - 1, *argc - 1 < least ? "few" : "many");
    help_usage(stderr, command_named(argv[0]));
    return false;
}

const char *tool_backend(const char *flag, const char *path)
{
    const char *found = flag ? flag : ct_survey_backend(path);

    return found ? found : "lmdb";
}

int tool_end(enum ct_status st)
{
    return st == CT_OK ? EXIT_DONE : command_failed(st);
}
