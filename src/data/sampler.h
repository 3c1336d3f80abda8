/* sampler.h - random parts of an image that fit the objects in it, as SSD
 * trains on them.
 *
 * Each batch_sampler tries up to max_trials boxes and keeps at most max_sample
 * of those that meet its constraint:
 *
 *     area scale^2, ratio of width to height in [min, max]_aspect_ratio, cut
 *     so that the box fits; anywhere in the image
 *     with some object: overlap, the part of the box that the object covers
 *     and the part of the object that the box covers between their limits
 *
 * One of all that were kept is taken. */
#ifndef CT_DATA_SAMPLER_H
#define CT_DATA_SAMPLER_H

#include "cortado/proto.h"
#include "data/annotation.h"
#include "data/draws.h"

CT_MUST_CHECK enum ct_status ct_sampler_check(
    const Caffe__AnnotatedDataParameter *p, const char *layer);

/* In parts of the image.  False: none fits, the image stays whole. */
bool ct_sampler_draw(const Caffe__AnnotatedDataParameter *p,
                     const struct ct_objects *objects, struct ct_draws *draws,
                     struct ct_bbox *out);

#endif
