/* image_planes.c - an image file as planes of floats, for programs. */
#include "cortado/image.h"

#include "data/images.h"

enum ct_status ct_image_read(const char *path, int channels, int height,
                             int width, float *out)
{
    const int64_t plane     = (int64_t)height * width;
    struct ct_codec codec   = { 0 };
    struct ct_room file     = { 0 };
    struct ct_image scratch = { 0 }, im = { 0 };
    enum ct_status st;

    if ((channels != 1 && channels != 3) || height < 1 || width < 1)
        return ct_fail(CT_EINVAL, "%s: an image has 1 or 3 channels and a "
                       "size, not %d x %d x %d", path, channels, height,
                       width);
    st = ct_image_load(&codec, path, channels == 1 ? CT_IMAGE_GRAY
                                                   : CT_IMAGE_COLOR,
                       width, height, &file, &scratch, &im);
    for (int k = 0; k < channels && st == CT_OK; k++)
        for (int64_t i = 0; i < plane; i++)
            out[k * plane + i] = (float)im.pixels[i * channels + k];
    ct_image_fini(&im);
    ct_image_fini(&scratch);
    ct_room_fini(&file);
    ct_codec_fini(&codec);
    return st;
}
