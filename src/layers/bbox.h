/* bbox.h - boxes of detectors: coding and suppression. */
#ifndef CT_LAYERS_BBOX_H
#define CT_LAYERS_BBOX_H

#include <stdint.h>

#include "core/box.h"

/* How a location tells a box from a prior; numbered as in PriorBoxParameter.
 *
 *     CORNER       corners, added to the prior's
 *     CENTER_SIZE  centre in widths of the prior, logarithm of the size
 *     CORNER_SIZE  corners in widths of the prior, added to its corners  */
enum ct_bbox_code {
    CT_BBOX_CORNER = 1,
    CT_BBOX_CENTER_SIZE,
    CT_BBOX_CORNER_SIZE
};

/* The box that location `loc` (4 values) makes of a prior.  Each value is
 * scaled by its variance, or not where `variance` is NULL. */
struct ct_bbox ct_bbox_decode(enum ct_bbox_code code, const float *prior,
                              const float *variance, const float *loc);

/* The inverse: the location that makes `box` of the prior, into out.  For
 * kernels too. */
CT_HOST_DEVICE static inline void ct_bbox_encode(enum ct_bbox_code code,
                                                 const float *prior,
                                                 const float *variance,
                                                 struct ct_bbox box,
                                                 float *out)
{
    float width = prior[2] - prior[0], height = prior[3] - prior[1];

    if (code == CT_BBOX_CENTER_SIZE) {
        out[0] = ((box.xmin + box.xmax) / 2 - (prior[0] + prior[2]) / 2) /
                 width;
        out[1] = ((box.ymin + box.ymax) / 2 - (prior[1] + prior[3]) / 2) /
                 height;
        out[2] = logf((box.xmax - box.xmin) / width);
        out[3] = logf((box.ymax - box.ymin) / height);
    } else {
        width  = code == CT_BBOX_CORNER_SIZE ? width : 1;
        height = code == CT_BBOX_CORNER_SIZE ? height : 1;
        out[0] = (box.xmin - prior[0]) / width;
        out[1] = (box.ymin - prior[1]) / height;
        out[2] = (box.xmax - prior[2]) / width;
        out[3] = (box.ymax - prior[3]) / height;
    }
    for (int i = 0; variance && i < 4; i++)
        out[i] /= variance[i];
}

struct ct_bbox_found {
    float   score;
    int32_t label, index;
};

/* For qsort(): higher scores first, then lower labels and indices. */
int ct_bbox_better(const void *a, const void *b);

struct ct_bbox_nms {
    float   threshold, eta;
    int64_t top_k; /* candidates looked at; -1: all */
};

/* Non-maximum suppression: orders the n candidates best first and moves those
 * kept to the front; returns how many.  box[found[i].index] is i's box. */
int64_t ct_bbox_suppress(const struct ct_bbox_nms *nms,
                         const struct ct_bbox *box,
                         struct ct_bbox_found *found, int64_t n);

#endif
