/* focal_loss.c - cross entropy that turns away from what is easy, the forks'
 * type "FocalLoss".
 *
 * With a label for each position, the softmax's form:
 *
 *     p = softmax(x) at the label    loss = sum -a (1 - p)^g log p / z
 *     dx_c = a (g p (1 - p)^(g-1) log p - (1 - p)^g) ([c = t] - p_c) w / z
 *
 * With a target t, 0 to 1, for each score, the logistic form, p = 1/(1+e^-x):
 *
 *     loss = sum -a t (1 - p)^g log p - (1 - a) (1 - t) p^g log(1 - p), / z
 *     type LINEAR: p = 1 / (1 + e^-(g x' + b)), loss = sum -log p / g with the
 *     same weights, where x' is x for the one and -x for the other term
 *
 * x: outer x classes x inner around softmax_param.axis   a, g, b: alpha,
 * gamma, beta   w: top[0]'s loss weight   z: the normaliser of loss.h, VALID by
 * default, BATCH_SIZE in the logistic form.  What has ignore_label adds
 * nothing.  Backward OVERWRITES dx; labels get none.
 * Lin et al., "Focal loss for dense object detection", 2017. */
#include "layers/focal_loss.h"

#include <inttypes.h>

#include "device/cpu/loop.h"
#include "layers/cuda/slots.h"
#include "proto/params.h"

static enum ct_status focal_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__FocalLossParameter *p = ct_focal_loss_param(l->param);
    struct focal_loss *s               = l->state;

    s->each = io->bottom[0]->count == io->bottom[1]->count;
    s->f    = (struct focal){ p->alpha, p->gamma, p->beta,
                              p->type ==
                                  CAFFE__FOCAL_LOSS_PARAMETER__TYPE__LINEAR };
    s->loss = ct_loss_read(
        l, s->each ? CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__BATCH_SIZE
                   : CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__VALID);
    if (!(p->gamma >= 0) || !(p->alpha >= 0))
        return ct_fail(CT_EINVAL, "layer %s: alpha and gamma are %g and %g, "
                       "and must be at least 0", l->name, (double)p->alpha,
                       (double)p->gamma);
    if (s->f.linear && (!s->each || p->gamma == 0))
        return ct_fail(CT_EINVAL, "layer %s: type LINEAR needs a target for "
                       "each score and a gamma that is not 0", l->name);
    if (!s->each)
        CT_TRY(ct_layer_add_scratch(l, &s->prob));
    CT_TRY(ct_layer_add_scratch(l, &s->z));
    return ct_reshape(s->z, CT_SHAPE(1));
}

static enum ct_status focal_reshape(struct ct_layer *l, const struct ct_io *io)
{
    struct focal_loss *s    = l->state;
    const struct ct_blob *x = io->bottom[0];
    int axis;

    CT_TRY(ct_loss_reshape(l, io));
    if (s->each) {
        if (x->count != io->bottom[1]->count)
            return ct_fail(CT_ESHAPE, "layer %s: %" PRId64 " targets for %"
                           PRId64 " scores", l->name, io->bottom[1]->count,
                           x->count);
        s->outer   = x->shape.dim[0];
        s->classes = 1;
        s->inner   = ct_count(x, 1, CT_END);
        return CT_OK;
    }
    if (ct_axis(x, ct_softmax_param(l->param)->axis, &axis) != CT_OK)
        return ct_fail_in(CT_EINVAL, "layer %s: softmax_param", l->name);
    s->outer   = ct_count(x, 0, axis);
    s->classes = x->shape.dim[axis];
    s->inner   = ct_count(x, axis + 1, CT_END);
    if (s->outer * s->inner != io->bottom[1]->count)
        return ct_fail(CT_ESHAPE, "layer %s: %" PRId64 " labels for %" PRId64
                       " predictions: give one label for each of %" PRId64
                       " x %" PRId64 " positions, or one for each score",
                       l->name, io->bottom[1]->count, s->outer * s->inner,
                       s->outer, s->inner);
    CT_TRY(ct_softmax_choose(&s->softmax, s->outer, s->classes, s->inner));
    return ct_reshape(s->prob, x->shape);
}

static void focal_write(const struct focal_loss *s, const struct ct_io *io,
                        double sum, int64_t n_valid)
{
    const float z =
        ct_loss_normalizer(&s->loss, s->outer, s->inner, n_valid);

    ct_data(s->z)[0]       = z;
    ct_data(io->top[0])[0] = (float)(sum / (double)z);
}

static enum ct_status focal_forward(struct ct_layer *l, const struct ct_io *io)
{
    const struct focal_loss *s = l->state;
    const float *x = ct_data(io->bottom[0]), *t = ct_data(io->bottom[1]);
    const int64_t n = s->outer * s->inner;
    int64_t n_valid = 0;
    double sum      = 0;

    if (!s->each) {
        const float *p = ct_data(s->prob);

        CT_TRY(ct_loss_check_labels(l, &s->loss, t, n, s->classes, &n_valid));
        CT_TRY(ct_softmax_forward(&s->softmax, x, ct_data(s->prob)));
        CT_SUM_EACH (i, n, sum)
            if (!ct_loss_ignored(&s->loss, t[i]))
                sum += (double)focal_term(
                    &s->f, p[(i / s->inner * s->classes + (int64_t)t[i]) *
                                 s->inner + i % s->inner]);
        focal_write(s, io, sum, n_valid);
        return CT_OK;
    }
    for (int64_t i = 0; i < n; i++)
        n_valid += !ct_loss_ignored(&s->loss, t[i]);
    CT_SUM_EACH (i, n, sum) {
        float slope;

        if (!ct_loss_ignored(&s->loss, t[i]))
            sum += (double)focal_score(&s->f, x[i], t[i], &slope);
    }
    focal_write(s, io, sum, n_valid);
    return CT_OK;
}

/* dx of the position i, of all its classes. */
static void focal_position(const struct focal_loss *s, int64_t i, float label,
                           float scale, const float *p, float *dx)
{
    const int64_t first =
        i / s->inner * s->classes * s->inner + i % s->inner;
    const int64_t k = (int64_t)label;
    float slope     = 0;

    if (!ct_loss_ignored(&s->loss, label))
        slope = scale * focal_slope(&s->f, p[first + k * s->inner]);
    for (int64_t c = 0; c < s->classes; c++)
        dx[first + c * s->inner] =
            slope * ((c == k ? 1 : 0) - p[first + c * s->inner]);
}

static enum ct_status focal_backward(struct ct_layer *l,
                                     const struct ct_io *io)
{
    const struct focal_loss *s = l->state;
    const float *x = ct_data(io->bottom[0]), *t = ct_data(io->bottom[1]);
    const float scale = ct_diff(io->top[0])[0] / ct_data(s->z)[0];
    float *dx = ct_diff(io->bottom[0]);

    if (!io->want_grad[0])
        return CT_OK;
    CT_FOR_ROWS (i, s->outer * s->inner, 16 * s->classes) {
        float slope = 0;

        if (!s->each) {
            focal_position(s, i, t[i], scale, ct_data(s->prob), dx);
            continue;
        }
        if (!ct_loss_ignored(&s->loss, t[i]))
            focal_score(&s->f, x[i], t[i], &slope);
        dx[i] = scale * slope;
    }
    return CT_OK;
}

static void focal_teardown(struct ct_layer *l)
{
    struct focal_loss *s = l->state;

    ct_softmax_fini(&s->softmax);
}

const struct ct_layer_type ct_layer_focal_loss = {
    .name       = "FocalLoss",
    .bottoms    = CT_EXACTLY(2),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_LOSS | CT_LAYER_GRAD_FIRST | CT_LAYER_NO_TOP,
    .state_size = sizeof(struct focal_loss),
    .setup      = focal_setup,
    .reshape    = focal_reshape,
    .forward    = { focal_forward, CT_CUDA_FN(focal_loss_forward) },
    .backward   = { focal_backward, CT_CUDA_FN(focal_loss_backward) },
    .teardown   = focal_teardown,
};
