/* transform.h - from the pixels of one sample to the values of a blob.
 *
 *     out[c][h][w] = (in[c][h + oh][w + ow] - mean) scale
 *
 * with the columns reversed when mirrored.  The crop lies at random in TRAIN
 * and in the centre in TEST; the mirror is drawn in both, as in Caffe.  Draws
 * depend on (key, epoch, sample) alone, never on threads or ranks. */
#ifndef CT_DATA_TRANSFORM_H
#define CT_DATA_TRANSFORM_H

#include "cortado/proto.h"
#include "data/db.h"
#include "device/staging.h"

/* Pixels to read; borrowed. */
struct ct_pixels {
    const void *ptr;
    bool        is_float; /* float, else bytes */
    bool        planar;   /* C x H x W, else H x W x C */
    int         channels, height, width;
};

static inline size_t ct_pixels_bytes(const struct ct_pixels *p)
{
    return (size_t)p->channels * (size_t)p->height * (size_t)p->width *
           (p->is_float ? sizeof(float) : 1);
}

/* Do both have the same size, type and order? */
static inline bool ct_pixels_alike(const struct ct_pixels *a,
                                   const struct ct_pixels *b)
{
    return a->is_float == b->is_float && a->planar == b->planar &&
           a->channels == b->channels && a->height == b->height &&
           a->width == b->width;
}

/* Read the fields freely; any thread, once made. */
struct ct_transform {
    const Caffe__TransformationParameter *param; /* borrowed */
    Caffe__Phase phase;
    uint64_t     key;
    int          crop; /* 0: the whole */
    /* The mean image, or NULL, and its size; else n_values values for the
     * channels: 0 (no mean), 1 or one a channel. */
    float *mean;
    int    mean_channels, mean_height, mean_width, n_values;
};

/* Refuses what contradicts itself, naming `layer`.  Reads the mean file. */
CT_MUST_CHECK enum ct_status ct_transform_create(
    const Caffe__TransformationParameter *param, Caffe__Phase phase,
    uint64_t key, const char *layer, struct ct_transform **out);
void ct_transform_destroy(struct ct_transform *t); /* takes NULL */

/* The size of what comes out; refuses pixels that are smaller than the crop
 * or do not fit the mean. */
CT_MUST_CHECK enum ct_status ct_transform_size(const struct ct_transform *t,
                                               int channels, int height,
                                               int width, int *out_height,
                                               int *out_width);

/* Writes channels x height x width floats as ct_transform_size says.  `room`
 * is scratch of the calling thread. */
CT_MUST_CHECK enum ct_status ct_transform_run(const struct ct_transform *t,
                                              const struct ct_pixels *in,
                                              int64_t epoch, int64_t sample,
                                              struct ct_room *room,
                                              float *out);

/* Its two halves, where pixels are not augmented: what is drawn for a sample,
 * and the values that follow from it. */
CT_MUST_CHECK enum ct_status ct_transform_draw(const struct ct_transform *t,
                                               const struct ct_pixels *in,
                                               int64_t epoch, int64_t sample,
                                               struct ct_crop *out);
CT_MUST_CHECK enum ct_status ct_transform_apply(const struct ct_transform *t,
                                                const struct ct_pixels *in,
                                                const struct ct_crop *win,
                                                float *out);

/* Draw number i of a sample: uniform 32 bits, or an integer in [0, n). */
uint32_t ct_draw(uint64_t key, int64_t epoch, int64_t sample, unsigned i);
uint32_t ct_draw_below(uint64_t key, int64_t epoch, int64_t sample, unsigned i,
                       uint32_t n);

#endif
