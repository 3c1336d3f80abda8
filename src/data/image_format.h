/* image_format.h - what a picture format offers to images.c. */
#ifndef CT_DATA_IMAGE_FORMAT_H
#define CT_DATA_IMAGE_FORMAT_H

#include "data/images.h"

struct ct_image_format {
    const char *name, *also;
    bool (*is)(struct ct_bytes file); /* by the first bytes */
    enum ct_status (*peek)(struct ct_codec *c, struct ct_bytes file,
                           enum ct_image_mode mode, struct ct_image *out);
    enum ct_status (*decode)(struct ct_codec *c, struct ct_bytes file,
                             enum ct_image_mode mode, struct ct_image *out);
    /* May be NULL: such images are only read. */
    enum ct_status (*encode)(const struct ct_image *im, struct ct_text *out);
    /* How the camera was held, 1 to 8 as in Exif; may be NULL: upright. */
    int (*orientation)(struct ct_bytes file);
    void (*fini)(struct ct_codec *c); /* may be NULL */
};

extern const struct ct_image_format ct_image_bmp, ct_image_gif, ct_image_jpeg,
    ct_image_png, ct_image_pnm, ct_image_tiff, ct_image_webp;

/* Channels that `mode` makes of an image that has so many. */
static inline int ct_image_channels(enum ct_image_mode mode, int channels)
{
    return mode == CT_IMAGE_COLOR ? 3 : mode == CT_IMAGE_GRAY ? 1 : channels;
}

/* An image as decoded, 1, 3 or 4 channels, as `mode` has it. */
CT_MUST_CHECK enum ct_status ct_image_convert(struct ct_codec *c,
                                              struct ct_image *im,
                                              enum ct_image_mode mode);
/* In place: B G R, of which `channels` lie apart, to gray as OpenCV. */
void ct_image_gray(unsigned char *p, size_t n, int channels);

/* image_exif.c: the orientation that the Exif data of a JPEG or a PNG states;
 * and an image turned upright. */
int ct_jpeg_orientation(struct ct_bytes file);
int ct_png_orientation(struct ct_bytes file);
CT_MUST_CHECK enum ct_status ct_image_turn(struct ct_codec *c,
                                           struct ct_image *im,
                                           int orientation);

/* A header may name any size; more than this is a broken one. */
enum { CT_IMAGE_MAX_SIDE = 65500 };
#define CT_IMAGE_MAX_PIXELS ((int64_t)1 << 28)

#endif
