/* softmax_with_loss.c - multinomial logistic loss of a softmax, Caffe type
 * "SoftmaxWithLoss".
 *
 *     p = softmax(x)          loss = sum_i -log(max(p[i, t_i], FLT_MIN)) / z
 *     dx[i, c] = (p[i, c] - [c = t_i]) w / z
 *
 * x: outer x classes x inner around softmax_param.axis   t: outer x inner
 * z: the normaliser of loss.h, VALID by default   w: top[0]'s loss weight
 * Positions labelled ignore_label add nothing and get no gradient.  The
 * optional second top is p.  Backward OVERWRITES dx; labels get none.
 *
 * With SegNet's weight_by_label_freqs a position's term and gradient are
 * multiplied by class_weighting of its label; z still counts positions.
 * SoftmaxWithLossOHEM is this with a third top, the terms. */
#include "cortado/layer.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "device/cpu/loop.h"
#include "device/softmax_ops.h"
#include "layers/cuda/slots.h"
#include "layers/loss.h"
#include "layers/in_parts.h"
#include "layers/softmax_with_loss.h"
#include "proto/params.h"

/* SegNet's weights of classes. */
static enum ct_status swl_read_weights(struct ct_layer *l,
                                       struct softmax_with_loss *s)
{
    const Caffe__LossParameter *p = ct_loss_param(l->param);

    if (!p->weight_by_label_freqs)
        return CT_OK;
    if (p->n_class_weighting == 0)
        return ct_fail(CT_EINVAL, "layer %s: weight_by_label_freqs needs a "
                       "class_weighting for each class", l->name);
    CT_TRY(ct_layer_add_scratch(l, &s->weights));
    CT_TRY(ct_reshape(s->weights, CT_SHAPE((int64_t)p->n_class_weighting)));
    return l->dev->ops->from_host(
        l->dev, p->n_class_weighting * sizeof(*p->class_weighting),
        p->class_weighting, ct_data(s->weights));
}

enum ct_status softmax_with_loss_setup(struct ct_layer *l,
                                       const struct ct_io *io)
{
    struct softmax_with_loss *s = l->state;

    s->loss = ct_loss_read(
        l, CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__VALID);
    CT_TRY(swl_read_weights(l, s));
    CT_TRY(ct_layer_add_scratch(l, &s->terms));
    return io->n_top > 1 ? CT_OK : ct_layer_add_scratch(l, &s->prob);
}

enum ct_status softmax_with_loss_reshape(struct ct_layer *l,
                                         const struct ct_io *io)
{
    struct softmax_with_loss *s = l->state;
    const struct ct_blob *x     = io->bottom[0];
    int axis;

    CT_TRY(ct_loss_reshape(l, io));
    if (ct_axis(x, ct_softmax_param(l->param)->axis, &axis) != CT_OK)
        return ct_fail_in(CT_EINVAL, "layer %s: softmax_param", l->name);
    s->axis    = axis;
    s->outer   = ct_count(x, 0, axis);
    s->classes = x->shape.dim[axis];
    s->inner   = ct_count(x, axis + 1, CT_END);
    if (s->outer * s->inner != io->bottom[1]->count)
        return ct_fail(CT_ESHAPE, "layer %s: %" PRId64 " labels for %" PRId64
                       " predictions: with classes on axis %d there must be "
                       "one label for each of %" PRId64 " x %" PRId64
                       " positions", l->name, io->bottom[1]->count,
                       s->outer * s->inner, axis, s->outer, s->inner);
    if (s->weights && s->weights->count != s->classes)
        return ct_fail(CT_ESHAPE, "layer %s: %" PRId64 " values of "
                       "class_weighting for %" PRId64 " classes", l->name,
                       s->weights->count, s->classes);
    CT_TRY(ct_softmax_choose(&s->softmax, s->outer, s->classes, s->inner));
    CT_TRY(ct_reshape(s->terms, CT_SHAPE(s->outer * s->inner + 1)));
    if (io->n_top > 2)
        CT_TRY(ct_reshape(io->top[2], io->bottom[1]->shape));
    return ct_reshape(s->prob ? s->prob : io->top[1], x->shape);
}

/* What all terms are divided by; it takes labels alone. */
static enum ct_status swl_begin(struct ct_layer *l, const struct ct_io *io)
{
    struct softmax_with_loss *s = l->state;
    int64_t n_valid             = 0;

    CT_TRY(ct_loss_check_labels(l, &s->loss, ct_data(io->bottom[1]),
                                s->outer * s->inner, s->classes, &n_valid));
    s->normalizer = ct_loss_normalizer(&s->loss, s->outer, s->inner, n_valid);
    return CT_OK;
}

/* Probabilities, and a term for each position. */
static enum ct_status swl_terms(const struct ct_layer *l,
                                const struct ct_io *io, float *terms)
{
    struct softmax_with_loss *s = l->state;
    const float *weights = s->weights ? ct_data(s->weights) : NULL;
    const float *x = ct_data(io->bottom[0]), *t = ct_data(io->bottom[1]);
    float *p        = ct_data(s->prob ? s->prob : io->top[1]);
    const int64_t n = s->outer * s->inner;

    CT_TRY(ct_softmax_forward(&s->softmax, x, p));
    CT_FOR_EACH (i, n) {
        int64_t row = i / s->inner * s->classes;

        terms[i] = 0;
        if (!ct_loss_ignored(&s->loss, t[i])) {
            float of = p[(row + (int64_t)t[i]) * s->inner + i % s->inner];

            /* Written so that a NaN probability stays one. */
            terms[i] = -logf(of < FLT_MIN ? FLT_MIN : of) *
                       (weights ? weights[(int64_t)t[i]] : 1);
        }
    }
    return CT_OK;
}

static enum ct_status swl_end(struct ct_layer *l, const struct ct_io *io)
{
    const struct softmax_with_loss *s = l->state;
    const float *terms                = ct_data(s->terms);
    const int64_t n                   = s->outer * s->inner;
    double sum                        = 0;

    if (io->n_top > 2)
        memcpy(ct_data(io->top[2]), terms, (size_t)n * sizeof(*terms));
    for (int64_t i = 0; i < n; i++)
        sum += terms[i];
    ct_data(io->top[0])[0] = (float)(sum / s->normalizer);
    return CT_OK;
}

enum ct_status softmax_with_loss_forward(struct ct_layer *l,
                                         const struct ct_io *io)
{
    const struct softmax_with_loss *s = l->state;

    CT_TRY(swl_begin(l, io));
    CT_TRY(swl_terms(l, io, ct_data(s->terms)));
    return swl_end(l, io);
}

/* Terms go to where the whole adds them up. */
static enum ct_status swl_part(struct ct_layer *l, const struct ct_io *io,
                               int64_t first)
{
    struct softmax_with_loss *s        = l->state;
    const struct softmax_with_loss *of = l->twin->state;

    const int64_t each =
        s->outer * s->inner / io->bottom[0]->shape.dim[0]; /* an item */

    s->normalizer = of->normalizer;
    return swl_terms(l, io, ct_data(of->terms) + first * each);
}

/* With a top of probabilities somebody reads the whole of it; classes on the
 * first axis leave no items to part. */
const struct ct_parts *softmax_with_loss_parts(const struct ct_layer *l)
{
    static const struct ct_parts parts = { swl_begin, swl_end, swl_part };
    const struct softmax_with_loss *s  = l->state;

    return s->prob && s->axis > 0 && l->dev->kind == CT_CPU ? &parts : NULL;
}

/* The classes of a position by the weight of its label; 0: ignored. */
static void swl_weigh(const struct softmax_with_loss *s, float by, float *dx)
{
    for (int64_t c = 0; c < s->classes; c++)
        dx[c * s->inner] = by == 0 ? 0 : by * dx[c * s->inner];
}

enum ct_status softmax_with_loss_backward(struct ct_layer *l,
                                          const struct ct_io *io)
{
    const struct softmax_with_loss *s = l->state;
    const float *weights = s->weights ? ct_data(s->weights) : NULL;
    const float *p = ct_data(s->prob ? s->prob : io->top[1]);
    const float *t = ct_data(io->bottom[1]);
    const float scale = ct_diff(io->top[0])[0] / s->normalizer;
    const int64_t dim = s->classes * s->inner;
    float *dx = ct_diff(io->bottom[0]);

    if (!io->want_grad[0])
        return CT_OK;
    CT_FOR_ROWS (i, s->outer, dim) {
        const float *row = p + i * dim;
        float *out       = dx + i * dim;

        for (int64_t j = 0; j < dim; j++)
            out[j] = scale * row[j];
        for (int64_t j = 0; j < s->inner; j++) {
            float label = t[i * s->inner + j];

            if (ct_loss_ignored(&s->loss, label)) {
                swl_weigh(s, 0, out + j);
                continue;
            }
            out[(int64_t)label * s->inner + j] -= scale;
            if (weights)
                swl_weigh(s, weights[(int64_t)label], out + j);
        }
    }
    return CT_OK;
}

void softmax_with_loss_teardown(struct ct_layer *l)
{
    struct softmax_with_loss *s = l->state;

    ct_softmax_fini(&s->softmax);
}

const struct ct_layer_type ct_layer_softmax_with_loss = {
    .name       = "SoftmaxWithLoss",
    .bottoms    = CT_EXACTLY(2),
    .tops       = CT_BETWEEN(1, 2),
    .flags      = CT_LAYER_LOSS | CT_LAYER_GRAD_FIRST,
    .state_size = sizeof(struct softmax_with_loss),
    .setup      = softmax_with_loss_setup,
    .reshape    = softmax_with_loss_reshape,
    .forward    = { softmax_with_loss_forward,
                    CT_CUDA_FN(softmax_with_loss_forward) },
    .backward   = { softmax_with_loss_backward,
                    CT_CUDA_FN(softmax_with_loss_backward) },
    .teardown   = softmax_with_loss_teardown,
};
