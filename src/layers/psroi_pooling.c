/* psroi_pooling.c - position-sensitive mean pooling of regions, R-FCN's type
 * "PSROIPooling".
 *
 *     y[r, d, i, j] = mean over bin (i, j) of region r of x[(d g + i) g + j]
 *
 * x: N x (output_dim g^2) x H x W   rois: R x 5 (image, x1, y1, x2, y2)
 * y: R x output_dim x g x g, g = group_size
 *
 * A region goes from round(x1) to round(x2) + 1, times spatial_scale, and is at
 * least 0.1 wide.  Bins are rounded outwards; one without pixels is 0.
 * Backward OVERWRITES dx; regions get no gradient.
 * Dai et al., "R-FCN", 2016. */
#include "layers/psroi_pooling.h"

#include <inttypes.h>
#include <string.h>

#include "device/cpu/loop.h"
#include "layers/cuda/slots.h"
#include "layers/rois.h"
#include "proto/params.h"


static enum ct_status psroi_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__PSROIPoolingParameter *p = ct_psroi_pooling_param(l->param);
    struct psroi_pooling *s               = l->state;

    (void)io;
    if (p->output_dim < 1 || p->group_size < 1 || p->group_size > 1024)
        return ct_fail(CT_EINVAL, "layer %s: psroi_pooling_param needs "
                       "output_dim and group_size, greater than 0", l->name);
    s->dim   = p->output_dim;
    s->group = p->group_size;
    s->scale = p->spatial_scale;
    return CT_OK;
}

static enum ct_status psroi_reshape(struct ct_layer *l, const struct ct_io *io)
{
    const struct ct_shape *x = &io->bottom[0]->shape;
    struct psroi_pooling *s  = l->state;

    CT_TRY(ct_rois_check(l, io));
    s->n    = x->dim[0];
    s->c    = x->dim[1];
    s->h    = x->dim[2];
    s->w    = x->dim[3];
    s->rois = io->bottom[1]->shape.dim[0];
    if (s->c != s->dim * s->group * s->group)
        return ct_fail(CT_ESHAPE, "layer %s: %" PRId64 " channels, but "
                       "output_dim and group_size need %" PRId64 " x %" PRId64
                       " x %" PRId64, l->name, s->c, s->dim, s->group,
                       s->group);
    return ct_reshape(io->top[0],
                      CT_SHAPE(s->rois, s->dim, s->group, s->group));
}

static enum ct_status psroi_check(const struct ct_layer *l, const float *rois)
{
    const struct psroi_pooling *s = l->state;

    for (int64_t r = 0; r < s->rois; r++)
        if (psroi_read(s, rois + r * ROI_VALUES).image < 0)
            return ct_rois_none(l, r, rois, s->n);
    return CT_OK;
}

/* Pixels of the bin that channel c reads; returns how many. */
static int64_t psroi_pixels(const struct psroi_pooling *s,
                            const struct psroi *r, int64_t c, int64_t at[4])
{
    psroi_bin(c / s->group % s->group, r->y, r->bin_h, s->h, &at[0], &at[1]);
    psroi_bin(c % s->group, r->x, r->bin_w, s->w, &at[2], &at[3]);
    if (at[1] <= at[0] || at[3] <= at[2])
        return 0;
    return (at[1] - at[0]) * (at[3] - at[2]);
}

static enum ct_status psroi_forward(struct ct_layer *l, const struct ct_io *io)
{
    const struct psroi_pooling *s = l->state;
    const float *x = ct_data(io->bottom[0]), *rois = ct_data(io->bottom[1]);
    float *y = ct_data(io->top[0]);

    CT_TRY(psroi_check(l, rois));
    CT_FOR_ROWS (o, s->rois * s->c, 64) {
        const struct psroi r = psroi_read(s, rois + o / s->c * ROI_VALUES);
        const float *plane =
            x + (r.image * s->c + o % s->c) * s->h * s->w;
        int64_t at[4];
        const int64_t n = psroi_pixels(s, &r, o % s->c, at);
        float sum       = 0;

        for (int64_t h = at[0]; n > 0 && h < at[1]; h++)
            for (int64_t w = at[2]; w < at[3]; w++)
                sum += plane[h * s->w + w];
        y[o] = n > 0 ? sum / (float)n : 0;
    }
    return CT_OK;
}

/* Each channel is read by one bin of each region. */
static enum ct_status psroi_backward(struct ct_layer *l,
                                     const struct ct_io *io)
{
    const struct psroi_pooling *s = l->state;
    const float *dy = ct_diff(io->top[0]), *rois = ct_data(io->bottom[1]);
    const int64_t plane = s->h * s->w;
    float *dx           = ct_diff(io->bottom[0]);

    if (!io->want_grad[0])
        return CT_OK;
    CT_FOR_ROWS (c, s->c, s->n * plane + 64 * s->rois) {
        for (int64_t n = 0; n < s->n; n++)
            memset(dx + (n * s->c + c) * plane, 0,
                   (size_t)plane * sizeof(*dx));
        for (int64_t k = 0; k < s->rois; k++) {
            const struct psroi r = psroi_read(s, rois + k * ROI_VALUES);
            float *to = dx + (r.image * s->c + c) * plane;
            int64_t at[4];
            const int64_t n = psroi_pixels(s, &r, c, at);

            for (int64_t h = at[0]; n > 0 && h < at[1]; h++)
                for (int64_t w = at[2]; w < at[3]; w++)
                    to[h * s->w + w] += dy[k * s->c + c] / (float)n;
        }
    }
    return CT_OK;
}

const struct ct_layer_type ct_layer_psroi_pooling = {
    .name       = "PSROIPooling",
    .bottoms    = CT_EXACTLY(2),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_GRAD_FIRST | CT_LAYER_NO_TOP,
    .state_size = sizeof(struct psroi_pooling),
    .setup      = psroi_setup,
    .reshape    = psroi_reshape,
    .forward    = { psroi_forward, CT_CUDA_FN(psroi_pooling_forward) },
    .backward   = { psroi_backward, CT_CUDA_FN(psroi_pooling_backward) },
};
