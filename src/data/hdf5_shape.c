/* hdf5_shape.c - the shape of a dataset, for those who make room for it.
 *
 * A dataset of any size takes a few bytes of a file as long as nobody writes
 * it, and a damaged file may say anything.  So a large one must have as many
 * bytes in the file as the best compression leaves of it. */
#include "data/hdf5_inner.h"

#ifdef CT_HAVE_HDF5
#include <inttypes.h>

/* Smaller ones do no harm; deflate packs 1032 bytes into one. */
static const double large_bytes = 64 << 20, most_packed = 1100;

static bool is_there(hid_t set, const struct ct_shape *shape)
{
    const double bytes = (double)ct_shape_count(shape, 0, CT_END) *
                         sizeof(float);

    return bytes <= large_bytes ||
           bytes <= most_packed * (double)H5Dget_storage_size(set);
}

enum ct_status ct_hdf5_shape(struct ct_hdf5 *h, const char *name,
                             struct ct_shape *out)
{
    struct h5_guard g = ct_h5_enter();
    hid_t set, space;
    enum ct_status st = ct_h5_dataset(h, name, &set, &space, out);

    if (st == CT_OK && !is_there(set, out))
        st = ct_fail(CT_EPARSE, "%s: dataset %s has %" PRId64 " values and "
                     "%llu bytes: the file is damaged, or was never finished",
                     h->path, name, ct_shape_count(out, 0, CT_END),
                     (unsigned long long)H5Dget_storage_size(set));
    ct_h5_close(space);
    ct_h5_close(set);
    ct_h5_leave(g);
    return st;
}
#endif
