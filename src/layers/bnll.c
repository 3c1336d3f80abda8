/* bnll.c - the softplus, Caffe type "BNLL" (binomial normal log likelihood);
 * any shape, may work in place.
 *
 *     y = log(1 + e^x)      dx = dy e^x / (1 + e^x) = dy (1 - e^-y)
 *
 * The gradient is taken from y, so that in place it is right as well, where
 * Caffe's is not. */
#include "cortado/layer.h"

#include <math.h>

#include "device/cpu/loop.h"
#include "layers/common.h"
#include "layers/cuda/slots.h"

static enum ct_status bnll_forward(struct ct_layer *l, const struct ct_io *io)
{
    const float *x = ct_data(io->bottom[0]);
    float *y       = ct_data(io->top[0]);

    (void)l;
    CT_FOR_EACH (i, io->top[0]->count)
        y[i] = fmaxf(x[i], 0) + log1pf(expf(-fabsf(x[i])));
    return CT_OK;
}

static enum ct_status bnll_backward(struct ct_layer *l, const struct ct_io *io)
{
    const float *y = ct_data(io->top[0]), *dy = ct_diff(io->top[0]);
    float *dx = ct_diff(io->bottom[0]);

    (void)l;
    if (io->want_grad[0])
        CT_FOR_EACH (i, io->top[0]->count)
            dx[i] = -dy[i] * expm1f(-y[i]);
    return CT_OK;
}

const struct ct_layer_type ct_layer_bnll = {
    .name     = "BNLL",
    .bottoms  = CT_EXACTLY(1),
    .tops     = CT_EXACTLY(1),
    .flags    = CT_LAYER_INPLACE | CT_LAYER_NO_BOTTOM | CT_LAYER_BY_ITEM,
    .reshape  = ct_layer_same_shape,
    .forward  = { bnll_forward, CT_CUDA_FN(bnll_forward) },
    .backward = { bnll_backward, CT_CUDA_FN(bnll_backward) },
};
