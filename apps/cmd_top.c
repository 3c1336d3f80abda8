/* cmd_top.c - `cortado top`: the ranks of a running job, refreshed. */
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "command.h"
#include "flags.h"
#include "help.h"
#include "observe/top.h"

enum { ALL = 1 << 20, HEAD_LINES = 6 };

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
    (void)number;
    stopped = 1;
}

/* Rows of ranks for which the screen has space; a file has space for all. */
static int most_rows(bool screen)
{
    struct winsize size = { 0 };

    if (!screen || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 ||
        size.ws_row == 0)
        return ALL;
    return size.ws_row > HEAD_LINES + 2 ? size.ws_row - HEAD_LINES : 2;
}

/* Over what stands there, without a blink. */
static void redraw(const char *text)
{
    fputs("\033[H", stdout);
    for (; *text; text++) {
        if (*text == '\n')
            fputs("\033[K", stdout);
        putchar(*text);
    }
    fputs("\033[J", stdout);
}

static enum ct_status show(const char *folder, bool screen, bool *running)
{
    struct ct_text text = { 0 };
    struct timespec now;
    enum ct_status st;

    clock_gettime(CLOCK_REALTIME, &now);
    st = ct_top(folder, most_rows(screen),
                (double)now.tv_sec + 1e-9 * (double)now.tv_nsec, &text,
                running);
    if (st == CT_OK && screen)
        redraw(text.s);
    else if (st == CT_OK)
        fputs(text.s, stdout);
    fflush(stdout);
    ct_text_fini(&text);
    return st;
}

int cmd_top(int argc, char **argv)
{
    bool once = false, running = true;
    const bool screen = isatty(STDOUT_FILENO);
    const struct timespec nap = { 1, 0 };
    const struct flag flags[] = { FLAG("once", &once), FLAG_END };
    struct sigaction sa = { .sa_handler = on_signal };
    enum ct_status st;
    bool helped;

    if (!flags_parse(flags, &argc, argv, &helped))
        return helped ? EXIT_DONE : EXIT_USAGE;
    if (argc != 2) {
        fprintf(stderr, "cortado top: needs one run folder\n");
        help_usage(stderr, command_named("top"));
        return EXIT_USAGE;
    }
    once |= !screen;
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
    if (!once)
        printf("\033[H\033[2J");
    do {
        st = show(argv[1], !once, &running);
        if (!once && st == CT_OK && running)
            nanosleep(&nap, NULL);
    } while (!once && st == CT_OK && running && !stopped);
    return st == CT_OK ? EXIT_DONE : command_failed(st);
}
