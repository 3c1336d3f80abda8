/* mish.c - x times tanh of its softplus, YOLO 4's type "Mish"; any shape, may
 * work in place.
 *
 *     y = x t,  t = tanh(log(1 + e^x))      dx = dy (t + x s (1 - t^2))
 *
 * s is the logistic function.  With e = e^x, t = e (e + 2) / (e (e + 2) + 2);
 * from x = 20 on t is 1.  The slope is kept from forward to backward, so that
 * x is not needed.  Misra, "Mish", 2019. */
#include "cortado/layer.h"

#include "device/cpu/loop.h"
#include "layers/common.h"
#include "layers/cuda/slots.h"
#include "layers/mish.h"
#include "layers/squash.h"

static enum ct_status mish_setup(struct ct_layer *l, const struct ct_io *io)
{
    struct mish *m = l->state;

    (void)io;
    return ct_layer_add_scratch(l, &m->slope);
}

static enum ct_status mish_reshape(struct ct_layer *l, const struct ct_io *io)
{
    struct mish *m = l->state;

    CT_TRY(ct_reshape(m->slope, ct_any_layout(&io->bottom[0]->shape)));
    return ct_layer_same_shape(l, io);
}

CT_SIMD static void mish_row(int64_t n, const float *x, float *slope, float *y)
{
    CT_SIMD_EACH (i, n) {
        const float v = x[i];
        const float e = ct_exp_row(v < 20 ? v : 20);
        const float q = e * (e + 2);
        const float t = q / (q + 2);
        const float s = ct_sigmoid_row(v);

        slope[i] = t + v * s * (1 - t * t);
        y[i]     = v * t;
    }
}

static enum ct_status mish_forward(struct ct_layer *l, const struct ct_io *io)
{
    const struct mish *m = l->state;
    const int64_t n      = ct_elements(io->top[0]);
    const float *x       = ct_data(io->bottom[0]);
    float *y = ct_data(io->top[0]), *slope = ct_data(m->slope);

    CT_FOR_ROWS (c, ct_chunks(n), CT_CHUNK) {
        const int64_t from = c * CT_CHUNK;

        mish_row(ct_chunk_end(c, n) - from, x + from, slope + from, y + from);
    }
    return CT_OK;
}

static enum ct_status mish_backward(struct ct_layer *l, const struct ct_io *io)
{
    const struct mish *m = l->state;
    const float *dy = ct_diff(io->top[0]), *slope = ct_data(m->slope);
    float *dx = ct_diff(io->bottom[0]);

    if (io->want_grad[0])
        CT_FOR_EACH (i, ct_elements(io->top[0]))
            dx[i] = dy[i] * slope[i];
    return CT_OK;
}

const struct ct_layer_type ct_layer_mish = {
    .name       = "Mish",
    .bottoms    = CT_EXACTLY(1),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_INPLACE | CT_LAYER_NO_BOTTOM | CT_LAYER_NO_TOP |
                  CT_LAYER_SAME_LAYOUT,
    .state_size = sizeof(struct mish),
    .setup      = mish_setup,
    .reshape    = mish_reshape,
    .forward    = { mish_forward, CT_CUDA_FN(mish_forward) },
    .backward   = { mish_backward, CT_CUDA_FN(mish_backward) },
};
