/* idx.c - MNIST's files of bytes. */
#include "data/idx.h"

#include <inttypes.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/db_writer.h"

enum { UNSIGNED_BYTES = 8 };

static enum ct_status idx_parse(struct ct_idx *x, const char *path, int n_axes,
                                size_t n_bytes)
{
    const unsigned char *b = (const unsigned char *)x->file;
    size_t head            = 4 + 4 * (size_t)n_axes;
    int64_t count          = 1;

    if (n_bytes >= 2 && b[0] == 0x1f && b[1] == 0x8b)
        return ct_fail(CT_EPARSE, "%s is packed: gunzip it first", path);
    if (n_bytes < 4 || b[0] || b[1] || b[2] != UNSIGNED_BYTES)
        return ct_fail(CT_EPARSE, "%s is no idx file of bytes (Incorrect "
                       "file magic)", path);
    if (b[3] != n_axes)
        return ct_fail(CT_EPARSE, "%s has %d axes, not %d: are images and "
                       "labels swapped?", path, b[3], n_axes);
    if (n_bytes < head)
        return ct_fail(CT_EPARSE, "%s ends in its head", path);
    x->n_axes = n_axes;
    for (int i = 0; i < n_axes; i++) {
        const unsigned char *d = b + 4 + 4 * i;

        x->dim[i] = (int64_t)d[0] << 24 | d[1] << 16 | d[2] << 8 | d[3];
        if (__builtin_mul_overflow(count, x->dim[i], &count))
            count = INT64_MAX;
    }
    x->values = b + head;
    if (count < 1 || (uint64_t)count != n_bytes - head)
        return ct_fail(CT_EPARSE, "%s is not whole: it holds %zu values, its "
                       "head says %" PRId64, path, n_bytes - head, count);
    return CT_OK;
}

enum ct_status ct_idx_read(const char *path, int n_axes, struct ct_idx *out)
{
    enum ct_status st;
    size_t n;

    CT_ASSERT(n_axes >= 1 && n_axes <= CT_IDX_MAX_AXES);
    *out = (struct ct_idx){ 0 };
    CT_TRY(ct_file_read(path, &out->file, &n));
    st = idx_parse(out, path, n_axes, n);
    if (st != CT_OK)
        ct_idx_fini(out);
    return st;
}

void ct_idx_fini(struct ct_idx *x)
{
    ct_free(x->file);
    *x = (struct ct_idx){ 0 };
}

/* The datum that images of this set fill, `channels` of them each. */
static enum ct_status datum_for(const struct ct_idx *images,
                                const struct ct_idx *labels, int channels,
                                struct ct_datum *out)
{
    if (labels->dim[0] != images->dim[0])
        return ct_fail(CT_ESHAPE, "%" PRId64 " images have %" PRId64 " labels",
                       images->dim[0], labels->dim[0]);
    if (images->dim[1] > INT32_MAX || images->dim[2] > INT32_MAX)
        return ct_fail(CT_EINVAL, "images of %" PRId64 " x %" PRId64,
                       images->dim[1], images->dim[2]);
    *out = (struct ct_datum){ .channels = channels,
                              .height   = (int32_t)images->dim[1],
                              .width    = (int32_t)images->dim[2] };
    return CT_OK;
}

static enum ct_status put(struct ct_db_writer *w, int64_t i,
                          const struct ct_datum *d)
{
    return ct_db_writer_put_datum(w, 8, i, d, CT_DATUM_SHAPE | CT_DATUM_LABEL,
                                  NULL);
}

enum ct_status ct_idx_to_db(const struct ct_idx *images,
                            const struct ct_idx *labels, const char *backend,
                            const char *path, const struct ct_watch *watch)
{
    int64_t n              = images->dim[0];
    size_t size            = (size_t)images->dim[1] * (size_t)images->dim[2];
    struct ct_db_writer *w = NULL;
    struct ct_datum d;
    enum ct_status st;

    CT_TRY(datum_for(images, labels, 1, &d));
    CT_TRY(ct_db_writer_create(backend, path, &w));
    for (int64_t i = 0; i < n; i++) {
        d.data  = (struct ct_bytes){ images->values + (size_t)i * size, size };
        d.label = labels->values[i];
        CT_TRY_GOTO(put(w, i, &d), st, out);
        CT_TRY_GOTO(ct_watch_step(watch, i + 1, n), st, out);
    }
    st = ct_db_writer_finish(w);
out:
    ct_db_writer_destroy(w);
    return st;
}

enum ct_status ct_idx_pairs_to_db(const struct ct_idx *images,
                                  const struct ct_idx *labels, uint64_t seed,
                                  const char *backend, const char *path,
                                  const struct ct_watch *watch)
{
    uint64_t n             = (uint64_t)images->dim[0];
    size_t size            = (size_t)images->dim[1] * (size_t)images->dim[2];
    struct ct_db_writer *w = NULL;
    unsigned char *both    = NULL;
    struct ct_datum d;
    enum ct_status st;

    CT_TRY(datum_for(images, labels, 2, &d));
    CT_TRY(ct_alloc(2, size, "a pair of images", &both));
    CT_TRY_GOTO(ct_db_writer_create(backend, path, &w), st, out);
    d.data = (struct ct_bytes){ both, 2 * size };
    for (uint64_t i = 0; i < n; i++) {
        uint64_t a = ct_philox_word(seed, 0, 2 * i) % n;
        uint64_t b = ct_philox_word(seed, 0, 2 * i + 1) % n;

        memcpy(both, images->values + a * size, size);
        memcpy(both + size, images->values + b * size, size);
        d.label = labels->values[a] == labels->values[b];
        CT_TRY_GOTO(put(w, (int64_t)i, &d), st, out);
        CT_TRY_GOTO(ct_watch_step(watch, (int64_t)i + 1, (int64_t)n), st, out);
    }
    st = ct_db_writer_finish(w);
out:
    ct_db_writer_destroy(w);
    ct_free(both);
    return st;
}
