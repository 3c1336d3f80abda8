/* image_bmp.c - Windows bitmaps of 1, 4, 8, 16, 24 and 32 bits a pixel.
 *
 *     "BM", size, 2 x 2 unused, offset of the pixels
 *     size of the header, width, height, planes, bits, compression, ...
 *
 * Rows come from the bottom, from the top where the height is negative, each
 * padded to 4 bytes.  Pixels of 32 bits are B G R and a byte that is dropped.
 * Compressed bitmaps are refused. */
#include <string.h>

#include "data/image_format.h"

struct bmp {
    const unsigned char *p;
    size_t               n;
    int                  width, height, bits, from_top;
    uint32_t             offset, header, compression, colors;
    uint32_t             mask[3]; /* red, green, blue, of 16 and 32 bits */
};

static uint32_t bmp_at(const unsigned char *p, int n)
{
    uint32_t v = 0;

    for (int i = 0; i < n; i++)
        v |= (uint32_t)p[i] << 8 * i;
    return v;
}

static bool bmp_is(struct ct_bytes file)
{
    return file.n >= 26 && memcmp(file.ptr, "BM", 2) == 0;
}

static enum ct_status bmp_refuse(const char *what)
{
    return ct_fail(CT_EPARSE, "a broken BMP: %s", what);
}

static enum ct_status bmp_start(struct bmp *f, struct ct_bytes file)
{
    int64_t height;

    *f = (struct bmp){ .p = file.ptr, .n = file.n };
    f->offset = bmp_at(f->p + 10, 4);
    f->header = bmp_at(f->p + 14, 4);
    if (f->header == 12) { /* OS/2 */
        f->width = (int)bmp_at(f->p + 18, 2);
        height   = (int)bmp_at(f->p + 20, 2);
        f->bits  = (int)bmp_at(f->p + 24, 2);
    } else {
        if (f->header < 40 || file.n < 54)
            return bmp_refuse("an unknown header");
        f->width = (int32_t)bmp_at(f->p + 18, 4);
        height   = (int32_t)bmp_at(f->p + 22, 4);
        f->bits  = (int)bmp_at(f->p + 28, 2);
        f->compression = bmp_at(f->p + 30, 4);
        f->colors      = bmp_at(f->p + 46, 4);
    }
    f->from_top = height < 0;
    height      = height < 0 ? -height : height;
    if (f->width < 1 || height < 1 || f->width > CT_IMAGE_MAX_SIDE ||
        height > CT_IMAGE_MAX_SIDE)
        return bmp_refuse("its size makes no sense");
    f->height = (int)height;
    if (f->compression != 0 &&
        !(f->compression == 3 && (f->bits == 16 || f->bits == 32)))
        return ct_fail(CT_ENOTSUP, "a compressed BMP: save it without "
                       "compression, or as PNG");
    f->mask[0] = f->bits == 32 ? 0xff0000 : 0x7c00;
    f->mask[1] = f->bits == 32 ? 0x00ff00 : 0x03e0;
    f->mask[2] = f->bits == 32 ? 0x0000ff : 0x001f;
    if (f->compression == 3 && file.n < 66)
        return bmp_refuse("the file ends early");
    for (int i = 0; f->compression == 3 && i < 3; i++)
        f->mask[i] = bmp_at(f->p + 54 + 4 * i, 4);
    return CT_OK;
}

static size_t bmp_pitch(const struct bmp *f)
{
    return ((size_t)f->width * (size_t)f->bits + 31) / 32 * 4;
}

static const unsigned char *bmp_palette(const struct bmp *f, uint32_t index)
{
    static const unsigned char black[3];
    const size_t entry = f->header == 12 ? 3 : 4;
    const size_t at    = 14 + (size_t)f->header + index * entry;

    return at + 3 <= f->n && at + 3 <= f->offset ? f->p + at : black;
}

/* The part of v under the mask, as 8 bits. */
static unsigned char bmp_masked(uint32_t v, uint32_t mask)
{
    uint32_t most = mask, part = v & mask;

    if (!mask)
        return 0;
    while (!(most & 1)) {
        most >>= 1;
        part >>= 1;
    }
    return (unsigned char)((uint64_t)part * 255 / most);
}

static void bmp_pixel(const struct bmp *f, const unsigned char *row, int x,
                      unsigned char *to)
{
    const int per = 8 / (f->bits ? f->bits : 8);
    uint32_t v;

    switch (f->bits) {
    case 24:
        memcpy(to, row + 3 * (size_t)x, 3);
        return;
    case 16:
    case 32:
        v = bmp_at(row + (size_t)x * (size_t)(f->bits / 8), f->bits / 8);
        for (int i = 0; i < 3; i++)
            to[2 - i] = bmp_masked(v, f->mask[i]);
        return;
    default:
        v = row[x / per] >> (8 - f->bits - x % per * f->bits) &
            ((1u << f->bits) - 1);
        memcpy(to, bmp_palette(f, v), 3);
    }
}

static enum ct_status bmp_peek(struct ct_codec *c, struct ct_bytes file,
                               enum ct_image_mode mode, struct ct_image *out)
{
    struct bmp f;

    (void)c;
    CT_TRY(bmp_start(&f, file));
    out->width    = f.width;
    out->height   = f.height;
    out->channels = ct_image_channels(mode, 3);
    return CT_OK;
}

static enum ct_status bmp_decode(struct ct_codec *c, struct ct_bytes file,
                                 enum ct_image_mode mode,
                                 struct ct_image *out)
{
    struct bmp f;

    CT_TRY(bmp_start(&f, file));
    if (f.bits != 1 && f.bits != 4 && f.bits != 8 && f.bits != 16 &&
        f.bits != 24 && f.bits != 32)
        return bmp_refuse("an unknown number of bits");
    CT_TRY(ct_image_size(out, f.width, f.height, 3));
    if (f.offset > f.n ||
        bmp_pitch(&f) * (size_t)f.height > f.n - f.offset)
        return bmp_refuse("the file ends early");
    for (int y = 0; y < f.height; y++) {
        const int from = f.from_top ? y : f.height - 1 - y;
        const unsigned char *row =
            f.p + f.offset + bmp_pitch(&f) * (size_t)from;

        for (int x = 0; x < f.width; x++)
            bmp_pixel(&f, row, x,
                      out->pixels +
                          3 * ((size_t)y * (size_t)f.width + (size_t)x));
    }
    return ct_image_convert(c, out, mode);
}

const struct ct_image_format ct_image_bmp = {
    .name   = "bmp",
    .also   = "bmp",
    .is     = bmp_is,
    .peek   = bmp_peek,
    .decode = bmp_decode,
};
