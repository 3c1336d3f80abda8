/* bn.c - batch normalisation with scale and shift, SegNet's and PSPNet's type
 * "BN".
 *
 *     y = s (x - mean) v + b        v = 1 / sqrt(var + eps)
 *     ds += sum(dy (x - mean)) v    db += sum(dy)
 *     dx = s v (dy - mean(dy) - v^2 (x - mean) mean(dy (x - mean)))
 *
 * x, y: n c ..., may be the same blob; mean and var are per channel, over a
 * batch.  Where they are not of the batch, dx = s v dy.  Backward OVERWRITES
 * dx; in place it reads a copy of x that forward keeps.
 *
 * Three dialects have the type; a layer's fields tell which it speaks.
 *
 *     SegNet           scale_filler, shift_filler, bn_mode.  Blobs s, b.  LEARN
 *                      takes the batch's statistics in TEST too; top 1 and top
 *                      2 are these.  INFERENCE: y = s x + b.  eps is 1e-9.
 *     PSPNet           slope_filler, bias_filler, momentum, eps, frozen; or no
 *                      field.  Blobs s, b, mean, variance.  In TRAIN
 *                          blob = momentum blob + (1 - momentum) batch
 *                      in TEST and with `frozen` these are used, and with
 *                      `frozen` s and b are not learned.
 *     an older PSPNet  var_eps, moving_average, decay, axis.  Blobs as above;
 *                          blob = (1 - decay) blob + decay batch
 *                      and TEST uses them with moving_average, else the batch.
 *
 * Where ranks share their statistics (ct_run.peers) all sums are over ranks,
 * but those of ds and db.  Else each has its own, and running statistics are
 * averaged when a test or a snapshot needs them. */
#include "layers/bn.h"

#include <inttypes.h>
#include <math.h>

#include "base/mem.h"
#include "cortado/log.h"
#include "device/stage.h"
#include "layers/common.h"
#include "layers/cuda/slots.h"
#include "layers/merge.h"
#include "proto/params.h"

static float *stat(const struct bn *s, int row)
{
    return ct_data(s->stats) + row * s->channels;
}

enum dialect { SEGNET, PSPNET, OLD_PSPNET, MIXED };

static enum dialect bn_dialect(const Caffe__BNParameter *p)
{
    const bool psp = p->slope_filler || p->bias_filler || p->has_momentum ||
                     p->has_eps || p->has_frozen;
    const bool old = p->has_var_eps || p->has_moving_average || p->has_decay ||
                     p->has_axis;
    const bool seg = p->scale_filler || p->shift_filler || p->has_bn_mode;

    if ((psp && seg) || (p->has_bn_mode && old) || (psp && old))
        return MIXED;
    return psp || !(old || seg) ? PSPNET : old ? OLD_PSPNET : SEGNET;
}

static void bn_read(struct ct_layer *l, struct bn *s, enum dialect dialect)
{
    const Caffe__BNParameter *p = ct_bn_param(l->param);
    const bool train            = l->phase == CAFFE__PHASE__TRAIN;

    s->axis = 1;
    if (dialect == SEGNET) {
        s->source = p->bn_mode == CAFFE__BNPARAMETER__BNMODE__INFERENCE
                        ? BN_NONE
                        : BN_BATCH;
        s->eps = 1e-9f;
    } else if (dialect == PSPNET) {
        s->source = train && !p->frozen ? BN_BATCH : BN_RUNNING;
        s->keeps  = p->momentum;
        s->eps    = p->eps;
    } else {
        s->source = train || !p->moving_average ? BN_BATCH : BN_RUNNING;
        s->keeps  = 1 - p->decay;
        s->eps    = p->var_eps;
        s->axis   = p->axis;
    }
    s->runs = train && s->source == BN_BATCH && dialect != SEGNET;
    if (s->runs)
        l->flags |= CT_LAYER_CARRIES;
}

static enum ct_status bn_add_blobs(struct ct_layer *l, const struct bn *s,
                                   enum dialect dialect)
{
    const Caffe__BNParameter *p = ct_bn_param(l->param);
    Caffe__FillerParameter one  = CAFFE__FILLER_PARAMETER__INIT;
    const int64_t c             = s->channels;
    const struct ct_shape shape =
        s->axis == 2 ? CT_SHAPE(1, 1, c, 1) : CT_SHAPE(1, c, 1, 1);
    const bool frozen = dialect == PSPNET && p->frozen;

    one.value = 1;
    CT_TRY(ct_layer_add_blob(l, shape, dialect == PSPNET ? p->slope_filler
                                                         : p->scale_filler));
    CT_TRY(ct_layer_add_blob(l, shape, dialect == PSPNET ? p->bias_filler
                                                         : p->shift_filler));
    if (dialect != SEGNET) {
        CT_TRY(ct_layer_add_blob(l, shape, NULL));
        CT_TRY(ct_layer_add_blob(l, shape, frozen ? &one : NULL));
    }
    for (int i = 0; i < l->n_blob; i++)
        if (i >= RUNNING_MEAN || frozen)
            l->blob_wants_grad[i] = false;
    return CT_OK;
}

/* The CPU takes part in every pass, so a GPU's cannot be recorded. */
static enum ct_status bn_setup_merging(struct ct_layer *l)
{
    struct bn *s   = l->state;
    const size_t n = (size_t)s->channels;

    if (s->source != BN_BATCH || !l->run->peers || !l->run->peers->sum ||
        s->merged)
        return CT_OK;
    CT_TRY(ct_alloc(2 * n + 1, sizeof(*s->merged), "statistics", &s->merged));
    if (l->dev->kind == CT_CPU)
        return CT_OK;
    l->flags |= CT_LAYER_NO_CAPTURE;
    return ct_stage_alloc(l->dev, 2 * n * sizeof(float), "statistics",
                          &s->here);
}

static enum ct_status bn_setup(struct ct_layer *l, const struct ct_io *io)
{
    const enum dialect dialect = bn_dialect(ct_bn_param(l->param));
    struct bn *s               = l->state;

    if (dialect == MIXED)
        return ct_fail(CT_EINVAL, "layer %s: bn_param mixes fields of SegNet "
                       "(scale_filler, shift_filler, bn_mode), of PSPNet "
                       "(slope_filler, bias_filler, momentum, eps, frozen) and "
                       "of an older PSPNet (var_eps, moving_average, decay, "
                       "axis)", l->name);
    bn_read(l, s, dialect);
    if (s->axis < 1 || s->axis > 2 || io->bottom[0]->shape.n_axes <= s->axis)
        return ct_fail(CT_ESHAPE, "layer %s: BN takes a bottom with channels "
                       "on axis 1 or 2", l->name);
    if (io->n_top > 1 && (dialect != SEGNET || s->source == BN_NONE))
        return ct_fail(CT_EINVAL, "layer %s: only SegNet's LEARN mode has "
                       "tops for mean and variance", l->name);
    s->channels = io->bottom[0]->shape.dim[s->axis];
    CT_TRY(bn_add_blobs(l, s, dialect));
    CT_TRY(ct_layer_add_scratch(l, &s->stats));
    CT_TRY(ct_layer_add_scratch(l, &s->sums));
    if (io->bottom[0] == io->top[0])
        CT_TRY(ct_layer_add_scratch(l, &s->kept));
    CT_TRY(bn_setup_merging(l));
    return ct_reshape(s->stats, CT_SHAPE(N_STATS, s->channels));
}

static enum ct_status bn_reshape(struct ct_layer *l, const struct ct_io *io)
{
    const struct ct_blob *x = io->bottom[0];
    struct bn *s            = l->state;

    if (x->shape.n_axes <= s->axis || x->shape.dim[s->axis] != s->channels)
        return ct_fail(CT_ESHAPE, "layer %s: the bottom must have %" PRId64
                       " channels, as the blobs have", l->name, s->channels);
    s->view = (struct ct_channels){ ct_count(x, 0, s->axis), s->channels,
                                    ct_count(x, s->axis + 1, CT_END),
                                    CT_PLAIN, 0, CT_F32 };
    for (int i = 1; i < io->n_top; i++)
        CT_TRY(ct_reshape(io->top[i], CT_SHAPE(1, s->channels, 1, 1)));
    CT_TRY(ct_layer_keep(l, io, s->kept));
    CT_TRY(ct_reshape(s->sums, CT_SHAPE(ct_channel_scratch(&s->view))));
    return ct_layer_same_shape(l, io);
}

/* The running statistics take in statistics times scale. */
static void bn_run_on(const struct ct_layer *l, const float *mean,
                      const float *var, float scale)
{
    const struct bn *s = l->state;
    const float take   = scale * (1 - s->keeps);
    float *running     = ct_data(l->blob[RUNNING_MEAN]);
    float *spread      = ct_data(l->blob[RUNNING_VAR]);

    for (int64_t c = 0; c < s->channels; c++) {
        running[c] = s->keeps * running[c] + take * mean[c];
        spread[c]  = s->keeps * spread[c] + take * var[c];
    }
}

/* At once, or in canonical training with those of the other micro-batches. */
static void bn_keep_stats(const struct ct_layer *l)
{
    const struct bn *s = l->state;

    if (l->run->share == 0) {
        bn_run_on(l, stat(s, MEAN), stat(s, VARIANCE), 1);
        return;
    }
    for (int64_t c = 0; c < s->channels; c++) {
        ct_diff(l->blob[RUNNING_MEAN])[c] += stat(s, MEAN)[c];
        ct_diff(l->blob[RUNNING_VAR])[c] += stat(s, VARIANCE)[c];
    }
}

static void bn_take_in(struct ct_layer *l, float scale)
{
    const struct bn *s = l->state;
    enum ct_status st  = CT_OK;

    if (!s->runs)
        return;
    if (l->dev->kind == CT_CPU) {
        bn_run_on(l, ct_diff(l->blob[RUNNING_MEAN]),
                  ct_diff(l->blob[RUNNING_VAR]), scale);
        return;
    }
    for (int i = RUNNING_MEAN; i <= RUNNING_VAR && st == CT_OK; i++)
        st = ct_axpby(l->dev, s->channels, scale * (1 - s->keeps),
                      ct_diff(l->blob[i]), s->keeps, ct_data(l->blob[i]));
    if (st != CT_OK)
        CT_WARN("layer %s: its statistics were not kept: %s", l->name,
                ct_last_error());
}

/* Mean and variance of this pass. */
static enum ct_status bn_stats(struct ct_layer *l, const float *x)
{
    struct bn *s = l->state;

    s->m = (double)(s->view.n * s->view.inner);
    if (s->source == BN_BATCH) {
        ct_channel_moments(&s->view, x, ct_data(s->sums), stat(s, MEAN),
                           stat(s, VARIANCE));
        if (s->merged)
            return ct_merge_moments(l, s->channels, s->merged, &s->m,
                                    stat(s, MEAN), stat(s, VARIANCE));
        return CT_OK;
    }
    for (int64_t c = 0; c < s->channels; c++) {
        const bool none = s->source == BN_NONE;

        stat(s, MEAN)[c] = none ? 0 : ct_data(l->blob[RUNNING_MEAN])[c];
        stat(s, VARIANCE)[c] =
            none ? 1 - s->eps : ct_data(l->blob[RUNNING_VAR])[c];
    }
    return CT_OK;
}

static enum ct_status bn_forward(struct ct_layer *l, const struct ct_io *io)
{
    const struct bn *s   = l->state;
    const float *x       = ct_data(io->bottom[0]);
    const size_t c_bytes = (size_t)s->channels * sizeof(float);

    CT_TRY(bn_stats(l, x));
    if (s->runs)
        bn_keep_stats(l);
    for (int64_t c = 0; c < s->channels; c++) {
        const float v = s->source == BN_NONE
                            ? 1
                            : 1 / sqrtf(stat(s, VARIANCE)[c] + s->eps);

        stat(s, INVERSE)[c] = v;
        stat(s, FACTOR)[c]  = v * ct_data(l->blob[SCALE])[c];
    }
    if (io->n_top > 1)
        memcpy(ct_data(io->top[1]), stat(s, MEAN), c_bytes);
    if (io->n_top > 2)
        memcpy(ct_data(io->top[2]), stat(s, VARIANCE), c_bytes);
    ct_channel_map(&s->view, x, stat(s, MEAN), stat(s, FACTOR),
                   ct_data(l->blob[SHIFT]), ct_data(io->top[0]),
                   ct_layer_kept(s->kept));
    return CT_OK;
}

static enum ct_status bn_backward(struct ct_layer *l, const struct ct_io *io)
{
    const struct bn *s = l->state;
    const float *kept  = ct_layer_kept(s->kept);
    const float *x     = kept ? kept : ct_data(io->bottom[0]);
    const float *dy    = ct_diff(io->top[0]);
    const struct ct_channel_line line = { stat(s, FACTOR), stat(s, SLOPE),
                                          stat(s, MEAN), stat(s, OFFSET) };
    const float of = s->source == BN_BATCH ? -1 / (float)s->m : 0;

    ct_channel_sums(&s->view, dy, x, stat(s, MEAN), ct_data(s->sums),
                    stat(s, OFFSET), stat(s, SLOPE));
    for (int64_t c = 0; c < s->channels; c++) {
        if (l->blob_wants_grad[SCALE])
            ct_diff(l->blob[SCALE])[c] +=
                stat(s, INVERSE)[c] * stat(s, SLOPE)[c];
        if (l->blob_wants_grad[SHIFT])
            ct_diff(l->blob[SHIFT])[c] += stat(s, OFFSET)[c];
    }
    if (s->merged)
        CT_TRY(ct_merge_sums(l, s->channels, s->merged, stat(s, OFFSET),
                             stat(s, SLOPE)));
    if (!io->want_grad[0])
        return CT_OK;
    for (int64_t c = 0; c < s->channels; c++) {
        const float v = stat(s, INVERSE)[c], f = of * stat(s, FACTOR)[c];

        stat(s, OFFSET)[c] *= f;
        stat(s, SLOPE)[c] *= f * v * v;
    }
    ct_channel_join(&s->view, dy, x, &line, ct_diff(io->bottom[0]));
    return CT_OK;
}

static void bn_teardown(struct ct_layer *l)
{
    struct bn *s = l->state;

    ct_free(s->merged);
    ct_stage_free(l->dev, s->here);
}

const struct ct_layer_type ct_layer_bn = {
    .name       = "BN",
    .bottoms    = CT_EXACTLY(1),
    .tops       = CT_BETWEEN(1, 3),
    .flags      = CT_LAYER_INPLACE | CT_LAYER_NO_TOP | CT_LAYER_KEEPS,
    .statistics = 1 << RUNNING_MEAN | 1 << RUNNING_VAR,
    .state_size = sizeof(struct bn),
    .setup      = bn_setup,
    .reshape    = bn_reshape,
    .forward    = { bn_forward, CT_CUDA_FN(bn_forward) },
    .backward   = { bn_backward, CT_CUDA_FN(bn_backward) },
    .take_in    = bn_take_in,
    .teardown   = bn_teardown,
};
