/* im2col.c - every window of the bottom as channels, Caffe type "Im2col".
 *
 *     y[n, (c,k), p] = x[n, c, s p + d k - pad]          zero outside x
 *
 *     x: N x C x in...         y: N x (C taps) x out...
 *
 * taps is the product of the kernel's sizes.  Backward adds up, for each value
 * of x, the gradients of all the windows it stands in. */
#include <inttypes.h>

#include "layers/conv_base.h"
#include "layers/cuda/slots.h"
#include "layers/im2col.h"

static enum ct_status im2col_setup(struct ct_layer *l, const struct ct_io *io)
{
    struct im2col *s = l->state;

    CT_TRY(ct_conv_read_window(l, io->bottom[0], &s->axis, &s->desc));
    s->taps = 1;
    for (int i = 0; i < s->desc.n_spatial; i++)
        if (__builtin_mul_overflow(s->taps, s->desc.kernel[i], &s->taps))
            return ct_fail(CT_EINVAL, "layer %s: kernel_size is too large",
                           l->name);
    return CT_OK;
}

static enum ct_status im2col_reshape(struct ct_layer *l,
                                     const struct ct_io *io)
{
    struct im2col *s         = l->state;
    const struct ct_shape *x = &io->bottom[0]->shape;
    struct ct_shape y        = *x;
    enum ct_status st;

    if (x->n_axes != s->axis + 1 + s->desc.n_spatial)
        return ct_fail(CT_ESHAPE, "layer %s: bottom has %d axes, and had %d "
                       "when the layer was made", l->name, x->n_axes,
                       s->axis + 1 + s->desc.n_spatial);
    s->n = ct_shape_count(x, 0, s->axis);
    for (int i = 0; i < s->desc.n_spatial; i++) {
        s->desc.in[i]          = x->dim[s->axis + 1 + i];
        y.dim[s->axis + 1 + i] = ct_conv_out(&s->desc, i);
        if (y.dim[s->axis + 1 + i] < 1)
            return ct_fail(CT_ESHAPE, "layer %s: the kernel does not fit into "
                           "the %" PRId64 " positions of axis %d with pad "
                           "%" PRId64, l->name, s->desc.in[i],
                           s->axis + 1 + i, s->desc.pad[i]);
    }
    if (__builtin_mul_overflow(x->dim[s->axis], s->taps, &y.dim[s->axis]))
        return ct_fail(CT_ESHAPE, "layer %s: the top is too large", l->name);
    st = ct_reshape(io->top[0], y);
    if (st != CT_OK)
        return ct_fail_in(st, "layer %s", l->name);
    ct_im2col_init(&s->map, &s->desc, x->dim[s->axis]);
    return CT_OK;
}

static enum ct_status im2col_forward(struct ct_layer *l,
                                     const struct ct_io *io)
{
    const struct im2col *s = l->state;
    int64_t x_step = ct_count(io->bottom[0], s->axis, CT_END);
    int64_t y_step = ct_count(io->top[0], s->axis, CT_END);

    for (int64_t i = 0; i < s->n; i++)
        ct_im2col(&s->map, ct_data(io->bottom[0]) + i * x_step,
                  ct_data(io->top[0]) + i * y_step);
    return CT_OK;
}

static enum ct_status im2col_backward(struct ct_layer *l,
                                      const struct ct_io *io)
{
    const struct im2col *s = l->state;
    int64_t x_step = ct_count(io->bottom[0], s->axis, CT_END);
    int64_t y_step = ct_count(io->top[0], s->axis, CT_END);

    for (int64_t i = 0; io->want_grad[0] && i < s->n; i++)
        ct_col2im(&s->map, ct_diff(io->top[0]) + i * y_step,
                  ct_diff(io->bottom[0]) + i * x_step);
    return CT_OK;
}

const struct ct_layer_type ct_layer_im2col = {
    .name       = "Im2col",
    .bottoms    = CT_EXACTLY(1),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_NO_BOTTOM | CT_LAYER_NO_TOP,
    .state_size = sizeof(struct im2col),
    .setup      = im2col_setup,
    .reshape    = im2col_reshape,
    .forward    = { im2col_forward, CT_CUDA_FN(im2col_forward) },
    .backward   = { im2col_backward, CT_CUDA_FN(im2col_backward) },
};
