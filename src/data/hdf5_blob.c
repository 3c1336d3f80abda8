/* hdf5_blob.c - blobs of any device from HDF5 files. */
#include "base/mem.h"
#include "data/hdf5.h"

static bool direct(const struct ct_blob *b, const struct ct_tensor *t)
{
    return b->dev->kind == CT_CPU && t->layout == CT_PLAIN;
}

enum ct_status ct_hdf5_load(struct ct_hdf5 *h, const char *name,
                            struct ct_blob *b, bool diff)
{
    const struct ct_tensor *t = diff ? &b->diff : &b->data;
    float *host               = NULL;
    enum ct_status st;

    if (direct(b, t))
        return ct_hdf5_read(h, name, b->count, t->ptr);
    CT_TRY(ct_alloc((size_t)b->count + 1, sizeof(*host), "values", &host));
    st = ct_hdf5_read(h, name, b->count, host);
    if (st == CT_OK)
        st = ct_blob_put(b, diff, host);
    ct_free(host);
    return st;
}

enum ct_status ct_hdf5_read_blob(struct ct_hdf5 *h, const char *name,
                                 struct ct_blob *b)
{
    struct ct_shape shape;

    CT_TRY(ct_hdf5_shape(h, name, &shape));
    CT_TRY(ct_reshape(b, shape));
    return ct_hdf5_load(h, name, b, false);
}
