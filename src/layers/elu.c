/* elu.c - the exponential linear unit, Caffe type "ELU"; any shape, may work
 * in place.
 *
 *     y  = x > 0 ? x  : alpha (e^x - 1)
 *     dx = x > 0 ? dy : dy (y + alpha)
 *
 * In place the sign of x is read off y, which has it for alpha >= 0.
 * Clevert et al., "Fast and accurate deep network learning by exponential
 * linear units", 2015. */
#include "cortado/layer.h"

#include "device/cpu/loop.h"
#include "device/cpu/simd.h"
#include "layers/chunks.h"
#include "layers/common.h"
#include "layers/cuda/slots.h"
#include "proto/params.h"

CT_SIMD static void elu_row(int64_t n, float alpha, const float *x, float *y)
{
    CT_SIMD_EACH (i, n) {
        float e = ct_exp_row(x[i] > 0 ? 0 : x[i]);

        y[i] = (x[i] > 0 ? x[i] : 0) + alpha * (e - 1);
    }
}

static enum ct_status elu_forward(struct ct_layer *l, const struct ct_io *io)
{
    const float alpha = ct_elu_param(l->param)->alpha;
    const int64_t n   = ct_elements(io->top[0]);
    const float *x    = ct_data(io->bottom[0]);
    float *y          = ct_data(io->top[0]);

    if (ct_chunks_any(io))
        return ct_chunks_forward(l, io, elu_forward);
    CT_FOR_ROWS (c, ct_chunks(n), CT_CHUNK) {
        const int64_t from = c * CT_CHUNK;

        elu_row(ct_chunk_end(c, n) - from, alpha, x + from, y + from);
    }
    return CT_OK;
}

static enum ct_status elu_backward(struct ct_layer *l, const struct ct_io *io)
{
    const float alpha = ct_elu_param(l->param)->alpha;
    const float *x = ct_data(io->bottom[0]), *y = ct_data(io->top[0]);
    const float *dy = ct_diff(io->top[0]);
    float *dx = ct_diff(io->bottom[0]);

    if (ct_chunks_any(io))
        return ct_chunks_backward(l, io, elu_backward);
    if (io->want_grad[0])
        CT_FOR_EACH (i, ct_elements(io->top[0])) {
            const float d = dy[i];

            dx[i] = (x[i] > 0 ? d : 0) + (x[i] > 0 ? 0 : d) * (y[i] + alpha);
        }
    return CT_OK;
}

const struct ct_layer_type ct_layer_elu = {
    .name     = "ELU",
    .bottoms  = CT_EXACTLY(1),
    .tops     = CT_EXACTLY(1),
    .flags    = CT_LAYER_INPLACE | CT_LAYER_SAME_LAYOUT | CT_LAYER_BY_ITEM |
                CT_LAYER_BF16,
    .reshape  = ct_layer_same_shape,
    .forward  = { elu_forward, CT_CUDA_FN(elu_forward) },
    .backward = { elu_backward, CT_CUDA_FN(elu_backward) },
};
