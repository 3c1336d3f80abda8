/* crop.c - a window of a bottom, as large as another, Caffe type "Crop".
 *
 *     y[i_0, ..., i_n] = x[i_0 + o_0, ..., i_n + o_n]
 *
 * Bottom 0 is x; bottom 1 gives the size of the axes from `axis` on and
 * nothing else.  Axes before stay whole.  `offset` is absent (0), one number
 * for all cropped axes, or one for each.  dx is zero outside the window. */
#include "cortado/layer.h"

#include <inttypes.h>

#include "device/cpu/loop.h"
#include "layers/common.h"
#include "layers/crop.h"
#include "layers/cuda/slots.h"
#include "proto/params.h"

static enum ct_status crop_reshape(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__CropParameter *p = ct_crop_param(l->param);
    const struct ct_shape *x = &io->bottom[0]->shape;
    const struct ct_shape *like = &io->bottom[1]->shape;
    struct ct_shape y = *x;
    struct crop *c = l->state;
    int axis;

    CT_TRY(ct_layer_axis(l, io->bottom[0], p->axis, &axis));
    if (p->n_offset > 1 && p->n_offset != (size_t)(x->n_axes - axis))
        return ct_fail(CT_EINVAL, "layer %s: %d axes are cropped, and there "
                       "are %zu offsets; give one, or one for each", l->name,
                       x->n_axes - axis, p->n_offset);
    if (like->n_axes < x->n_axes)
        return ct_fail(CT_ESHAPE, "layer %s: bottom 1 has %d axes, and bottom "
                       "0 has %d", l->name, like->n_axes, x->n_axes);
    c->n_axes = x->n_axes;
    for (int i = 0; i < x->n_axes; i++) {
        c->offset[i] = 0;
        if (i < axis)
            continue;
        y.dim[i] = like->dim[i];
        if (p->n_offset)
            c->offset[i] = p->offset[p->n_offset == 1 ? 0 : i - axis];
        if (c->offset[i] + y.dim[i] > x->dim[i])
            return ct_fail(CT_ESHAPE, "layer %s: on axis %d, %" PRId64
                           " values from %" PRId64 " on are more than the "
                           "bottom's %" PRId64, l->name, i, y.dim[i],
                           c->offset[i], x->dim[i]);
    }
    return ct_reshape(io->top[0], y);
}

/* Where row r of the top, a line of its last axis, begins in the bottom. */
static int64_t crop_start(const struct crop *c, const struct ct_shape *x,
                          const struct ct_shape *y, int64_t r)
{
    const int last = c->n_axes - 1;
    int64_t at = c->offset[last], step = x->dim[last];

    for (int i = last - 1; i >= 0; i--) {
        at += (r % y->dim[i] + c->offset[i]) * step;
        r /= y->dim[i];
        step *= x->dim[i];
    }
    return at;
}

static enum ct_status crop_forward(struct ct_layer *l, const struct ct_io *io)
{
    const struct crop *c = l->state;
    const struct ct_shape *x = &io->bottom[0]->shape;
    const struct ct_shape *y = &io->top[0]->shape;
    const int64_t width = y->dim[c->n_axes - 1];
    const int64_t rows  = ct_shape_count(y, 0, c->n_axes - 1);
    const float *from = ct_data(io->bottom[0]);
    float *to = ct_data(io->top[0]);

    CT_FOR_ROWS (r, rows, width)
        memcpy(to + r * width, from + crop_start(c, x, y, r),
               (size_t)width * sizeof(*to));
    return CT_OK;
}

static enum ct_status crop_backward(struct ct_layer *l, const struct ct_io *io)
{
    const struct crop *c = l->state;
    const struct ct_shape *x = &io->bottom[0]->shape;
    const struct ct_shape *y = &io->top[0]->shape;
    const int64_t width = y->dim[c->n_axes - 1];
    const int64_t rows  = ct_shape_count(y, 0, c->n_axes - 1);
    const float *from = ct_diff(io->top[0]);
    float *to = ct_diff(io->bottom[0]);

    /* The second bottom gives its shape alone. */
    if (io->want_grad[1])
        CT_TRY(ct_fill(l->dev, io->bottom[1]->count, 0,
                       ct_diff(io->bottom[1])));
    if (!io->want_grad[0])
        return CT_OK;
    CT_TRY(ct_fill(l->dev, io->bottom[0]->count, 0, to));
    CT_FOR_ROWS (r, rows, width)
        memcpy(to + crop_start(c, x, y, r), from + r * width,
               (size_t)width * sizeof(*to));
    return CT_OK;
}

const struct ct_layer_type ct_layer_crop = {
    .name       = "Crop",
    .bottoms    = CT_EXACTLY(2),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_NO_BOTTOM | CT_LAYER_NO_TOP,
    .state_size = sizeof(struct crop),
    .reshape    = crop_reshape,
    .forward    = { crop_forward, CT_CUDA_FN(crop_forward) },
    .backward   = { crop_backward, CT_CUDA_FN(crop_backward) },
};
