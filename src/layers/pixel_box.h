/* pixel_box.h - boxes in pixels, as the R-CNN family has them: both corners
 * belong to a box, so that its width is x2 - x1 + 1.
 *
 *     encoded by a box a:  ((x_b - x_a) / w_a, (y_b - y_a) / h_a,
 *                           log(w_b / w_a), log(h_b / h_a))   x, y: centres
 *
 * For kernels too. */
#ifndef CT_LAYERS_PIXEL_BOX_H
#define CT_LAYERS_PIXEL_BOX_H

#include <math.h>
#include <stdbool.h>

#include "base/rng.h"

struct pixel_box { float x1, y1, x2, y2; };

CT_HOST_DEVICE static inline float pixel_box_width(const struct pixel_box *b)
{
    return b->x2 - b->x1 + 1;
}

CT_HOST_DEVICE static inline float pixel_box_height(const struct pixel_box *b)
{
    return b->y2 - b->y1 + 1;
}

CT_HOST_DEVICE static inline bool pixel_box_finite(const struct pixel_box *b)
{
    return isfinite(b->x1) && isfinite(b->y1) && isfinite(b->x2) &&
           isfinite(b->y2);
}

/* Intersection over union; 0 for boxes turned inside out. */
CT_HOST_DEVICE static inline float pixel_box_overlap(
    const struct pixel_box *a, const struct pixel_box *b)
{
    const float x1 = a->x1 > b->x1 ? a->x1 : b->x1;
    const float y1 = a->y1 > b->y1 ? a->y1 : b->y1;
    const float w  = (a->x2 < b->x2 ? a->x2 : b->x2) - x1 + 1;
    const float h  = (a->y2 < b->y2 ? a->y2 : b->y2) - y1 + 1;
    const float aw = pixel_box_width(a), ah = pixel_box_height(a);
    const float bw = pixel_box_width(b), bh = pixel_box_height(b);

    if (!(w > 0 && h > 0 && aw > 0 && ah > 0 && bw > 0 && bh > 0))
        return 0;
    return w * h / (aw * ah + bw * bh - w * h);
}

static inline void pixel_box_encode(const struct pixel_box *a,
                                    const struct pixel_box *b, float *out)
{
    const float w = pixel_box_width(a), h = pixel_box_height(a);

    out[0] = 0.5f * (b->x1 + b->x2 - a->x1 - a->x2) / w;
    out[1] = 0.5f * (b->y1 + b->y2 - a->y1 - a->y2) / h;
    out[2] = logf(pixel_box_width(b) / w);
    out[3] = logf(pixel_box_height(b) / h);
}

/* What `code` makes of a.  Faster R-CNN ends a box half a width behind its
 * centre, `wide`; Cascade R-CNN a pixel before that, where encode() takes it
 * from. */
CT_HOST_DEVICE static inline struct pixel_box pixel_box_decode(
    const struct pixel_box *a, const float *code, bool wide)
{
    const float w = pixel_box_width(a), h = pixel_box_height(a);
    const float x = a->x1 + 0.5f * w + code[0] * w;
    const float y = a->y1 + 0.5f * h + code[1] * h;
    const float half_w = 0.5f * w * expf(code[2]);
    const float half_h = 0.5f * h * expf(code[3]);
    const float end    = wide ? 0 : 1;
    const struct pixel_box out = { x - half_w, y - half_h, x + half_w - end,
                                   y + half_h - end };

    return out;
}

#endif
