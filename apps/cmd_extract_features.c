/* cmd_extract_features.c - `cortado extract_features`: what chosen blobs hold
 * for every sample, as databases of floats. */
#include <inttypes.h>
#include <stdlib.h>
#include <strings.h>

#include "base/mem.h"
#include "data/db_writer.h"
#include "tool.h"

struct features {
    const char          **blob, **path;
    int                   n, n_paths;
    int                  *id; /* of each blob in the net */
    struct ct_db_writer **db;
};

static enum ct_status find_blobs(struct features *f, const struct ct_net *net)
{
    for (int k = 0; k < f->n; k++) {
        f->id[k] = ct_net_find_blob(net, f->blob[k]);
        if (f->id[k] < 0)
            return ct_fail(CT_ENOTFOUND, "Unknown feature blob name %s in the "
                           "network %s", f->blob[k], ct_net_name(net));
        if (ct_net_blob(net, f->id[k])->shape.n_axes > 4)
            return ct_fail(CT_ESHAPE, "blob %s has more than four axes, a "
                           "datum has no place for them", f->blob[k]);
    }
    return CT_OK;
}

/* Every sample of one blob's batch. */
static enum ct_status put_blob(struct ct_db_writer *db,
                               const struct ct_blob *b, const char *name)
{
    const struct ct_shape *s = &b->shape;
    int64_t n                = ct_shape_legacy(s, 0);
    struct ct_datum d        = { .channels = (int32_t)ct_shape_legacy(s, 1),
                                 .height   = (int32_t)ct_shape_legacy(s, 2),
                                 .width    = (int32_t)ct_shape_legacy(s, 3),
                                 .n_floats = b->count / (n ? n : 1) };
    const float *value       = NULL;
    float *room              = NULL;
    enum ct_status st;

    st = ct_blob_read(b, &room, &value);
    for (int64_t i = 0; i < n && st == CT_OK; i++) {
        st = ct_db_writer_put_datum(db, 10, ct_db_writer_n(db), &d,
                                    CT_DATUM_SHAPE, value + i * d.n_floats);
        if (ct_db_writer_n(db) % 1000 == 0)
            CT_INFO("Extracted features of %" PRId64 " query images for "
                    "feature blob %s", ct_db_writer_n(db), name);
    }
    ct_free(room);
    return st;
}

static enum ct_status extract(struct features *f, struct ct_net *net,
                              const char *backend, int n_batches,
                              const struct ct_watch *watch)
{
    CT_TRY(find_blobs(f, net));
    for (int k = 0; k < f->n; k++) {
        CT_INFO("Opening dataset %s", f->path[k]);
        CT_TRY(ct_db_writer_create(backend, f->path[k], &f->db[k]));
    }
    CT_INFO("Extracting Features");
    for (int i = 0; i < n_batches; i++) {
        CT_TRY(ct_net_forward(net, NULL));
        for (int k = 0; k < f->n; k++)
            CT_TRY(put_blob(f->db[k], ct_net_blob(net, f->id[k]),
                            f->blob[k]));
        CT_TRY(ct_watch_step(watch, i + 1, n_batches));
    }
    for (int k = 0; k < f->n; k++)
        CT_TRY(ct_db_writer_seal(f->db[k]));
    for (int k = 0; k < f->n; k++) {
        CT_TRY(ct_db_writer_finish(f->db[k]));
        CT_INFO("Extracted features of %" PRId64 " query images for feature "
                "blob %s", ct_db_writer_n(f->db[k]), f->blob[k]);
    }
    CT_INFO("Successfully extracted the features!");
    return CT_OK;
}

static enum ct_status run(struct features *f, const char *weights,
                          const char *model, const char *backend,
                          int n_batches)
{
    struct ct_net_options o = { .phase = CAFFE__PHASE__TEST, .seed = 1,
                                .keep_blobs = true, .forward_only = true };
    struct ct_net *net = NULL;
    struct progress p;
    enum ct_status st;

    CT_TRY(ct_alloc((size_t)f->n, sizeof(*f->id), "blob ids", &f->id));
    CT_TRY(ct_alloc((size_t)f->n, sizeof(*f->db), "feature writers", &f->db));
    CT_TRY(ct_net_create_file(model, &o, &net));
    st = ct_net_load(net, weights);
    if (st == CT_OK) {
        progress_start(&p, 0);
        st = extract(f, net, backend, n_batches, &p.watch);
        progress_end(&p, st);
    }
    for (int k = 0; k < f->n; k++)
        ct_db_writer_destroy(f->db[k]);
    ct_net_destroy(net);
    return st;
}

static enum ct_status check(const struct features *f, int argc, char **argv,
                            int *n_batches)
{
    char *end;
    long n = strtol(argv[5], &end, 10);

    if (*end || n < 1 || n > 1000000000)
        return ct_fail(CT_EINVAL, "NUM_BATCHES is a number of batches, not "
                       "'%s'", argv[5]);
    *n_batches = (int)n;
    if (f->n != f->n_paths || f->n == 0)
        return ct_fail(CT_EINVAL, "the number of blob names and dataset names "
                       "must be equal: %d blobs, %d databases", f->n,
                       f->n_paths);
    if (argc > 7 && strcasecmp(argv[7], "GPU") == 0)
        return ct_fail(CT_ENOTSUP, "this build has no GPU support: say CPU");
    if (argc > 7 && strcasecmp(argv[7], "CPU") != 0)
        return ct_fail(CT_EINVAL, "CPU or GPU, not '%s'", argv[7]);
    return CT_OK;
}

int cmd_extract_features(int argc, char **argv)
{
    const struct flag flags[] = { FLAG_END };
    struct features f         = { 0 };
    int code, n_batches = 0;
    enum ct_status st;

    if (!tool_parse(flags, 6, 8, &argc, argv, &code))
        return code;
    f.n       = flags_list(argv[3], &f.blob);
    f.n_paths = flags_list(argv[4], &f.path);
    st        = check(&f, argc, argv, &n_batches);
    if (st == CT_OK)
        st = run(&f, argv[1], argv[2], argv[6], n_batches);
    ct_free(f.blob);
    ct_free(f.path);
    ct_free(f.id);
    ct_free(f.db);
    return tool_end(st);
}
