/* center_loss.c - the distance of features from the centre of their class,
 * caffe-face's type "CenterLoss".
 *
 *     loss = sum_i |x_i - c_t|^2 / (2 m)       dx_i = (x_i - c_t) w / m
 *     dc_k += sum over i with t_i = k of (c_k - x_i) / (1 + their number)
 *
 * x: m x k from `axis` on, bottom 0   t: m labels, bottom 1
 * blob 0: c, num_output x k.  With distance_type "L1" the loss is the sum of
 * |x - c| over m, and signs take the place of differences.
 *
 * dc is a step towards the mean of the class and no gradient of the loss: it
 * knows neither w nor m.  As everywhere it is ADDED, and dx is OVERWRITTEN;
 * caffe-face overwrites dc too.  Ranks count the samples of their own batch.
 * Wen et al., "A discriminative feature learning approach for deep face
 * recognition", 2016. */
#include "layers/center_loss.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "device/cpu/loop.h"
#include "layers/common.h"
#include "layers/cuda/slots.h"
#include "layers/loss.h"
#include "proto/params.h"

static enum ct_status center_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__CenterLossParameter *p = ct_center_loss_param(l->param);
    struct center_loss *s               = l->state;
    int axis;

    if (p->num_output == 0)
        return ct_fail(CT_EINVAL, "layer %s: center_loss_param needs "
                       "num_output, the number of classes", l->name);
    s->absolute = strcmp(p->distance_type, "L1") == 0;
    if (!s->absolute && strcmp(p->distance_type, "L2") != 0)
        return ct_fail(CT_EINVAL, "layer %s: distance_type is \"%s\", and "
                       "must be \"L1\" or \"L2\"", l->name, p->distance_type);
    CT_TRY(ct_layer_axis(l, io->bottom[0], p->axis, &axis));
    s->classes = p->num_output;
    s->width   = ct_count(io->bottom[0], axis, CT_END);
    CT_TRY(ct_layer_add_blob(l, CT_SHAPE(s->classes, s->width),
                             p->center_filler));
    CT_TRY(ct_layer_add_scratch(l, &s->counts));
    return ct_reshape(s->counts, CT_SHAPE(s->classes));
}

static enum ct_status center_reshape(struct ct_layer *l,
                                     const struct ct_io *io)
{
    struct center_loss *s = l->state;
    int axis;

    CT_TRY(ct_loss_reshape(l, io));
    CT_TRY(ct_layer_axis(l, io->bottom[0], ct_center_loss_param(l->param)->axis,
                         &axis));
    s->rows = ct_count(io->bottom[0], 0, axis);
    if (ct_count(io->bottom[0], axis, CT_END) != s->width)
        return ct_fail(CT_ESHAPE, "layer %s: features have %" PRId64
                       " values, centres %" PRId64, l->name,
                       ct_count(io->bottom[0], axis, CT_END), s->width);
    if (io->bottom[1]->count != s->rows)
        return ct_fail(CT_ESHAPE, "layer %s: %" PRId64 " labels for %" PRId64
                       " features", l->name, io->bottom[1]->count, s->rows);
    return CT_OK;
}

static float distance(const struct center_loss *s, float d)
{
    return s->absolute ? fabsf(d) : 0.5f * d * d;
}

static float slope(const struct center_loss *s, float d)
{
    return !s->absolute ? d : d > 0 ? 1 : d < 0 ? -1 : d;
}

static enum ct_status center_forward(struct ct_layer *l,
                                     const struct ct_io *io)
{
    static const struct ct_loss all = { .ignores = false };
    const struct center_loss *s     = l->state;
    const float *x = ct_data(io->bottom[0]), *t = ct_data(io->bottom[1]);
    const float *c = ct_data(l->blob[0]);
    double sum = 0;
    int64_t n;

    CT_TRY(ct_loss_check_labels(l, &all, t, s->rows, s->classes, &n));
    CT_SUM_EACH (i, s->rows * s->width, sum) {
        const int64_t k = (int64_t)t[i / s->width];

        sum += (double)distance(s, x[i] - c[k * s->width + i % s->width]);
    }
    ct_data(io->top[0])[0] =
        (float)(sum / (double)(s->rows > 1 ? s->rows : 1));
    return CT_OK;
}

static void center_move(const struct center_loss *s, const float *x,
                        const float *t, const float *c, float *dc)
{
    float *count = ct_data(s->counts);

    memset(count, 0, (size_t)s->classes * sizeof(*count));
    for (int64_t i = 0; i < s->rows; i++)
        count[(int64_t)t[i]]++;
    for (int64_t i = 0; i < s->rows; i++) {
        const int64_t k  = (int64_t)t[i];
        const float part = 1 / (1 + count[k]);

        CT_FOR_EACH (j, s->width)
            dc[k * s->width + j] -=
                part * slope(s, x[i * s->width + j] - c[k * s->width + j]);
    }
}

static enum ct_status center_backward(struct ct_layer *l,
                                      const struct ct_io *io)
{
    const struct center_loss *s = l->state;
    const float *x = ct_data(io->bottom[0]), *t = ct_data(io->bottom[1]);
    const float *c    = ct_data(l->blob[0]);
    const float scale = ct_diff(io->top[0])[0] /
                        (float)(s->rows > 1 ? s->rows : 1);

    if (l->blob_wants_grad[0])
        center_move(s, x, t, c, ct_diff(l->blob[0]));
    if (io->want_grad[0]) {
        float *dx = ct_diff(io->bottom[0]);

        CT_FOR_EACH (i, s->rows * s->width) {
            const int64_t k = (int64_t)t[i / s->width];

            dx[i] = scale *
                    slope(s, x[i] - c[k * s->width + i % s->width]);
        }
    }
    return CT_OK;
}

const struct ct_layer_type ct_layer_center_loss = {
    .name       = "CenterLoss",
    .bottoms    = CT_EXACTLY(2),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_LOSS | CT_LAYER_NO_TOP | CT_LAYER_GRAD_FIRST,
    .state_size = sizeof(struct center_loss),
    .setup      = center_setup,
    .reshape    = center_reshape,
    .forward    = { center_forward, CT_CUDA_FN(center_loss_forward) },
    .backward   = { center_backward, CT_CUDA_FN(center_loss_backward) },
};
