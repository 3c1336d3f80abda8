/* exp.c - the exponential, Caffe type "Exp"; any shape, may work in place.
 *
 *     y = base^(shift + scale x)      dx = dy y scale log(base)
 *
 * base -1, the default, stands for e. */
#include "cortado/layer.h"

#include <math.h>

#include "device/cpu/loop.h"
#include "layers/common.h"
#include "layers/cuda/slots.h"
#include "layers/exp.h"
#include "proto/params.h"

static enum ct_status exp_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__ExpParameter *p = ct_exp_param(l->param);
    struct exp_layer *e = l->state;
    float log_base;

    (void)io;
    if (p->base_ != -1 && !(p->base_ > 0 && isfinite(p->base_)))
        return ct_fail(CT_EINVAL, "layer %s: base is %g, and must be greater "
                       "than 0, or -1 for e", l->name, (double)p->base_);
    log_base = p->base_ == -1 ? 1 : logf(p->base_);
    e->inner = log_base * p->scale;
    e->outer = p->shift == 0 ? 1 : expf(log_base * p->shift);
    return CT_OK;
}

static enum ct_status exp_forward(struct ct_layer *l, const struct ct_io *io)
{
    const struct exp_layer *e = l->state;
    const float inner = e->inner, outer = e->outer;
    const float *x = ct_data(io->bottom[0]);
    float *y       = ct_data(io->top[0]);

    CT_FOR_EACH (i, io->top[0]->count)
        y[i] = outer * expf(inner * x[i]);
    return CT_OK;
}

static enum ct_status exp_backward(struct ct_layer *l, const struct ct_io *io)
{
    const struct exp_layer *e = l->state;
    const float inner = e->inner;
    const float *y = ct_data(io->top[0]), *dy = ct_diff(io->top[0]);
    float *dx = ct_diff(io->bottom[0]);

    if (io->want_grad[0])
        CT_FOR_EACH (i, io->top[0]->count)
            dx[i] = dy[i] * y[i] * inner;
    return CT_OK;
}

const struct ct_layer_type ct_layer_exp = {
    .name       = "Exp",
    .bottoms    = CT_EXACTLY(1),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_INPLACE | CT_LAYER_NO_BOTTOM | CT_LAYER_BY_ITEM,
    .state_size = sizeof(struct exp_layer),
    .setup      = exp_setup,
    .reshape    = ct_layer_same_shape,
    .forward    = { exp_forward, CT_CUDA_FN(exp_forward) },
    .backward   = { exp_backward, CT_CUDA_FN(exp_backward) },
};
