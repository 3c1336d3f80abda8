/* swish.c - x times its logistic function, Caffe type "Swish"; any shape, may
 * work in place.
 *
 *     y = x s,  s = 1 / (1 + e^(-beta x))      dx = dy (b + s (1 - b))
 *
 * b is beta y.  s is kept from forward to backward, so that x is not needed.
 * Ramachandran et al., "Searching for activation functions", 2017. */
#include "cortado/layer.h"

#include "device/cpu/loop.h"
#include "layers/common.h"
#include "layers/cuda/slots.h"
#include "layers/squash.h"
#include "layers/swish.h"
#include "proto/params.h"

static enum ct_status swish_setup(struct ct_layer *l, const struct ct_io *io)
{
    struct swish *w = l->state;

    (void)io;
    return ct_layer_add_scratch(l, &w->s);
}

static enum ct_status swish_reshape(struct ct_layer *l, const struct ct_io *io)
{
    struct swish *w = l->state;

    CT_TRY(ct_reshape(w->s, ct_any_layout(&io->bottom[0]->shape)));
    return ct_layer_same_shape(l, io);
}

CT_SIMD static void swish_row(int64_t n, float beta, const float *x, float *s,
                              float *y)
{
    CT_SIMD_EACH (i, n) {
        s[i] = ct_sigmoid_row(beta * x[i]);
        y[i] = x[i] * s[i];
    }
}

static enum ct_status swish_forward(struct ct_layer *l, const struct ct_io *io)
{
    const struct swish *w = l->state;
    const float beta = ct_swish_param(l->param)->beta;
    const int64_t n  = ct_elements(io->top[0]);
    const float *x   = ct_data(io->bottom[0]);
    float *y = ct_data(io->top[0]), *s = ct_data(w->s);

    CT_FOR_ROWS (c, ct_chunks(n), CT_CHUNK) {
        const int64_t from = c * CT_CHUNK;

        swish_row(ct_chunk_end(c, n) - from, beta, x + from, s + from,
                  y + from);
    }
    return CT_OK;
}

static enum ct_status swish_backward(struct ct_layer *l,
                                     const struct ct_io *io)
{
    const struct swish *w = l->state;
    const float beta = ct_swish_param(l->param)->beta;
    const float *y = ct_data(io->top[0]), *dy = ct_diff(io->top[0]);
    const float *s = ct_data(w->s);
    float *dx = ct_diff(io->bottom[0]);

    if (io->want_grad[0])
        CT_FOR_EACH (i, ct_elements(io->top[0])) {
            float b = beta * y[i];

            dx[i] = dy[i] * (b + s[i] * (1 - b));
        }
    return CT_OK;
}

const struct ct_layer_type ct_layer_swish = {
    .name       = "Swish",
    .bottoms    = CT_EXACTLY(1),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_INPLACE | CT_LAYER_NO_BOTTOM | CT_LAYER_SAME_LAYOUT |
                  CT_LAYER_BY_ITEM,
    .state_size = sizeof(struct swish),
    .setup      = swish_setup,
    .reshape    = swish_reshape,
    .forward    = { swish_forward, CT_CUDA_FN(swish_forward) },
    .backward   = { swish_backward, CT_CUDA_FN(swish_backward) },
};
