/* augment.h - random changes to training images, all opt-in.
 *
 * In TRAIN, where the transformation has `augment`: a random part of the
 * image scaled to the output, rotation, lens distortion, then brightness,
 * contrast, saturation, a colour cast and a vignette.  Draws are keyed as
 * the transform's own. */
#ifndef CT_DATA_AUGMENT_H
#define CT_DATA_AUGMENT_H

#include "data/transform.h"

CT_MUST_CHECK enum ct_status ct_augment_check(
    const Caffe__AugmentationParameter *p, const char *layer);

/* Is there anything to do; does any image size become the crop's. */
bool ct_augment_wanted(const struct ct_transform *t);
bool ct_augment_resizes(const struct ct_transform *t);

/* height x width float planes in `room`, described by *out. */
CT_MUST_CHECK enum ct_status ct_augment_run(const struct ct_transform *t,
                                            const struct ct_pixels *in,
                                            int64_t epoch, int64_t sample,
                                            int height, int width,
                                            struct ct_room *room,
                                            struct ct_pixels *out);
#endif
