/* batch_norm.c - Caffe type "BatchNorm": each channel to mean 0, variance 1.
 *
 *     y = (x - mean) / sqrt(var + eps)
 *     dx = (dy - mean(dy) - y mean(dy y)) / sqrt(var + eps)
 *
 * x, y: n c ..., may be the same blob; mean and var are per channel, over the
 * m values of a batch.  Three blobs keep running sums, which are not learned:
 *
 *     blob 0 = f blob 0 + mean,    blob 1 = f blob 1 + var m / (m - 1),
 *     blob 2 = f blob 2 + 1        f: moving_average_fraction
 *
 * With use_global_stats (by default, in the TEST phase) mean and var are blob 0
 * and blob 1 over blob 2, and dx = dy / sqrt(var + eps).  There is no scale
 * and shift: a Scale layer follows.
 *
 * Backward reads x; in place, where x is gone and y may have been written over
 * by the layers behind, it reads a copy that forward keeps. */
#include "cortado/layer.h"

#include <inttypes.h>
#include <math.h>

#include "layers/channels.h"
#include "proto/params.h"

enum { MEAN, VARIANCE, FACTOR, N_BLOBS };

struct batch_norm {
    struct ct_channels view;
    int64_t            channels;
    bool               global; /* use_global_stats */
    struct ct_blob    *stats;  /* N_STATS rows of c */
    struct ct_blob    *sums;   /* scratch of the reductions */
    struct ct_blob    *kept;   /* x, in place */
};

enum { BATCH_MEAN, BATCH_VAR, INVERSE, SLOPE, OFFSET, N_STATS };

static float *stat(const struct batch_norm *s, int row)
{
    return ct_data(s->stats) + row * s->channels;
}

static enum ct_status bn_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__BatchNormParameter *p = ct_batch_norm_param(l->param);
    struct batch_norm *s = l->state;

    if (io->bottom[0]->shape.n_axes < 1)
        return ct_fail(CT_ESHAPE, "layer %s: the bottom is a scalar", l->name);
    s->channels = channels_of(io->bottom[0]).c;
    s->global   = p->has_use_global_stats ? p->use_global_stats
                                          : l->phase == CAFFE__PHASE__TEST;
    for (size_t i = 0; i < l->param->n_param && i < N_BLOBS; i++)
        if (l->param->param[i]->lr_mult != 0)
            return ct_fail(CT_EINVAL, "layer %s: BatchNorm's statistics are "
                           "not learned: set lr_mult: 0 in param %zu",
                           l->name, i);
    CT_TRY(ct_layer_add_blob(l, CT_SHAPE(s->channels), NULL));
    CT_TRY(ct_layer_add_blob(l, CT_SHAPE(s->channels), NULL));
    CT_TRY(ct_layer_add_blob(l, CT_SHAPE(1), NULL));
    for (int i = 0; i < N_BLOBS; i++)
        l->blob_wants_grad[i] = false;
    CT_TRY(ct_layer_add_scratch(l, &s->stats));
    CT_TRY(ct_layer_add_scratch(l, &s->sums));
    if (io->bottom[0] == io->top[0] && !s->global)
        CT_TRY(ct_layer_add_scratch(l, &s->kept));
    return ct_reshape(s->stats, CT_SHAPE(N_STATS, s->channels));
}

static enum ct_status bn_reshape(struct ct_layer *l, const struct ct_io *io)
{
    struct batch_norm *s = l->state;

    s->view = channels_of(io->bottom[0]);
    if (s->view.c != s->channels)
        return ct_fail(CT_ESHAPE, "layer %s: the bottom has %" PRId64
                       " channels, the statistics %" PRId64, l->name,
                       s->view.c, s->channels);
    CT_TRY(ct_reshape(io->top[0], io->bottom[0]->shape));
    if (io->top[0]->data.layout != s->view.layout)
        return ct_fail(CT_ENOTSUP, "layer %s: top and bottom need one layout",
                       l->name);
    if (s->kept)
        CT_TRY(ct_reshape(s->kept, CT_SHAPE(ct_elements(io->bottom[0]))));
    return ct_reshape(s->sums, CT_SHAPE(ct_channel_scratch(&s->view)));
}

/* Means and variances of channels [from, to) out of the running sums. */
static void bn_global_stats(const struct ct_layer *l, int64_t from, int64_t to)
{
    const struct batch_norm *s = l->state;
    float factor = ct_data(l->blob[FACTOR])[0];

    factor = factor == 0 ? 0 : 1 / factor;
    for (int64_t c = from; c < to; c++) {
        stat(s, BATCH_MEAN)[c] = factor * ct_data(l->blob[MEAN])[c];
        stat(s, BATCH_VAR)[c]  = factor * ct_data(l->blob[VARIANCE])[c];
    }
}

/* The same out of the batch, which the running sums then take in. */
static void bn_batch_stats(const struct ct_layer *l,
                           const struct ct_slice *part, const float *x)
{
    const struct batch_norm *s = l->state;
    const float f = ct_batch_norm_param(l->param)->moving_average_fraction;
    const int64_t m = s->view.n * s->view.inner;
    const float unbiased = m > 1 ? (float)m / (float)(m - 1) : 1;
    float *mean = ct_data(l->blob[MEAN]), *var = ct_data(l->blob[VARIANCE]);

    ct_channel_moments(&part->view, x + part->at, ct_data(s->sums),
                       stat(s, BATCH_MEAN) + part->first,
                       stat(s, BATCH_VAR) + part->first);
    for (int64_t c = part->first; c < part->first + part->view.c; c++) {
        mean[c] = f * mean[c] + stat(s, BATCH_MEAN)[c];
        var[c]  = f * var[c] + unbiased * stat(s, BATCH_VAR)[c];
    }
}

static enum ct_status bn_forward(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__BatchNormParameter *p = ct_batch_norm_param(l->param);
    const struct batch_norm *s = l->state;
    const float *x = ct_data(io->bottom[0]);

    for (int64_t i = 0; i < ct_channel_slices(&s->view); i++) {
        const struct ct_slice part = ct_channel_slice(&s->view, i);
        const int64_t from = part.first, to = from + part.view.c;

        if (s->global)
            bn_global_stats(l, from, to);
        else
            bn_batch_stats(l, &part, x);
        for (int64_t c = from; c < to; c++)
            stat(s, INVERSE)[c] = 1 / sqrtf(stat(s, BATCH_VAR)[c] + p->eps);
        ct_channel_map(&part.view, x + part.at, stat(s, BATCH_MEAN) + from,
                       stat(s, INVERSE) + from, NULL,
                       ct_data(io->top[0]) + part.at,
                       s->kept ? ct_data(s->kept) + part.at : NULL);
    }
    if (!s->global)
        ct_data(l->blob[FACTOR])[0] =
            p->moving_average_fraction * ct_data(l->blob[FACTOR])[0] + 1;
    return CT_OK;
}

/* With v = 1 / sqrt(var + eps) and z = x - mean, so that y = v z:
 *     dx = v dy - v^3 mean(dy z) z - v mean(dy)                             */
static void bn_backward_slice(const struct batch_norm *s,
                              const struct ct_slice *part, const float *x,
                              const float *dy, float *dx)
{
    const float m = (float)(s->view.n * s->view.inner);
    const int64_t from = part->first;
    float *mean = stat(s, BATCH_MEAN) + from, *v = stat(s, INVERSE) + from;
    float *slope = stat(s, SLOPE) + from, *offset = stat(s, OFFSET) + from;

    ct_channel_sums(&part->view, dy, x, mean, ct_data(s->sums), offset, slope);
    for (int64_t c = 0; c < part->view.c; c++) {
        slope[c]  *= -v[c] * v[c] * v[c] / m;
        offset[c] *= -v[c] / m;
    }
    ct_channel_join(&part->view, dy, x,
                    &(struct ct_channel_line){ v, slope, mean, offset }, dx);
}

static enum ct_status bn_backward(struct ct_layer *l, const struct ct_io *io)
{
    const struct batch_norm *s = l->state;
    const float *dy = ct_diff(io->top[0]);
    const float *x = ct_data(s->kept ? s->kept : io->bottom[0]);
    float *dx = ct_diff(io->bottom[0]);

    if (!io->want_grad[0])
        return CT_OK;
    if (s->global) {
        ct_channel_map(&s->view, dy, NULL, stat(s, INVERSE), NULL, dx, NULL);
        return CT_OK;
    }
    for (int64_t i = 0; i < ct_channel_slices(&s->view); i++) {
        const struct ct_slice part = ct_channel_slice(&s->view, i);

        bn_backward_slice(s, &part, x + part.at, dy + part.at, dx + part.at);
    }
    return CT_OK;
}

const struct ct_layer_type ct_layer_batch_norm = {
    .name       = "BatchNorm",
    .bottoms    = CT_EXACTLY(1),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_INPLACE | CT_LAYER_NO_TOP | CT_LAYER_SAME_LAYOUT,
    .state_size = sizeof(struct batch_norm),
    .setup      = bn_setup,
    .reshape    = bn_reshape,
    .forward    = { [CT_CPU] = bn_forward },
    .backward   = { [CT_CPU] = bn_backward },
};
