/* cmd_convert_cifar_data.c - `cortado convert_cifar_data`: two databases from
 * CIFAR-10's binary batches. */
#include "base/text.h"
#include "data/cifar.h"
#include "data/db_writer.h"
#include "tool.h"

enum { N_TRAIN = 5, N_FILES = N_TRAIN + 1 };

struct paths {
    struct ct_text file[N_FILES], train, test;
};

static enum ct_status name_paths(struct paths *p, const char *from,
                                 const char *to, const char *backend)
{
    int failed;

    for (int i = 0; i < N_TRAIN; i++)
        ct_text_addf(&p->file[i], "%s/data_batch_%d.bin", from, i + 1);
    ct_text_addf(&p->file[N_TRAIN], "%s/test_batch.bin", from);
    ct_text_addf(&p->train, "%s/cifar10_train_%s", to, backend);
    ct_text_addf(&p->test, "%s/cifar10_test_%s", to, backend);
    failed = p->train.failed | p->test.failed;
    for (int i = 0; i < N_FILES; i++)
        failed |= p->file[i].failed;
    return failed ? ct_fail(CT_ENOMEM, "no memory for paths") : CT_OK;
}

static enum ct_status write_set(const char *what, const char *const *file,
                                int n, const char *backend, const char *path)
{
    struct progress p;
    enum ct_status st;

    CT_INFO("Writing %s data", what);
    progress_start(&p, 10000);
    st = ct_cifar_to_db(file, n, backend, path, &p.watch);
    progress_end(&p, st);
    return st;
}

static enum ct_status convert(const char *from, const char *to,
                              const char *backend)
{
    struct paths p = { 0 };
    const char *file[N_FILES];
    enum ct_status st;

    CT_TRY_GOTO(name_paths(&p, from, to, backend), st, out);
    for (int i = 0; i < N_FILES; i++)
        file[i] = p.file[i].s;
    CT_TRY_GOTO(ct_db_path_is_free(p.train.s), st, out);
    CT_TRY_GOTO(ct_db_path_is_free(p.test.s), st, out);
    CT_TRY_GOTO(write_set("Training", file, N_TRAIN, backend, p.train.s), st,
                out);
    st = write_set("Testing", file + N_TRAIN, 1, backend, p.test.s);
    if (st != CT_OK)
        st = ct_fail_in(st, "%s is made, but not %s", p.train.s, p.test.s);
out:
    for (int i = 0; i < N_FILES; i++)
        ct_text_fini(&p.file[i]);
    ct_text_fini(&p.train);
    ct_text_fini(&p.test);
    return st;
}

int cmd_convert_cifar_data(int argc, char **argv)
{
    const struct flag flags[] = { FLAG_END };
    int code;

    if (!tool_parse(flags, 3, 3, &argc, argv, &code))
        return code;
    return tool_end(convert(argv[1], argv[2], argv[3]));
}
