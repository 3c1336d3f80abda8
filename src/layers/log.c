/* log.c - the logarithm, Caffe type "Log"; any shape, may work in place.
 *
 *     y = log_base(shift + scale x)      dx = dy scale / (log(base) v)
 *
 * v is shift + scale x.  base -1, the default, stands for e.  In place v is
 * brought back as base^y, so that the gradient is right, where Caffe's in
 * place is not. */
#include "cortado/layer.h"

#include <math.h>

#include "device/cpu/loop.h"
#include "layers/common.h"
#include "layers/cuda/slots.h"
#include "layers/log_layer.h"
#include "proto/params.h"

static enum ct_status log_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__LogParameter *p = ct_log_param(l->param);
    struct log_layer *g = l->state;

    (void)io;
    if (p->base_ != -1 &&
        !(p->base_ > 0 && p->base_ != 1 && isfinite(p->base_)))
        return ct_fail(CT_EINVAL, "layer %s: base is %g, and must be greater "
                       "than 0 and not 1, or -1 for e", l->name,
                       (double)p->base_);
    g->scale    = p->scale;
    g->shift    = p->shift;
    g->log_base = p->base_ == -1 ? 1 : logf(p->base_);
    return CT_OK;
}

static enum ct_status log_forward(struct ct_layer *l, const struct ct_io *io)
{
    const struct log_layer *g = l->state;
    const float scale = g->scale, shift = g->shift, outer = 1 / g->log_base;
    const float *x = ct_data(io->bottom[0]);
    float *y       = ct_data(io->top[0]);

    CT_FOR_EACH (i, io->top[0]->count)
        y[i] = outer * logf(shift + scale * x[i]);
    return CT_OK;
}

static enum ct_status log_backward(struct ct_layer *l, const struct ct_io *io)
{
    const struct log_layer *g = l->state;
    const float scale = g->scale, shift = g->shift, log_base = g->log_base;
    const float numerator = scale / log_base;
    const float *x = ct_data(io->bottom[0]), *dy = ct_diff(io->top[0]);
    float *dx = ct_diff(io->bottom[0]);

    if (!io->want_grad[0])
        return CT_OK;
    if (ct_in_place(io))
        CT_FOR_EACH (i, io->top[0]->count)
            dx[i] = dy[i] * numerator * expf(-log_base * x[i]);
    else
        CT_FOR_EACH (i, io->top[0]->count)
            dx[i] = dy[i] * numerator / (shift + scale * x[i]);
    return CT_OK;
}

const struct ct_layer_type ct_layer_log = {
    .name       = "Log",
    .bottoms    = CT_EXACTLY(1),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_INPLACE | CT_LAYER_NO_TOP | CT_LAYER_BY_ITEM,
    .state_size = sizeof(struct log_layer),
    .setup      = log_setup,
    .reshape    = ct_layer_same_shape,
    .forward    = { log_forward, CT_CUDA_FN(log_forward) },
    .backward   = { log_backward, CT_CUDA_FN(log_backward) },
};
