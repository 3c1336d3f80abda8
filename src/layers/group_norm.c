/* group_norm.c - each group of an item's channels to mean 0 and variance 1,
 * the forks' type "GroupNorm".
 *
 *     y = (x - mean) v        v = 1 / sqrt(var + eps)
 *     dx = v (dy - mean(dy) - v^2 (x - mean) mean(dy (x - mean)))
 *
 * x, y: n c ..., may be the same blob; means are over the c / group_num
 * channels of a group and all their positions, in one item.  There is no scale
 * and shift: a Scale layer follows.  Backward OVERWRITES dx; it reads x, and in
 * place a copy of it.  Wu and He, "Group normalization", 2018. */
#include "cortado/layer.h"

#include <inttypes.h>
#include <math.h>

#include "layers/common.h"
#include "layers/cuda/slots.h"
#include "layers/group_norm.h"
#include "proto/params.h"

static enum ct_status gn_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__GroupNormParameter *p = ct_group_norm_param(l->param);
    struct group_norm *s               = l->state;

    if (p->group_num < 1 || !(p->eps >= 0))
        return ct_fail(CT_EINVAL, "layer %s: group_num is %d and eps %g, which "
                       "must be at least 1 and 0", l->name, p->group_num,
                       (double)p->eps);
    s->groups = p->group_num;
    s->eps    = p->eps;
    CT_TRY(ct_layer_add_scratch(l, &s->stats));
    CT_TRY(ct_layer_add_scratch(l, &s->sums));
    if (io->bottom[0] == io->top[0])
        CT_TRY(ct_layer_add_scratch(l, &s->kept));
    return CT_OK;
}

static enum ct_status gn_reshape(struct ct_layer *l, const struct ct_io *io)
{
    const struct ct_blob *x = io->bottom[0];
    struct group_norm *s    = l->state;

    if (x->shape.n_axes < 2)
        return ct_fail(CT_ESHAPE, "layer %s: GroupNorm takes a bottom of at "
                       "least 2 axes", l->name);
    if (x->shape.dim[1] % s->groups != 0)
        return ct_fail(CT_ESHAPE, "layer %s: %" PRId64 " channels cannot be "
                       "divided into %" PRId64 " groups: set group_num in "
                       "group_norm_param", l->name, x->shape.dim[1],
                       s->groups);
    s->rows = (struct ct_channels){
        1, x->shape.dim[0] * s->groups,
        x->shape.dim[1] / s->groups * ct_count(x, 2, CT_END), CT_PLAIN, 0,
        CT_F32
    };
    CT_TRY(ct_reshape(s->stats, CT_SHAPE(N_STATS, s->rows.c)));
    CT_TRY(ct_reshape(s->sums, CT_SHAPE(ct_channel_scratch(&s->rows))));
    CT_TRY(ct_layer_keep(l, io, s->kept));
    return ct_layer_same_shape(l, io);
}

static float *stat(const struct group_norm *s, int row)
{
    return ct_data(s->stats) + row * s->rows.c;
}

static enum ct_status gn_forward(struct ct_layer *l, const struct ct_io *io)
{
    const struct group_norm *s = l->state;
    const float *x             = ct_data(io->bottom[0]);

    ct_channel_moments(&s->rows, x, ct_data(s->sums), stat(s, MEAN),
                       stat(s, VARIANCE));
    for (int64_t i = 0; i < s->rows.c; i++)
        stat(s, INVERSE)[i] = 1 / sqrtf(stat(s, VARIANCE)[i] + s->eps);
    ct_channel_map(&s->rows, x, stat(s, MEAN), stat(s, INVERSE), NULL,
                   ct_data(io->top[0]), ct_layer_kept(s->kept));
    return CT_OK;
}

static enum ct_status gn_backward(struct ct_layer *l, const struct ct_io *io)
{
    const struct group_norm *s = l->state;
    const float *kept = ct_layer_kept(s->kept);
    const float *x = kept ? kept : ct_data(io->bottom[0]);
    const float *dy = ct_diff(io->top[0]);
    const struct ct_channel_line line = { stat(s, INVERSE), stat(s, SLOPE),
                                          stat(s, MEAN), stat(s, OFFSET) };

    if (!io->want_grad[0])
        return CT_OK;
    ct_channel_sums(&s->rows, dy, x, stat(s, MEAN), ct_data(s->sums),
                    stat(s, OFFSET), stat(s, SLOPE));
    for (int64_t i = 0; i < s->rows.c; i++) {
        const float v    = stat(s, INVERSE)[i];
        const float part = -v / (float)s->rows.inner;

        stat(s, OFFSET)[i] *= part;
        stat(s, SLOPE)[i] *= part * v * v;
    }
    ct_channel_join(&s->rows, dy, x, &line, ct_diff(io->bottom[0]));
    return CT_OK;
}

const struct ct_layer_type ct_layer_group_norm = {
    .name       = "GroupNorm",
    .bottoms    = CT_EXACTLY(1),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_INPLACE | CT_LAYER_NO_TOP | CT_LAYER_KEEPS,
    .state_size = sizeof(struct group_norm),
    .setup      = gn_setup,
    .reshape    = gn_reshape,
    .forward    = { gn_forward, CT_CUDA_FN(group_norm_forward) },
    .backward   = { gn_backward, CT_CUDA_FN(group_norm_backward) },
};
