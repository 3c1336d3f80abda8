/* cmd_make_shapes.c - `cortado make_shapes`: sets of made-up pictures with
 * boxes, so that there is something to train detectors on without a download.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "data/shapes.h"
#include "tool.h"

/* Test pictures are numbered from here on: no training set reaches it. */
static const uint64_t first_test = (uint64_t)1 << 32;

struct options {
    int         n_train, n_test, seed, side;
    const char *backend;
    bool        images;
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
                               const char *part, uint64_t first, int n)
{
    const struct ct_shape_set set = { (uint64_t)o->seed, first, n, o->side };
    struct ct_text path           = { 0 };
    enum ct_status st;

    if (n == 0)
        return CT_OK;
    ct_text_addf(&path, "%s/shapes_%s", folder, part);
    if (!o->images)
        ct_text_addf(&path, "_%s", o->backend);
    if (path.failed)
        st = ct_fail(CT_ENOMEM, "no memory for a path");
    else if (o->images)
        st = ct_shape_set_write_images(&set, path.s, show_progress, path.s);
    else
        st = ct_shape_set_write(&set, o->backend, path.s, show_progress,
                                path.s);
    ct_text_fini(&path);
    return st;
}

static enum ct_status make_labels(const char *folder)
{
    struct ct_text path = { 0 }, map = { 0 };
    enum ct_status st = ct_shapes_label_map(&map);

    ct_text_addf(&path, "%s/labelmap_shapes.prototxt", folder);
    if (st == CT_OK)
        st = path.failed ? ct_fail(CT_ENOMEM, "no memory for a path")
                         : ct_file_write(path.s, map.s, map.n_bytes);
    ct_text_fini(&path);
    ct_text_fini(&map);
    return st;
}

static enum ct_status make(const struct options *o, const char *folder)
{
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return ct_fail(CT_EIO, "%s: %s", folder, strerror(errno));
    CT_TRY(make_labels(folder));
    CT_TRY(make_set(o, folder, "train", 0, o->n_train));
    return make_set(o, folder, "test", first_test, o->n_test);
}

int cmd_make_shapes(int argc, char **argv)
{
    struct options o = { .n_train = 2000, .n_test = 400, .seed = 1,
                         .side = 96, .backend = "lmdb" };
    const struct flag flags[] = {
        FLAG("train", &o.n_train),
        FLAG("test", &o.n_test),
        FLAG("side", &o.side),
        FLAG("seed", &o.seed),
        FLAG("backend", &o.backend),
        FLAG("images", &o.images),
        FLAG_END,
    };
    int code;

    if (!tool_parse(flags, 1, 1, &argc, argv, &code))
        return code;
    if (o.n_train < 0 || o.n_test < 0 || o.side < 20 || o.side > 4096) {
        fprintf(stderr, "cortado make_shapes: %s\n",
                o.side < 20 || o.side > 4096
                    ? "--side lies in [20, 4096]"
                    : "a set cannot have less than no picture");
        return EXIT_USAGE;
    }
    return tool_end(make(&o, argv[1]));
}
