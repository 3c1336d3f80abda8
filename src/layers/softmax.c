/* softmax.c - Caffe type "Softmax": probabilities along one axis.
 *
 *     y_j = exp(x_j) / sum over k of exp(x_k)      dx = y (dy - dy . y)
 *
 * x, y: any shape, may be the same blob; k runs over `axis` (default 1). */
#include "cortado/layer.h"

#include "device/softmax_ops.h"
#include "layers/cuda/slots.h"
#include "proto/params.h"

static enum ct_status softmax_reshape(struct ct_layer *l,
                                      const struct ct_io *io)
{
    const struct ct_blob *x = io->bottom[0];
    int axis;

    if (ct_axis(x, ct_softmax_param(l->param)->axis, &axis) != CT_OK)
        return ct_fail_in(CT_EINVAL, "layer %s", l->name);
    CT_TRY(ct_reshape(io->top[0], x->shape));
    return ct_softmax_choose(l->state, ct_count(x, 0, axis),
                             x->shape.dim[axis],
                             ct_count(x, axis + 1, CT_END));
}

static enum ct_status softmax_forward(struct ct_layer *l,
                                      const struct ct_io *io)
{
    return ct_softmax_forward(l->state, ct_data(io->bottom[0]),
                              ct_data(io->top[0]));
}

static enum ct_status softmax_backward(struct ct_layer *l,
                                       const struct ct_io *io)
{
    if (!io->want_grad[0])
        return CT_OK;
    return ct_softmax_backward(l->state, ct_data(io->top[0]),
                               ct_diff(io->top[0]), ct_diff(io->bottom[0]));
}

static void softmax_teardown(struct ct_layer *l)
{
    ct_softmax_fini(l->state);
}

const struct ct_layer_type ct_layer_softmax = {
    .name       = "Softmax",
    .bottoms    = CT_EXACTLY(1),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_INPLACE | CT_LAYER_NO_BOTTOM,
    .state_size = sizeof(struct ct_softmax),
    .reshape    = softmax_reshape,
    .forward    = { softmax_forward, CT_CUDA_FN(softmax_forward) },
    .backward   = { softmax_backward, CT_CUDA_FN(softmax_backward) },
    .teardown   = softmax_teardown,
};
