/* box.h - rectangles: what detectors find and what annotations mark.  For
 * kernels too. */
#ifndef CT_CORE_BOX_H
#define CT_CORE_BOX_H

#include <math.h>

#include "base/rng.h"

struct ct_bbox { float xmin, ymin, xmax, ymax; };

/* 0 for a box turned inside out. */
CT_HOST_DEVICE static inline float ct_bbox_area(struct ct_bbox b)
{
    return b.xmax < b.xmin || b.ymax < b.ymin
               ? 0
               : (b.xmax - b.xmin) * (b.ymax - b.ymin);
}

/* The area that both have; 0 where they only touch. */
CT_HOST_DEVICE static inline float ct_bbox_common(struct ct_bbox a,
                                                  struct ct_bbox b)
{
    float width  = fminf(a.xmax, b.xmax) - fmaxf(a.xmin, b.xmin);
    float height = fminf(a.ymax, b.ymax) - fmaxf(a.ymin, b.ymin);

    return width > 0 && height > 0 ? width * height : 0;
}

/* Intersection over union; 0 for boxes turned inside out. */
CT_HOST_DEVICE static inline float ct_bbox_overlap(struct ct_bbox a,
                                                   struct ct_bbox b)
{
    float both = ct_bbox_common(a, b);

    return both > 0 ? both / (ct_bbox_area(a) + ct_bbox_area(b) - both) : 0;
}

/* The share of a's area that lies in b. */
CT_HOST_DEVICE static inline float ct_bbox_coverage(struct ct_bbox a,
                                                    struct ct_bbox b)
{
    float both = ct_bbox_common(a, b);

    return both > 0 ? both / ct_bbox_area(a) : 0;
}

#endif
