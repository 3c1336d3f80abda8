/* cmd_plot.c - `cortado plot`: the curves of training logs as a picture. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/file.h"
#include "base/mem.h"
#include "command.h"
#include "flags.h"
#include "help.h"
#include "observe/plot.h"
#include "picture.h"

enum { LOOK_NS = 500000000 };

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
    (void)number;
    stopped = 1;
}

/* The log of a run folder, or the log itself. */
static enum ct_status log_path(const char *given, struct ct_text *out)
{
    struct stat about;

    if (stat(given, &about) == 0 && S_ISDIR(about.st_mode))
        ct_text_addf(out, "%s/log.txt", given);
    else
        ct_text_add(out, given);
    return out->failed ? CT_ENOMEM : CT_OK;
}

/* What a curve of one of several logs is called after: the file's name without
 * its end, or the run folder's. */
static void short_name(const char *given, char *out, size_t bytes)
{
    size_t n = strlen(given), from;

    while (n > 1 && given[n - 1] == '/')
        n--;
    for (from = n; from > 0 && given[from - 1] != '/'; from--)
        continue;
    snprintf(out, bytes, "%.*s", (int)(n - from), given + from);
    if (strrchr(out, '.') > out)
        *strrchr(out, '.') = '\0';
}

static enum ct_status read_log(const char *given, bool one,
                               struct ct_training_log *all)
{
    struct ct_training_log log = { .n_curves = 0 };
    struct ct_text path        = { 0 };
    char *text = NULL, name[40];
    size_t n_bytes;
    enum ct_status st = log_path(given, &path);

    CT_TRY_GOTO(st, st, out);
    CT_TRY_GOTO(ct_file_read(path.s, &text, &n_bytes), st, out);
    CT_TRY_GOTO(ct_training_log_read(&log, text), st, out);
    short_name(given, name, sizeof(name));
    st = ct_training_log_join(all, &log, one ? NULL : name);
    if (st != CT_OK)
        st = ct_fail_in(st, "%s", given);
out:
    ct_training_log_fini(&log);
    ct_text_fini(&path);
    ct_free(text);
    return st;
}

static enum ct_status plot(char **logs, int n, const char *title,
                           const char *to)
{
    struct ct_training_log all = { .n_curves = 0 };
    struct ct_text svg         = { 0 };
    enum ct_status st          = CT_OK;

    for (int i = 0; i < n && st == CT_OK; i++)
        st = read_log(logs[i], n == 1, &all);
    if (st == CT_OK) {
        st = ct_plot_log(&all, title, &svg);
        st = st == CT_OK ? picture_write(&svg, to)
                         : ct_fail_in(st, "%s", logs[0]);
    }
    ct_training_log_fini(&all);
    ct_text_fini(&svg);
    return st;
}

/* Changes whenever a log has grown. */
static int64_t bytes_of(char **logs, int n)
{
    int64_t sum = 0;

    for (int i = 0; i < n; i++) {
        struct ct_text path = { 0 };
        struct stat about;

        if (log_path(logs[i], &path) == CT_OK && stat(path.s, &about) == 0)
            sum += about.st_size;
        ct_text_fini(&path);
    }
    return sum;
}

/* Draws again whenever a log has grown, until a signal ends it.  A log that
 * has no curve yet may get one. */
static enum ct_status follow(char **logs, int n, const char *title,
                             const char *to)
{
    const struct timespec nap = { 0, LOOK_NS };
    struct sigaction sa       = { .sa_handler = on_signal };
    int64_t seen              = -1;

    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
    while (!stopped) {
        const int64_t now = bytes_of(logs, n);
        enum ct_status st = CT_OK;

        if (now != seen)
            st = plot(logs, n, title, to);
        if (st != CT_OK && st != CT_EINVAL && st != CT_ENOTFOUND)
            return st;
        seen = now;
        nanosleep(&nap, NULL);
    }
    return CT_OK;
}

int cmd_plot(int argc, char **argv)
{
    const char *title = NULL;
    bool follows      = false;
    const struct flag flags[] = {
        FLAG("title", &title),
        FLAG("follow", &follows),
        FLAG_END,
    };
    bool helped;
    enum ct_status st;

    if (!flags_parse(flags, &argc, argv, &helped))
        return helped ? EXIT_DONE : EXIT_USAGE;
    if (argc < 3) {
        fprintf(stderr, "cortado plot: needs a log to read and a file to "
                        "write\n");
        help_usage(stderr, command_named("plot"));
        return EXIT_USAGE;
    }
    if (!title)
        title = argc == 3 ? argv[1] : "training";
    st = follows ? follow(argv + 1, argc - 2, title, argv[argc - 1])
                 : plot(argv + 1, argc - 2, title, argv[argc - 1]);
    return st == CT_OK ? EXIT_DONE : command_failed(st);
}
