/* bbox.h - boxes of detectors: decoding, overlap, suppression. */
#ifndef CT_LAYERS_BBOX_H
#define CT_LAYERS_BBOX_H

#include <stdint.h>

struct ct_bbox { float xmin, ymin, xmax, ymax; };

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

/* Intersection over union; 0 for boxes turned inside out. */
float ct_bbox_overlap(struct ct_bbox a, struct ct_bbox b);

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
