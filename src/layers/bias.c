/* bias.c - Caffe type "Bias": adds.
 *
 *     y = x + b        dx = dy        db += sum dy
 *
 * x, y: any shape, may be the same blob.  b has the shape of num_axes axes of
 * x from `axis` on (-1: all of them, 0: a scalar) and is repeated over the
 * others.  It is blob 0, filled with 0 by default, or the second bottom, whose
 * gradient is overwritten. */
#include "cortado/layer.h"

#include "layers/bias.h"
#include "layers/common.h"
#include "layers/cuda/slots.h"
#include "layers/repeat.h"
#include "proto/params.h"

static enum ct_status bias_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__BiasParameter *p = ct_bias_param(l->param);
    struct bias *s = l->state;
    struct ct_shape shape;

    if (io->n_bottom == 1) {
        CT_TRY(repeat_shape(l, io->bottom[0], p->axis, p->num_axes, &shape));
        CT_TRY(ct_layer_add_blob(l, shape, p->filler));
    }
    return ct_layer_add_scratch(l, &s->sums);
}

static const struct ct_blob *coefficients(const struct ct_layer *l,
                                          const struct ct_io *io)
{
    return io->n_bottom > 1 ? io->bottom[1] : l->blob[0];
}

static enum ct_status bias_reshape(struct ct_layer *l, const struct ct_io *io)
{
    struct bias *s = l->state;
    const struct ct_blob *x = io->bottom[0], *b = coefficients(l, io);

    CT_TRY(repeat_over(l, x, &b->shape, ct_bias_param(l->param)->axis,
                       &s->repeat));
    CT_TRY(ct_reshape(io->top[0], x->shape));
    if (io->top[0]->data.layout != x->data.layout)
        return ct_fail(CT_ENOTSUP, "layer %s: top and bottom need one layout",
                       l->name);
    if (b->data.layout != CT_PLAIN) {
        if (b->data.layout != x->data.layout ||
            !ct_shape_equal(&b->shape, &x->shape))
            return ct_fail(CT_ENOTSUP, "layer %s: the second bottom must be "
                           "plain", l->name);
        /* Both cover the same memory in the same way. */
        s->repeat.direct = true;
        s->repeat.view =
            (struct ct_channels){ .n = 1, .c = ct_elements(x), .inner = 1 };
    }
    return ct_reshape(s->sums, CT_SHAPE(s->repeat.view.c +
                                        ct_repeat_scratch(&s->repeat)));
}

static enum ct_status bias_forward(struct ct_layer *l, const struct ct_io *io)
{
    const struct bias *s = l->state;

    ct_repeat_map(&s->repeat, ct_data(io->bottom[0]), NULL,
                  ct_data(coefficients(l, io)), ct_data(io->top[0]), NULL);
    return CT_OK;
}

static enum ct_status bias_backward(struct ct_layer *l, const struct ct_io *io)
{
    const struct bias *s = l->state;
    const int64_t n = s->repeat.view.c;
    const float *dy = ct_diff(io->top[0]);
    float *sum = ct_data(s->sums);
    bool wanted = io->n_bottom > 1 ? io->want_grad[1] : l->blob_wants_grad[0];

    if (wanted)
        ct_repeat_backward(&s->repeat, dy, NULL, NULL, sum + n,
                           &(struct ct_repeat_grads){ sum, NULL, NULL });
    if (wanted && io->n_bottom > 1)
        CT_TRY(ct_copy(l->dev, n, sum, ct_diff(io->bottom[1])));
    else if (wanted)
        CT_TRY(ct_axpy(l->dev, n, 1, sum, ct_diff(l->blob[0])));
    if (io->want_grad[0])
        ct_copy_values(io->top[0], dy, ct_diff(io->bottom[0]));
    return CT_OK;
}

/* Blocked: one coefficient a channel, or one a value. */
static bool bias_accepts(const struct ct_layer *l, const struct ct_io *io,
                        enum ct_layout layout)
{
    (void)layout;
    if (io->n_bottom > 1)
        return !ct_layer_shorts(l) &&
               ct_shape_equal(&io->bottom[0]->shape, &io->bottom[1]->shape);
    return ct_bias_param(l->param)->axis == 1 && l->blob[0]->shape.n_axes == 1;
}

const struct ct_layer_type ct_layer_bias = {
    .name       = "Bias",
    .bottoms    = CT_BETWEEN(1, 2),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_INPLACE | CT_LAYER_NO_BOTTOM | CT_LAYER_NO_TOP |
                  CT_LAYER_SAME_LAYOUT | CT_LAYER_BF16,
    .state_size = sizeof(struct bias),
    .setup      = bias_setup,
    .reshape    = bias_reshape,
    .forward    = { bias_forward, CT_CUDA_FN(bias_forward) },
    .backward   = { bias_backward, CT_CUDA_FN(bias_backward) },
    .accepts    = bias_accepts,
};
