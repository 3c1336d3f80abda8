/* regions.cu - PSROIPooling, ROIAlign and BoxAnnotatorOHEM on a GPU; formulas
 * and shapes as in their .c files.  Gradients are gathered: a pixel looks for
 * the regions that read it, in their order. */
#include "device/cuda/kernel.h"
#include "layers/box_annotator_ohem.h"
#include "layers/cuda/slots.h"
#include "layers/psroi_pooling.h"
#include "layers/roi_align.h"

__global__ static void psroi_mean(int64_t n, struct psroi_pooling s,
                                  const float *x, const float *rois, float *y)
{
    CT_TURN();
    CT_KERNEL_EACH (o, n) {
        const int64_t c = o % s.c;
        const struct psroi r = psroi_read(&s, rois + o / s.c * 5);
        const float *plane = x + (r.image * s.c + c) * s.h * s.w;
        int64_t h0, h1, w0, w1;
        float sum = 0;

        psroi_bin(c / s.group % s.group, r.y, r.bin_h, s.h, &h0, &h1);
        psroi_bin(c % s.group, r.x, r.bin_w, s.w, &w0, &w1);
        for (int64_t h = h0; r.image >= 0 && h < h1; h++)
            for (int64_t w = w0; w < w1; w++)
                sum += plane[h * s.w + w];
        y[o] = r.image < 0            ? NAN
               : h1 > h0 && w1 > w0   ? sum / (float)((h1 - h0) * (w1 - w0))
                                      : 0;
    }
}

__global__ static void psroi_gather(int64_t n, struct psroi_pooling s,
                                    const float *rois, const float *dy,
                                    float *dx)
{
    CT_TURN();
    CT_KERNEL_EACH (p, n) {
        const int64_t w = p % s.w, h = p / s.w % s.h;
        const int64_t c = p / s.w / s.h % s.c, image = p / s.w / s.h / s.c;
        float sum = 0;

        for (int64_t k = 0; k < s.rois; k++) {
            const struct psroi r = psroi_read(&s, rois + k * 5);
            int64_t h0, h1, w0, w1;

            if (r.image != image)
                continue;
            psroi_bin(c / s.group % s.group, r.y, r.bin_h, s.h, &h0, &h1);
            psroi_bin(c % s.group, r.x, r.bin_w, s.w, &w0, &w1);
            if (h >= h0 && h < h1 && w >= w0 && w < w1)
                sum += dy[k * s.c + c] / (float)((h1 - h0) * (w1 - w0));
        }
        dx[p] = sum;
    }
}

extern "C" enum ct_status ct_cuda_psroi_pooling_forward(struct ct_layer *l,
                                                        const struct ct_io *io)
{
    const struct psroi_pooling *s = (const struct psroi_pooling *)l->state;
    const int64_t n               = io->top[0]->count;

    return n ? CT_LAUNCH(l->dev, n, psroi_mean, n, *s,
                         (const float *)ct_data(io->bottom[0]),
                         (const float *)ct_data(io->bottom[1]),
                         ct_data(io->top[0]))
             : CT_OK;
}

extern "C" enum ct_status ct_cuda_psroi_pooling_backward(
    struct ct_layer *l, const struct ct_io *io)
{
    const struct psroi_pooling *s = (const struct psroi_pooling *)l->state;
    const int64_t n               = io->bottom[0]->count;

    if (!io->want_grad[0] || n == 0)
        return CT_OK;
    return CT_LAUNCH(l->dev, n, psroi_gather, n, *s,
                     (const float *)ct_data(io->bottom[1]),
                     (const float *)ct_diff(io->top[0]),
                     ct_diff(io->bottom[0]));
}

__global__ static void align_mean(int64_t n, struct roi_align s,
                                  const float *x, const float *rois, float *y)
{
    CT_TURN();
    CT_KERNEL_EACH (o, n) {
        const int64_t j = o % s.ow, i = o / s.ow % s.oh;
        const int64_t c = o / s.ow / s.oh % s.c, k = o / s.ow / s.oh / s.c;
        const struct roi_grid r = roi_grid_of(&s, rois + k * 5);

        y[o] = r.image < 0 ? NAN
               : r.empty
                   ? 0
                   : roi_mean(&s, &r, i, j,
                              x + (r.image * s.c + c) * s.h * s.w);
    }
}

/* Whether pixel k may be read along an axis of so many outputs. */
__device__ static inline bool align_reaches(const struct roi_align &s,
                                            const struct roi_axis &a,
                                            int64_t outputs, int64_t n,
                                            int64_t k)
{
    const float last = a.first + (float)outputs * a.bin;

    /* Samples beyond the edges are read at them. */
    return (k == 0 || last > (float)k - 1) &&
           (k == n - 1 || a.first < (float)k + 1);
}

/* The share of a pixel is a product of one along each axis. */
__global__ static void align_gather(int64_t n, struct roi_align s,
                                    const float *rois, const float *dy,
                                    float *dx)
{
    CT_TURN();
    CT_KERNEL_EACH (p, n) {
        const int64_t w = p % s.w, h = p / s.w % s.h;
        const int64_t c = p / s.w / s.h % s.c, image = p / s.w / s.h / s.c;
        float sum = 0;

        for (int64_t k = 0; k < s.rois; k++) {
            const struct roi_grid r = roi_grid_of(&s, rois + k * 5);
            const float *from       = dy + (k * s.c + c) * s.oh * s.ow;

            if (r.image != image || r.empty ||
                !align_reaches(s, r.y, s.oh, s.h, h) ||
                !align_reaches(s, r.x, s.ow, s.w, w))
                continue;
            for (int64_t i = 0; i < s.oh; i++) {
                const float v = roi_share(&s, &r.y, i, s.h, h);

                for (int64_t j = 0; v != 0 && j < s.ow; j++)
                    sum += from[i * s.ow + j] * v *
                           roi_share(&s, &r.x, j, s.w, w) /
                           (float)(r.y.grid * r.x.grid);
            }
        }
        dx[p] = sum;
    }
}

extern "C" enum ct_status ct_cuda_roi_align_forward(struct ct_layer *l,
                                                    const struct ct_io *io)
{
    const struct roi_align *s = (const struct roi_align *)l->state;
    const int64_t n           = io->top[0]->count;

    return n ? CT_LAUNCH(l->dev, n, align_mean, n, *s,
                         (const float *)ct_data(io->bottom[0]),
                         (const float *)ct_data(io->bottom[1]),
                         ct_data(io->top[0]))
             : CT_OK;
}

extern "C" enum ct_status ct_cuda_roi_align_backward(struct ct_layer *l,
                                                     const struct ct_io *io)
{
    const struct roi_align *s = (const struct roi_align *)l->state;
    const int64_t n           = io->bottom[0]->count;

    if (!io->want_grad[0] || n == 0)
        return CT_OK;
    return CT_LAUNCH(l->dev, n, align_gather, n, *s,
                     (const float *)ct_data(io->bottom[1]),
                     (const float *)ct_diff(io->top[0]),
                     ct_diff(io->bottom[0]));
}

__global__ static void keep_hard(int64_t n, struct box_annotator_ohem s,
                                 const float *rois, const float *loss,
                                 const float *label, const float *weight,
                                 float *out, float *boxes)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n) {
        const bool hard     = box_is_hard(&s, rois, loss, i);
        const int64_t first = i / s.inner * s.channels * s.inner + i % s.inner;

        out[i] = hard ? label[i] : s.ignore;
        for (int64_t c = 0; c < s.channels; c++)
            boxes[first + c * s.inner] =
                hard ? weight[first + c * s.inner] : 0;
    }
}

extern "C" enum ct_status ct_cuda_box_annotator_ohem_forward(
    struct ct_layer *l, const struct ct_io *io)
{
    const struct box_annotator_ohem *s =
        (const struct box_annotator_ohem *)l->state;
    const int64_t n = s->n * s->inner;

    return n ? CT_LAUNCH(l->dev, n, keep_hard, n, *s,
                         (const float *)ct_data(io->bottom[0]),
                         (const float *)ct_data(io->bottom[1]),
                         (const float *)ct_data(io->bottom[2]),
                         (const float *)ct_data(io->bottom[3]),
                         ct_data(io->top[0]), ct_data(io->top[1]))
             : CT_OK;
}
