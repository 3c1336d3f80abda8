/* relu.c - the rectifier, Caffe type "ReLU"; any shape, may work in place.
 *
 *     y = max(x, 0) + s min(x, 0)      dx = dy (x > 0 ? 1 : s)
 *
 * s is negative_slope.  In place the sign of x is read off y, which has the
 * same sign for s >= 0; for s < 0 a net gives x memory of its own.
 *
 * The rows add two parts, one of them 0: a choice between x and s x would
 * make the compiler branch at every element instead of using vectors. */
#include "cortado/layer.h"

#include "device/cpu/bf16.h"
#include "device/cpu/loop.h"
#include "device/cpu/simd.h"
#include "layers/chunks.h"
#include "layers/common.h"
#include "layers/cuda/slots.h"
#include "proto/params.h"

CT_SIMD static void relu_row(int64_t n, float slope, const float *x, float *y)
{
    CT_SIMD_EACH (i, n)
        y[i] = (x[i] > 0 ? x[i] : 0) + slope * (x[i] > 0 ? 0 : x[i]);
}

CT_SIMD static void relu_row_grad(int64_t n, float slope, const float *x,
                                  const float *dy, float *dx)
{
    CT_SIMD_EACH (i, n) {
        const float d = dy[i];

        dx[i] = (x[i] > 0 ? d : 0) + slope * (x[i] > 0 ? 0 : d);
    }
}

/* Of bfloat16, without a slope.  As a number without sign, what is below zero
 * lies above 0x8000; NaN, which stays, above that of infinity. */
CT_SIMD static void relu_shorts_row(int64_t n, const uint16_t *x, uint16_t *y)
{
    CT_SIMD_EACH (i, n)
        y[i] = x[i] >= 0x8000 && x[i] <= 0xff80 ? 0 : x[i];
}

static void relu_shorts(int64_t n, const float *x, float *y)
{
    CT_FOR_ROWS (c, ct_chunks(n), CT_CHUNK)
        relu_shorts_row(ct_chunk_end(c, n) - c * CT_CHUNK,
                        ct_bf16(x) + c * CT_CHUNK,
                        ct_bf16_out(y) + c * CT_CHUNK);
}

static enum ct_status relu_setup(struct ct_layer *l, const struct ct_io *io)
{
    (void)io;
    if (ct_relu_param(l->param)->negative_slope < 0) {
        l->flags &= ~(unsigned)CT_LAYER_KEEPS_SIGN;
        l->flags |= CT_LAYER_APART;
    }
    return CT_OK;
}

static enum ct_status relu_forward(struct ct_layer *l, const struct ct_io *io)
{
    const float slope = ct_relu_param(l->param)->negative_slope;
    const float *x    = ct_data(io->bottom[0]);
    float *y          = ct_data(io->top[0]);
    const int64_t n   = ct_elements(io->top[0]);

    if (ct_chunks_any(io) && slope == 0) {
        relu_shorts(n, x, y);
        return CT_OK;
    }
    if (ct_chunks_any(io))
        return ct_chunks_forward(l, io, relu_forward);
    CT_FOR_ROWS (c, ct_chunks(n), CT_CHUNK)
        relu_row(ct_chunk_end(c, n) - c * CT_CHUNK, slope, x + c * CT_CHUNK,
                 y + c * CT_CHUNK);
    return CT_OK;
}

static enum ct_status relu_backward(struct ct_layer *l, const struct ct_io *io)
{
    const float slope = ct_relu_param(l->param)->negative_slope;
    const float *x = ct_data(io->bottom[0]), *dy = ct_diff(io->top[0]);
    float *dx       = ct_diff(io->bottom[0]);
    const int64_t n = ct_elements(io->top[0]);

    if (ct_chunks_any(io) && slope == 0) {
        if (io->want_grad[0])
            ct_gather_shorts(n, dy, NULL, x, 1, dx);
        return CT_OK;
    }
    if (ct_chunks_any(io))
        return ct_chunks_backward(l, io, relu_backward);
    if (io->want_grad[0])
        CT_FOR_ROWS (c, ct_chunks(n), CT_CHUNK)
            relu_row_grad(ct_chunk_end(c, n) - c * CT_CHUNK, slope,
                          x + c * CT_CHUNK, dy + c * CT_CHUNK,
                          dx + c * CT_CHUNK);
    return CT_OK;
}

const struct ct_layer_type ct_layer_relu = {
    .name     = "ReLU",
    .bottoms  = CT_EXACTLY(1),
    .tops     = CT_EXACTLY(1),
    .flags    = CT_LAYER_INPLACE | CT_LAYER_NO_TOP | CT_LAYER_SAME_LAYOUT |
                CT_LAYER_BY_ITEM | CT_LAYER_KEEPS_SIGN |
                CT_LAYER_BF16,
    .setup    = relu_setup,
    .reshape  = ct_layer_same_shape,
    .forward  = { relu_forward, CT_CUDA_FN(relu_forward) },
    .backward = { relu_backward, CT_CUDA_FN(relu_backward) },
};
