/* roi_align.h - what a ROIAlign layer keeps, and where it samples; see
 * roi_align.c. */
#ifndef CT_LAYERS_ROI_ALIGN_H
#define CT_LAYERS_ROI_ALIGN_H

#include <math.h>

#include "base/rng.h"
#include "cortado/layer.h"

struct roi_align {
    int64_t n, c, h, w, rois;
    int64_t ph, pw;      /* bins, or intervals between points */
    int64_t oh, ow;      /* of the top */
    float   scale, pad;
    int64_t ratio;       /* samples across a bin; 0: by its size */
    bool    points;      /* Cascade R-CNN's: corners of bins, one sample each */
    float   end;         /* added to x2 and y2 */
};

/* Samples along an axis: `grid` in each bin. */
struct roi_axis {
    float   first, bin;
    int64_t grid;
};

/* image -1: none; `empty`: nothing is sampled. */
struct roi_grid {
    int64_t         image;
    bool            empty;
    struct roi_axis x, y;
};

enum { ROI_GRID_MOST = 256 };

CT_HOST_DEVICE static inline struct roi_axis roi_axis_of(
    const struct roi_align *s, float from, float to, int64_t bins, bool *empty)
{
    const float pad = (to - from + 1) * s->pad;
    struct roi_axis a;
    float size;

    if (s->points) {
        a.first = (from - pad) * s->scale - 0.5f;
        size    = (to + pad) * s->scale - 0.5f - a.first;
        *empty  = *empty || !(size > 0);
    } else {
        a.first = from * s->scale;
        size    = (to + s->end) * s->scale - a.first;
        size    = size > 1 ? size : 1;
    }
    a.bin  = size / (float)bins;
    a.grid = s->points ? 1 : s->ratio > 0 ? s->ratio : (int64_t)ceilf(a.bin);
    a.grid = a.grid < 1 ? 1 : a.grid < ROI_GRID_MOST ? a.grid : ROI_GRID_MOST;
    return a;
}

CT_HOST_DEVICE static inline struct roi_grid roi_grid_of(
    const struct roi_align *s, const float *v)
{
    struct roi_grid r = { -1, false, { 0, 1, 1 }, { 0, 1, 1 } };

    if (!(v[0] >= 0 && v[0] < (float)s->n))
        return r;
    for (int i = 1; i < 5; i++)
        if (!(fabsf(v[i] * s->scale) < 1e9f))
            return r;
    r.image = (int64_t)v[0];
    r.x     = roi_axis_of(s, v[1], v[3], s->pw, &r.empty);
    r.y     = roi_axis_of(s, v[2], v[4], s->ph, &r.empty);
    return r;
}

/* Sample k of output i. */
CT_HOST_DEVICE static inline float roi_sample(const struct roi_align *s,
                                              const struct roi_axis *a,
                                              int64_t i, int64_t k)
{
    const float in = s->points ? 0 : ((float)k + 0.5f) / (float)a->grid;

    return a->first + ((float)i + in) * a->bin;
}

/* The pixel that a sample lies at or behind, and by how much, among n; -1
 * where it lies outside. */
CT_HOST_DEVICE static inline int64_t roi_pixel(const struct roi_align *s,
                                               float at, int64_t n,
                                               float *part)
{
    const float edge = s->points ? 0.5f : 1;
    const float last = (float)(n - 1);
    const float in   = at < 0 ? 0 : at > last ? last : at;

    *part = in - floorf(in);
    return at < -edge || at > last + edge ? -1 : (int64_t)in;
}

/* The share of pixel k in output i along an axis of n pixels, summed over its
 * samples. */
CT_HOST_DEVICE static inline float roi_share(const struct roi_align *s,
                                             const struct roi_axis *a,
                                             int64_t i, int64_t n, int64_t k)
{
    float sum = 0;

    for (int64_t j = 0; j < a->grid; j++) {
        float part;
        const int64_t low = roi_pixel(s, roi_sample(s, a, i, j), n, &part);

        if (low >= 0)
            sum += low == k ? 1 - part : low + 1 == k ? part : 0;
    }
    return sum;
}

/* The mean over the samples of output (i, j) of a plane. */
CT_HOST_DEVICE static inline float roi_mean(const struct roi_align *s,
                                            const struct roi_grid *r,
                                            int64_t i, int64_t j,
                                            const float *x)
{
    float sum = 0;

    for (int64_t a = 0; a < r->y.grid; a++) {
        float v, u;
        const int64_t h = roi_pixel(s, roi_sample(s, &r->y, i, a), s->h, &v);

        for (int64_t b = 0; h >= 0 && b < r->x.grid; b++) {
            const int64_t w =
                roi_pixel(s, roi_sample(s, &r->x, j, b), s->w, &u);
            const float *p = x + h * s->w + w;
            const int64_t right = u > 0 ? 1 : 0, below = v > 0 ? s->w : 0;

            if (w >= 0)
                sum += (1 - v) * ((1 - u) * p[0] + u * p[right]) +
                       v * ((1 - u) * p[below] + u * p[below + right]);
        }
    }
    return sum / (float)(r->y.grid * r->x.grid);
}

#endif
