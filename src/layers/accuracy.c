/* accuracy.c - the part of predictions that are right, Caffe type "Accuracy".
 *
 *     right[i]  <=>  #{ c != t_i : x[i, c] >= x[i, t_i] } < top_k
 *     y = sum_i right[i] / (number of positions not labelled ignore_label)
 *
 * x: outer x classes x inner around `axis`   t: outer x inner   y: scalar
 * Ties count against the label.  The optional second top holds the same for
 * each class by itself, 0 where a class does not occur.  Not differentiable. */
#include "cortado/layer.h"

#include <inttypes.h>
#include <string.h>

#include "device/cpu/loop.h"
#include "layers/accuracy.h"
#include "layers/cuda/slots.h"
#include "layers/loss.h"
#include "proto/params.h"

static enum ct_status acc_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__AccuracyParameter *p = ct_accuracy_param(l->param);
    struct accuracy *a                = l->state;

    a->top_k               = p->top_k;
    a->labels.ignores      = p->has_ignore_label;
    a->labels.ignore_label = p->ignore_label;
    CT_TRY(ct_layer_add_scratch(l, &a->right));
    return io->n_top > 1 ? ct_layer_add_scratch(l, &a->seen) : CT_OK;
}

static enum ct_status acc_reshape(struct ct_layer *l, const struct ct_io *io)
{
    struct accuracy *a      = l->state;
    const struct ct_blob *x = io->bottom[0];
    int axis;

    if (ct_axis(x, ct_accuracy_param(l->param)->axis, &axis) != CT_OK)
        return ct_fail_in(CT_EINVAL, "layer %s: accuracy_param", l->name);
    a->outer   = ct_count(x, 0, axis);
    a->classes = x->shape.dim[axis];
    a->inner   = ct_count(x, axis + 1, CT_END);
    if (a->outer * a->inner != io->bottom[1]->count)
        return ct_fail(CT_ESHAPE, "layer %s: %" PRId64 " labels for %" PRId64
                       " predictions with classes on axis %d", l->name,
                       io->bottom[1]->count, a->outer * a->inner, axis);
    if (a->top_k > a->classes)
        return ct_fail(CT_EINVAL, "layer %s: top_k is %" PRId64 ", but there "
                       "are %" PRId64 " classes", l->name, a->top_k,
                       a->classes);
    CT_TRY(ct_reshape(io->top[0], CT_SCALAR));
    CT_TRY(ct_reshape(a->right, CT_SHAPE(a->outer * a->inner)));
    if (io->n_top > 1) {
        CT_TRY(ct_reshape(io->top[1], CT_SHAPE(a->classes)));
        CT_TRY(ct_reshape(a->seen, CT_SHAPE(a->classes)));
    }
    return CT_OK;
}

static void acc_per_class(const struct accuracy *a, const float *t, float *y)
{
    const float *right = ct_data(a->right);
    float *seen        = ct_data(a->seen);

    memset(y, 0, (size_t)a->classes * sizeof(*y));
    memset(seen, 0, (size_t)a->classes * sizeof(*seen));
    for (int64_t i = 0; i < a->outer * a->inner; i++)
        if (!ct_loss_ignored(&a->labels, t[i])) {
            y[(int64_t)t[i]] += right[i];
            seen[(int64_t)t[i]] += 1;
        }
    for (int64_t c = 0; c < a->classes; c++)
        y[c] = seen[c] > 0 ? y[c] / seen[c] : 0;
}

static enum ct_status acc_forward(struct ct_layer *l, const struct ct_io *io)
{
    struct accuracy *a = l->state;
    const float *x = ct_data(io->bottom[0]), *t = ct_data(io->bottom[1]);
    float *right = ct_data(a->right);
    int64_t n = a->outer * a->inner, n_valid = 0;
    double sum = 0;

    CT_TRY(ct_loss_check_labels(l, &a->labels, t, n, a->classes, &n_valid));
    CT_FOR_ROWS (i, n, a->classes) {
        const float *of = x + i / a->inner * a->classes * a->inner +
                          i % a->inner;
        int64_t n_better = -1; /* the label's own score is as good as itself */

        right[i] = 0;
        if (ct_loss_ignored(&a->labels, t[i]))
            continue;
        for (int64_t c = 0; c < a->classes; c++)
            n_better += of[c * a->inner] >= of[(int64_t)t[i] * a->inner];
        right[i] = n_better < a->top_k ? 1 : 0;
    }
    for (int64_t i = 0; i < n; i++)
        sum += right[i];
    ct_data(io->top[0])[0] = n_valid ? (float)(sum / (double)n_valid) : 0;
    if (io->n_top > 1)
        acc_per_class(a, t, ct_data(io->top[1]));
    return CT_OK;
}

const struct ct_layer_type ct_layer_accuracy = {
    .name       = "Accuracy",
    .bottoms    = CT_EXACTLY(2),
    .tops       = CT_BETWEEN(1, 2),
    .flags      = CT_LAYER_NO_GRAD,
    .state_size = sizeof(struct accuracy),
    .setup      = acc_setup,
    .reshape    = acc_reshape,
    .forward    = { acc_forward, CT_CUDA_FN(accuracy_forward) },
};
