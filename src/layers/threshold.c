/* threshold.c - one where a value is above a bound, Caffe type "Threshold";
 * any shape, may work in place.
 *
 *     y = x > threshold ? 1 : 0
 *
 * There is no gradient. */
#include "cortado/layer.h"

#include "device/cpu/loop.h"
#include "layers/common.h"
#include "layers/cuda/slots.h"
#include "proto/params.h"

static enum ct_status threshold_forward(struct ct_layer *l,
                                        const struct ct_io *io)
{
    const float bound = ct_threshold_param(l->param)->threshold;
    const float *x    = ct_data(io->bottom[0]);
    float *y          = ct_data(io->top[0]);

    CT_FOR_EACH (i, io->top[0]->count)
        y[i] = x[i] > bound ? 1 : 0;
    return CT_OK;
}

const struct ct_layer_type ct_layer_threshold = {
    .name    = "Threshold",
    .bottoms = CT_EXACTLY(1),
    .tops    = CT_EXACTLY(1),
    .flags   = CT_LAYER_INPLACE | CT_LAYER_NO_BOTTOM | CT_LAYER_NO_TOP |
               CT_LAYER_NO_GRAD,
    .reshape = ct_layer_same_shape,
    .forward = { threshold_forward, CT_CUDA_FN(threshold_forward) },
};
