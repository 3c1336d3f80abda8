/* sample.h - a datum as pixels, whatever it holds. */
#ifndef CT_DATA_SAMPLE_H
#define CT_DATA_SAMPLE_H

#include "data/datum.h"
#include "data/images.h"
#include "data/transform.h"

/* Raw bytes stay where they are; an image is decoded into `image`, floats are
 * gathered in `floats`.  `mode` is for encoded ones. */
CT_MUST_CHECK enum ct_status ct_datum_pixels(const struct ct_datum *d,
                                             enum ct_image_mode mode,
                                             struct ct_codec *codec,
                                             struct ct_image *image,
                                             struct ct_room *floats,
                                             struct ct_pixels *out);
/* The size only: out->ptr is NULL. */
CT_MUST_CHECK enum ct_status ct_datum_peek(const struct ct_datum *d,
                                           enum ct_image_mode mode,
                                           struct ct_codec *codec,
                                           struct ct_pixels *out);
struct ct_pixels ct_image_pixels(const struct ct_image *im);

#endif
