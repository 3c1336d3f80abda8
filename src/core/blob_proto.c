/* blob_proto.c - blobs to and from Caffe's files. */
#include "core/blob_proto.h"

#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "proto/edit.h"

static bool is_legacy(const Caffe__BlobProto *p)
{
    return p->has_num || p->has_channels || p->has_height || p->has_width;
}

enum ct_status ct_blob_proto_shape(const Caffe__BlobProto *p,
                                   struct ct_shape *out)
{
    if (is_legacy(p)) {
        *out = CT_SHAPE(p->num, p->channels, p->height, p->width);
        return ct_shape_check(out);
    }
    *out = CT_SCALAR;
    if (!p->shape)
        return CT_OK;
    if (p->shape->n_dim > CT_MAX_AXES)
        return ct_fail(CT_ESHAPE, "a blob of %zu axes; at most %d are possible",
                       p->shape->n_dim, CT_MAX_AXES);
    out->n_axes = (int)p->shape->n_dim;
    for (int i = 0; i < out->n_axes; i++)
        out->dim[i] = p->shape->dim[i];
    return ct_shape_check(out);
}

bool ct_blob_proto_fits(const Caffe__BlobProto *p, const struct ct_shape *s)
{
    struct ct_shape have;

    if (ct_blob_proto_shape(p, &have) != CT_OK)
        return false;
    if (!is_legacy(p))
        return ct_shape_equal(&have, s);
    for (int i = 0; i < 4; i++) {
        int from_end = s->n_axes - 4 + i;

        if (have.dim[i] != (from_end >= 0 ? s->dim[from_end] : 1))
            return false;
    }
    return s->n_axes <= 4;
}

static enum ct_status values_in(struct ct_blob *b, size_t n_float,
                                const float *f, size_t n_double,
                                const double *d, bool diff)
{
    size_t n         = n_double ? n_double : n_float;
    const char *what = diff ? "diff" : "data";
    float *narrow    = NULL;
    enum ct_status st;

    if (n != (size_t)b->count)
        return ct_fail(CT_EPARSE, "%zu %s values for a blob of %" PRId64, n,
                       what, b->count);
    if (!n_double)
        return ct_blob_put(b, diff, f);
    CT_TRY(ct_alloc(n, sizeof(*narrow), "doubles", &narrow));
    for (size_t i = 0; i < n_double; i++)
        narrow[i] = (float)d[i];
    st = ct_blob_put(b, diff, narrow);
    ct_free(narrow);
    return st;
}

enum ct_status ct_blob_from_proto(const Caffe__BlobProto *p,
                                  struct ct_blob *b)
{
    CT_TRY(values_in(b, p->n_data, p->data, p->n_double_data, p->double_data,
                     false));
    if (ct_diff(b) && (p->n_diff || p->n_double_diff))
        CT_TRY(values_in(b, p->n_diff, p->diff, p->n_double_diff,
                         p->double_diff, true));
    return CT_OK;
}

enum ct_status ct_blob_to_proto(const struct ct_blob *b, bool with_diff,
                                Caffe__BlobProto **out)
{
    Caffe__BlobProto *p = NULL;
    size_t n            = (size_t)b->count;
    enum ct_status st;

    CT_TRY_GOTO(ct_edit_create(&caffe__blob_proto__descriptor, &p), st, out);
    CT_TRY_GOTO(ct_edit_create(&caffe__blob_shape__descriptor, &p->shape), st,
                out);
    CT_TRY_GOTO(ct_edit_resize(&p->shape->dim, (size_t)b->shape.n_axes,
                               sizeof(*p->shape->dim)), st, out);
    p->shape->n_dim = (size_t)b->shape.n_axes;
    memcpy(p->shape->dim, b->shape.dim,
           p->shape->n_dim * sizeof(*p->shape->dim));
    CT_TRY_GOTO(ct_edit_resize(&p->data, n, sizeof(float)), st, out);
    CT_TRY_GOTO(ct_blob_get(b, false, p->data), st, out);
    p->n_data = n;
    if (with_diff && ct_diff(b)) {
        CT_TRY_GOTO(ct_edit_resize(&p->diff, n, sizeof(float)), st, out);
        CT_TRY_GOTO(ct_blob_get(b, true, p->diff), st, out);
        p->n_diff = n;
    }
    *out = p;
    p    = NULL;
out:
    ct_message_free(p);
    return st;
}
