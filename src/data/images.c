/* images.c - which format, how large, and the way to another size.
 *
 * Resizing follows OpenCV's INTER_LINEAR for bytes: pixel centres at halves,
 * edge pixels repeated, weights in 1/2048, rows first, rounding as OpenCV's
 * vector code does it; exactly half the size is the mean of four. */
#include "data/images.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/image_format.h"

static const struct ct_image_format *const formats[] = {
#ifdef CT_HAVE_JPEG
    &ct_image_jpeg,
#endif
#ifdef CT_HAVE_PNG
    &ct_image_png,
#endif
#ifdef CT_HAVE_TIFF
    &ct_image_tiff,
#endif
#ifdef CT_HAVE_WEBP
    &ct_image_webp,
#endif
#ifdef CT_HAVE_GIF
    &ct_image_gif,
#endif
    &ct_image_bmp,
    &ct_image_pnm,
    NULL
};

void ct_image_fini(struct ct_image *im)
{
    ct_room_fini(&im->room);
    *im = (struct ct_image){ 0 };
}

void ct_codec_fini(struct ct_codec *c)
{
    for (int i = 0; formats[i]; i++)
        if (formats[i]->fini)
            formats[i]->fini(c);
    ct_room_fini(&c->taps);
    ct_room_fini(&c->rows);
}

enum ct_status ct_image_size(struct ct_image *im, int width, int height,
                             int channels)
{
    if (width < 1 || height < 1 || width > CT_IMAGE_MAX_SIDE ||
        height > CT_IMAGE_MAX_SIDE ||
        (int64_t)width * height > CT_IMAGE_MAX_PIXELS)
        return ct_fail(CT_EPARSE, "an image of %d x %d pixels", width, height);
    CT_TRY(ct_room_grow(&im->room, (size_t)width * (size_t)height *
                                       (size_t)channels));
    im->pixels   = im->room.ptr;
    im->width    = width;
    im->height   = height;
    im->channels = channels;
    return CT_OK;
}

static enum ct_status image_unknown(void)
{
    char names[80] = "";
    size_t n       = 0;

    for (int i = 0; formats[i] && n < sizeof(names); i++)
        n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s",
                              i ? ", " : "", formats[i]->name);
    return ct_fail(CT_EPARSE, "not an image that this build reads (%s)",
                   names);
}

static enum ct_status image_format(struct ct_bytes file,
                                   const struct ct_image_format **out)
{
    for (int i = 0; formats[i]; i++)
        if (formats[i]->is(file)) {
            *out = formats[i];
            return CT_OK;
        }
    return image_unknown();
}

void ct_image_gray(unsigned char *p, size_t n, int channels)
{
    for (size_t i = 0; i < n; i++) {
        const unsigned char *q = p + (size_t)channels * i;

        p[i] = (unsigned char)((1868 * q[0] + 9617 * q[1] + 4899 * q[2] +
                                (1 << 13)) >> 14);
    }
}

enum ct_status ct_image_convert(struct ct_codec *c, struct ct_image *im,
                                enum ct_image_mode mode)
{
    const int from = im->channels, to = ct_image_channels(mode, from);
    const size_t n = (size_t)im->width * (size_t)im->height;
    const unsigned char *old;

    if (from == to)
        return CT_OK;
    if (to == 1) {
        ct_image_gray(im->pixels, n, from);
        im->channels = 1;
        return CT_OK;
    }
    CT_TRY(ct_room_grow(&c->rows, n * (size_t)from));
    memcpy(c->rows.ptr, im->pixels, n * (size_t)from);
    CT_TRY(ct_image_size(im, im->width, im->height, to));
    old = c->rows.ptr;
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < to; k++)
            im->pixels[i * (size_t)to + (size_t)k] =
                old[i * (size_t)from + (size_t)(from == 1 ? 0 : k)];
    return CT_OK;
}

/* As OpenCV: files are turned upright unless they are wanted as they are. */
static int image_orientation(const struct ct_image_format *f,
                             struct ct_bytes file, enum ct_image_mode mode)
{
    return mode == CT_IMAGE_NATIVE || !f->orientation ? 1
                                                      : f->orientation(file);
}

enum ct_status ct_image_peek(struct ct_codec *c, struct ct_bytes file,
                             enum ct_image_mode mode, struct ct_image *out)
{
    const struct ct_image_format *f = NULL;

    CT_TRY(image_format(file, &f));
    CT_TRY(f->peek(c, file, mode, out));
    if (image_orientation(f, file, mode) > 4) {
        const int width = out->width;

        out->width  = out->height;
        out->height = width;
    }
    return CT_OK;
}

enum ct_status ct_image_decode(struct ct_codec *c, struct ct_bytes file,
                               enum ct_image_mode mode, struct ct_image *out)
{
    const struct ct_image_format *f = NULL;

    CT_TRY(image_format(file, &f));
    CT_TRY(f->decode(c, file, mode, out));
    return ct_image_turn(c, out, image_orientation(f, file, mode));
}

enum ct_status ct_image_encode(const struct ct_image *im, const char *type,
                               struct ct_text *out)
{
    const char *name = type[0] == '.' ? type + 1 : type;

    out->n_bytes = 0;
    for (int i = 0; formats[i]; i++)
        if (formats[i]->encode &&
            (strcasecmp(name, formats[i]->name) == 0 ||
             strcasecmp(name, formats[i]->also) == 0))
            return formats[i]->encode(im, out);
    return ct_fail(CT_EINVAL, "cannot write images of type \"%s\": use jpg or "
                   "png", type);
}

enum ct_status ct_room_read_file(struct ct_room *keep, const char *path,
                                 struct ct_bytes *out)
{
    int fd            = open(path, O_RDONLY | O_CLOEXEC);
    enum ct_status st = CT_OK;
    struct stat info;
    size_t used = 0;
    ssize_t n   = 1;

    if (fd < 0)
        return ct_fail(errno == ENOENT ? CT_ENOTFOUND : CT_EIO,
                       "cannot open %s: %s", path, strerror(errno));
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
        CT_TRY_GOTO(ct_fail(CT_EIO, "%s is not a file", path), st, out);
    CT_TRY_GOTO(ct_room_grow(keep, (size_t)info.st_size), st, out);
    while (used < (size_t)info.st_size && n > 0) {
        n = read(fd, (char *)keep->ptr + used, (size_t)info.st_size - used);
        if (n < 0 && errno == EINTR)
            n = 1;
        else if (n > 0)
            used += (size_t)n;
    }
    if (n < 0)
        st = ct_fail(CT_EIO, "cannot read %s: %s", path, strerror(errno));
    *out = (struct ct_bytes){ keep->ptr, used };
out:
    close(fd);
    return st;
}

enum ct_status ct_image_load(struct ct_codec *c, const char *path,
                             enum ct_image_mode mode, int width, int height,
                             struct ct_room *keep, struct ct_image *scratch,
                             struct ct_image *out)
{
    bool resize = width > 0 && height > 0;
    struct ct_bytes file;
    enum ct_status st;

    CT_TRY(ct_room_read_file(keep, path, &file));
    st = ct_image_decode(c, file, mode, resize ? scratch : out);
    if (st != CT_OK)
        return ct_fail_in(st, "%s", path);
    return resize ? ct_image_resize(c, scratch, width, height, out) : CT_OK;
}

enum { WEIGHT_BITS = 11, WEIGHT_ONE = 1 << WEIGHT_BITS };

/* For each output place along one axis: the first of two input places and
 * what the two weigh. */
struct tap {
    int   at[2];
    short weight[2];
};

static void resize_taps(struct tap *t, int from, int to, bool clamp)
{
    double scale = 1.0 / ((double)to / from);

    for (int i = 0; i < to; i++) {
        float f = (float)((i + 0.5) * scale - 0.5);
        int at  = (int)floorf(f);

        f -= (float)at;
        if (clamp && at < 0)
            at = 0, f = 0;
        if (clamp && at >= from - 1)
            at = from - 1, f = 0;
        t[i].at[0]     = at < 0 ? 0 : at < from ? at : from - 1;
        t[i].at[1]     = at + 1 < 0 ? 0 : at + 1 < from ? at + 1 : from - 1;
        t[i].weight[0] = (short)lrintf((1 - f) * WEIGHT_ONE);
        t[i].weight[1] = (short)lrintf(f * WEIGHT_ONE);
    }
}

static void resize_row(const struct ct_image *im, int y, const struct tap *t,
                       int width, int *out)
{
    const int ch = im->channels;
    const unsigned char *row =
        im->pixels + (size_t)y * (size_t)im->width * (size_t)ch;

    for (int x = 0; x < width; x++) {
        const unsigned char *a = row + (size_t)t[x].at[0] * (size_t)ch;
        const unsigned char *b = row + (size_t)t[x].at[1] * (size_t)ch;

        for (int c = 0; c < ch; c++)
            out[x * ch + c] = a[c] * t[x].weight[0] + b[c] * t[x].weight[1];
    }
}

static void resize_half(const struct ct_image *im, struct ct_image *out)
{
    const int ch       = im->channels;
    const size_t pitch = (size_t)im->width * (size_t)ch;

    for (int y = 0; y < out->height; y++) {
        const unsigned char *in = im->pixels + 2 * (size_t)y * pitch;
        unsigned char *to = out->pixels + (size_t)y * (size_t)out->width *
                                              (size_t)ch;

        for (int x = 0; x < out->width; x++, in += 2 * ch, to += ch)
            for (int c = 0; c < ch; c++)
                to[c] = (unsigned char)((in[c] + in[c + ch] + in[pitch + c] +
                                         in[pitch + c + ch] + 2) >> 2);
    }
}

static void resize_rows(const struct ct_image *im, const struct tap *tx,
                        const struct tap *ty, int *row[2],
                        struct ct_image *out)
{
    const int n = out->width * out->channels;
    int held[2] = { -1, -1 };

    for (int y = 0; y < out->height; y++) {
        const int b0 = ty[y].weight[0], b1 = ty[y].weight[1];
        unsigned char *to = out->pixels + (size_t)y * (size_t)n;

        if (held[1] == ty[y].at[0]) { /* the lower row becomes the upper */
            int *swap = row[0];

            row[0]  = row[1];
            row[1]  = swap;
            held[1] = held[0];
            held[0] = ty[y].at[0];
        }
        for (int k = 0; k < 2; k++)
            if (held[k] != ty[y].at[k]) {
                resize_row(im, ty[y].at[k], tx, out->width, row[k]);
                held[k] = ty[y].at[k];
            }
        for (int i = 0; i < n; i++)
            to[i] = (unsigned char)((((b0 * (row[0][i] >> 4)) >> 16) +
                                     ((b1 * (row[1][i] >> 4)) >> 16) + 2) >> 2);
    }
}

enum ct_status ct_image_resize(struct ct_codec *c, const struct ct_image *im,
                               int width, int height, struct ct_image *out)
{
    struct tap *tap;
    int *row[2];
    size_t n;

    CT_TRY(ct_image_size(out, width, height, im->channels));
    if (width == im->width && height == im->height) {
        memcpy(out->pixels, im->pixels, (size_t)width * (size_t)height *
                                            (size_t)im->channels);
        return CT_OK;
    }
    if (im->width == 2 * width && im->height == 2 * height) {
        resize_half(im, out);
        return CT_OK;
    }
    n = (size_t)width * (size_t)im->channels;
    CT_TRY(ct_room_grow(&c->taps, ((size_t)width + (size_t)height) *
                                      sizeof(*tap)));
    CT_TRY(ct_room_grow(&c->rows, 2 * n * sizeof(*row[0])));
    tap    = c->taps.ptr;
    row[0] = c->rows.ptr;
    row[1] = row[0] + n;
    resize_taps(tap, im->width, width, true);
    resize_taps(tap + width, im->height, height, false);
    resize_rows(im, tap, tap + width, row, out);
    return CT_OK;
}
