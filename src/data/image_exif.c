/* image_exif.c - how a camera was held, from the Exif data of JPEG and PNG.
 *
 *     "II*\0" or "MM\0*", offset of the first directory
 *     directory: 2-byte count, then 12-byte entries: tag, type, count, value
 *
 * Tag 0x112 is the orientation, 1 to 8. */
#include <string.h>

#include "data/image_format.h"

static unsigned number(const unsigned char *p, int n, bool big)
{
    unsigned v = 0;

    for (int i = 0; i < n; i++)
        v |= (unsigned)p[i] << 8 * (big ? n - 1 - i : i);
    return v;
}

static int exif_orientation(struct ct_bytes exif)
{
    const unsigned char *p = exif.ptr;
    unsigned at, n, value;
    bool big;

    if (exif.n < 8)
        return 1;
    big = p[0] == 'M' && p[1] == 'M';
    if ((!big && !(p[0] == 'I' && p[1] == 'I')) || number(p + 2, 2, big) != 42)
        return 1;
    at = number(p + 4, 4, big);
    if (at > exif.n - 2)
        return 1;
    n = number(p + at, 2, big);
    for (unsigned i = 0; i < n; i++) {
        const size_t entry = (size_t)at + 2 + 12 * (size_t)i;

        if (entry + 12 > exif.n)
            return 1;
        if (number(p + entry, 2, big) != 0x112)
            continue;
        value = number(p + entry + 8, 2, big);
        return value >= 1 && value <= 8 ? (int)value : 1;
    }
    return 1;
}

/* Segments: 0xff, marker, 2-byte length that counts itself.  Exif is in APP1,
 * behind "Exif\0\0". */
int ct_jpeg_orientation(struct ct_bytes file)
{
    const unsigned char *p = file.ptr;
    size_t at              = 2;

    while (at + 4 <= file.n && p[at] == 0xff && p[at + 1] != 0xda) {
        const size_t n = number(p + at + 2, 2, true);

        if (n < 2 || n > file.n - at - 2)
            return 1;
        if (p[at + 1] == 0xe1 && n >= 8 &&
            memcmp(p + at + 4, "Exif\0", 6) == 0)
            return exif_orientation(
                (struct ct_bytes){ p + at + 10, n - 8 });
        at += 2 + n;
    }
    return 1;
}

/* Chunks: 4-byte length, 4-byte name, data, 4-byte check. */
int ct_png_orientation(struct ct_bytes file)
{
    const unsigned char *p = file.ptr;
    size_t at              = 8;

    while (at + 12 <= file.n) {
        const size_t n = number(p + at, 4, true);

        if (n > file.n - at - 12)
            return 1;
        if (memcmp(p + at + 4, "eXIf", 4) == 0)
            return exif_orientation((struct ct_bytes){ p + at + 8, n });
        if (memcmp(p + at + 4, "IDAT", 4) == 0)
            return 1;
        at += 12 + n;
    }
    return 1;
}

/* 2: mirrored; 3: half a turn; 4: upside down; 5 to 8: on its side. */
enum ct_status ct_image_turn(struct ct_codec *c, struct ct_image *im,
                             int orientation)
{
    const int w = im->width, h = im->height, ch = im->channels;
    const bool side   = orientation > 4;
    const bool flip_x = orientation == 2 || orientation == 3 ||
                        orientation == 7 || orientation == 8;
    const bool flip_y = orientation == 3 || orientation == 4 ||
                        orientation == 6 || orientation == 7;
    const size_t n = (size_t)w * (size_t)h * (size_t)ch;
    const unsigned char *from;
    unsigned char *to = im->pixels;

    if (orientation <= 1)
        return CT_OK;
    CT_TRY(ct_room_grow(&c->rows, n));
    memcpy(c->rows.ptr, im->pixels, n);
    from       = c->rows.ptr;
    im->width  = side ? h : w;
    im->height = side ? w : h;
    for (int y = 0; y < im->height; y++)
        for (int x = 0; x < im->width; x++, to += ch) {
            int sx = side ? y : x, sy = side ? x : y;

            sx = flip_x ? w - 1 - sx : sx;
            sy = flip_y ? h - 1 - sy : sy;
            memcpy(to, from + ((size_t)sy * (size_t)w + (size_t)sx) *
                                  (size_t)ch,
                   (size_t)ch);
        }
    return CT_OK;
}
