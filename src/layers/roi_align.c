/* roi_align.c - regions sampled without rounding, the forks' type "ROIAlign".
 *
 *     y[r, c, i, j] = mean over the samples of bin (i, j) of x[c], bilinear
 *
 * x: N x C x H x W   rois: R x 5 (image, x1, y1, x2, y2)   y: R x C x ph x pw
 *
 * The parameters say which family it is.  With roi_align_param, Mask R-CNN's: a
 * region is scaled by spatial_scale, at least 1 wide, and each of its pooled_h
 * x pooled_w bins has sampling_ratio^2 samples (as many as it has pixels where
 * that is not above 0, at most 256^2).  roi_end_mode 1 adds 1 to x2 and y2
 * first.  What lies further than 1 outside of the map is 0.
 *
 * With roi_pooling_param, Cascade R-CNN's: y has the corners of the bins, one
 * sample each, so it is (pooled_h + 1) x (pooled_w + 1), and a mean pooling of
 * 2 x 2 follows.  pad_ratio makes regions larger, pixels are centred at 1/2,
 * and what lies further than 1/2 outside is 0, as is an empty region.
 *
 * Backward OVERWRITES dx; regions get no gradient. */
#include "layers/roi_align.h"

#include <string.h>

#include "device/cpu/loop.h"
#include "layers/cuda/slots.h"
#include "layers/rois.h"
#include "proto/params.h"


static enum ct_status align_setup_masks(struct ct_layer *l,
                                        struct roi_align *s)
{
    const Caffe__ROIAlignParameter *p = ct_roi_align_param(l->param);

    s->ph    = p->pooled_h;
    s->pw    = p->pooled_w;
    s->scale = p->spatial_scale;
    s->ratio = p->sampling_ratio > 0 ? p->sampling_ratio : 0;
    s->end   = (float)p->roi_end_mode;
    if (p->roi_end_mode < 0 || p->roi_end_mode > 1)
        return ct_fail(CT_EINVAL, "layer %s: roi_end_mode is %d, and must be 0 "
                       "or 1", l->name, p->roi_end_mode);
    return CT_OK;
}

static enum ct_status align_setup(struct ct_layer *l, const struct ct_io *io)
{
    struct roi_align *s = l->state;

    (void)io;
    if (l->param->roi_align_param) {
        CT_TRY(align_setup_masks(l, s));
    } else {
        const Caffe__ROIPoolingParameter *p = ct_roi_pooling_param(l->param);

        s->points = true;
        s->ph     = p->pooled_h;
        s->pw     = p->pooled_w;
        s->scale  = p->spatial_scale;
        s->pad    = p->pad_ratio;
    }
    if (s->ph < 1 || s->pw < 1 || s->ph > 4096 || s->pw > 4096)
        return ct_fail(CT_EINVAL, "layer %s: give pooled_h and pooled_w in "
                       "roi_align_param (Mask R-CNN's) or roi_pooling_param "
                       "(Cascade R-CNN's)", l->name);
    s->oh = s->ph + (s->points ? 1 : 0);
    s->ow = s->pw + (s->points ? 1 : 0);
    return CT_OK;
}

static enum ct_status align_reshape(struct ct_layer *l, const struct ct_io *io)
{
    const struct ct_shape *x = &io->bottom[0]->shape;
    struct roi_align *s      = l->state;

    CT_TRY(ct_rois_check(l, io));
    s->n    = x->dim[0];
    s->c    = x->dim[1];
    s->h    = x->dim[2];
    s->w    = x->dim[3];
    s->rois = io->bottom[1]->shape.dim[0];
    return ct_reshape(io->top[0], CT_SHAPE(s->rois, s->c, s->oh, s->ow));
}

static enum ct_status align_check(const struct ct_layer *l, const float *rois)
{
    const struct roi_align *s = l->state;

    for (int64_t r = 0; r < s->rois; r++)
        if (roi_grid_of(s, rois + r * ROI_VALUES).image < 0)
            return ct_rois_none(l, r, rois, s->n);
    return CT_OK;
}

static enum ct_status align_forward(struct ct_layer *l, const struct ct_io *io)
{
    const struct roi_align *s = l->state;
    const float *x = ct_data(io->bottom[0]), *rois = ct_data(io->bottom[1]);
    float *y = ct_data(io->top[0]);

    CT_TRY(align_check(l, rois));
    CT_FOR_ROWS (k, s->rois * s->c, s->oh * s->ow * 16) {
        const struct roi_grid r =
            roi_grid_of(s, rois + k / s->c * ROI_VALUES);
        const float *plane = x + (r.image * s->c + k % s->c) * s->h * s->w;
        float *out         = y + k * s->oh * s->ow;

        for (int64_t i = 0; i < s->oh; i++)
            for (int64_t j = 0; j < s->ow; j++)
                out[i * s->ow + j] =
                    r.empty ? 0 : roi_mean(s, &r, i, j, plane);
    }
    return CT_OK;
}

/* dx of a plane += the gradient of output (i, j) of a region. */
static void align_spread(const struct roi_align *s, const struct roi_grid *r,
                         int64_t i, int64_t j, float dy, float *dx)
{
    const float by = dy / (float)(r->y.grid * r->x.grid);

    for (int64_t a = 0; a < r->y.grid; a++) {
        float v, u;
        const int64_t h = roi_pixel(s, roi_sample(s, &r->y, i, a), s->h, &v);

        for (int64_t b = 0; h >= 0 && b < r->x.grid; b++) {
            const int64_t w =
                roi_pixel(s, roi_sample(s, &r->x, j, b), s->w, &u);
            float *p = dx + h * s->w + w;
            const int64_t right = u > 0 ? 1 : 0, below = v > 0 ? s->w : 0;

            if (w < 0)
                continue;
            p[0] += by * (1 - v) * (1 - u);
            p[right] += by * (1 - v) * u;
            p[below] += by * v * (1 - u);
            p[below + right] += by * v * u;
        }
    }
}

/* Channels are independent; regions of one image share its pixels. */
static enum ct_status align_backward(struct ct_layer *l,
                                     const struct ct_io *io)
{
    const struct roi_align *s = l->state;
    const float *dy = ct_diff(io->top[0]), *rois = ct_data(io->bottom[1]);
    const int64_t plane = s->h * s->w, outs = s->oh * s->ow;
    float *dx = ct_diff(io->bottom[0]);

    if (!io->want_grad[0])
        return CT_OK;
    CT_FOR_ROWS (c, s->c, s->n * plane + s->rois * outs * 16) {
        for (int64_t n = 0; n < s->n; n++)
            memset(dx + (n * s->c + c) * plane, 0,
                   (size_t)plane * sizeof(*dx));
        for (int64_t k = 0; k < s->rois; k++) {
            const struct roi_grid r = roi_grid_of(s, rois + k * ROI_VALUES);
            const float *from       = dy + (k * s->c + c) * outs;

            for (int64_t o = 0; !r.empty && o < outs; o++)
                align_spread(s, &r, o / s->ow, o % s->ow, from[o],
                             dx + (r.image * s->c + c) * plane);
        }
    }
    return CT_OK;
}

const struct ct_layer_type ct_layer_roi_align = {
    .name       = "ROIAlign",
    .bottoms    = CT_EXACTLY(2),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_GRAD_FIRST | CT_LAYER_NO_TOP,
    .state_size = sizeof(struct roi_align),
    .setup      = align_setup,
    .reshape    = align_reshape,
    .forward    = { align_forward, CT_CUDA_FN(roi_align_forward) },
    .backward   = { align_backward, CT_CUDA_FN(roi_align_backward) },
};
