/* scale.c - Caffe type "Scale": multiplies, and with bias_term adds.
 *
 *     y = x s + b        dx = dy s     ds += sum dy x     db += sum dy
 *
 * x, y: any shape, may be the same blob.  s has the shape of num_axes axes of
 * x from `axis` on (-1: all of them, 0: a scalar) and is repeated over the
 * others.  It is blob 0, filled with 1 by default, or the second bottom, whose
 * gradient is overwritten; b has the shape of s and is the last blob.
 *
 * In place x is gone when ds needs it: forward keeps a copy, unless nobody
 * asks for ds. */
#include "cortado/layer.h"

#include "layers/common.h"
#include "layers/cuda/slots.h"
#include "layers/repeat.h"
#include "layers/scale.h"
#include "proto/params.h"

static enum ct_status scale_setup(struct ct_layer *l, const struct ct_io *io)
{
    static const Caffe__FillerParameter zero = CAFFE__FILLER_PARAMETER__INIT;
    const Caffe__ScaleParameter *p = ct_scale_param(l->param);
    Caffe__FillerParameter one = zero;
    struct scale *s = l->state;
    struct ct_shape shape = io->bottom[io->n_bottom - 1]->shape;

    one.value = 1;
    if (io->n_bottom == 1) {
        CT_TRY(repeat_shape(l, io->bottom[0], p->axis, p->num_axes, &shape));
        CT_TRY(ct_layer_add_blob(l, shape, p->filler ? p->filler : &one));
    }
    s->bias = -1;
    if (p->bias_term) {
        s->bias = l->n_blob;
        CT_TRY(ct_layer_add_blob(l, shape, p->bias_filler));
    }
    if (io->bottom[0] == io->top[0])
        CT_TRY(ct_layer_add_scratch(l, &s->kept));
    if (l->param->n_param == 0 || l->param->param[0]->lr_mult != 0)
        l->flags |= CT_LAYER_KEEPS;
    return ct_layer_add_scratch(l, &s->sums);
}

static const struct ct_blob *coefficients(const struct ct_layer *l,
                                          const struct ct_io *io)
{
    return io->n_bottom > 1 ? io->bottom[1] : l->blob[0];
}

/* Layouts other than plain: a second bottom that covers all of x may lie as x
 * does; then both are rows of floats. */
static enum ct_status scale_layouts(const struct ct_layer *l,
                                    const struct ct_io *io)
{
    struct scale *s = l->state;
    const struct ct_blob *x = io->bottom[0], *c = coefficients(l, io);

    if (io->top[0]->data.layout != x->data.layout)
        return ct_fail(CT_ENOTSUP, "layer %s: top and bottom need one layout",
                       l->name);
    if (c->data.layout == CT_PLAIN)
        return CT_OK;
    if (c->data.layout != x->data.layout ||
        !ct_shape_equal(&c->shape, &x->shape) || s->bias >= 0)
        return ct_fail(CT_ENOTSUP, "layer %s: the second bottom must be plain",
                       l->name);
    s->repeat.direct = true;
    s->repeat.view   =
        (struct ct_channels){ .n = 1, .c = ct_elements(x), .inner = 1 };
    return CT_OK;
}

static enum ct_status scale_reshape(struct ct_layer *l, const struct ct_io *io)
{
    struct scale *s = l->state;
    const struct ct_blob *x = io->bottom[0], *c = coefficients(l, io);

    CT_TRY(repeat_over(l, x, &c->shape, ct_scale_param(l->param)->axis,
                       &s->repeat));
    if (s->bias >= 0 && l->blob[s->bias]->count != c->count)
        return ct_fail(CT_ESHAPE, "layer %s: the bias no longer fits the "
                       "second bottom", l->name);
    CT_TRY(ct_reshape(io->top[0], x->shape));
    CT_TRY(scale_layouts(l, io));
    CT_TRY(ct_layer_keep(l, io, s->kept));
    return ct_reshape(s->sums, CT_SHAPE(2 * s->repeat.view.c +
                                        ct_repeat_scratch(&s->repeat)));
}

static enum ct_status scale_forward(struct ct_layer *l, const struct ct_io *io)
{
    const struct scale *s = l->state;
    bool keep = io->n_bottom > 1 || l->blob_wants_grad[0];

    ct_repeat_map(&s->repeat, ct_data(io->bottom[0]),
                  ct_data(coefficients(l, io)),
                  s->bias < 0 ? NULL : ct_data(l->blob[s->bias]),
                  ct_data(io->top[0]), keep ? ct_layer_kept(s->kept) : NULL);
    return CT_OK;
}

static enum ct_status scale_backward(struct ct_layer *l,
                                     const struct ct_io *io)
{
    const struct scale *s = l->state;
    const int64_t n = s->repeat.view.c;
    const float *kept = ct_layer_kept(s->kept);
    const float *x    = kept ? kept : ct_data(io->bottom[0]);
    bool of_scale = io->n_bottom > 1 ? io->want_grad[1]
                                     : l->blob_wants_grad[0];
    bool of_bias = s->bias >= 0 && l->blob_wants_grad[s->bias];
    float *sum = ct_data(s->sums), *dot = sum + n;
    const struct ct_repeat_grads out = {
        of_scale || of_bias ? sum : NULL, dot,
        io->want_grad[0] ? ct_diff(io->bottom[0]) : NULL
    };

    ct_repeat_backward(&s->repeat, ct_diff(io->top[0]), of_scale ? x : NULL,
                       ct_data(coefficients(l, io)), dot + n, &out);
    if (of_bias)
        CT_TRY(ct_axpy(l->dev, n, 1, sum, ct_diff(l->blob[s->bias])));
    if (of_scale && io->n_bottom > 1)
        return ct_copy(l->dev, n, dot, ct_diff(io->bottom[1]));
    if (of_scale)
        return ct_axpy(l->dev, n, 1, dot, ct_diff(l->blob[0]));
    return CT_OK;
}

/* Blocked: one coefficient a channel, or one a value. */
static bool scale_accepts(const struct ct_layer *l, const struct ct_io *io,
                          enum ct_layout layout)
{
    const struct scale *s = l->state;

    (void)layout;
    if (io->n_bottom > 1)
        return !ct_layer_shorts(l) && s->bias < 0 &&
               ct_shape_equal(&io->bottom[0]->shape, &io->bottom[1]->shape);
    return ct_scale_param(l->param)->axis == 1 &&
           l->blob[0]->shape.n_axes == 1;
}

const struct ct_layer_type ct_layer_scale = {
    .name       = "Scale",
    .bottoms    = CT_BETWEEN(1, 2),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_INPLACE | CT_LAYER_NO_TOP | CT_LAYER_SAME_LAYOUT |
                  CT_LAYER_COPIES | CT_LAYER_BF16,
    .state_size = sizeof(struct scale),
    .setup      = scale_setup,
    .reshape    = scale_reshape,
    .forward    = { scale_forward, CT_CUDA_FN(scale_forward) },
    .backward   = { scale_backward, CT_CUDA_FN(scale_backward) },
    .accepts    = scale_accepts,
};
