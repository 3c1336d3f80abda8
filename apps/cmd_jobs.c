/* cmd_jobs.c - `cortado jobs`: who is in an elastic job, and where it is. */
#include <stdio.h>

#include "base/mem.h"
#include "command.h"
#include "elastic/rendezvous.h"
#include "flags.h"
#include "help.h"

int cmd_jobs(int argc, char **argv)
{
    const char *secret_file   = NULL;
    bool json                 = false;
    const struct flag flags[] = { FLAG("secret_file", &secret_file),
                                  FLAG("json", &json), FLAG_END };
    struct rendezvous r;
    char *answer = NULL;
    bool helped;
    enum ct_status st;

    if (!flags_parse(flags, &argc, argv, &helped))
        return helped ? EXIT_DONE : EXIT_USAGE;
    if (argc != 2) {
        help_usage(stderr, command_named("jobs"));
        return EXIT_USAGE;
    }
    st = rendezvous_find(&r, argv[1], secret_file);
    if (st == CT_OK)
        st = rendezvous_ask(&r, json ? MEMBER_ASK_JSON : MEMBER_ASK_TEXT,
                            &answer);
    if (st == CT_OK)
        fputs(answer, stdout);
    else
        st = ct_fail_in(st, "%s", argv[1]);
    ct_free(answer);
    rendezvous_close(&r);
    return st == CT_OK ? EXIT_DONE : command_failed(st);
}
