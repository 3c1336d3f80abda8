/* fuzz_mean.c - any bytes as a mean file, and an image to subtract it from.
 *
 * The first byte chooses the crop and the phase.  A mean that is taken fits
 * images of its own size. */
#include <string.h>

#include "base/mem.h"
#include "cortado/log.h"
#include "data/transform.h"
#include "fuzz_file.h"

enum { MOST_PIXELS = 1 << 16, PHASE = 64, MIRROR = 128 };

static void subtract(const struct ct_transform *t)
{
    const size_t n = (size_t)t->mean_channels * (size_t)t->mean_height *
                     (size_t)t->mean_width;
    struct ct_pixels in = { .planar   = true,
                            .channels = t->mean_channels,
                            .height   = t->mean_height,
                            .width    = t->mean_width };
    unsigned char *pixels = ct_calloc(n, 1, "pixels");
    float *out            = ct_calloc(n, sizeof(*out), "values");
    struct ct_room room   = { 0 };
    int height, width;

    in.ptr = pixels;
    if (pixels && out &&
        ct_transform_size(t, in.channels, in.height, in.width, &height,
                          &width) == CT_OK) {
        CT_ASSERT(height <= in.height && width <= in.width);
        CT_ASSERT(ct_transform_run(t, &in, 0, 3, &room, out) == CT_OK);
    }
    ct_room_fini(&room);
    ct_free(pixels);
    ct_free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    Caffe__TransformationParameter p = CAFFE__TRANSFORMATION_PARAMETER__INIT;
    struct ct_transform *t           = NULL;
    const char *path;

    ct_log_set_level(CT_LOG_FATAL);
    if (n_bytes == 0)
        return 0;
    path             = fuzz_file(data + 1, n_bytes - 1, ".binaryproto");
    p.mean_file      = (char *)path;
    p.has_crop_size  = 1;
    p.crop_size      = data[0] % PHASE;
    p.has_mirror     = 1;
    p.mirror         = data[0] >= MIRROR;
    if (ct_transform_create(&p, data[0] & PHASE ? CAFFE__PHASE__TEST
                                                : CAFFE__PHASE__TRAIN,
                            1, "fuzz", &t) != CT_OK)
        CT_ASSERT(ct_last_error()[0]);
    else if ((int64_t)t->mean_channels * t->mean_height * t->mean_width <=
             MOST_PIXELS)
        subtract(t);
    ct_transform_destroy(t);
    unlink(path);
    CT_ASSERT(ct_mem_stats().n_live == 0);
    return 0;
}
