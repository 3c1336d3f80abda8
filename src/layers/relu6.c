/* relu6.c - the rectifier that saturates at 6, type "ReLU6" of the mobile
 * nets; any shape, may work in place.
 *
 *     y = min(max(x, 0), 6) + s min(x, 0)
 *     dx = dy (0 < x < 6 ? 1 : x <= 0 ? s : 0)
 *
 * s is negative_slope of relu_param, 0 unless given.  In place the case is
 * read off y, which tells for s >= 0. */
#include "cortado/layer.h"

#include "device/cpu/loop.h"
#include "layers/chunks.h"
#include "layers/common.h"
#include "layers/cuda/slots.h"
#include "proto/params.h"

static enum ct_status relu6_forward(struct ct_layer *l, const struct ct_io *io)
{
    const float slope = ct_relu_param(l->param)->negative_slope;
    const float *x    = ct_data(io->bottom[0]);
    float *y          = ct_data(io->top[0]);

    if (ct_chunks_any(io))
        return ct_chunks_forward(l, io, relu6_forward);
    CT_FOR_EACH (i, ct_elements(io->top[0])) {
        const float v = x[i] > 6 ? 6 : x[i];

        y[i] = (v > 0 ? v : 0) + slope * (v > 0 ? 0 : v);
    }
    return CT_OK;
}

static enum ct_status relu6_backward(struct ct_layer *l,
                                     const struct ct_io *io)
{
    const float slope = ct_relu_param(l->param)->negative_slope;
    const float *x = ct_data(io->bottom[0]), *dy = ct_diff(io->top[0]);
    float *dx = ct_diff(io->bottom[0]);

    if (ct_chunks_any(io))
        return ct_chunks_backward(l, io, relu6_backward);
    if (io->want_grad[0])
        CT_FOR_EACH (i, ct_elements(io->top[0])) {
            const float d = dy[i];

            dx[i] = (x[i] > 0 && x[i] < 6 ? d : 0) +
                    slope * (x[i] > 0 ? 0 : d);
        }
    return CT_OK;
}

const struct ct_layer_type ct_layer_relu6 = {
    .name     = "ReLU6",
    .bottoms  = CT_EXACTLY(1),
    .tops     = CT_EXACTLY(1),
    .flags    = CT_LAYER_INPLACE | CT_LAYER_NO_TOP | CT_LAYER_SAME_LAYOUT |
                CT_LAYER_BY_ITEM | CT_LAYER_BF16,
    .reshape  = ct_layer_same_shape,
    .forward  = { relu6_forward, CT_CUDA_FN(relu6_forward) },
    .backward = { relu6_backward, CT_CUDA_FN(relu6_backward) },
};
