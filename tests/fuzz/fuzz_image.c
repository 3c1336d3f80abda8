/* fuzz_image.c - any bytes as an image file: pixels, or a clear refusal. */
#include <stdint.h>

#include "base/mem.h"
#include "cortado/log.h"
#include "data/images.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    const struct ct_bytes file = { data, n_bytes };
    struct ct_codec codec      = { 0 };
    struct ct_image im = { 0 }, size = { 0 };

    ct_log_set_level(CT_LOG_FATAL);
    for (int mode = CT_IMAGE_NATIVE; mode <= CT_IMAGE_GRAY; mode++) {
        /* Larger ones only cost time. */
        if (ct_image_peek(&codec, file, (enum ct_image_mode)mode, &size) !=
                CT_OK ||
            (int64_t)size.width * size.height > 1 << 20)
            continue;
        if (ct_image_decode(&codec, file, (enum ct_image_mode)mode, &im) !=
            CT_OK)
            CT_ASSERT(ct_last_error()[0]);
        else
            CT_ASSERT(im.width == size.width && im.height == size.height &&
                      im.channels == size.channels);
    }
    ct_image_fini(&im);
    ct_codec_fini(&codec);
    CT_ASSERT(ct_mem_stats().n_live == 0);
    return 0;
}
