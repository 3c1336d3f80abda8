/* images.h - images in and out of memory, and their size.
 *
 * JPEG, PNG, TIFF, WebP, GIF (its first frame), BMP and PNM are read; JPEG and
 * PNG are written too.  Pixels are what OpenCV gives: 8 bits, rows from the
 * top, channels interleaved as B G R (B G R A).  In color and gray, pictures
 * are turned as the camera's orientation tag says. */
#ifndef CT_DATA_IMAGES_H
#define CT_DATA_IMAGES_H

#include "base/text.h"
#include "data/db.h"

enum ct_image_mode {
    CT_IMAGE_NATIVE, /* as many channels as the file has: 1, 3 or 4 */
    CT_IMAGE_COLOR,  /* 3: gray is repeated, alpha dropped */
    CT_IMAGE_GRAY    /* 1 */
};

/* Embedded; zeroed is empty.  Decoding and resizing use the memory again. */
struct ct_image {
    int            width, height, channels;
    unsigned char *pixels; /* height x width x channels; in `room` */
    struct ct_room room;
};

/* What the functions below keep from one image to the next, so that after a
 * few of them no memory is asked for; one thread's.  Zeroed is a good start. */
struct ct_codec {
    void          *jpeg;
    struct ct_room taps, rows;
};

void ct_image_fini(struct ct_image *im);
void ct_codec_fini(struct ct_codec *c);

/* Give the image this size and memory for it; pixels are undefined. */
CT_MUST_CHECK enum ct_status ct_image_size(struct ct_image *im, int width,
                                           int height, int channels);

/* The size that decoding will give, from the header alone. */
CT_MUST_CHECK enum ct_status ct_image_peek(struct ct_codec *c,
                                           struct ct_bytes file,
                                           enum ct_image_mode mode,
                                           struct ct_image *out);
CT_MUST_CHECK enum ct_status ct_image_decode(struct ct_codec *c,
                                             struct ct_bytes file,
                                             enum ct_image_mode mode,
                                             struct ct_image *out);

/* `type` is "jpg", "jpeg" or "png", with or without a dot.  Replaces what
 * `out` held.  JPEG has quality 95, PNG OpenCV's fast settings, so the bytes
 * are those that Caffe's tools write. */
CT_MUST_CHECK enum ct_status ct_image_encode(const struct ct_image *im,
                                             const char *type,
                                             struct ct_text *out);

/* A JPEG of another quality, 1 to 100, behind what `out` holds. */
CT_MUST_CHECK enum ct_status ct_image_encode_jpeg(const struct ct_image *im,
                                                  int quality,
                                                  struct ct_text *out);

/* Bilinear, OpenCV's INTER_LINEAR. */
CT_MUST_CHECK enum ct_status ct_image_resize(struct ct_codec *c,
                                             const struct ct_image *im,
                                             int width, int height,
                                             struct ct_image *out);

/* A file, decoded, and resized where width and height are not 0; `keep` and
 * `scratch` hold the bytes and the unresized picture. */
CT_MUST_CHECK enum ct_status ct_image_load(struct ct_codec *c,
                                           const char *path,
                                           enum ct_image_mode mode, int width,
                                           int height,
                                           struct ct_room *keep,
                                           struct ct_image *scratch,
                                           struct ct_image *out);
/* The bytes of a file in a room that is used again. */
CT_MUST_CHECK enum ct_status ct_room_read_file(struct ct_room *keep,
                                               const char *path,
                                               struct ct_bytes *out);
#endif
