/* image_jpeg.c - JPEG through TurboJPEG.
 *
 * Decoding is libjpeg's exact one (slow integer DCT, smooth upsampling), as
 * OpenCV's.  Gray is the file's luma.  CMYK is taken as Adobe writes it,
 * inverted. */
#include "data/image_format.h"

#include <string.h>

#ifdef CT_HAVE_JPEG
#include <turbojpeg.h>

static bool jpeg_is(struct ct_bytes file)
{
    const unsigned char *p = file.ptr;

    return file.n >= 3 && p[0] == 0xff && p[1] == 0xd8 && p[2] == 0xff;
}

static enum ct_status jpeg_handle(struct ct_codec *c)
{
    if (!c->jpeg)
        c->jpeg = tjInitDecompress();
    return c->jpeg ? CT_OK
                   : ct_fail(CT_ENOMEM, "TurboJPEG: %s", tjGetErrorStr());
}

static void jpeg_fini(struct ct_codec *c)
{
    if (c->jpeg)
        tjDestroy(c->jpeg);
    c->jpeg = NULL;
}

static enum ct_status jpeg_header(struct ct_codec *c, struct ct_bytes file,
                                  struct ct_image *out, int *space)
{
    int subsampling;

    CT_TRY(jpeg_handle(c));
    /* After a mere warning the library may leave all of them unset. */
    out->width = out->height = 0;
    *space                   = TJCS_YCbCr;
    if (tjDecompressHeader3(c->jpeg, file.ptr, file.n, &out->width,
                            &out->height, &subsampling, space) != 0 &&
        tjGetErrorCode(c->jpeg) != TJERR_WARNING)
        return ct_fail(CT_EPARSE, "a broken JPEG header: %s",
                       tjGetErrorStr2(c->jpeg));
    if (out->width < 1 || out->height < 1)
        return ct_fail(CT_EPARSE, "a broken JPEG header: no size in it");
    return CT_OK;
}

static int jpeg_channels(enum ct_image_mode mode, int space)
{
    return mode == CT_IMAGE_GRAY                            ? 1
           : mode == CT_IMAGE_NATIVE && space == TJCS_GRAY ? 1
                                                            : 3;
}

static enum ct_status jpeg_peek(struct ct_codec *c, struct ct_bytes file,
                                enum ct_image_mode mode, struct ct_image *out)
{
    int space;

    CT_TRY(jpeg_header(c, file, out, &space));
    out->channels = jpeg_channels(mode, space);
    return CT_OK;
}

/* Many good pictures carry stray bytes; only damage to the pixels counts. */
static enum ct_status jpeg_check(struct ct_codec *c, int rc)
{
    const char *why = rc ? tjGetErrorStr2(c->jpeg) : "";

    if (rc && (tjGetErrorCode(c->jpeg) != TJERR_WARNING ||
               !strstr(why, "extraneous bytes")))
        return ct_fail(CT_EPARSE, "a broken JPEG: %s", why);
    return CT_OK;
}

static void cmyk_to_bgr(const unsigned char *in, size_t n, unsigned char *out)
{
    for (size_t i = 0; i < n; i++, in += 4, out += 3) {
        const int k = in[3];

        out[0] = (unsigned char)(k - ((255 - in[2]) * k >> 8));
        out[1] = (unsigned char)(k - ((255 - in[1]) * k >> 8));
        out[2] = (unsigned char)(k - ((255 - in[0]) * k >> 8));
    }
}

static enum ct_status jpeg_decode_cmyk(struct ct_codec *c,
                                       struct ct_bytes file,
                                       enum ct_image_mode mode,
                                       struct ct_image *out)
{
    const int width = out->width, height = out->height;
    const size_t n = (size_t)width * (size_t)height;
    unsigned char *four;
    enum ct_status st;

    CT_TRY(ct_image_size(out, width, height, 3));
    CT_TRY(ct_room_grow(&c->rows, 4 * n));
    four = c->rows.ptr;
    st   = jpeg_check(c, tjDecompress2(c->jpeg, file.ptr, file.n, four, width,
                                       0, height, TJPF_CMYK, 0));
    if (st == CT_OK)
        cmyk_to_bgr(four, n, out->pixels);
    if (st == CT_OK && mode == CT_IMAGE_GRAY) {
        ct_image_gray(out->pixels, n, 3);
        out->channels = 1;
    }
    return st;
}

static enum ct_status jpeg_decode(struct ct_codec *c, struct ct_bytes file,
                                  enum ct_image_mode mode,
                                  struct ct_image *out)
{
    struct ct_image header;
    int space, channels;

    CT_TRY(jpeg_header(c, file, &header, &space));
    channels = jpeg_channels(mode, space);
    CT_TRY(ct_image_size(out, header.width, header.height, channels));
    if (space == TJCS_CMYK || space == TJCS_YCCK)
        return jpeg_decode_cmyk(c, file, mode, out);
    return jpeg_check(c, tjDecompress2(c->jpeg, file.ptr, file.n, out->pixels,
                                       out->width, 0, out->height,
                                       channels == 1 ? TJPF_GRAY : TJPF_BGR,
                                       0));
}

enum ct_status ct_image_encode_jpeg(const struct ct_image *im, int quality,
                                    struct ct_text *out)
{
    bool gray           = im->channels == 1;
    unsigned char *file = NULL;
    unsigned long n     = 0;
    enum ct_status st   = CT_OK;
    tjhandle h;

    if (im->channels != 1 && im->channels != 3)
        return ct_fail(CT_EINVAL, "a JPEG has 1 or 3 channels, not %d",
                       im->channels);
    h = tjInitCompress();
    if (!h || tjCompress2(h, im->pixels, im->width, 0, im->height,
                          gray ? TJPF_GRAY : TJPF_BGR, &file, &n,
                          gray ? TJSAMP_GRAY : TJSAMP_420, quality,
                          TJFLAG_ACCURATEDCT) != 0)
        st = ct_fail(CT_EIO, "cannot write a JPEG: %s", tjGetErrorStr2(h));
    else
        ct_text_add_bytes(out, file, n);
    tjFree(file);
    if (h)
        tjDestroy(h);
    return st == CT_OK && out->failed ? CT_ENOMEM : st;
}

static enum ct_status jpeg_encode(const struct ct_image *im,
                                  struct ct_text *out)
{
    return ct_image_encode_jpeg(im, 95, out);
}

const struct ct_image_format ct_image_jpeg = {
    .name   = "jpg",
    .also   = "jpeg",
    .is     = jpeg_is,
    .peek   = jpeg_peek,
    .decode = jpeg_decode,
    .encode = jpeg_encode,
    .orientation = ct_jpeg_orientation,
    .fini   = jpeg_fini,
};
#else
enum ct_status ct_image_encode_jpeg(const struct ct_image *im, int quality,
                                    struct ct_text *out)
{
    (void)im, (void)quality, (void)out;
    return ct_fail(CT_ENOTSUP, "this build writes no JPEG images");
}
#endif
