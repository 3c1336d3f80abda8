/* argmax.c - where the largest values are, Caffe type "ArgMax".
 *
 * With `axis`: the top_k best along that axis, whose dimension becomes top_k;
 * their indices, or with out_max_val their values instead.
 * Without: the top_k best of each item of the batch; top n x 1 x top_k of
 * indices, or with out_max_val n x 2 x top_k of indices and then values, with
 * axes of one behind until it has as many axes as the bottom.
 *
 * Best first; among equal values the highest index comes first, as in Caffe.
 * There is no gradient. */
#include "cortado/layer.h"

#include <inttypes.h>

#include "device/cpu/loop.h"
#include "layers/argmax.h"
#include "layers/common.h"
#include "layers/cuda/slots.h"
#include "proto/params.h"

static enum ct_status argmax_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__ArgMaxParameter *p = ct_argmax_param(l->param);
    struct argmax *a = l->state;

    (void)io;
    a->k = p->top_k;
    if (a->k < 1)
        return ct_fail(CT_EINVAL, "layer %s: top_k is 0, and must be at least "
                       "1", l->name);
    return ct_layer_add_scratch(l, &a->best);
}

static enum ct_status argmax_reshape(struct ct_layer *l,
                                     const struct ct_io *io)
{
    const Caffe__ArgMaxParameter *p = ct_argmax_param(l->param);
    const struct ct_blob *x = io->bottom[0];
    struct argmax *a = l->state;
    struct ct_shape y = x->shape;
    int axis = 0;

    CT_TRY(ct_layer_axis(l, x, p->has_axis ? p->axis : 0, &axis));
    a->outer = ct_count(x, 0, p->has_axis ? axis : 1);
    a->dim   = p->has_axis ? x->shape.dim[axis] : ct_count(x, 1, CT_END);
    a->inner = p->has_axis ? ct_count(x, axis + 1, CT_END) : 1;
    if (a->k > a->dim)
        return ct_fail(CT_EINVAL, "layer %s: top_k is %" PRId64 ", and there "
                       "are %" PRId64 " values to choose from", l->name, a->k,
                       a->dim);
    if (p->has_axis) {
        y.dim[axis] = a->k;
    } else {
        y.n_axes = y.n_axes > 3 ? y.n_axes : 3;
        for (int i = 1; i < y.n_axes; i++)
            y.dim[i] = 1;
        y.dim[1] = p->out_max_val ? 2 : 1;
        y.dim[2] = a->k;
    }
    CT_TRY(ct_reshape(a->best, CT_SHAPE(a->outer * a->inner * a->k)));
    return ct_reshape(io->top[0], y);
}

/* The indices of the k largest of x[0], x[step], ..., best first. */
static void argmax_line(const float *x, int64_t dim, int64_t step, int64_t k,
                        int32_t *best)
{
    int64_t n = 0;

    for (int64_t i = 0; i < dim; i++) {
        const float v = x[i * step];
        int64_t at    = n < k ? n : k - 1;

        if (n == k && !(v >= x[best[k - 1] * step]))
            continue;
        for (; at > 0 && v >= x[best[at - 1] * step]; at--)
            best[at] = best[at - 1];
        best[at] = (int32_t)i;
        n += n < k;
    }
}

static enum ct_status argmax_forward(struct ct_layer *l,
                                     const struct ct_io *io)
{
    const Caffe__ArgMaxParameter *p = ct_argmax_param(l->param);
    const struct argmax *a = l->state;
    const int64_t k = a->k, dim = a->dim, inner = a->inner;
    const bool both = p->out_max_val && !p->has_axis;
    const bool only = p->out_max_val && p->has_axis;
    const float *x = ct_data(io->bottom[0]);
    float *y = ct_data(io->top[0]);
    int32_t *best = (int32_t *)ct_data(a->best);

    CT_FOR_ROWS (r, a->outer * inner, dim) {
        const float *line = x + r / inner * dim * inner + r % inner;
        float *to = y + r / inner * inner * k * (both ? 2 : 1) + r % inner;
        int32_t *b = best + r * k;

        argmax_line(line, dim, inner, k, b);
        for (int64_t j = 0; j < k; j++)
            to[j * inner] = only ? line[b[j] * inner] : (float)b[j];
        for (int64_t j = 0; both && j < k; j++)
            to[k + j] = line[b[j]];
    }
    return CT_OK;
}

const struct ct_layer_type ct_layer_argmax = {
    .name       = "ArgMax",
    .bottoms    = CT_EXACTLY(1),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_NO_BOTTOM | CT_LAYER_NO_TOP | CT_LAYER_NO_GRAD,
    .state_size = sizeof(struct argmax),
    .setup      = argmax_setup,
    .reshape    = argmax_reshape,
    .forward    = { argmax_forward, CT_CUDA_FN(argmax_forward) },
};
