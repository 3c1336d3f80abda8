/* sigmoid_cross_entropy_loss.c - cross entropy of independent sigmoids, Caffe
 * type "SigmoidCrossEntropyLoss".
 *
 *     loss = sum_i (log(1 + e^-|x_i|) + max(x_i, 0) - x_i t_i) / z
 *     dx_i = w (sigmoid(x_i) - t_i) / z
 *
 * x, t: of the same count, first axis the batch   w: top[0]'s loss weight
 * z: the normaliser of loss.h, BATCH_SIZE by default.  Targets are any
 * numbers in [0, 1]; those that truncate to ignore_label add nothing and get
 * no gradient.  Backward OVERWRITES dx; targets get none. */
#include "cortado/layer.h"

#include <inttypes.h>

#include "device/cpu/loop.h"
#include "device/cpu/simd.h"
#include "layers/common.h"
#include "layers/cuda/slots.h"
#include "layers/loss.h"
#include "layers/sigmoid_cross_entropy_loss.h"

static enum ct_status sce_setup(struct ct_layer *l, const struct ct_io *io)
{
    struct sigmoid_cross_entropy_loss *s = l->state;

    (void)io;
    s->loss = ct_loss_read(
        l, CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__BATCH_SIZE);
    return ct_layer_add_scratch(l, &s->terms);
}

static enum ct_status sce_reshape(struct ct_layer *l, const struct ct_io *io)
{
    struct sigmoid_cross_entropy_loss *s = l->state;

    CT_TRY(ct_loss_reshape(l, io));
    if (io->bottom[0]->count != io->bottom[1]->count)
        return ct_fail(CT_ESHAPE, "layer %s: %" PRId64 " targets for %" PRId64
                       " values, which must be the same", l->name,
                       io->bottom[1]->count, io->bottom[0]->count);
    return ct_reshape(s->terms,
                      CT_SHAPE(ct_chunks(io->bottom[0]->count) + 1));
}

CT_SIMD static float sce_sum(const struct ct_loss *loss, const float *x,
                             const float *t, int64_t n)
{
    const float skip = (float)loss->ignore_label;
    const bool skips = loss->ignores;
    float sum        = 0;

    CT_SIMD_SUM (i, n, sum) {
        float most = x[i] > 0 ? x[i] : 0;
        float term = logf(1 + ct_exp_row(-fabsf(x[i]))) + most - x[i] * t[i];

        sum += skips && truncf(t[i]) == skip ? 0 : term;
    }
    return sum;
}

CT_SIMD static void sce_slope(const struct ct_loss *loss, float scale,
                              const float *x, const float *t, int64_t n,
                              float *dx)
{
    const float skip = (float)loss->ignore_label;
    const bool skips = loss->ignores;

    CT_SIMD_EACH (i, n) {
        float e = ct_exp_row(-fabsf(x[i]));
        float p = (x[i] >= 0 ? 1 : e) / (1 + e);

        dx[i] = skips && truncf(t[i]) == skip ? 0 : scale * (p - t[i]);
    }
}

static enum ct_status sce_forward(struct ct_layer *l, const struct ct_io *io)
{
    struct sigmoid_cross_entropy_loss *s = l->state;
    const float *x = ct_data(io->bottom[0]), *t = ct_data(io->bottom[1]);
    float *terms  = ct_data(s->terms);
    int64_t n     = io->bottom[0]->count, n_valid = n;
    int64_t outer = io->bottom[0]->shape.dim[0];
    double sum    = 0;

    CT_FOR_ROWS (c, ct_chunks(n), CT_CHUNK)
        terms[c] = sce_sum(&s->loss, x + c * CT_CHUNK, t + c * CT_CHUNK,
                           ct_chunk_end(c, n) - c * CT_CHUNK);
    for (int64_t c = 0; c < ct_chunks(n); c++)
        sum += terms[c];
    for (int64_t i = 0; s->loss.ignores && i < n; i++)
        n_valid -= ct_loss_ignored(&s->loss, t[i]);
    s->normalizer = ct_loss_normalizer(&s->loss, outer, outer ? n / outer : 0,
                                       n_valid);
    ct_data(io->top[0])[0] = (float)(sum / s->normalizer);
    return CT_OK;
}

static enum ct_status sce_backward(struct ct_layer *l, const struct ct_io *io)
{
    const struct sigmoid_cross_entropy_loss *s = l->state;
    const float *x = ct_data(io->bottom[0]), *t = ct_data(io->bottom[1]);
    const float scale = ct_diff(io->top[0])[0] / s->normalizer;
    const int64_t n   = io->bottom[0]->count;
    float *dx         = ct_diff(io->bottom[0]);

    if (io->want_grad[0])
        CT_FOR_ROWS (c, ct_chunks(n), CT_CHUNK)
            sce_slope(&s->loss, scale, x + c * CT_CHUNK, t + c * CT_CHUNK,
                      ct_chunk_end(c, n) - c * CT_CHUNK, dx + c * CT_CHUNK);
    return CT_OK;
}

const struct ct_layer_type ct_layer_sigmoid_cross_entropy_loss = {
    .name       = "SigmoidCrossEntropyLoss",
    .bottoms    = CT_EXACTLY(2),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_LOSS | CT_LAYER_GRAD_FIRST | CT_LAYER_NO_TOP,
    .state_size = sizeof(struct sigmoid_cross_entropy_loss),
    .setup      = sce_setup,
    .reshape    = sce_reshape,
    .forward    = { sce_forward,
                    CT_CUDA_FN(sigmoid_cross_entropy_loss_forward) },
    .backward   = { sce_backward,
                    CT_CUDA_FN(sigmoid_cross_entropy_loss_backward) },
};
