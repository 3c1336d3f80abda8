/* roi_pooling.c - max pooling of regions to a fixed size, Fast R-CNN's type
 * "ROIPooling".
 *
 * x: N x C x H x W   rois: R x 5 (image, x1, y1, x2, y2)
 * y: R x C x pooled_h x pooled_w
 *
 * A region's corners are scaled by spatial_scale and rounded; both belong to
 * it.  Its height divides into pooled_h bins from floor(i h / pooled_h) to
 * ceil((i + 1) h / pooled_h), which may overlap; a bin outside the image is 0.
 * Backward OVERWRITES dx; regions get no gradient. */
#include "cortado/layer.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "device/cpu/loop.h"
#include "layers/cuda/slots.h"
#include "layers/roi_pooling.h"
#include "layers/rois.h"
#include "proto/params.h"


struct roi {
    int64_t image, x, y, height, width;
};

static enum ct_status roi_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__ROIPoolingParameter *p = ct_roi_pooling_param(l->param);
    struct roi_pooling *s               = l->state;

    (void)io;
    s->ph    = p->pooled_h;
    s->pw    = p->pooled_w;
    s->scale = p->spatial_scale;
    if (s->ph == 0 || s->pw == 0)
        return ct_fail(CT_EINVAL, "layer %s: roi_pooling_param needs pooled_h "
                       "and pooled_w", l->name);
    return ct_layer_add_scratch(l, &s->argmax);
}

static enum ct_status roi_reshape(struct ct_layer *l, const struct ct_io *io)
{
    const struct ct_shape *x = &io->bottom[0]->shape;
    struct roi_pooling *s    = l->state;
    struct ct_shape y;

    CT_TRY(ct_rois_check(l, io));
    s->n    = x->dim[0];
    s->c    = x->dim[1];
    s->h    = x->dim[2];
    s->w    = x->dim[3];
    s->rois = io->bottom[1]->shape.dim[0];
    y       = CT_SHAPE(s->rois, s->c, s->ph, s->pw);
    CT_TRY(ct_reshape(s->argmax, y));
    return ct_reshape(io->top[0], y);
}

static struct roi roi_read(const struct roi_pooling *s, const float *v)
{
    int64_t x1 = (int64_t)roundf(v[1] * s->scale);
    int64_t y1 = (int64_t)roundf(v[2] * s->scale);
    int64_t x2 = (int64_t)roundf(v[3] * s->scale);
    int64_t y2 = (int64_t)roundf(v[4] * s->scale);

    /* A region turned inside out is one pixel. */
    return (struct roi){ (int64_t)v[0], x1, y1, y2 >= y1 ? y2 - y1 + 1 : 1,
                         x2 >= x1 ? x2 - x1 + 1 : 1 };
}

static enum ct_status roi_check(const struct ct_layer *l, const float *rois)
{
    const struct roi_pooling *s = l->state;

    for (int64_t r = 0; r < s->rois; r++) {
        const float *v = rois + r * ROI_VALUES;

        if (!(v[0] >= 0 && v[0] < (float)s->n))
            return ct_fail(CT_EINVAL, "layer %s: region %" PRId64 " is in "
                           "image %g of %" PRId64, l->name, r, (double)v[0],
                           s->n);
        for (int i = 1; i < ROI_VALUES; i++)
            if (!(fabsf(v[i] * s->scale) < 1e9f))
                return ct_fail(CT_EINVAL, "layer %s: region %" PRId64 " has "
                               "the coordinate %g", l->name, r, (double)v[i]);
    }
    return CT_OK;
}

static int64_t within(int64_t i, int64_t n)
{
    return i < 0 ? 0 : i > n ? n : i;
}

/* Pixels [from, to) of bin i along one axis of n pixels. */
static void roi_bin(int64_t i, int64_t first, int64_t length, int64_t n_bins,
                    int64_t n, int64_t *from, int64_t *to)
{
    float size = (float)length / (float)n_bins;

    *from = within(first + (int64_t)floorf((float)i * size), n);
    *to   = within(first + (int64_t)ceilf((float)(i + 1) * size), n);
}

static void roi_plane(const struct roi_pooling *s, struct roi roi,
                      const float *x, float *y, int32_t *argmax)
{
    for (int64_t i = 0; i < s->ph; i++)
        for (int64_t j = 0; j < s->pw; j++, y++, argmax++) {
            int64_t h0, h1, w0, w1;

            roi_bin(i, roi.y, roi.height, s->ph, s->h, &h0, &h1);
            roi_bin(j, roi.x, roi.width, s->pw, s->w, &w0, &w1);
            *y      = h0 < h1 && w0 < w1 ? -FLT_MAX : 0;
            *argmax = -1;
            for (int64_t h = h0; h < h1; h++)
                for (int64_t w = w0; w < w1; w++)
                    if (x[h * s->w + w] > *y) {
                        *y      = x[h * s->w + w];
                        *argmax = (int32_t)(h * s->w + w);
                    }
        }
}

static enum ct_status roi_forward(struct ct_layer *l, const struct ct_io *io)
{
    struct roi_pooling *s = l->state;
    const float *x = ct_data(io->bottom[0]), *rois = ct_data(io->bottom[1]);
    int32_t *argmax = (void *)ct_data(s->argmax);
    float *y        = ct_data(io->top[0]);

    CT_TRY(roi_check(l, rois));
    CT_FOR_ROWS (i, s->rois * s->c, s->ph * s->pw * 8) {
        struct roi roi = roi_read(s, rois + i / s->c * ROI_VALUES);
        int64_t out    = i * s->ph * s->pw;

        roi_plane(s, roi,
                  x + (roi.image * s->c + i % s->c) * s->h * s->w, y + out,
                  argmax + out);
    }
    return CT_OK;
}

/* Channels are independent; regions of one image share its pixels. */
static enum ct_status roi_backward(struct ct_layer *l, const struct ct_io *io)
{
    struct roi_pooling *s = l->state;
    const float *dy = ct_diff(io->top[0]), *rois = ct_data(io->bottom[1]);
    const int32_t *argmax = (const void *)ct_data(s->argmax);
    const int64_t bins = s->ph * s->pw, plane = s->h * s->w;
    float *dx = ct_diff(io->bottom[0]);

    if (!io->want_grad[0])
        return CT_OK;
    CT_FOR_ROWS (c, s->c, s->n * plane) {
        for (int64_t n = 0; n < s->n; n++)
            memset(dx + (n * s->c + c) * plane, 0,
                   (size_t)plane * sizeof(*dx));
        for (int64_t r = 0; r < s->rois; r++) {
            int64_t image = (int64_t)rois[r * ROI_VALUES];
            float *to     = dx + (image * s->c + c) * plane;

            for (int64_t i = 0; i < bins; i++) {
                int64_t at = (r * s->c + c) * bins + i;

                if (argmax[at] >= 0)
                    to[argmax[at]] += dy[at];
            }
        }
    }
    return CT_OK;
}

const struct ct_layer_type ct_layer_roi_pooling = {
    .name       = "ROIPooling",
    .bottoms    = CT_EXACTLY(2),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_GRAD_FIRST | CT_LAYER_NO_TOP,
    .state_size = sizeof(struct roi_pooling),
    .setup      = roi_setup,
    .reshape    = roi_reshape,
    .forward    = { roi_forward, CT_CUDA_FN(roi_pooling_forward) },
    .backward   = { roi_backward, CT_CUDA_FN(roi_pooling_backward) },
};
