/* power.c - a power of a linear function, Caffe type "Power"; any shape, may
 * work in place.
 *
 *     y = v^power with v = shift + scale x      dx = dy power scale y / v
 *
 * With power 0 or scale 0, y is the constant shift^power (1 for power 0) and
 * dx is 0.  Where v is 0 the limit of y / v is taken, 0 for powers above 1,
 * where Caffe gives NaN.  In place, x is lost unless power is 0 or 1: a net
 * gives it memory of its own; where it cannot, backward refuses. */
#include "cortado/layer.h"

#include <math.h>

#include "device/cpu/loop.h"
#include "layers/common.h"
#include "layers/cuda/slots.h"
#include "proto/params.h"

static enum ct_status power_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__PowerParameter *p = ct_power_param(l->param);

    (void)io;
    l->flags |= p->power == 1 || p->power * p->scale == 0
                    ? CT_LAYER_NO_BOTTOM | CT_LAYER_NO_TOP
                    : CT_LAYER_APART;
    return CT_OK;
}

static enum ct_status power_forward(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__PowerParameter *p = ct_power_param(l->param);
    const float power = p->power, scale = p->scale, shift = p->shift;
    const int64_t n = io->top[0]->count;
    const float *x  = ct_data(io->bottom[0]);
    float *y        = ct_data(io->top[0]);

    if (power * scale == 0)
        return ct_fill(l->dev, n, power == 0 ? 1 : powf(shift, power), y);
    if (power == 1) {
        CT_FOR_EACH (i, n)
            y[i] = shift + scale * x[i];
    } else if (power == 2) {
        CT_FOR_EACH (i, n)
            y[i] = (shift + scale * x[i]) * (shift + scale * x[i]);
    } else if (power == 0.5f) {
        CT_FOR_EACH (i, n)
            y[i] = sqrtf(shift + scale * x[i]);
    } else {
        CT_FOR_EACH (i, n)
            y[i] = powf(shift + scale * x[i], power);
    }
    return CT_OK;
}

static enum ct_status power_backward(struct ct_layer *l,
                                     const struct ct_io *io)
{
    const Caffe__PowerParameter *p = ct_power_param(l->param);
    const float power = p->power, scale = p->scale, shift = p->shift;
    const float outer = power * scale, at_zero = powf(0, power - 1);
    const int64_t n = io->top[0]->count;
    const float *x  = ct_data(io->bottom[0]), *y = ct_data(io->top[0]);
    const float *dy = ct_diff(io->top[0]);
    float *dx       = ct_diff(io->bottom[0]);

    if (!io->want_grad[0])
        return CT_OK;
    if (outer == 0)
        return ct_fill(l->dev, n, 0, dx);
    if (power == 1) {
        CT_FOR_EACH (i, n)
            dx[i] = outer * dy[i];
        return CT_OK;
    }
    if (ct_in_place(io))
        return ct_fail(CT_ENOTSUP, "layer %s: a power of %g has no backward "
                       "pass in place; give its top another name", l->name,
                       (double)power);
    if (power == 2) {
        CT_FOR_EACH (i, n)
            dx[i] = outer * dy[i] * (shift + scale * x[i]);
    } else {
        CT_FOR_EACH (i, n) {
            float v = shift + scale * x[i];

            dx[i] = outer * dy[i] *
                    ((v != 0 ? y[i] : at_zero) / (v != 0 ? v : 1));
        }
    }
    return CT_OK;
}

const struct ct_layer_type ct_layer_power = {
    .name     = "Power",
    .bottoms  = CT_EXACTLY(1),
    .tops     = CT_EXACTLY(1),
    .flags    = CT_LAYER_INPLACE | CT_LAYER_BY_ITEM,
    .setup    = power_setup,
    .reshape  = ct_layer_same_shape,
    .forward  = { power_forward, CT_CUDA_FN(power_forward) },
    .backward = { power_backward, CT_CUDA_FN(power_backward) },
};
