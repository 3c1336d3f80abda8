/* smooth_l1_loss.c - absolute differences with a round corner, Fast R-CNN's
 * type "SmoothL1Loss".
 *
 *     d = u (a - b)     loss = sum v f(d) / n     da = u v f'(d) w / n = -db
 *     f(d) = s d^2 / 2 where |d| < 1 / s, else |d| - 1 / (2 s),   s = sigma^2
 *
 * a, b: n x ..., bottoms 0 and 1   u, v: the inside and outside weights,
 * bottoms 2 and 3, alike in shape; 1 where they are missing
 * w: top[0]'s loss weight.  Backward OVERWRITES da and db; weights get none.
 * SmoothL1LossOHEM has the same formulas and another n. */
#include "layers/smooth_l1_loss.h"

#include <inttypes.h>

#include "device/cpu/loop.h"
#include "layers/cuda/slots.h"
#include "layers/loss.h"
#include "proto/params.h"

enum ct_status smooth_l1_shape(const struct ct_layer *l,
                               const struct ct_io *io)
{
    struct smooth_l1_loss *s = l->state;
    const struct ct_blob *a  = io->bottom[0];

    CT_TRY(ct_loss_reshape(l, io));
    for (int i = 1; i < io->n_bottom; i++)
        if (io->bottom[i]->count != a->count ||
            io->bottom[i]->shape.n_axes < 1 ||
            io->bottom[i]->shape.dim[0] != a->shape.dim[0])
            return ct_fail(CT_ESHAPE, "layer %s: bottoms 0 and %d have %"
                           PRId64 " and %" PRId64 " values in rows that must "
                           "be alike", l->name, i, a->count,
                           io->bottom[i]->count);
    s->outer    = a->shape.dim[0];
    s->channels = a->shape.n_axes > 1 ? a->shape.dim[1] : 1;
    s->inner    = a->shape.n_axes > 2 ? ct_count(a, 2, CT_END) : 1;
    return CT_OK;
}

/* d, and 1 or the outside weight. */
static float difference(const struct smooth_l1_loss *s,
                        const struct ct_io *io, int64_t i)
{
    const float d = ct_data(io->bottom[0])[i] - ct_data(io->bottom[1])[i];

    return s->inside ? d * ct_data(io->bottom[s->inside])[i] : d;
}

static float outside(const struct smooth_l1_loss *s, const struct ct_io *io,
                     int64_t i)
{
    return s->outside ? ct_data(io->bottom[s->outside])[i] : 1;
}

/* The second top: the loss of each position, over its channels. */
static void each_position(const struct smooth_l1_loss *s,
                          const struct ct_io *io, float *y)
{
    CT_FOR_ROWS (i, s->outer * s->inner, 8 * s->channels) {
        const int64_t first =
            i / s->inner * s->channels * s->inner + i % s->inner;

        y[i] = 0;
        for (int64_t c = 0; c < s->channels; c++)
            y[i] += smooth_l1(difference(s, io, first + c * s->inner),
                              s->sigma2);
    }
}

enum ct_status smooth_l1_forward(struct ct_layer *l, const struct ct_io *io)
{
    const struct smooth_l1_loss *s = l->state;
    double sum = 0;

    CT_SUM_EACH (i, io->bottom[0]->count, sum)
        sum += (double)(outside(s, io, i) *
                        smooth_l1(difference(s, io, i), s->sigma2));
    ct_data(io->top[0])[0] = (float)(sum / (double)s->normalizer);
    if (io->n_top > 1)
        each_position(s, io, ct_data(io->top[1]));
    return CT_OK;
}

enum ct_status smooth_l1_backward(struct ct_layer *l, const struct ct_io *io)
{
    const struct smooth_l1_loss *s = l->state;
    const float scale = ct_diff(io->top[0])[0] / s->normalizer;

    for (int side = 0; side < 2; side++) {
        const float sign = side == 0 ? scale : -scale;
        float *dx;

        if (!io->want_grad[side])
            continue;
        dx = ct_diff(io->bottom[side]);
        CT_FOR_EACH (i, io->bottom[0]->count) {
            const float inside =
                s->inside ? ct_data(io->bottom[s->inside])[i] : 1;

            dx[i] = sign * inside * outside(s, io, i) *
                    smooth_l1_slope(difference(s, io, i), s->sigma2);
        }
    }
    return CT_OK;
}

static enum ct_status sl1_setup(struct ct_layer *l, const struct ct_io *io)
{
    const float sigma = ct_smooth_l1_loss_param(l->param)->sigma;
    struct smooth_l1_loss *s = l->state;

    if (!(sigma > 0))
        return ct_fail(CT_EINVAL, "layer %s: sigma is %g, and must be greater "
                       "than 0", l->name, (double)sigma);
    s->sigma2  = sigma * sigma;
    s->inside  = io->n_bottom > 2 ? 2 : 0;
    s->outside = io->n_bottom > 3 ? 3 : 0;
    return CT_OK;
}

static enum ct_status sl1_reshape(struct ct_layer *l, const struct ct_io *io)
{
    struct smooth_l1_loss *s = l->state;

    CT_TRY(smooth_l1_shape(l, io));
    s->normalizer = s->outer > 1 ? (float)s->outer : 1;
    return CT_OK;
}

const struct ct_layer_type ct_layer_smooth_l1_loss = {
    .name       = "SmoothL1Loss",
    .bottoms    = CT_BETWEEN(2, 4),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_LOSS | CT_LAYER_NO_TOP,
    .no_grad    = 1 << 2 | 1 << 3,
    .state_size = sizeof(struct smooth_l1_loss),
    .setup      = sl1_setup,
    .reshape    = sl1_reshape,
    .forward    = { smooth_l1_forward, CT_CUDA_FN(smooth_l1_loss_forward) },
    .backward   = { smooth_l1_backward, CT_CUDA_FN(smooth_l1_loss_backward) },
};
