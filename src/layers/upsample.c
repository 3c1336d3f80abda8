/* upsample.c - larger images, type "Upsample" of SegNet and YOLO's forks.
 *
 * One bottom: every value is repeated scale_h x scale_w times.
 * Two bottoms: un-pooling.  Bottom 1 is the mask that a max pooling layer
 * gave; every value goes back to the place it was taken from, the rest is 0.
 *
 * x: N x C x H x W   mask: the same   y: N x C x H' x W'
 * H' = scale_h H, less one with pad_out_h; or upsample_h.  W' likewise.
 * Backward OVERWRITES dx; the mask gets no gradient. */
#include "cortado/layer.h"

#include <inttypes.h>
#include <string.h>

#include "device/cpu/loop.h"
#include "layers/cuda/slots.h"
#include "layers/upsample.h"
#include "proto/params.h"

static enum ct_status up_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__UpsampleParameter *p = ct_upsample_param(l->param);
    struct upsample *u                = l->state;

    (void)io;
    if (p->has_upsample_h != p->has_upsample_w)
        return ct_fail(CT_EINVAL, "layer %s: upsample_h and upsample_w are "
                       "given together", l->name);
    if (p->has_scale_h != p->has_scale_w || (p->has_scale && p->has_scale_h))
        return ct_fail(CT_EINVAL, "layer %s: give `scale`, or scale_h and "
                       "scale_w", l->name);
    u->sized   = p->has_upsample_h;
    u->scale_h = p->has_scale_h ? p->scale_h : p->scale;
    u->scale_w = p->has_scale_w ? p->scale_w : p->scale;
    if (u->sized ? p->upsample_h < 1 || p->upsample_w < 1
                 : u->scale_h < 1 || u->scale_w < 1)
        return ct_fail(CT_EINVAL, "layer %s: sizes and scales of "
                       "upsample_param must be at least 1", l->name);
    if (!u->sized && ((p->pad_out_h && u->scale_h != 2) ||
                      (p->pad_out_w && u->scale_w != 2)))
        return ct_fail(CT_EINVAL, "layer %s: pad_out_h and pad_out_w go with "
                       "a scale of 2; give upsample_h and upsample_w instead",
                       l->name);
    return CT_OK;
}

static enum ct_status up_reshape(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__UpsampleParameter *p = ct_upsample_param(l->param);
    struct upsample *u                = l->state;
    struct ct_shape shape             = io->bottom[0]->shape;

    if (shape.n_axes != 4)
        return ct_fail(CT_ESHAPE, "layer %s: Upsample takes images, N x C x H "
                       "x W, not %d axes", l->name, shape.n_axes);
    if (io->n_bottom > 1 &&
        !ct_shape_equal(&shape, &io->bottom[1]->shape))
        return ct_fail(CT_ESHAPE, "layer %s: the mask must have the shape of "
                       "bottom 0", l->name);
    u->planes = ct_count(io->bottom[0], 0, 2);
    u->h      = shape.dim[2];
    u->w      = shape.dim[3];
    u->h_out  = u->sized ? p->upsample_h : u->h * u->scale_h - p->pad_out_h;
    u->w_out  = u->sized ? p->upsample_w : u->w * u->scale_w - p->pad_out_w;
    if (u->h_out < 0 || u->w_out < 0)
        return ct_fail(CT_ESHAPE, "layer %s: an empty image cannot be padded",
                       l->name);
    shape.dim[2] = u->h_out;
    shape.dim[3] = u->w_out;
    return ct_reshape(io->top[0], shape);
}

/* The input row or column that output i repeats. */
static inline int64_t up_from(const struct upsample *u, int64_t i, int64_t n,
                              int64_t n_out, int64_t scale)
{
    return u->sized ? i * n / n_out : i / scale;
}

static void up_repeat(const struct upsample *u, const float *x, float *y)
{
    CT_FOR_ROWS (row, u->planes * u->h_out, u->w_out) {
        int64_t h = up_from(u, row % u->h_out, u->h, u->h_out, u->scale_h);
        const float *from = x + (row / u->h_out * u->h + h) * u->w;

        for (int64_t w = 0; w < u->w_out; w++)
            y[row * u->w_out + w] =
                from[up_from(u, w, u->w, u->w_out, u->scale_w)];
    }
}

static void up_repeat_back(const struct upsample *u, const float *dy,
                           float *dx)
{
    CT_FOR_ROWS (p, u->planes, u->h_out * u->w_out) {
        float *to = dx + p * u->h * u->w;

        memset(to, 0, (size_t)(u->h * u->w) * sizeof(*to));
        for (int64_t i = 0; i < u->h_out; i++) {
            int64_t h = up_from(u, i, u->h, u->h_out, u->scale_h);

            for (int64_t w = 0; w < u->w_out; w++)
                to[h * u->w + up_from(u, w, u->w, u->w_out, u->scale_w)] +=
                    dy[(p * u->h_out + i) * u->w_out + w];
        }
    }
}

static enum ct_status up_check_mask(const struct ct_layer *l,
                                    const struct ct_blob *mask)
{
    const struct upsample *u = l->state;
    const float limit        = (float)(u->h_out * u->w_out);

    for (int64_t i = 0; i < mask->count; i++)
        if (!(ct_data(mask)[i] >= 0 && ct_data(mask)[i] < limit))
            return ct_fail(CT_EINVAL, "layer %s: mask value %" PRId64 " is %g,"
                           " outside the %" PRId64 " x %" PRId64 " output: "
                           "the scale must be that of the pooling", l->name, i,
                           (double)ct_data(mask)[i], u->h_out, u->w_out);
    return CT_OK;
}

static enum ct_status up_forward(struct ct_layer *l, const struct ct_io *io)
{
    const struct upsample *u = l->state;
    const int64_t n = u->h * u->w, n_out = u->h_out * u->w_out;
    const float *x = ct_data(io->bottom[0]), *mask;
    float *y = ct_data(io->top[0]);

    if (io->n_bottom == 1) {
        up_repeat(u, x, y);
        return CT_OK;
    }
    CT_TRY(up_check_mask(l, io->bottom[1]));
    mask = ct_data(io->bottom[1]);
    CT_FOR_ROWS (p, u->planes, n_out) {
        memset(y + p * n_out, 0, (size_t)n_out * sizeof(*y));
        for (int64_t i = p * n; i < (p + 1) * n; i++)
            y[p * n_out + (int64_t)mask[i]] = x[i];
    }
    return CT_OK;
}

static enum ct_status up_backward(struct ct_layer *l, const struct ct_io *io)
{
    const struct upsample *u = l->state;
    const int64_t n = u->h * u->w, n_out = u->h_out * u->w_out;
    const float *dy = ct_diff(io->top[0]), *mask;
    float *dx = ct_diff(io->bottom[0]);

    if (!io->want_grad[0])
        return CT_OK;
    if (io->n_bottom == 1) {
        up_repeat_back(u, dy, dx);
        return CT_OK;
    }
    mask = ct_data(io->bottom[1]);
    CT_FOR_ROWS (p, u->planes, n_out)
        for (int64_t i = p * n; i < (p + 1) * n; i++)
            dx[i] = dy[p * n_out + (int64_t)mask[i]];
    return CT_OK;
}

const struct ct_layer_type ct_layer_upsample = {
    .name       = "Upsample",
    .bottoms    = CT_BETWEEN(1, 2),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_GRAD_FIRST | CT_LAYER_NO_TOP,
    .stops      = 1 << 1, /* where pooling found its maxima */
    .state_size = sizeof(struct upsample),
    .setup      = up_setup,
    .reshape    = up_reshape,
    .forward    = { up_forward, CT_CUDA_FN(upsample_forward) },
    .backward   = { up_backward, CT_CUDA_FN(upsample_backward) },
};
