/* staging.h - batches on their way from the host to a GPU, while it computes.
 *
 * Two places on the device take turns: while the net works on what is in one,
 * the next batch is copied into the other, on a stream of its own.
 *
 *     host memory --copy stream--> place --the device's stream--> blobs
 *
 * Bytes come over as they are; crop, mirror, mean and scale are a kernel. */
#ifndef CT_DEVICE_STAGING_H
#define CT_DEVICE_STAGING_H

#include "cortado/device.h"

struct ct_staging;

/* Bytes to be copied, and where they are on the device. */
struct ct_span {
    const void *from;
    size_t      bytes;
    void       *there; /* set by send() */
};

CT_MUST_CHECK enum ct_status ct_staging_create(const struct ct_device *d,
                                               struct ct_staging **out);
void ct_staging_destroy(struct ct_staging *s); /* takes NULL */

/* Starts to copy `n` spans into the next place. */
CT_MUST_CHECK enum ct_status ct_staging_send(struct ct_staging *s, int n,
                                             struct ct_span *span);
/* What the device is given from here on comes after the copy that was sent
 * last; and it has no need of what is there any more. */
CT_MUST_CHECK enum ct_status ct_staging_take(struct ct_staging *s);
CT_MUST_CHECK enum ct_status ct_staging_done(struct ct_staging *s);
/* Waits until the host's memory of all but the last `n` copies (0 or 1) may be
 * used again. */
CT_MUST_CHECK enum ct_status ct_staging_wait(struct ct_staging *s, int n);

/* Memory that copies need not go around; a copy from other memory is slower
 * and waits.  Failing to do so is no error. */
void ct_pin(const struct ct_device *d, void *memory, size_t bytes);
void ct_unpin(const struct ct_device *d, void *memory);

/* Which part of one image is taken; mirrored: columns reversed. */
struct ct_crop {
    int32_t row, column;
    int32_t mean_row, mean_column;
    int32_t mirror;
    int32_t is_raw; /* for those who make batches: there are pixels */
};

/* Images of bytes: y[i][c][h][w] = (x[i][c][row + h][column + w] - mean) scale,
 * in float32, as the CPU computes it; then rounded to the type of y. */
struct ct_pixel_batch {
    int64_t                 n;
    int                     channels, height, width; /* of x */
    bool                    planar; /* C x H x W, else H x W x C */
    int                     out_height, out_width;
    float                   scale;
    const unsigned char    *x;      /* all on the device */
    const struct ct_crop *window; /* n of them */
    const float            *mean;   /* C x mean_height x mean_width; or */
    int                     mean_height, mean_width;
    const float            *values; /* C of them; where there is no image */
};
CT_MUST_CHECK enum ct_status ct_pixels_transform(
    const struct ct_device *d, const struct ct_pixel_batch *b,
    enum ct_layout layout, enum ct_dtype dtype, void *y);

#endif
