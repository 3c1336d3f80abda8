/* image_png.c - PNG through libpng, with OpenCV's settings.
 *
 * libpng leaves by longjmp, so each function that calls it keeps everything
 * that must be freed in a struct of its caller. */
#include "data/image_format.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#ifdef CT_HAVE_PNG
#include <png.h>
#include <zlib.h>

struct png {
    png_structp     png;
    png_infop       info;
    struct ct_bytes file;
    size_t          used;
    struct ct_text *out;
    png_bytep      *rows;
    char            why[160];
};

static void png_failed(png_structp png, png_const_charp message)
{
    struct png *p = png_get_error_ptr(png);

    snprintf(p->why, sizeof(p->why), "%s", message);
    png_longjmp(png, 1);
}

static void png_warned(png_structp png, png_const_charp message)
{
    (void)png, (void)message;
}

static void png_take(png_structp png, png_bytep to, size_t n)
{
    struct png *p = png_get_io_ptr(png);

    if (n > p->file.n - p->used)
        png_error(png, "the file ends early");
    memcpy(to, (const char *)p->file.ptr + p->used, n);
    p->used += n;
}

static void png_give(png_structp png, png_bytep from, size_t n)
{
    struct png *p = png_get_io_ptr(png);

    ct_text_add_bytes(p->out, from, n);
}

static void png_flush_nothing(png_structp png)
{
    (void)png;
}

static bool png_is(struct ct_bytes file)
{
    return file.n >= 8 && png_sig_cmp(file.ptr, 0, 8) == 0;
}

/* libpng asks for the memory of a chunk before it has read it.  False: one
 * before the pixels speaks of more than there is. */
static bool png_chunks_fit(struct ct_bytes file)
{
    size_t at = 8;

    while (at + 12 <= file.n) {
        const unsigned char *c = (const unsigned char *)file.ptr + at;
        const size_t n = (size_t)c[0] << 24 | (size_t)c[1] << 16 |
                         (size_t)c[2] << 8 | c[3];

        if (memcmp(c + 4, "IDAT", 4) == 0)
            return true;
        if (n > file.n - at - 12)
            return false;
        at += 12 + n;
    }
    return true;
}

static enum ct_status png_start(struct png *p, struct ct_bytes file)
{
    memset(p, 0, sizeof(*p));
    if (!png_chunks_fit(file))
        return ct_fail(CT_EPARSE, "a broken PNG: a chunk is longer than the "
                       "file");
    p->file = file;
    p->png  = png_create_read_struct(PNG_LIBPNG_VER_STRING, p, png_failed,
                                     png_warned);
    p->info = p->png ? png_create_info_struct(p->png) : NULL;
    if (!p->info)
        return ct_fail(CT_ENOMEM, "libpng has no memory");
    png_set_read_fn(p->png, p, png_take);
    return CT_OK;
}

static void png_end(struct png *p)
{
    png_destroy_read_struct(&p->png, &p->info, NULL);
}

static enum ct_status png_header(struct png *p, enum ct_image_mode mode,
                                 struct ct_image *out)
{
    int color, alpha, transparent;

    if (setjmp(png_jmpbuf(p->png)))
        return ct_fail(CT_EPARSE, "a broken PNG header: %s", p->why);
    png_read_info(p->png, p->info);
    color       = png_get_color_type(p->png, p->info);
    alpha       = color & PNG_COLOR_MASK_ALPHA;
    transparent = (color & PNG_COLOR_MASK_COLOR) &&
                  png_get_valid(p->png, p->info, PNG_INFO_tRNS);
    out->width  = (int)png_get_image_width(p->png, p->info);
    out->height = (int)png_get_image_height(p->png, p->info);
    out->channels = mode == CT_IMAGE_COLOR               ? 3
                    : mode == CT_IMAGE_GRAY              ? 1
                    : alpha || transparent               ? 4
                    : (color & PNG_COLOR_MASK_COLOR) ? 3
                                                         : 1;
    return CT_OK;
}

/* OpenCV's transformations, in OpenCV's order. */
static void png_convert(struct png *p, int channels)
{
    int color = png_get_color_type(p->png, p->info);

    png_set_strip_16(p->png);
    if (channels < 4)
        png_set_strip_alpha(p->png);
    else
        png_set_tRNS_to_alpha(p->png);
    if (color == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(p->png);
    if (!(color & PNG_COLOR_MASK_COLOR) &&
        png_get_bit_depth(p->png, p->info) < 8)
        png_set_expand_gray_1_2_4_to_8(p->png);
    if ((color & PNG_COLOR_MASK_COLOR) && channels > 1)
        png_set_bgr(p->png);
    else if (channels > 1)
        png_set_gray_to_rgb(p->png);
    else
        png_set_rgb_to_gray(p->png, PNG_ERROR_ACTION_NONE, 0.299, 0.587);
    png_set_interlace_handling(p->png);
    png_read_update_info(p->png, p->info);
}

static enum ct_status png_pixels(struct png *p, struct ct_image *out)
{
    size_t pitch = (size_t)out->width * (size_t)out->channels;

    if (setjmp(png_jmpbuf(p->png)))
        return ct_fail(CT_EPARSE, "a broken PNG: %s", p->why);
    png_convert(p, out->channels);
    if (png_get_rowbytes(p->png, p->info) != pitch)
        return ct_fail(CT_ENOTSUP, "a PNG of an unusual kind");
    for (int y = 0; y < out->height; y++)
        p->rows[y] = out->pixels + (size_t)y * pitch;
    png_read_image(p->png, p->rows);
    png_read_end(p->png, NULL);
    return CT_OK;
}

static enum ct_status png_peek(struct ct_codec *c, struct ct_bytes file,
                               enum ct_image_mode mode, struct ct_image *out)
{
    enum ct_status st;
    struct png p;

    (void)c;
    st = png_start(&p, file);
    if (st == CT_OK)
        st = png_header(&p, mode, out);
    png_end(&p);
    return st;
}

static enum ct_status png_decode(struct ct_codec *c, struct ct_bytes file,
                                 enum ct_image_mode mode,
                                 struct ct_image *out)
{
    struct ct_image h = { 0 };
    enum ct_status st;
    struct png p;

    CT_TRY_GOTO(png_start(&p, file), st, out);
    CT_TRY_GOTO(png_header(&p, mode, &h), st, out);
    CT_TRY_GOTO(ct_image_size(out, h.width, h.height, h.channels), st, out);
    CT_TRY_GOTO(ct_room_grow(&c->rows, (size_t)h.height * sizeof(*p.rows)), st,
                out);
    p.rows = c->rows.ptr;
    st = png_pixels(&p, out);
out:
    png_end(&p);
    return st;
}

static enum ct_status png_put(struct png *p, const struct ct_image *im)
{
    static const int color[] = { 0, PNG_COLOR_TYPE_GRAY, 0, PNG_COLOR_TYPE_RGB,
                                 PNG_COLOR_TYPE_RGB_ALPHA };

    if (setjmp(png_jmpbuf(p->png)))
        return ct_fail(CT_EIO, "cannot write a PNG: %s", p->why);
    png_set_write_fn(p->png, p, png_give, png_flush_nothing);
    png_set_filter(p->png, PNG_FILTER_TYPE_BASE, PNG_FILTER_SUB);
    png_set_compression_level(p->png, Z_BEST_SPEED);
    png_set_compression_strategy(p->png, Z_RLE);
    png_set_IHDR(p->png, p->info, (png_uint_32)im->width,
                 (png_uint_32)im->height, 8, color[im->channels],
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    png_write_info(p->png, p->info);
    png_set_bgr(p->png);
    for (int y = 0; y < im->height; y++)
        png_write_row(p->png, im->pixels + (size_t)y * (size_t)im->width *
                                               (size_t)im->channels);
    png_write_end(p->png, p->info);
    return CT_OK;
}

static enum ct_status png_encode(const struct ct_image *im,
                                 struct ct_text *out)
{
    struct png p = { .out = out };
    enum ct_status st;

    if (im->channels != 1 && im->channels != 3 && im->channels != 4)
        return ct_fail(CT_EINVAL, "a PNG has 1, 3 or 4 channels, not %d",
                       im->channels);
    p.png  = png_create_write_struct(PNG_LIBPNG_VER_STRING, &p, png_failed,
                                     png_warned);
    p.info = p.png ? png_create_info_struct(p.png) : NULL;
    st     = p.info ? png_put(&p, im)
                    : ct_fail(CT_ENOMEM, "libpng has no memory");
    png_destroy_write_struct(&p.png, &p.info);
    return st == CT_OK && out->failed ? CT_ENOMEM : st;
}

const struct ct_image_format ct_image_png = {
    .name   = "png",
    .also   = "png",
    .is     = png_is,
    .peek   = png_peek,
    .decode = png_decode,
    .encode = png_encode,
    .orientation = ct_png_orientation,
};
#endif
