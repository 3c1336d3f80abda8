/* image_gif.c - the first frame of a GIF, through giflib.
 *
 * The picture has the size of the screen; what the frame leaves free, and what
 * is transparent in it, is black. */
#include "data/image_format.h"

#include <string.h>

#ifdef CT_HAVE_GIF
#include <gif_lib.h>

static bool gif_is(struct ct_bytes file)
{
    return file.n >= 6 && (memcmp(file.ptr, "GIF87a", 6) == 0 ||
                           memcmp(file.ptr, "GIF89a", 6) == 0);
}

static int gif_take(GifFileType *g, GifByteType *to, int n)
{
    struct ct_bytes *left = g->UserData;
    const size_t take     = (size_t)n < left->n ? (size_t)n : left->n;

    memcpy(to, left->ptr, take);
    left->ptr = (const char *)left->ptr + take;
    left->n -= take;
    return (int)take;
}

static enum ct_status gif_broken(int code)
{
    const char *why = GifErrorString(code);

    return ct_fail(CT_EPARSE, "a broken GIF: %s",
                   why ? why : "the file ends early");
}

static enum ct_status gif_peek(struct ct_codec *c, struct ct_bytes file,
                               enum ct_image_mode mode, struct ct_image *out)
{
    int error      = 0;
    GifFileType *g = DGifOpen(&file, gif_take, &error);

    (void)c;
    if (!g)
        return gif_broken(error);
    out->width    = g->SWidth;
    out->height   = g->SHeight;
    out->channels = ct_image_channels(mode, 3);
    DGifCloseFile(g, &error);
    return CT_OK;
}

/* Up to the first frame; *clear becomes its transparent color, or -1. */
static enum ct_status gif_find(GifFileType *g, int *clear)
{
    GifRecordType kind;
    GifByteType *block;
    int code;

    *clear = -1;
    for (;;) {
        if (DGifGetRecordType(g, &kind) == GIF_ERROR)
            return gif_broken(g->Error);
        if (kind == IMAGE_DESC_RECORD_TYPE)
            return DGifGetImageDesc(g) == GIF_ERROR ? gif_broken(g->Error)
                                                    : CT_OK;
        if (kind != EXTENSION_RECORD_TYPE)
            return gif_broken(0);
        if (DGifGetExtension(g, &code, &block) == GIF_ERROR)
            return gif_broken(g->Error);
        while (block) {
            if (code == GRAPHICS_EXT_FUNC_CODE && block[0] >= 4 &&
                (block[1] & 1))
                *clear = block[4];
            if (DGifGetExtensionNext(g, &block) == GIF_ERROR)
                return gif_broken(g->Error);
        }
    }
}

static enum ct_status gif_row(GifFileType *g, const ColorMapObject *colors,
                              int clear, int y, unsigned char *line,
                              struct ct_image *out)
{
    const GifImageDesc *d = &g->Image;

    if (DGifGetLine(g, line, d->Width) == GIF_ERROR)
        return gif_broken(g->Error);
    for (int x = 0; x < d->Width; x++) {
        const int at_x = d->Left + x, at_y = d->Top + y;
        unsigned char *to;

        if (at_x >= out->width || at_y >= out->height || line[x] == clear ||
            line[x] >= colors->ColorCount)
            continue;
        to = out->pixels +
             3 * ((size_t)at_y * (size_t)out->width + (size_t)at_x);
        to[0] = colors->Colors[line[x]].Blue;
        to[1] = colors->Colors[line[x]].Green;
        to[2] = colors->Colors[line[x]].Red;
    }
    return CT_OK;
}

static enum ct_status gif_frame(struct ct_codec *c, GifFileType *g, int clear,
                                struct ct_image *out)
{
    static const int first[] = { 0, 4, 2, 1 }, step[] = { 8, 8, 4, 2 };
    const GifImageDesc *d        = &g->Image;
    const ColorMapObject *colors = d->ColorMap ? d->ColorMap : g->SColorMap;

    if (!colors || d->Width < 1 || d->Height < 1 || d->Left < 0 || d->Top < 0 ||
        d->Height > CT_IMAGE_MAX_SIDE || d->Width > CT_IMAGE_MAX_SIDE)
        return gif_broken(0);
    CT_TRY(ct_room_grow(&c->rows, (size_t)d->Width));
    for (int pass = 0; pass < (d->Interlace ? 4 : 1); pass++)
        for (int y = d->Interlace ? first[pass] : 0; y < d->Height;
             y += d->Interlace ? step[pass] : 1)
            CT_TRY(gif_row(g, colors, clear, y, c->rows.ptr, out));
    return CT_OK;
}

static enum ct_status gif_decode(struct ct_codec *c, struct ct_bytes file,
                                 enum ct_image_mode mode,
                                 struct ct_image *out)
{
    int error = 0, clear;
    GifFileType *g = DGifOpen(&file, gif_take, &error);
    enum ct_status st;

    if (!g)
        return gif_broken(error);
    CT_TRY_GOTO(ct_image_size(out, g->SWidth, g->SHeight, 3), st, out);
    memset(out->pixels, 0, 3 * (size_t)out->width * (size_t)out->height);
    CT_TRY_GOTO(gif_find(g, &clear), st, out);
    CT_TRY_GOTO(gif_frame(c, g, clear, out), st, out);
    st = ct_image_convert(c, out, mode);
out:
    DGifCloseFile(g, &error);
    return st;
}

const struct ct_image_format ct_image_gif = {
    .name   = "gif",
    .also   = "gif",
    .is     = gif_is,
    .peek   = gif_peek,
    .decode = gif_decode,
};
#endif
