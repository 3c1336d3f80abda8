/* psroi_pooling.h - what a PSROIPooling layer keeps, and its bins; see
 * psroi_pooling.c. */
#ifndef CT_LAYERS_PSROI_POOLING_H
#define CT_LAYERS_PSROI_POOLING_H

#include <math.h>

#include "base/rng.h"
#include "cortado/layer.h"

struct psroi_pooling {
    int64_t n, c, h, w, rois;
    int64_t dim, group; /* output_dim, group_size */
    float   scale;
};

/* A region in pixels of the map; image -1 for one that no image has. */
struct psroi {
    int64_t image;
    float   x, y, bin_w, bin_h;
};

/* A product that is rounded by itself: a GPU would join it with a sum, and
 * other bins would come out. */
CT_HOST_DEVICE static inline float psroi_times(float a, float b)
{
#ifdef __CUDA_ARCH__
    return __fmul_rn(a, b);
#else
    return a * b;
#endif
}

CT_HOST_DEVICE static inline struct psroi psroi_read(
    const struct psroi_pooling *s, const float *v)
{
    struct psroi r = { -1, 0, 0, 1, 1 };
    float width, height;

    if (!(v[0] >= 0 && v[0] < (float)s->n))
        return r;
    for (int i = 1; i < 5; i++)
        if (!(fabsf(v[i] * s->scale) < 1e9f))
            return r;
    r.image = (int64_t)v[0];
    r.x     = psroi_times(roundf(v[1]), s->scale);
    r.y     = psroi_times(roundf(v[2]), s->scale);
    width   = psroi_times(roundf(v[3]) + 1, s->scale) - r.x;
    height  = psroi_times(roundf(v[4]) + 1, s->scale) - r.y;
    r.bin_w = (width > 0.1f ? width : 0.1f) / (float)s->group;
    r.bin_h = (height > 0.1f ? height : 0.1f) / (float)s->group;
    return r;
}

/* Pixels [from, to) of bin i along an axis of n. */
CT_HOST_DEVICE static inline void psroi_bin(int64_t i, float first, float size,
                                            int64_t n, int64_t *from,
                                            int64_t *to)
{
    const int64_t a = (int64_t)floorf(psroi_times((float)i, size) + first);
    const int64_t b = (int64_t)ceilf(psroi_times((float)(i + 1), size) + first);

    *from = a < 0 ? 0 : a > n ? n : a;
    *to   = b < 0 ? 0 : b > n ? n : b;
}

#endif
