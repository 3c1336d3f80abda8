/* softmax.c - Caffe type "Softmax": probabilities along one axis.
 *
 *     y_j = exp(x_j) / sum over k of exp(x_k)      dx = y (dy - dy . y)
 *
 * x, y: any shape, may be the same blob; k runs over `axis` (default 1). */
#include "cortado/layer.h"

#include "device/softmax.h"
#include "proto/params.h"

static enum ct_status softmax_reshape(struct ct_layer *l,
                                      const struct ct_io *io)
{
    int axis;

    if (ct_axis(io->bottom[0], ct_softmax_param(l->param)->axis, &axis) !=
        CT_OK)
        return ct_fail_in(CT_EINVAL, "layer %s", l->name);
    return ct_reshape(io->top[0], io->bottom[0]->shape);
}

static enum ct_status softmax_forward(struct ct_layer *l,
                                      const struct ct_io *io)
{
    const struct ct_blob *x = io->bottom[0];
    int axis;

    CT_TRY(ct_axis(x, ct_softmax_param(l->param)->axis, &axis));
    ct_softmax(ct_count(x, 0, axis), x->shape.dim[axis],
               ct_count(x, axis + 1, CT_END), ct_data(x), ct_data(io->top[0]));
    return CT_OK;
}

static enum ct_status softmax_backward(struct ct_layer *l,
                                       const struct ct_io *io)
{
    const struct ct_blob *y = io->top[0];
    int axis;

    if (!io->want_grad[0])
        return CT_OK;
    CT_TRY(ct_axis(y, ct_softmax_param(l->param)->axis, &axis));
    ct_softmax_backward(ct_count(y, 0, axis), y->shape.dim[axis],
                        ct_count(y, axis + 1, CT_END), ct_data(y), ct_diff(y),
                        ct_diff(io->bottom[0]));
    return CT_OK;
}

const struct ct_layer_type ct_layer_softmax = {
    .name     = "Softmax",
    .bottoms  = CT_EXACTLY(1),
    .tops     = CT_EXACTLY(1),
    .flags    = CT_LAYER_INPLACE | CT_LAYER_NO_BOTTOM,
    .reshape  = softmax_reshape,
    .forward  = { [CT_CPU] = softmax_forward },
    .backward = { [CT_CPU] = softmax_backward },
};
