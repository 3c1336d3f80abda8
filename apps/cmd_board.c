/* cmd_board.c - `cortado board`: the live page, for runs of other processes. */
#include <signal.h>
#include <stdio.h>

#include "command.h"
#include "flags.h"
#include "observe/board.h"

/* Until a signal asks to end. */
static void wait_for_end(void)
{
    sigset_t set;
    int number;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigwait(&set, &number);
}

static int serve(const char *address, int n, char **folders)
{
    struct ct_board_options o = { .address   = address,
                                  .folder    = (const char *const *)folders,
                                  .n_folders = n };
    struct ct_board *b = NULL;
    sigset_t set;
    enum ct_status st;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    st = ct_board_create(&o, &b);
    if (st != CT_OK)
        return command_failed(ct_fail_in(st, "--http=%s", address));
    printf("%s\n", ct_board_url(b));
    fflush(stdout);
    wait_for_end();
    ct_board_destroy(b);
    return EXIT_DONE;
}

int cmd_board(int argc, char **argv)
{
    const char *address       = "8080";
    const struct flag flags[] = { FLAG("http", &address), FLAG_END };
    bool helped;

    if (!flags_parse(flags, &argc, argv, &helped))
        return helped ? EXIT_DONE : EXIT_USAGE;
    if (argc < 2) {
        fprintf(stderr, "cortado board: needs a run folder, or a folder of "
                        "run folders\n");
        return EXIT_USAGE;
    }
    return serve(address, argc - 1, argv + 1);
}
