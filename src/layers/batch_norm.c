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
 * by the layers behind, it reads a copy that forward keeps.
 *
 * It absorbs a Scale behind it, with one factor s and perhaps one bias b a
 * channel, and a ReLU behind that.  With v = 1 / sqrt(var + eps), z = x - mean
 * and e = dy where y > 0 (everywhere, if there is no ReLU):
 *
 *     y = max(s v z + b, 0)        ds += v sum(e z)     db += sum(e)
 *     dx = s v (e - mean(e) - v^2 z mean(e z))
 *
 * On a GPU it also absorbs a sum with another blob a, the ReLU behind that, and
 * a Split into two behind both: a residual block's end.  Then
 *
 *     y = max(s v z + b + a, 0)    da = e, the sum of all dy where y > 0
 *
 * and forward keeps a bit for each y > 0, so that backward need not read y.
 * Where a is what another BatchNorm makes, with its Scale, that one leaves its
 * map to this one (meet).
 *
 * There a convolution before it may have added up x already (meet), and one
 * behind it may make e and the sums of it (ct_conv_end).
 *
 * Where ranks share their statistics (ct_run.peers) m counts the values of all
 * of them, and every sum above is one over ranks, but those of ds and db. */
#include "cortado/layer.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "cortado/log.h"
#include "device/batch_norm_ops.h"
#include "device/impl.h"
#include "device/norm_gate.h"
#include "device/stage.h"
#include "layers/batch_norm.h"
#include "layers/channels.h"
#include "layers/common.h"
#include "layers/conv_base.h"
#include "layers/cuda/slots.h"
#include "layers/eltwise.h"
#include "layers/merge.h"
#include "proto/params.h"

static float *stat(const struct batch_norm *s, int row)
{
    return ct_data(s->stats) + row * s->channels;
}

/* The CPU takes part in every pass, so a GPU's cannot be recorded. */
static enum ct_status bn_setup_merging(struct ct_layer *l)
{
    struct batch_norm *s = l->state;
    const size_t n       = (size_t)s->channels;

    if (!s->merged)
        CT_TRY(ct_alloc(2 * n + 1, sizeof(*s->merged), "statistics",
                        &s->merged));
    if (l->dev->kind == CT_CPU)
        return CT_OK;
    l->flags |= CT_LAYER_NO_CAPTURE;
    return s->here ? CT_OK
                   : ct_stage_alloc(l->dev, 2 * n * sizeof(float),
                                    "statistics", &s->here);
}

static enum ct_status bn_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__BatchNormParameter *p = ct_batch_norm_param(l->param);
    struct batch_norm *s = l->state;
    const bool sums = l->run->peers && l->run->peers->sum;

    if (io->bottom[0]->shape.n_axes < 1)
        return ct_fail(CT_ESHAPE, "layer %s: the bottom is a scalar", l->name);
    s->channels = channels_of(io->bottom[0]).c;
    s->global   = p->has_use_global_stats ? p->use_global_stats
                                          : l->phase == CAFFE__PHASE__TEST;
    if (!s->global)
        l->flags |= CT_LAYER_CARRIES; /* the running sums */
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
    CT_TRY(ct_layer_add_scratch(l, &s->above));
    if (io->bottom[0] == io->top[0] && !s->global)
        CT_TRY(ct_layer_add_scratch(l, &s->kept));
    if (!s->global)
        l->flags |= CT_LAYER_KEEPS;
    if (!s->global && sums)
        CT_TRY(bn_setup_merging(l));
    return ct_reshape(s->stats, CT_SHAPE(N_STATS, s->channels));
}

/* A byte for 16 bytes of y, where a sum's ReLU was absorbed. */
static enum ct_status bn_reshape_above(const struct batch_norm *s,
                                       const struct ct_blob *y)
{
    const int64_t per = 16 / (int64_t)ct_dtype_bytes(s->view.dtype) *
                        (int64_t)sizeof(float);

    if (s->sum && s->relu && ct_impl_allowed("signs", "bits"))
        return ct_reshape(s->above,
                          CT_SHAPE((ct_elements(y) + per - 1) / per));
    ct_tensor_clear(&s->above->data);
    return CT_OK;
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
    CT_TRY(ct_layer_keep(l, io, s->kept));
    CT_TRY(bn_reshape_above(s, io->bottom[0]));
    s->alone.view     = s->view;
    s->alone.eps      = ct_batch_norm_param(l->param)->eps;
    s->alone.in_place = ct_layer_kept(s->kept) != NULL;
    if (!s->global && s->view.dtype == CT_F32)
        CT_TRY(ct_batch_norm_choose(&s->alone));
    return ct_reshape(s->sums, CT_SHAPE(ct_batch_norm_scratch(&s->alone)));
}

/* The usual layer without guests: the whole array at a time. */
static bool bn_alone(const struct batch_norm *s)
{
    return !s->global && !s->scale && !s->relu && !s->merged &&
           s->view.dtype == CT_F32;
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

/* The same out of the batch. */
static void bn_batch_stats(const struct batch_norm *s,
                           const struct ct_slice *part, const float *x)
{
    ct_channel_moments(&part->view, x + part->at, ct_data(s->sums),
                       stat(s, BATCH_MEAN) + part->first,
                       stat(s, BATCH_VAR) + part->first);
}

enum ct_status batch_norm_merge_moments(const struct ct_layer *l, float *mean,
                                        float *var)
{
    struct batch_norm *s = l->state;

    return ct_merge_moments(l, s->channels, s->merged, &s->m, mean, var);
}

/* The same out of the batches of all ranks. */
static enum ct_status bn_merge_stats(struct ct_layer *l, const float *x)
{
    const struct batch_norm *s = l->state;

    for (int64_t i = 0; i < ct_channel_slices(&s->view); i++) {
        const struct ct_slice part = ct_channel_slice(&s->view, i);

        bn_batch_stats(s, &part, x);
    }
    return batch_norm_merge_moments(l, stat(s, BATCH_MEAN),
                                    stat(s, BATCH_VAR));
}

/* The running sums take in statistics times scale. */
static void bn_run_on(const struct ct_layer *l, const float *batch_mean,
                      const float *batch_var, float scale)
{
    const struct batch_norm *s = l->state;
    const float f = ct_batch_norm_param(l->param)->moving_average_fraction;
    float *mean = ct_data(l->blob[MEAN]), *var = ct_data(l->blob[VARIANCE]);
    float *factor = ct_data(l->blob[FACTOR]);

    for (int64_t c = 0; c < s->channels; c++) {
        mean[c] = f * mean[c] + scale * batch_mean[c];
        var[c]  = f * var[c] + scale * batch_var[c];
    }
    factor[0] = f * factor[0] + 1;
}

/* After a pass: at once, or in canonical training with those of the other
 * micro-batches, which are added up as gradients are. */
static void bn_keep_stats(const struct ct_layer *l)
{
    const struct batch_norm *s = l->state;
    const float unbiased = s->m > 1 ? (float)s->m / (float)(s->m - 1) : 1;
    float *var = stat(s, SLOPE); /* free until the backward pass */

    for (int64_t c = 0; c < s->channels; c++)
        var[c] = unbiased * stat(s, BATCH_VAR)[c];
    if (l->run->share == 0 || l->phase != CAFFE__PHASE__TRAIN) {
        bn_run_on(l, stat(s, BATCH_MEAN), var, 1);
        return;
    }
    for (int64_t c = 0; c < s->channels; c++) {
        ct_diff(l->blob[MEAN])[c] += stat(s, BATCH_MEAN)[c];
        ct_diff(l->blob[VARIANCE])[c] += var[c];
    }
}

/* The same on a GPU. */
static enum ct_status bn_run_on_gpu(const struct ct_layer *l, float scale)
{
    const float f = ct_batch_norm_param(l->param)->moving_average_fraction;
    const struct batch_norm *s = l->state;
    float *one                 = stat(s, SLOPE);

    for (int i = MEAN; i <= VARIANCE; i++)
        CT_TRY(ct_axpby(l->dev, s->channels, scale, ct_diff(l->blob[i]), f,
                        ct_data(l->blob[i])));
    CT_TRY(ct_fill(l->dev, 1, 1, one));
    return ct_axpby(l->dev, 1, 1, one, f, ct_data(l->blob[FACTOR]));
}

static void bn_take_in(struct ct_layer *l, float scale)
{
    const struct batch_norm *s = l->state;

    if (s->global)
        return;
    if (l->dev->kind == CT_CPU)
        bn_run_on(l, ct_diff(l->blob[MEAN]), ct_diff(l->blob[VARIANCE]),
                  scale);
    else if (bn_run_on_gpu(l, scale) != CT_OK)
        CT_WARN("layer %s: its statistics were not kept: %s", l->name,
                ct_last_error());
}

/* The Scale's factors (blob 0) and biases (blob 1); NULL where there are none.
 */
static const struct ct_blob *bn_coefficient(const struct batch_norm *s, int i)
{
    return s->scale && i < s->scale->n_blob ? s->scale->blob[i] : NULL;
}

static const float *bn_bias(const struct batch_norm *s)
{
    const struct ct_blob *bias = bn_coefficient(s, 1);

    return bias ? ct_data(bias) : NULL;
}

static void bn_factors(const struct ct_layer *l, int64_t from, int64_t to)
{
    const Caffe__BatchNormParameter *p = ct_batch_norm_param(l->param);
    const struct batch_norm *s         = l->state;
    const struct ct_blob *factor       = bn_coefficient(s, 0);

    for (int64_t c = from; c < to; c++) {
        const float v = 1 / sqrtf(stat(s, BATCH_VAR)[c] + p->eps);

        stat(s, INVERSE)[c]  = v;
        stat(s, FACTOR_V)[c] = factor ? v * ct_data(factor)[c] : v;
    }
}

/* y of a slice: as it is, or what is left of it above zero. */
static struct ct_channel_gate bn_gate(const struct batch_norm *s,
                                      int64_t from)
{
    const float *bias = bn_bias(s);

    return (struct ct_channel_gate){ stat(s, BATCH_MEAN) + from,
                                     stat(s, FACTOR_V) + from,
                                     bias ? bias + from : NULL };
}

static void bn_forward_slices(const struct ct_layer *l,
                              const struct ct_io *io)
{
    const struct batch_norm *s = l->state;
    const float *x = ct_data(io->bottom[0]);
    float *y = ct_data(io->top[0]), *kept = ct_layer_kept(s->kept);

    for (int64_t i = 0; i < ct_channel_slices(&s->view); i++) {
        const struct ct_slice part = ct_channel_slice(&s->view, i);
        const int64_t from = part.first, to = from + part.view.c;
        const struct ct_channel_gate gate = bn_gate(s, from);

        if (s->global)
            bn_global_stats(l, from, to);
        else if (!s->merged)
            bn_batch_stats(s, &part, x);
        bn_factors(l, from, to);
        if (s->relu)
            ct_gate_map(&part.view, x + part.at, &gate, y + part.at);
        else
            ct_channel_map(&part.view, x + part.at, gate.shift, gate.scale,
                           gate.bias, y + part.at,
                           kept ? kept + part.at : NULL);
    }
}

static enum ct_status bn_forward(struct ct_layer *l, const struct ct_io *io)
{
    struct batch_norm *s = l->state;

    s->m = (double)(s->view.n * s->view.inner);
    if (s->merged)
        CT_TRY(bn_merge_stats(l, ct_data(io->bottom[0])));
    if (bn_alone(s))
        CT_TRY(ct_batch_norm_forward(&s->alone, ct_data(io->bottom[0]),
                                     ct_data(s->sums), stat(s, BATCH_MEAN),
                                     stat(s, BATCH_VAR), ct_data(io->top[0]),
                                     ct_layer_kept(s->kept)));
    else
        bn_forward_slices(l, io);
    if (!s->global)
        bn_keep_stats(l);
    return CT_OK;
}

/* Adds to ds and db what the sums over channels [from, to) say. */
static void bn_backward_scale(const struct batch_norm *s, int64_t from,
                              int64_t to, const float *sum, const float *dot)
{
    const struct ct_layer *scale = s->scale;

    for (int64_t c = from; scale && c < to; c++) {
        if (scale->blob_wants_grad[0])
            ct_diff(scale->blob[0])[c] += stat(s, INVERSE)[c] * dot[c - from];
        if (scale->n_blob > 1 && scale->blob_wants_grad[1])
            ct_diff(scale->blob[1])[c] += sum[c - from];
    }
}

/* The sums over the slice that dx, ds and db need, into OFFSET and SLOPE. */
static void bn_backward_sums(const struct batch_norm *s,
                             const struct ct_slice *part, const float *x,
                             const float *dy)
{
    const int64_t from = part->first;
    const struct ct_channel_gate gate = bn_gate(s, from);
    float *slope = stat(s, SLOPE) + from, *offset = stat(s, OFFSET) + from;

    if (s->relu)
        ct_gate_sums(&part->view, dy + part->at, x + part->at, &gate,
                     ct_data(s->sums), offset, slope);
    else
        ct_channel_sums(&part->view, dy + part->at, x + part->at, gate.shift,
                        ct_data(s->sums), offset, slope);
    bn_backward_scale(s, from, from + part->view.c, offset, slope);
}

enum ct_status batch_norm_merge_sums(const struct ct_layer *l, float *offset,
                                     float *slope)
{
    const struct batch_norm *s = l->state;

    return ct_merge_sums(l, s->channels, s->merged, offset, slope);
}

/* dx of the slice, out of the sums. */
static void bn_backward_join(const struct batch_norm *s,
                             const struct ct_slice *part, const float *x,
                             const float *dy, float *dx)
{
    const float m = (float)s->m;
    const int64_t from = part->first;
    const struct ct_channel_gate gate = bn_gate(s, from);
    const float *v = stat(s, INVERSE) + from;
    float *slope = stat(s, SLOPE) + from, *offset = stat(s, OFFSET) + from;
    const struct ct_channel_line line = { gate.scale, slope, gate.shift,
                                          offset };

    for (int64_t c = 0; c < part->view.c; c++) {
        slope[c]  *= s->global ? 0 : -gate.scale[c] * v[c] * v[c] / m;
        offset[c] *= s->global ? 0 : -gate.scale[c] / m;
    }
    if (s->relu)
        ct_gate_join(&part->view, dy + part->at, x + part->at, &gate, &line,
                     dx + part->at);
    else
        ct_channel_join(&part->view, dy + part->at, x + part->at, &line,
                        dx + part->at);
}

static enum ct_status bn_backward(struct ct_layer *l, const struct ct_io *io)
{
    const struct batch_norm *s = l->state;
    const float *kept = ct_layer_kept(s->kept);
    const float *dy = ct_diff(io->top[0]);
    const float *x = kept ? kept : ct_data(io->bottom[0]);
    float *dx = io->want_grad[0] ? ct_diff(io->bottom[0]) : NULL;

    if (!dx && !s->scale)
        return CT_OK;
    if (bn_alone(s))
        return ct_batch_norm_backward(&s->alone, x, dy, stat(s, BATCH_MEAN),
                                      stat(s, BATCH_VAR), ct_data(s->sums),
                                      dx);
    if (s->global && !s->scale && !s->relu) {
        ct_channel_map(&s->view, dy, NULL, stat(s, INVERSE), NULL, dx, NULL);
        return CT_OK;
    }
    for (int64_t i = 0; i < ct_channel_slices(&s->view); i++) {
        const struct ct_slice part = ct_channel_slice(&s->view, i);

        bn_backward_sums(s, &part, x, dy);
        if (dx && !s->merged)
            bn_backward_join(s, &part, x, dy, dx);
    }
    if (!dx || !s->merged)
        return CT_OK;
    CT_TRY(batch_norm_merge_sums(l, stat(s, OFFSET), stat(s, SLOPE)));
    for (int64_t i = 0; i < ct_channel_slices(&s->view); i++) {
        const struct ct_slice part = ct_channel_slice(&s->view, i);

        bn_backward_join(s, &part, x, dy, dx);
    }
    return CT_OK;
}

/* A Scale with a factor a channel, which is not another blob's values. */
static bool bn_takes_scale(const struct batch_norm *s,
                           const struct ct_layer *next)
{
    return !s->scale && next->param->n_bottom == 1 &&
           ct_scale_param(next->param)->axis == 1 &&
           next->blob[0]->shape.n_axes == 1 &&
           next->blob[0]->count == s->channels;
}

/* The end of a residual block, which on the CPU runs for itself. */
static bool bn_takes_sum(const struct ct_layer *l, const struct ct_layer *next)
{
    const struct batch_norm *s = l->state;

    return l->dev->kind != CT_CPU && !s->sum && !s->global &&
           !l->run->forward_only && ct_layer_is_plain_sum(next);
}

static void bn_alone_again(struct ct_layer *l)
{
    struct batch_norm *s = l->state;

    s->scale = NULL;
    s->sum = s->relu = s->split = false;
    s->thin = 0;
    l->flags |= CT_LAYER_NO_TOP;
}

static bool bn_absorb(struct ct_layer *l, const struct ct_layer *next)
{
    struct batch_norm *s = l->state;

    if (!next) {
        bn_alone_again(l);
        return true;
    }
    if (s->sum && !s->split && strcmp(next->type->name, "Split") == 0) {
        s->split = next->param->n_top == 2;
        return s->split;
    }
    if (s->relu || s->split)
        return false;
    if (!s->sum && strcmp(next->type->name, "Scale") == 0 &&
        bn_takes_scale(s, next))
        s->scale = next;
    else if (bn_takes_sum(l, next))
        s->sum = true;
    else if (strcmp(next->type->name, "ReLU") == 0 &&
             ct_relu_param(next->param)->negative_slope == 0)
        s->relu = true;
    else
        return false;
    l->flags |= CT_LAYER_KEEPS; /* x is more than global statistics need */
    if (s->sum && s->relu) /* which was above 0, y alone tells */
        l->flags &= ~(unsigned)CT_LAYER_NO_TOP;
    return true;
}

/* The other BatchNorm of a sum must be as this one is. */
static bool bn_meet_norm(struct ct_layer *l, struct ct_layer *writer)
{
    struct batch_norm *s = l->state, *other;

    if (s->added) {
        other        = s->added->state;
        other->adder = NULL;
        s->added     = NULL;
    }
    if (!writer || writer->type != &ct_layer_batch_norm ||
        writer->dev != l->dev || !ct_impl_allowed("norms", "one"))
        return false;
    other = writer->state;
    if (!s->sum || other->sum || other->relu || other->global ||
        other->merged || s->merged)
        return false;
    s->added     = writer;
    other->adder = l;
    return true;
}

/* Bottom 1 is that of a sum.  The convolution must write bottom 0 as it is,
 * with nothing absorbed. */
static bool bn_meet(struct ct_layer *l, int i, struct ct_layer *writer,
                    const struct ct_blob *top, bool last)
{
    struct batch_norm *s       = l->state;
    struct ct_conv_layer *conv = writer ? ct_conv_layer_of(writer) : NULL;

    (void)top, (void)last;
    if (i == 1)
        return bn_meet_norm(l, writer);
    if (s->before)
        ct_conv_layer_of(s->before)->moments = false;
    s->before = NULL;
    if (!conv || l->dev->kind == CT_CPU || writer->dev != l->dev ||
        s->global || conv->kind != CT_CONV_PLAIN || conv->sum || conv->relu ||
        ct_fold_any(&conv->fold) || !ct_impl_allowed("moments", "conv"))
        return false;
    conv->moments = true;
    s->before     = writer;
    return true;
}

bool batch_norm_moments(const struct ct_layer *l, const float *x,
                        struct ct_moments *out)
{
    const struct batch_norm *s = l->state;
    const struct ct_conv_layer *conv;

    if (!s->before)
        return false;
    conv = s->before->state;
    return conv->conv[0] && ct_conv_moments(conv->conv[0], x, out);
}

bool batch_norm_splits(const struct ct_layer *l)
{
    const struct batch_norm *s = l->state;

    return l->type == &ct_layer_batch_norm && s->sum && s->relu && s->split &&
           !s->merged;
}

bool batch_norm_end(const struct ct_layer *l, const float *dx,
                    struct ct_conv_end *out)
{
    const struct batch_norm *s = l->state;

    *out       = s->end;
    out->other = s->diff[s->diff[0] == dx ? 1 : 0];
    return batch_norm_splits(l) && s->noted && s->view.layout == CT_NHWC &&
           s->view.dtype == CT_BF16 && out->other && out->e &&
           (s->diff[0] == dx) != (s->diff[1] == dx);
}

void batch_norm_ended(struct ct_layer *l, const struct ct_moments *sums)
{
    struct batch_norm *s = l->state;

    s->ended = *sums;
}

bool batch_norm_reader(struct ct_layer *l, const int64_t *stride)
{
    struct batch_norm *s = l->state;

    if (s->thin > 0 &&
        memcmp(s->stride, stride, sizeof(s->stride)) != 0)
        return false;
    memcpy(s->stride, stride, sizeof(s->stride));
    s->thin++;
    return true;
}

bool batch_norm_takes_thin(const struct ct_layer *l)
{
    const struct batch_norm *s = l->state;

    return batch_norm_splits(l) && s->thin == 2 && s->view.layout == CT_NHWC;
}

void batch_norm_thinned(struct ct_layer *l, const int64_t *in)
{
    struct batch_norm *s = l->state;

    memcpy(s->in, in, sizeof(s->in));
    s->thinned++;
}

static void bn_teardown(struct ct_layer *l)
{
    struct batch_norm *s = l->state;

    ct_batch_norm_fini(&s->alone);
    ct_free(s->merged);
    ct_stage_free(l->dev, s->here);
}

const struct ct_layer_type ct_layer_batch_norm = {
    .name       = "BatchNorm",
    .bottoms    = CT_EXACTLY(1),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_INPLACE | CT_LAYER_NO_TOP | CT_LAYER_SAME_LAYOUT |
                  CT_LAYER_LEAVES_DIFF | CT_LAYER_COPIES | CT_LAYER_BF16,
    .statistics = 1 << MEAN | 1 << VARIANCE | 1 << FACTOR,
    .state_size = sizeof(struct batch_norm),
    .setup      = bn_setup,
    .reshape    = bn_reshape,
    .forward    = { bn_forward, CT_CUDA_FN(batch_norm_forward) },
    .backward   = { bn_backward, CT_CUDA_FN(batch_norm_backward) },
    .absorb     = bn_absorb,
    .meet       = bn_meet,
    .take_in    = bn_take_in,
    .teardown   = bn_teardown,
};
