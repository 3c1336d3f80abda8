/* tanh.c - the hyperbolic tangent, Caffe type "TanH"; any shape, may work in
 * place.
 *
 *     y = tanh x      dx = dy (1 - y^2) */
#include "cortado/layer.h"

#include "device/cpu/loop.h"
#include "layers/chunks.h"
#include "layers/common.h"
#include "layers/cuda/slots.h"
#include "layers/squash.h"

CT_SIMD static void tanh_row(int64_t n, const float *x, float *y)
{
    CT_SIMD_EACH (i, n)
        y[i] = ct_tanh_row(x[i]);
}

static enum ct_status tanh_forward(struct ct_layer *l, const struct ct_io *io)
{
    const int64_t n = ct_elements(io->top[0]);
    const float *x  = ct_data(io->bottom[0]);
    float *y        = ct_data(io->top[0]);

    if (ct_chunks_any(io))
        return ct_chunks_forward(l, io, tanh_forward);
    (void)l;
    CT_FOR_ROWS (c, ct_chunks(n), CT_CHUNK) {
        const int64_t from = c * CT_CHUNK;

        tanh_row(ct_chunk_end(c, n) - from, x + from, y + from);
    }
    return CT_OK;
}

static enum ct_status tanh_backward(struct ct_layer *l, const struct ct_io *io)
{
    const float *y = ct_data(io->top[0]), *dy = ct_diff(io->top[0]);
    float *dx = ct_diff(io->bottom[0]);

    if (ct_chunks_any(io))
        return ct_chunks_backward(l, io, tanh_backward);
    (void)l;
    if (io->want_grad[0])
        CT_FOR_EACH (i, ct_elements(io->top[0]))
            dx[i] = dy[i] * (1 - y[i] * y[i]);
    return CT_OK;
}

const struct ct_layer_type ct_layer_tanh = {
    .name     = "TanH",
    .bottoms  = CT_EXACTLY(1),
    .tops     = CT_EXACTLY(1),
    .flags    = CT_LAYER_INPLACE | CT_LAYER_NO_BOTTOM | CT_LAYER_SAME_LAYOUT |
                CT_LAYER_BY_ITEM |
                CT_LAYER_BF16,
    .reshape  = ct_layer_same_shape,
    .forward  = { tanh_forward, CT_CUDA_FN(tanh_forward) },
    .backward = { tanh_backward, CT_CUDA_FN(tanh_backward) },
};
