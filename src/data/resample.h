/* resample.h - images in another size, by any of OpenCV's ways. */
#ifndef CT_DATA_RESAMPLE_H
#define CT_DATA_RESAMPLE_H

#include "cortado/proto.h"
#include "data/images.h"

/* LINEAR is ct_image_resize(). */
CT_MUST_CHECK enum ct_status ct_image_resample(
    struct ct_codec *c, const struct ct_image *im, int width, int height,
    Caffe__ResizeParameter__InterpMode mode, struct ct_image *out);

#endif
