/* clip.c - values held between two bounds, Caffe type "Clip"; any shape, may
 * work in place.
 *
 *     y = max(min, min(x, max))      dx = dy where min <= x <= max, else 0
 *
 * In place a clipped value looks like one that lies on the bound.  There the
 * gradient passes strictly between the bounds only; Caffe's passes anywhere. */
#include "cortado/layer.h"

#include "device/cpu/loop.h"
#include "layers/common.h"
#include "layers/cuda/slots.h"
#include "proto/params.h"

static enum ct_status clip_setup(struct ct_layer *l, const struct ct_io *io)
{
    (void)io;
    if (!l->param->clip_param)
        return ct_fail(CT_EINVAL, "layer %s: give the bounds as clip_param "
                       "{ min: ... max: ... }", l->name);
    return CT_OK;
}

static enum ct_status clip_forward(struct ct_layer *l, const struct ct_io *io)
{
    const float lo = ct_clip_param(l->param)->min;
    const float hi = ct_clip_param(l->param)->max;
    const float *x = ct_data(io->bottom[0]);
    float *y       = ct_data(io->top[0]);

    CT_FOR_EACH (i, io->top[0]->count) {
        float v = x[i] < hi ? x[i] : hi;

        y[i] = v > lo ? v : lo;
    }
    return CT_OK;
}

static enum ct_status clip_backward(struct ct_layer *l, const struct ct_io *io)
{
    const float lo = ct_clip_param(l->param)->min;
    const float hi = ct_clip_param(l->param)->max;
    const float *x = ct_data(io->bottom[0]), *dy = ct_diff(io->top[0]);
    float *dx = ct_diff(io->bottom[0]);

    if (!io->want_grad[0])
        return CT_OK;
    if (ct_in_place(io))
        CT_FOR_EACH (i, io->top[0]->count) {
            const float d = dy[i];

            dx[i] = x[i] > lo && x[i] < hi ? d : 0;
        }
    else
        CT_FOR_EACH (i, io->top[0]->count) {
            const float d = dy[i];

            dx[i] = x[i] >= lo && x[i] <= hi ? d : 0;
        }
    return CT_OK;
}

const struct ct_layer_type ct_layer_clip = {
    .name     = "Clip",
    .bottoms  = CT_EXACTLY(1),
    .tops     = CT_EXACTLY(1),
    .flags    = CT_LAYER_INPLACE | CT_LAYER_NO_TOP | CT_LAYER_BY_ITEM,
    .setup    = clip_setup,
    .reshape  = ct_layer_same_shape,
    .forward  = { clip_forward, CT_CUDA_FN(clip_forward) },
    .backward = { clip_backward, CT_CUDA_FN(clip_backward) },
};
