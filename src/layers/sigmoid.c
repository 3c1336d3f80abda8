/* sigmoid.c - the logistic function, Caffe type "Sigmoid"; any shape, may
 * work in place.
 *
 *     y = 1 / (1 + e^-x)      dx = dy y (1 - y) */
#include "cortado/layer.h"

#include "device/cpu/loop.h"
#include "layers/common.h"
#include "layers/cuda/slots.h"
#include "layers/squash.h"

CT_SIMD static void sigmoid_row(int64_t n, const float *x, float *y)
{
    CT_SIMD_EACH (i, n)
        y[i] = ct_sigmoid_row(x[i]);
}

static enum ct_status sigmoid_forward(struct ct_layer *l,
                                      const struct ct_io *io)
{
    const int64_t n = io->top[0]->count;
    const float *x  = ct_data(io->bottom[0]);
    float *y        = ct_data(io->top[0]);

    (void)l;
    CT_FOR_ROWS (c, ct_chunks(n), CT_CHUNK) {
        const int64_t from = c * CT_CHUNK;

        sigmoid_row(ct_chunk_end(c, n) - from, x + from, y + from);
    }
    return CT_OK;
}

static enum ct_status sigmoid_backward(struct ct_layer *l,
                                       const struct ct_io *io)
{
    const float *y = ct_data(io->top[0]), *dy = ct_diff(io->top[0]);
    float *dx = ct_diff(io->bottom[0]);

    (void)l;
    if (io->want_grad[0])
        CT_FOR_EACH (i, io->top[0]->count)
            dx[i] = dy[i] * y[i] * (1 - y[i]);
    return CT_OK;
}

const struct ct_layer_type ct_layer_sigmoid = {
    .name     = "Sigmoid",
    .bottoms  = CT_EXACTLY(1),
    .tops     = CT_EXACTLY(1),
    .flags    = CT_LAYER_INPLACE | CT_LAYER_NO_BOTTOM | CT_LAYER_BY_ITEM,
    .reshape  = ct_layer_same_shape,
    .forward  = { sigmoid_forward, CT_CUDA_FN(sigmoid_forward) },
    .backward = { sigmoid_backward, CT_CUDA_FN(sigmoid_backward) },
};
