/* cmd_plot.c - `cortado plot`: the curves of a training log as an SVG. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "command.h"
#include "flags.h"
#include "help.h"
#include "observe/plot.h"

static enum ct_status plot(const char *from, const char *title,
                           const char *to)
{
    struct ct_training_log log = { .n_curves = 0 };
    struct ct_text svg         = { 0 };
    char *text                 = NULL;
    size_t n_bytes;
    enum ct_status st;

    CT_TRY(ct_file_read(from, &text, &n_bytes));
    CT_TRY_GOTO(ct_training_log_read(&log, text), st, out);
    st = ct_plot_log(&log, title, &svg);
    if (st != CT_OK) {
        st = ct_fail_in(st, "%s", from);
        goto out;
    }
    st = ct_file_write(to, svg.s, svg.n_bytes);
out:
    ct_training_log_fini(&log);
    ct_text_fini(&svg);
    ct_free(text);
    return st;
}

int cmd_plot(int argc, char **argv)
{
    const char *title = NULL;
    const struct flag flags[] = {
        FLAG("title", &title),
        FLAG_END,
    };
    bool helped;
    enum ct_status st;

    if (!flags_parse(flags, &argc, argv, &helped))
        return helped ? EXIT_DONE : EXIT_USAGE;
    if (argc != 3) {
        fprintf(stderr, "cortado plot: needs a log to read and an SVG file to "
                        "write\n");
        help_usage(stderr, command_named("plot"));
        return EXIT_USAGE;
    }
    st = plot(argv[1], title ? title : argv[1], argv[2]);
    return st == CT_OK ? EXIT_DONE : command_failed(st);
}
