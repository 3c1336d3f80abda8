/* noise.h - SSD's noise_param: an image made worse on purpose.
 *
 * In this order, each where it is asked for: gray, blur, histogram
 * equalisation of the whole or by tiles, JPEG, erosion, fewer colours,
 * negative, salt and pepper, then HSV or Lab in place of B G R.  Without
 * `prob` it happens to every image, else to that part of them. */
#ifndef CT_DATA_NOISE_H
#define CT_DATA_NOISE_H

#include "cortado/proto.h"
#include "data/draws.h"
#include "data/images.h"

CT_MUST_CHECK enum ct_status ct_noise_check(const Caffe__NoiseParameter *p,
                                            const char *layer);

/* `im` in place; `scratch` is used. */
CT_MUST_CHECK enum ct_status ct_noise(const Caffe__NoiseParameter *p,
                                      struct ct_draws *draws,
                                      struct ct_codec *codec,
                                      struct ct_image *scratch,
                                      struct ct_image *im);

/* B G R bytes as L in [0, 100], a and b, three floats a pixel. */
CT_MUST_CHECK enum ct_status ct_image_lab(const struct ct_image *im,
                                          struct ct_room *out);

#endif
