/* slice.c - a bottom cut along one axis, Caffe type "Slice".
 *
 *     bottom ... x c x ...  ->  tops ... x c_i x ...      c_0 + c_1 + ... = c
 *
 * Cuts are made before the indices in slice_point, one fewer than there are
 * tops, or into equal parts.  `axis` counts from either end; slice_dim is its
 * old name and takes no negative values.  A single top is passed on. */
#include "cortado/layer.h"

#include <inttypes.h>

#include "layers/common.h"
#include "layers/cuda/slots.h"
#include "layers/slice.h"
#include "proto/params.h"

static enum ct_status slice_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__SliceParameter *p = ct_slice_param(l->param);
    uint32_t last = 0;

    if (p->has_axis && p->has_slice_dim)
        return ct_fail(CT_EINVAL, "layer %s: give axis or slice_dim, not both",
                       l->name);
    if (p->n_slice_point && p->n_slice_point + 1 != (size_t)io->n_top)
        return ct_fail(CT_EINVAL, "layer %s: %d tops take %d slice_point "
                       "values, not %zu", l->name, io->n_top, io->n_top - 1,
                       p->n_slice_point);
    for (size_t i = 0; i < p->n_slice_point; i++) {
        if (p->slice_point[i] <= last)
            return ct_fail(CT_EINVAL, "layer %s: slice_point values must be "
                           "above 0 and rise, and %u follows %u", l->name,
                           p->slice_point[i], last);
        last = p->slice_point[i];
    }
    return CT_OK;
}

/* The width of top i on the axis, whose dimension is c. */
static int64_t slice_width(const Caffe__SliceParameter *p, int i, int n_top,
                           int64_t c)
{
    int64_t from, to;

    if (p->n_slice_point == 0)
        return c / n_top;
    from = i == 0 ? 0 : p->slice_point[i - 1];
    to   = i == n_top - 1 ? c : p->slice_point[i];
    return to - from;
}

static enum ct_status slice_reshape(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__SliceParameter *p = ct_slice_param(l->param);
    struct slice *s = l->state;
    struct ct_shape y = io->bottom[0]->shape;
    int axis = p->axis;
    int64_t c;

    if (p->has_slice_dim)
        axis = p->slice_dim < CT_MAX_AXES ? (int)p->slice_dim : CT_MAX_AXES;
    CT_TRY(ct_layer_axis(l, io->bottom[0], axis, &s->axis));
    c        = y.dim[s->axis];
    s->outer = ct_shape_count(&y, 0, s->axis);
    s->inner = ct_shape_count(&y, s->axis + 1, CT_END);
    if (p->n_slice_point == 0 && c % io->n_top != 0)
        return ct_fail(CT_ESHAPE, "layer %s: %" PRId64 " values on axis %d do "
                       "not divide into %d tops; give slice_point", l->name, c,
                       s->axis, io->n_top);
    if (p->n_slice_point && p->slice_point[p->n_slice_point - 1] > c)
        return ct_fail(CT_ESHAPE, "layer %s: slice_point %u is beyond the "
                       "%" PRId64 " values on axis %d", l->name,
                       p->slice_point[p->n_slice_point - 1], c, s->axis);
    for (int i = 0; i < io->n_top; i++) {
        y.dim[s->axis] = slice_width(p, i, io->n_top, c);
        CT_TRY(ct_reshape(io->top[i], y));
    }
    return CT_OK;
}

static enum ct_status slice_forward(struct ct_layer *l, const struct ct_io *io)
{
    const struct slice *s = l->state;
    const int64_t step = ct_count(io->bottom[0], s->axis, CT_END);
    const float *x = ct_data(io->bottom[0]);

    for (int i = 0; i < io->n_top; i++) {
        int64_t width = io->top[i]->shape.dim[s->axis] * s->inner;

        ct_copy_rows(s->outer, width, x, step, ct_data(io->top[i]), width);
        x += width;
    }
    return CT_OK;
}

static enum ct_status slice_backward(struct ct_layer *l,
                                     const struct ct_io *io)
{
    const struct slice *s = l->state;
    const int64_t step = ct_count(io->bottom[0], s->axis, CT_END);
    float *dx = ct_diff(io->bottom[0]);

    for (int i = 0; i < io->n_top && io->want_grad[0]; i++) {
        int64_t width = io->top[i]->shape.dim[s->axis] * s->inner;

        ct_copy_rows(s->outer, width, ct_diff(io->top[i]), width, dx, step);
        dx += width;
    }
    return CT_OK;
}

const struct ct_layer_type ct_layer_slice = {
    .name       = "Slice",
    .bottoms    = CT_EXACTLY(1),
    .tops       = CT_AT_LEAST(1),
    .flags      = CT_LAYER_NO_BOTTOM | CT_LAYER_NO_TOP,
    .state_size = sizeof(struct slice),
    .setup      = slice_setup,
    .reshape    = slice_reshape,
    .forward    = { slice_forward, CT_CUDA_FN(slice_forward) },
    .backward   = { slice_backward, CT_CUDA_FN(slice_backward) },
};
