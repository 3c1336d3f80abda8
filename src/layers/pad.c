/* pad.c - a border around blobs, the forks' type "Pad".
 *
 *     y[o] = x[from(o)], or constant_values where from(o) is outside
 *     dx[i] = sum of dy[o] over the o with from(o) = i
 *
 * Two ways to say how wide it is: `pad`, or pad_h and pad_w, on each side of
 * images N x C x H x W; or `paddings`, two numbers for each axis of any blob,
 * before and after it.  `type` fills the border of images:
 *
 *     ZERO         v v | a b c d | v v     v: constant_values, 0 by default
 *     REPLICATE    a a | a b c d | d d
 *     REFLECT      b a | a b c d | d c
 *     REFLECT_101  c b | a b c d | c b
 *
 * Backward OVERWRITES dx. */
#include "layers/pad.h"

#include <inttypes.h>

#include "device/cpu/loop.h"
#include "layers/cuda/slots.h"
#include "proto/params.h"

static enum ct_status pad_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__PadParameter *p = ct_pad_param(l->param);
    struct pad *s                = l->state;

    (void)io;
    s->type  = (enum pad_type)p->type;
    s->value = p->constant_values;
    if (p->n_paddings == 0)
        return CT_OK;
    if (s->type != PAD_ZERO)
        return ct_fail(CT_EINVAL, "layer %s: paddings are filled with "
                       "constant_values: use pad, or pad_h and pad_w, with "
                       "another type", l->name);
    if (p->pad || p->has_pad_h || p->has_pad_w)
        return ct_fail(CT_EINVAL, "layer %s: give paddings, or pad, pad_h and "
                       "pad_w, not both", l->name);
    return CT_OK;
}

static enum ct_status pad_widths(const struct ct_layer *l, struct pad *s,
                                 int64_t *after)
{
    const Caffe__PadParameter *p = ct_pad_param(l->param);

    if (p->n_paddings > 0) {
        if (p->n_paddings != 2 * (size_t)s->n_axes)
            return ct_fail(CT_EINVAL, "layer %s: %zu paddings for %d axes, "
                           "which take two each", l->name, p->n_paddings,
                           s->n_axes);
        for (int a = 0; a < s->n_axes; a++) {
            s->before[a] = p->paddings[2 * a];
            after[a]     = p->paddings[2 * a + 1];
        }
        return CT_OK;
    }
    if (s->n_axes != 4)
        return ct_fail(CT_ESHAPE, "layer %s: the bottom must be images, N x C "
                       "x H x W, not %d axes: give paddings", l->name,
                       s->n_axes);
    s->before[2] = after[2] = p->has_pad_h ? p->pad_h : p->pad;
    s->before[3] = after[3] = p->has_pad_w ? p->pad_w : p->pad;
    return CT_OK;
}

static enum ct_status pad_reshape(struct ct_layer *l, const struct ct_io *io)
{
    const struct ct_shape *x    = &io->bottom[0]->shape;
    struct pad *s               = l->state;
    int64_t after[CT_MAX_AXES] = { 0 };
    struct ct_shape y           = *x;

    s->n_axes = x->n_axes;
    for (int a = 0; a < s->n_axes; a++)
        s->before[a] = 0;
    CT_TRY(pad_widths(l, s, after));
    for (int a = 0; a < s->n_axes; a++) {
        const int64_t most = s->type == PAD_REFLECT_101 ? x->dim[a] - 1
                                                        : x->dim[a];

        if (s->before[a] > (1 << 20) || after[a] > (1 << 20))
            return ct_fail(CT_EINVAL, "layer %s: a border of more than 2^20",
                           l->name);
        if ((s->type == PAD_REFLECT || s->type == PAD_REFLECT_101) &&
            s->before[a] > most)
            return ct_fail(CT_ESHAPE, "layer %s: a border of %" PRId64
                           " cannot reflect axis %d of %" PRId64, l->name,
                           s->before[a], a, x->dim[a]);
        if (s->type == PAD_REPLICATE && s->before[a] > 0 && x->dim[a] == 0)
            return ct_fail(CT_ESHAPE, "layer %s: axis %d has nothing to "
                           "replicate", l->name, a);
        s->n[a]     = x->dim[a];
        s->n_out[a] = y.dim[a] = s->before[a] + x->dim[a] + after[a];
    }
    return ct_reshape(io->top[0], y);
}

static enum ct_status pad_forward(struct ct_layer *l, const struct ct_io *io)
{
    const struct pad *s = l->state;
    const float *x      = ct_data(io->bottom[0]);
    const int64_t row   = s->n_axes > 0 ? s->n_out[s->n_axes - 1] : 1;
    float *y            = ct_data(io->top[0]);

    if (io->top[0]->count == 0)
        return CT_OK;
    CT_FOR_ROWS (r, io->top[0]->count / row, 8 * row)
        for (int64_t o = r * row; o < (r + 1) * row; o++) {
            const int64_t at = pad_source(s, o);

            y[o] = at < 0 ? s->value : x[at];
        }
    return CT_OK;
}

static enum ct_status pad_backward(struct ct_layer *l, const struct ct_io *io)
{
    const struct pad *s = l->state;
    const float *dy     = ct_diff(io->top[0]);
    float *dx           = ct_diff(io->bottom[0]);

    if (io->want_grad[0])
        CT_FOR_ROWS (i, io->bottom[0]->count, 16)
            dx[i] = pad_sum(s, i, dy);
    return CT_OK;
}

const struct ct_layer_type ct_layer_pad = {
    .name       = "Pad",
    .bottoms    = CT_EXACTLY(1),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_NO_BOTTOM | CT_LAYER_NO_TOP,
    .state_size = sizeof(struct pad),
    .setup      = pad_setup,
    .reshape    = pad_reshape,
    .forward    = { pad_forward, CT_CUDA_FN(pad_forward) },
    .backward   = { pad_backward, CT_CUDA_FN(pad_backward) },
};
