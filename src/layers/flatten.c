/* flatten.c - several axes made one, Caffe type "Flatten".
 *
 *     d_0 .. d_a .. d_e .. d_n  ->  d_0 .. (d_a ... d_e) .. d_n
 *
 * a is axis and e is end_axis, both from either end.  The top is a view of
 * the bottom. */
#include "cortado/layer.h"

#include "layers/common.h"
#include "proto/params.h"

static enum ct_status flatten_reshape(struct ct_layer *l,
                                      const struct ct_io *io)
{
    const Caffe__FlattenParameter *p = ct_flatten_param(l->param);
    const struct ct_blob *x = io->bottom[0];
    struct ct_shape y = x->shape;
    int from, to;

    CT_TRY(ct_layer_axis(l, x, p->axis, &from));
    CT_TRY(ct_layer_axis(l, x, p->end_axis, &to));
    /* An end just before the start puts in an axis of one, as in Caffe. */
    if (to + 1 < from)
        return ct_fail(CT_EINVAL, "layer %s: axis %d lies behind end_axis %d",
                       l->name, p->axis, p->end_axis);
    y.n_axes      = from + 1;
    y.dim[from]   = ct_count(x, from, to + 1);
    if (from + x->shape.n_axes - to > CT_MAX_AXES)
        return ct_fail(CT_ESHAPE, "layer %s: the top has more than %d axes",
                       l->name, CT_MAX_AXES);
    for (int i = to + 1; i < x->shape.n_axes; i++)
        y.dim[y.n_axes++] = x->shape.dim[i];
    return ct_reshape(io->top[0], y);
}

static enum ct_status flatten_forward(struct ct_layer *l,
                                      const struct ct_io *io)
{
    return ct_copy(l->dev, io->top[0]->count, ct_data(io->bottom[0]),
                   ct_data(io->top[0]));
}

static enum ct_status flatten_backward(struct ct_layer *l,
                                       const struct ct_io *io)
{
    if (!io->want_grad[0])
        return CT_OK;
    return ct_copy(l->dev, io->top[0]->count, ct_diff(io->top[0]),
                   ct_diff(io->bottom[0]));
}

const struct ct_layer_type ct_layer_flatten = {
    .name     = "Flatten",
    .bottoms  = CT_EXACTLY(1),
    .tops     = CT_EXACTLY(1),
    .flags    = CT_LAYER_ALIAS_DATA | CT_LAYER_ALIAS_DIFF |
                CT_LAYER_NO_BOTTOM | CT_LAYER_NO_TOP,
    .reshape  = flatten_reshape,
    .forward  = CT_EVERY_DEVICE(flatten_forward),
    .backward = CT_EVERY_DEVICE(flatten_backward),
};
