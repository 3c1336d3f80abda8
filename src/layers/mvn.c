/* mvn.c - Caffe type "MVN": mean and variance normalization of each row.
 *
 *     y = (x - mean) / (sqrt(var) + eps)
 *     dx = (dy - mean(dy) - y mean(dy y)) / (sqrt(var) + eps)
 *
 * x, y: n c ..., may be the same blob.  A row is one channel of one item, or
 * the whole item with across_channels.  With normalize_variance: false there
 * is no division and dx = dy - mean(dy).
 *
 * eps stands outside the root, and dx takes y's variance for exactly 1, both
 * as in Caffe. */
#include "cortado/layer.h"

#include <math.h>

#include "device/norm.h"
#include "layers/cuda/slots.h"
#include "layers/mvn.h"
#include "proto/params.h"

static enum ct_status mvn_setup(struct ct_layer *l, const struct ct_io *io)
{
    struct mvn *s = l->state;

    (void)io;
    CT_TRY(ct_layer_add_scratch(l, &s->stats));
    return ct_layer_add_scratch(l, &s->sums);
}

static enum ct_status mvn_reshape(struct ct_layer *l, const struct ct_io *io)
{
    struct mvn *s = l->state;
    const struct ct_blob *x = io->bottom[0];
    int first = ct_mvn_param(l->param)->across_channels ? 1 : 2;

    s->rows = (struct ct_channels){ 1, ct_count(x, 0, first),
                                    ct_count(x, first, CT_END), CT_PLAIN, 0,
                                    CT_F32 };
    CT_TRY(ct_reshape(s->stats, CT_SHAPE(N_STATS, s->rows.c)));
    CT_TRY(ct_reshape(s->sums, CT_SHAPE(ct_channel_scratch(&s->rows))));
    return ct_reshape(io->top[0], x->shape);
}

static float *stat(const struct mvn *s, int row)
{
    return ct_data(s->stats) + row * s->rows.c;
}

static enum ct_status mvn_forward(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__MVNParameter *p = ct_mvn_param(l->param);
    const struct mvn *s = l->state;
    const float *x = ct_data(io->bottom[0]);

    ct_channel_moments(&s->rows, x, ct_data(s->sums), stat(s, MEAN),
                       stat(s, VARIANCE));
    for (int64_t i = 0; i < s->rows.c; i++)
        stat(s, INVERSE)[i] =
            p->normalize_variance
                ? 1 / (sqrtf(stat(s, VARIANCE)[i]) + p->eps)
                : 1;
    ct_channel_map(&s->rows, x, stat(s, MEAN), stat(s, INVERSE), NULL,
                   ct_data(io->top[0]), NULL);
    return CT_OK;
}

static enum ct_status mvn_backward(struct ct_layer *l, const struct ct_io *io)
{
    const bool scaled = ct_mvn_param(l->param)->normalize_variance;
    const struct mvn *s = l->state;
    const float *y = ct_data(io->top[0]), *dy = ct_diff(io->top[0]);
    const struct ct_channel_line line = { stat(s, INVERSE), stat(s, SLOPE),
                                          NULL, stat(s, OFFSET) };

    if (!io->want_grad[0])
        return CT_OK;
    ct_channel_sums(&s->rows, dy, scaled ? y : NULL, NULL, ct_data(s->sums),
                    stat(s, OFFSET), stat(s, SLOPE));
    for (int64_t i = 0; i < s->rows.c; i++) {
        float part = stat(s, INVERSE)[i] / (float)s->rows.inner;

        stat(s, OFFSET)[i] *= -part;
        stat(s, SLOPE)[i] = scaled ? -part * stat(s, SLOPE)[i] : 0;
    }
    ct_channel_join(&s->rows, dy, y, &line, ct_diff(io->bottom[0]));
    return CT_OK;
}

const struct ct_layer_type ct_layer_mvn = {
    .name       = "MVN",
    .bottoms    = CT_EXACTLY(1),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_INPLACE | CT_LAYER_NO_BOTTOM,
    .state_size = sizeof(struct mvn),
    .setup      = mvn_setup,
    .reshape    = mvn_reshape,
    .forward    = { mvn_forward, CT_CUDA_FN(mvn_forward) },
    .backward   = { mvn_backward, CT_CUDA_FN(mvn_backward) },
};
