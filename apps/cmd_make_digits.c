/* cmd_make_digits.c - `cortado make_digits`: sets of made-up handwritten
 * digits, so that there is something to train on without a download. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "command.h"
#include "data/digit_sets.h"
#include "flags.h"
#include "help.h"

/* Test images are numbered from here on: no training set reaches it. */
static const uint64_t first_test = (uint64_t)1 << 32;

struct options {
    int         n_train, n_test, seed;
    const char *form, *backend;
    bool        images;
};

/* The forms by name, and what they add to the database's. */
static const struct {
    const char *name, *part;
} forms[CT_N_DIGIT_FORMS] = {
    [CT_DIGITS_GRAY]  = { "gray", "" },
    [CT_DIGITS_PAIRS] = { "pairs", "pairs_" },
    [CT_DIGITS_COLOR] = { "color", "color_" },
};

static void show_progress(void *arg, int64_t done, int64_t n)
{
    const char *path = arg;
    bool live        = isatty(STDERR_FILENO);

    if (live || done == n)
        fprintf(stderr, "%s%s: %lld of %lld%s", live ? "\r" : "", path,
                (long long)done, (long long)n, done == n ? "\n" : "");
}

static enum ct_status make_set(const struct options *o, const char *folder,
                               const char *part,
                               const struct ct_digit_set *set)
{
    struct ct_text path = { 0 };
    enum ct_status st;

    if (set->n == 0)
        return CT_OK;
    ct_text_addf(&path, "%s/digits_%s%s", folder, forms[set->form].part, part);
    if (!o->images)
        ct_text_addf(&path, "_%s", o->backend);
    if (path.failed)
        st = ct_fail(CT_ENOMEM, "no memory for a path");
    else if (o->images)
        st = ct_digit_set_write_images(set, path.s, show_progress, path.s);
    else
        st = ct_digit_set_write(set, o->backend, path.s, show_progress,
                                path.s);
    ct_text_fini(&path);
    return st;
}

static enum ct_status make(const struct options *o, const char *folder)
{
    struct ct_digit_set set = { .seed = (uint64_t)o->seed };
    int form                = 0;

    while (form < CT_N_DIGIT_FORMS && strcmp(o->form, forms[form].name) != 0)
        form++;
    if (form == CT_N_DIGIT_FORMS)
        return ct_fail(CT_EINVAL, "--form is gray, pairs or color, not '%s'",
                       o->form);
    set.form = (enum ct_digit_form)form;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return ct_fail(CT_EIO, "%s: %s", folder, strerror(errno));
    set.n = o->n_train;
    CT_TRY(make_set(o, folder, "train", &set));
    set.first = first_test;
    set.n     = o->n_test;
    return make_set(o, folder, "test", &set);
}

int cmd_make_digits(int argc, char **argv)
{
    struct options o = { .n_train = 10000, .n_test = 2000, .seed = 1,
                         .form = "gray", .backend = "lmdb" };
    const struct flag flags[] = {
        FLAG("train", &o.n_train),
        FLAG("test", &o.n_test),
        FLAG("seed", &o.seed),
        FLAG("form", &o.form),
        FLAG("backend", &o.backend),
        FLAG("images", &o.images),
        FLAG_END,
    };
    bool helped;
    enum ct_status st;

    if (!flags_parse(flags, &argc, argv, &helped))
        return helped ? EXIT_DONE : EXIT_USAGE;
    if (argc != 2 || o.n_train < 0 || o.n_test < 0) {
        fprintf(stderr, "cortado make_digits: %s\n",
                argc != 2 ? "takes one folder to write into"
                          : "a set cannot have less than no image");
        help_usage(stderr, command_named("make_digits"));
        return EXIT_USAGE;
    }
    st = make(&o, argv[1]);
    return st == CT_OK ? EXIT_DONE : command_failed(st);
}
