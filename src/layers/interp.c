/* interp.c - bilinear resize of images, DeepLab's type "Interp".
 *
 * The corners of the output lie on the corners of the input:
 *
 *     y[h, w] = x at (h (H - 1) / (H' - 1), w (W - 1) / (W' - 1)), bilinear
 *
 * x: N x C x H x W without -pad_beg rows and columns at the beginning and
 * -pad_end at the end   y: N x C x H' x W'
 * The output size is `height` x `width`, or follows from shrink_factor and
 * then zoom_factor:  (H - 1) / shrink + 1,  H + (H - 1)(zoom - 1).
 * Backward OVERWRITES dx with the adjoint. */
#include "cortado/layer.h"

#include <inttypes.h>
#include <string.h>

#include "device/cpu/loop.h"
#include "layers/cuda/slots.h"
#include "layers/interp.h"
#include "proto/params.h"

static enum ct_status ipl_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__InterpParameter *p = ct_interp_param(l->param);
    bool sized                      = p->has_height && p->has_width;
    struct interp *s                = l->state;

    (void)io;
    if (p->has_height != p->has_width ||
        sized == (p->has_zoom_factor || p->has_shrink_factor))
        return ct_fail(CT_EINVAL, "layer %s: interp_param needs height and "
                       "width, or zoom_factor or shrink_factor", l->name);
    if ((sized && (p->height < 1 || p->width < 1)) || p->zoom_factor < 1 ||
        p->shrink_factor < 1)
        return ct_fail(CT_EINVAL, "layer %s: sizes and factors of "
                       "interp_param must be at least 1", l->name);
    if (p->pad_beg > 0 || p->pad_end > 0)
        return ct_fail(CT_EINVAL, "layer %s: pad_beg and pad_end must not be "
                       "above 0: Interp crops, it does not pad", l->name);
    CT_TRY(ct_layer_add_scratch(l, &s->left));
    return ct_layer_add_scratch(l, &s->part);
}

static int64_t ipl_resized(const Caffe__InterpParameter *p, int64_t n)
{
    n = (n - 1) / p->shrink_factor + 1;
    return n + (n - 1) * (p->zoom_factor - 1);
}

/* Where output i of n_out lies among n inputs: after input *at by *part. */
static void ipl_place(int64_t i, int64_t n, int64_t n_out, int64_t *at,
                     float *part)
{
    float step  = n_out > 1 ? (float)(n - 1) / (float)(n_out - 1) : 0;
    float place = step * (float)i;

    *at   = (int64_t)place;
    *part = place - (float)*at;
    if (*at >= n - 1) { /* the last one has no neighbour behind it */
        *at   = n - 1;
        *part = 0;
    }
}

static enum ct_status ipl_reshape(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__InterpParameter *p = ct_interp_param(l->param);
    const struct ct_blob *x         = io->bottom[0];
    struct interp *s                = l->state;

    if (x->shape.n_axes != 4)
        return ct_fail(CT_ESHAPE, "layer %s: Interp takes images, N x C x H x "
                       "W, not %d axes", l->name, x->shape.n_axes);
    s->planes = ct_count(x, 0, 2);
    s->h_in   = x->shape.dim[2];
    s->w_in   = x->shape.dim[3];
    s->crop   = -(int64_t)p->pad_beg;
    s->h      = s->h_in + p->pad_beg + p->pad_end;
    s->w      = s->w_in + p->pad_beg + p->pad_end;
    if (s->h < 1 || s->w < 1)
        return ct_fail(CT_ESHAPE, "layer %s: pad_beg and pad_end leave "
                       "nothing of a %" PRId64 " x %" PRId64 " image", l->name,
                       s->h_in, s->w_in);
    s->h_out = p->has_height ? p->height : ipl_resized(p, s->h);
    s->w_out = p->has_width ? p->width : ipl_resized(p, s->w);
    CT_TRY(ct_reshape(s->left, CT_SHAPE(s->w_out)));
    CT_TRY(ct_reshape(s->part, CT_SHAPE(s->w_out)));
    for (int64_t w = 0; l->dev->kind == CT_CPU && w < s->w_out; w++) {
        int64_t at;

        ipl_place(w, s->w, s->w_out, &at, &ct_data(s->part)[w]);
        ct_data(s->left)[w] = (float)at;
    }
    return ct_reshape(io->top[0], CT_SHAPE(x->shape.dim[0], x->shape.dim[1],
                                           s->h_out, s->w_out));
}

static enum ct_status ipl_forward(struct ct_layer *l, const struct ct_io *io)
{
    const struct interp *s = l->state;
    const float *x = ct_data(io->bottom[0]), *left = ct_data(s->left);
    const float *part = ct_data(s->part);
    float *y = ct_data(io->top[0]);

    CT_FOR_ROWS (row, s->planes * s->h_out, 4 * s->w_out) {
        int64_t at;
        float down;
        const float *a, *b;

        ipl_place(row % s->h_out, s->h, s->h_out, &at, &down);
        a = x + (row / s->h_out * s->h_in + at + s->crop) * s->w_in + s->crop;
        b = down > 0 ? a + s->w_in : a;
        for (int64_t w = 0; w < s->w_out; w++) {
            int64_t i = (int64_t)left[w], j = part[w] > 0 ? i + 1 : i;

            y[row * s->w_out + w] =
                (1 - down) * ((1 - part[w]) * a[i] + part[w] * a[j]) +
                down * ((1 - part[w]) * b[i] + part[w] * b[j]);
        }
    }
    return CT_OK;
}

static void ipl_plane_back(const struct interp *s, const float *dy, float *dx)
{
    const float *left = ct_data(s->left), *part = ct_data(s->part);

    memset(dx, 0, (size_t)(s->h_in * s->w_in) * sizeof(*dx));
    for (int64_t h = 0; h < s->h_out; h++, dy += s->w_out) {
        int64_t at;
        float down, *a, *b;

        ipl_place(h, s->h, s->h_out, &at, &down);
        a = dx + (at + s->crop) * s->w_in + s->crop;
        b = down > 0 ? a + s->w_in : a;
        for (int64_t w = 0; w < s->w_out; w++) {
            int64_t i = (int64_t)left[w], j = part[w] > 0 ? i + 1 : i;

            a[i] += (1 - down) * (1 - part[w]) * dy[w];
            a[j] += (1 - down) * part[w] * dy[w];
            b[i] += down * (1 - part[w]) * dy[w];
            b[j] += down * part[w] * dy[w];
        }
    }
}

static enum ct_status ipl_backward(struct ct_layer *l, const struct ct_io *io)
{
    const struct interp *s = l->state;

    if (io->want_grad[0])
        CT_FOR_ROWS (p, s->planes, 4 * s->h_out * s->w_out)
            ipl_plane_back(s, ct_diff(io->top[0]) + p * s->h_out * s->w_out,
                          ct_diff(io->bottom[0]) + p * s->h_in * s->w_in);
    return CT_OK;
}

const struct ct_layer_type ct_layer_interp = {
    .name       = "Interp",
    .bottoms    = CT_EXACTLY(1),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_NO_BOTTOM | CT_LAYER_NO_TOP,
    .state_size = sizeof(struct interp),
    .setup      = ipl_setup,
    .reshape    = ipl_reshape,
    .forward    = { ipl_forward, CT_CUDA_FN(interp_forward) },
    .backward   = { ipl_backward, CT_CUDA_FN(interp_backward) },
};
