/* source.c - shapes of the layers that bring data in. */
#include "layers/source.h"

enum ct_status ct_source_shape(const struct ct_layer *l,
                               const Caffe__BlobShape *from,
                               struct ct_shape *out)
{
    if (from->n_dim > CT_MAX_AXES)
        return ct_fail(CT_ESHAPE, "layer %s: a shape of %zu axes: a blob has "
                       "at most %d", l->name, from->n_dim, CT_MAX_AXES);
    out->n_axes = (int)from->n_dim;
    for (int i = 0; i < out->n_axes; i++)
        out->dim[i] = from->dim[i];
    if (ct_shape_check(out) != CT_OK)
        return ct_fail_in(CT_ESHAPE, "layer %s", l->name);
    return CT_OK;
}
