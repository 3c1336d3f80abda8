/* image_webp.c - WebP through libwebp. */
#include "data/image_format.h"

#include <string.h>

#ifdef CT_HAVE_WEBP
#include <webp/decode.h>

static bool webp_is(struct ct_bytes file)
{
    return file.n >= 12 && memcmp(file.ptr, "RIFF", 4) == 0 &&
           memcmp((const char *)file.ptr + 8, "WEBP", 4) == 0;
}

static enum ct_status webp_header(struct ct_bytes file,
                                  WebPBitstreamFeatures *out)
{
    if (WebPGetFeatures(file.ptr, file.n, out) != VP8_STATUS_OK)
        return ct_fail(CT_EPARSE, "a broken WebP header");
    if (out->has_animation)
        return ct_fail(CT_ENOTSUP, "an animated WebP");
    return CT_OK;
}

static enum ct_status webp_peek(struct ct_codec *c, struct ct_bytes file,
                                enum ct_image_mode mode, struct ct_image *out)
{
    WebPBitstreamFeatures f;

    (void)c;
    CT_TRY(webp_header(file, &f));
    out->width    = f.width;
    out->height   = f.height;
    out->channels = ct_image_channels(mode, f.has_alpha ? 4 : 3);
    return CT_OK;
}

static enum ct_status webp_decode(struct ct_codec *c, struct ct_bytes file,
                                  enum ct_image_mode mode,
                                  struct ct_image *out)
{
    WebPBitstreamFeatures f;
    int ch, pitch;
    size_t n;

    CT_TRY(webp_header(file, &f));
    ch = mode == CT_IMAGE_NATIVE && f.has_alpha ? 4 : 3;
    CT_TRY(ct_image_size(out, f.width, f.height, ch));
    pitch = f.width * ch;
    n     = (size_t)pitch * (size_t)f.height;
    if (!(ch == 4 ? WebPDecodeBGRAInto(file.ptr, file.n, out->pixels, n, pitch)
                  : WebPDecodeBGRInto(file.ptr, file.n, out->pixels, n,
                                      pitch)))
        return ct_fail(CT_EPARSE, "a broken WebP");
    return ct_image_convert(c, out, mode);
}

const struct ct_image_format ct_image_webp = {
    .name   = "webp",
    .also   = "webp",
    .is     = webp_is,
    .peek   = webp_peek,
    .decode = webp_decode,
};
#endif
