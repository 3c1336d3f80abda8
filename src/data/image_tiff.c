/* image_tiff.c - the first page of a TIFF, through libtiff, as 8 bits. */
#include "data/image_format.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#ifdef CT_HAVE_TIFF
#include <tiffio.h>

struct tiff {
    struct ct_bytes file;
    uint64_t        at;
};

static bool tiff_is(struct ct_bytes file)
{
    return file.n >= 8 && (memcmp(file.ptr, "II*\0", 4) == 0 ||
                           memcmp(file.ptr, "MM\0*", 4) == 0 ||
                           memcmp(file.ptr, "II+\0", 4) == 0 ||
                           memcmp(file.ptr, "MM\0+", 4) == 0);
}

static tmsize_t tiff_take(thandle_t h, void *to, tmsize_t n)
{
    struct tiff *t = h;
    size_t left    = t->at < t->file.n ? t->file.n - t->at : 0;
    size_t take    = n < 0 ? 0 : (size_t)n < left ? (size_t)n : left;

    memcpy(to, (const char *)t->file.ptr + (take ? t->at : 0), take);
    t->at += take;
    return (tmsize_t)take;
}

static tmsize_t tiff_give(thandle_t h, void *from, tmsize_t n)
{
    (void)h, (void)from, (void)n;
    return -1;
}

static toff_t tiff_seek(thandle_t h, toff_t at, int whence)
{
    struct tiff *t = h;

    t->at = whence == SEEK_SET   ? at
            : whence == SEEK_CUR ? t->at + at
                                 : t->file.n + at;
    return t->at;
}

static int tiff_close(thandle_t h)
{
    (void)h;
    return 0;
}

static toff_t tiff_bytes(thandle_t h)
{
    return ((struct tiff *)h)->file.n;
}

static enum ct_status tiff_open(struct tiff *t, TIFF **out)
{
    /* No words on stderr: what is wrong is said below. */
    TIFFSetErrorHandler(NULL);
    TIFFSetWarningHandler(NULL);
    *out = TIFFClientOpen("image", "rm", t, tiff_take, tiff_give, tiff_seek,
                          tiff_close, tiff_bytes, NULL, NULL);
    return *out ? CT_OK : ct_fail(CT_EPARSE, "a broken TIFF header");
}

static enum ct_status tiff_header(TIFF *f, struct ct_image *out)
{
    uint32_t width = 0, height = 0;
    uint16_t samples = 1, kind = 0;

    TIFFGetField(f, TIFFTAG_IMAGEWIDTH, &width);
    TIFFGetField(f, TIFFTAG_IMAGELENGTH, &height);
    TIFFGetFieldDefaulted(f, TIFFTAG_SAMPLESPERPIXEL, &samples);
    TIFFGetFieldDefaulted(f, TIFFTAG_PHOTOMETRIC, &kind);
    if (width < 1 || height < 1 || width > CT_IMAGE_MAX_SIDE ||
        height > CT_IMAGE_MAX_SIDE)
        return ct_fail(CT_EPARSE, "a TIFF of %u x %u pixels", width, height);
    out->width    = (int)width;
    out->height   = (int)height;
    out->channels = kind == PHOTOMETRIC_PALETTE   ? 3
                    : samples == 1                ? 1
                    : samples == 4 &&
                              kind == PHOTOMETRIC_RGB ? 4
                                                      : 3;
    return CT_OK;
}

static enum ct_status tiff_peek(struct ct_codec *c, struct ct_bytes file,
                                enum ct_image_mode mode, struct ct_image *out)
{
    struct tiff t = { file, 0 };
    TIFF *f       = NULL;
    enum ct_status st;

    (void)c;
    CT_TRY(tiff_open(&t, &f));
    st = tiff_header(f, out);
    TIFFClose(f);
    if (st == CT_OK)
        out->channels = ct_image_channels(mode, out->channels);
    return st;
}

/* libtiff's words of 32 bits, A B G R from the top bit, as our channels. */
static void tiff_pixels(const uint32_t *from, struct ct_image *out)
{
    const size_t n = (size_t)out->width * (size_t)out->height;
    unsigned char *to = out->pixels;

    for (size_t i = 0; i < n; i++, to += out->channels) {
        to[0] = (unsigned char)TIFFGetB(from[i]);
        if (out->channels > 1) {
            to[1] = (unsigned char)TIFFGetG(from[i]);
            to[2] = (unsigned char)TIFFGetR(from[i]);
        }
        if (out->channels > 3)
            to[3] = (unsigned char)TIFFGetA(from[i]);
    }
}

static enum ct_status tiff_decode(struct ct_codec *c, struct ct_bytes file,
                                  enum ct_image_mode mode,
                                  struct ct_image *out)
{
    struct tiff t          = { file, 0 };
    struct ct_image header = { 0 };
    TIFF *f                = NULL;
    enum ct_status st;

    CT_TRY(tiff_open(&t, &f));
    CT_TRY_GOTO(tiff_header(f, &header), st, out);
    CT_TRY_GOTO(ct_image_size(out, header.width, header.height,
                              header.channels), st, out);
    CT_TRY_GOTO(ct_room_grow(&c->rows, (size_t)out->width *
                                           (size_t)out->height * 4), st, out);
    if (!TIFFReadRGBAImageOriented(f, (uint32_t)out->width,
                                   (uint32_t)out->height, c->rows.ptr,
                                   ORIENTATION_TOPLEFT, 1))
        CT_TRY_GOTO(ct_fail(CT_EPARSE, "a broken TIFF, or one of a kind that "
                            "libtiff does not turn into 8 bits"), st, out);
    tiff_pixels(c->rows.ptr, out);
    st = ct_image_convert(c, out, mode);
out:
    TIFFClose(f);
    return st;
}

const struct ct_image_format ct_image_tiff = {
    .name   = "tif",
    .also   = "tiff",
    .is     = tiff_is,
    .peek   = tiff_peek,
    .decode = tiff_decode,
};
#endif
