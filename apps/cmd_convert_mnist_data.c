/* cmd_convert_mnist_data.c - `cortado convert_mnist_data`, a database from
 * MNIST's idx files, and `cortado convert_mnist_siamese_data`, one of pairs. */
#include <inttypes.h>

#include "data/idx.h"
#include "tool.h"

struct job {
    const char *images, *labels, *backend, *db;
    bool        pairs;
    int         seed; /* of pairs */
};

static enum ct_status convert(const struct job *j)
{
    struct ct_idx images = { 0 }, labels = { 0 };
    struct progress p;
    enum ct_status st;

    CT_TRY_GOTO(ct_idx_read(j->images, 3, &images), st, out);
    CT_TRY_GOTO(ct_idx_read(j->labels, 1, &labels), st, out);
    CT_INFO("A total of %" PRId64 " items.", images.dim[0]);
    CT_INFO("Rows: %" PRId64 " Cols: %" PRId64, images.dim[1], images.dim[2]);
    progress_start(&p, 0);
    st = j->pairs ? ct_idx_pairs_to_db(&images, &labels, (uint64_t)j->seed,
                                       j->backend, j->db, &p.watch)
                  : ct_idx_to_db(&images, &labels, j->backend, j->db,
                                 &p.watch);
    progress_end(&p, st);
    if (st == CT_OK)
        CT_INFO("Processed %" PRId64 " files.", p.done);
out:
    ct_idx_fini(&images);
    ct_idx_fini(&labels);
    return st;
}

static int run(struct job *j, const struct flag *flags, int argc,
               char **argv)
{
    int code;

    if (!tool_parse(flags, 3, 3, &argc, argv, &code))
        return code;
    j->images = argv[1];
    j->labels = argv[2];
    j->db     = argv[3];
    return tool_end(convert(j));
}

int cmd_convert_mnist_data(int argc, char **argv)
{
    struct job j = { .backend = "lmdb" };
    const struct flag flags[] = {
        FLAG("backend", &j.backend),
        FLAG_END,
    };

    return run(&j, flags, argc, argv);
}

int cmd_convert_mnist_siamese_data(int argc, char **argv)
{
    struct job j = { .backend = "leveldb", .pairs = true, .seed = 1 };
    const struct flag flags[] = {
        FLAG("backend", &j.backend),
        FLAG("seed", &j.seed),
        FLAG_END,
    };

    return run(&j, flags, argc, argv);
}
