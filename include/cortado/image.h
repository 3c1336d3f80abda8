/* cortado/image.h - image files as nets take them. */
#ifndef CT_IMAGE_H
#define CT_IMAGE_H

#include "cortado/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The image in a JPEG or PNG file, resized to height x width, as `channels`
 * planes of floats from 0 to 255: 1 is gray, 3 are blue, green and red, the
 * order that Caffe's models expect.  `out` has room for all of them. */
CT_API CT_MUST_CHECK enum ct_status ct_image_read(const char *path,
                                                  int channels, int height,
                                                  int width, float *out);

#ifdef __cplusplus
}
#endif
#endif
