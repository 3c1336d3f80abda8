/* cmd_join.c - `cortado join`: ranks of this machine for a running job.
 *
 * The job says how it was started: its folder and its flags.  The ranks start
 * in the same way, and find the job at the address that was given. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "command.h"
#include "elastic/rendezvous.h"
#include "flags.h"
#include "help.h"
#include "join_words.h"

static enum ct_status join(const char *where, const struct join_flags *f,
                           int *code)
{
    struct rendezvous r = { .door = -1 };
    char *description = NULL, *folder = NULL, room[4 * PATH_MAX];
    struct join_words w = { .room = room, .bytes = sizeof(room) };
    enum ct_status st;

    CT_TRY_GOTO(rendezvous_find(&r, where, f->secret_file), st, out);
    CT_TRY_GOTO(rendezvous_ask(&r, MEMBER_ASK_DESCRIPTION, &description), st,
                out);
    CT_TRY_GOTO(join_words_build(description, where, f, &w, &folder), st,
                out);
    if (!folder || chdir(folder) != 0) {
        st = ct_fail(CT_ENOTFOUND, "the job runs in %s, which is not here: %s",
                     folder ? folder : "no folder", strerror(errno));
        goto out;
    }
    *code = strcmp(w.word[0], "launch") == 0 ? cmd_launch(w.n, w.word)
                                             : cmd_train(w.n, w.word);
out:
    rendezvous_close(&r);
    ct_free(w.word);
    ct_free(description);
    return st;
}

int cmd_join(int argc, char **argv)
{
    struct join_flags f       = { .ranks = 1 };
    const struct flag flags[] = { FLAG("secret_file", &f.secret_file),
                                  FLAG("ranks", &f.ranks),
                                  FLAG("threads", &f.threads), FLAG_END };
    char secret[PATH_MAX], folder[PATH_MAX], where[PATH_MAX + 8];
    int code = EXIT_DONE;
    enum ct_status st;
    bool helped;

    if (!flags_parse(flags, &argc, argv, &helped))
        return helped ? EXIT_DONE : EXIT_USAGE;
    if (argc != 2) {
        help_usage(stderr, command_named("join"));
        return EXIT_USAGE;
    }
    /* The job's folder may be another one. */
    if (f.secret_file && realpath(f.secret_file, secret))
        f.secret_file = secret;
    if (strncmp(argv[1], "file:", 5) == 0 && realpath(argv[1] + 5, folder))
        snprintf(where, sizeof(where), "file:%s", folder);
    else
        snprintf(where, sizeof(where), "%s", argv[1]);
    st = join(where, &f, &code);
    return st == CT_OK ? code : command_failed(ct_fail_in(st, "%s", argv[1]));
}
