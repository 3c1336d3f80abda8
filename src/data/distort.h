/* distort.h - SSD's random changes of colour: brightness, contrast,
 * saturation, hue and the order of channels, on B G R bytes. */
#ifndef CT_DATA_DISTORT_H
#define CT_DATA_DISTORT_H

#include "cortado/proto.h"
#include "data/draws.h"
#include "data/images.h"

CT_MUST_CHECK enum ct_status ct_distort_check(
    const Caffe__DistortionParameter *p, const char *layer);

/* In place.  Images of other than three channels change their brightness and
 * contrast only. */
void ct_distort(const Caffe__DistortionParameter *p, struct ct_draws *draws,
                struct ct_image *im);

/* One B G R pixel as hue in [0, 180), saturation and value in [0, 255], all
 * rounded, as OpenCV keeps them in bytes; and back, where a hue may be up to
 * 255. */
void ct_bgr_to_hsv(const unsigned char *bgr, unsigned char *hsv);
void ct_hsv_to_bgr(const unsigned char *hsv, unsigned char *bgr);

#endif
