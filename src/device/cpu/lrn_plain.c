/* lrn_plain.c - local response normalization of plain images.
 *
 * Across channels: a tile of TILE positions goes through the channels.  In the
 * backward pass channel c is finished when the ratios of c + half are known;
 * the last `size` channels' ratios wait in a ring.
 *
 * Within a channel: rows of a window are merged column by column into one line
 * with zeros at both ends, then the columns. */
#include "device/cpu/loop.h"
#include "device/cpu/lrn_impl.h"

enum { TILE = 64, RING = 33, LINE = 2048 };

static bool plain_takes(const void *op)
{
    const struct ct_lrn *p = op;

    return p->layout == CT_PLAIN &&
           (p->within ? p->w + p->size <= LINE : p->size <= RING);
}

/* q[i] = the sum of squares over the channels around c. */
CT_INLINE void squares(const struct ct_lrn *p, int64_t n, int64_t c,
                       const float *x, float *q)
{
    const int64_t half = p->size / 2, plane = p->h * p->w;
    const int64_t from = c > half ? c - half : 0;
    const int64_t to = c + half < p->c ? c + half + 1 : p->c;

    CT_SIMD_EACH (i, n)
        q[i] = x[from * plane + i] * x[from * plane + i];
    for (int64_t j = from + 1; j < to; j++)
        CT_SIMD_EACH (i, n)
            q[i] += x[j * plane + i] * x[j * plane + i];
}

CT_SIMD static void tile_forward(const struct ct_lrn *p, int64_t n,
                                 const float *x, float *y)
{
    const int64_t plane = p->h * p->w;
    float q[TILE];

    for (int64_t c = 0; c < p->c; c++) {
        squares(p, n, c, x, q);
        lrn_row(n, lrn_a(p), p->k, p->beta, x + c * plane, q, y + c * plane);
    }
}

CT_SIMD static void tile_backward(const struct ct_lrn *p, int64_t n,
                                  const float *x, const float *dy, float *dx)
{
    const int64_t half = p->size / 2, plane = p->h * p->w;
    const float twice = 2 * lrn_a(p) * p->beta;
    float kept[RING][TILE], ratio[RING][TILE], q[TILE];

    for (int64_t c = 0; c < p->c + half; c++) {
        const int64_t e = c - half;
        int64_t from, to;

        if (c < p->c) {
            squares(p, n, c, x, q);
            lrn_row_parts(n, lrn_a(p), p->k, p->beta, x + c * plane,
                          dy + c * plane, q, kept[c % p->size],
                          ratio[c % p->size]);
        }
        if (e < 0)
            continue;
        from = e > half ? e - half : 0;
        to   = c < p->c ? c + 1 : p->c;
        CT_SIMD_EACH (i, n)
            q[i] = ratio[from % p->size][i];
        for (int64_t j = from + 1; j < to; j++)
            CT_SIMD_EACH (i, n)
                q[i] += ratio[j % p->size][i];
        CT_SIMD_EACH (i, n)
            dx[e * plane + i] = kept[e % p->size][i] -
                                twice * x[e * plane + i] * q[i];
    }
}

/* The line's ends count as zeros. */
static void clear_ends(const struct ct_lrn *p, float *line)
{
    for (int64_t i = 0; i < p->size / 2; i++)
        line[i] = line[p->size / 2 + p->w + i] = 0;
}

/* q = the sum over row h's windows of x (squared, with `square`). */
CT_INLINE void box_row(const struct ct_lrn *p, int64_t h, bool square,
                       const float *x, float *line, float *q)
{
    const int64_t half = p->size / 2;
    const int64_t from = h > half ? h - half : 0;
    const int64_t to = h + half < p->h ? h + half + 1 : p->h;
    float *inside = line + half;

    CT_SIMD_EACH (i, p->w)
        inside[i] = 0;
    for (int64_t j = from; j < to; j++) {
        const float *row = x + j * p->w;

        if (square)
            CT_SIMD_EACH (i, p->w)
                inside[i] += row[i] * row[i];
        else
            CT_SIMD_EACH (i, p->w)
                inside[i] += row[i];
    }
    CT_SIMD_EACH (i, p->w)
        q[i] = line[i];
    for (int64_t d = 1; d < p->size; d++)
        CT_SIMD_EACH (i, p->w)
            q[i] += line[i + d];
}

CT_SIMD static void plane_forward(const struct ct_lrn *p, const float *x,
                                  float *y)
{
    float line[LINE], q[LINE];

    clear_ends(p, line);
    for (int64_t h = 0; h < p->h; h++) {
        box_row(p, h, true, x, line, q);
        lrn_row(p->w, lrn_a(p), p->k, p->beta, x + h * p->w, q, y + h * p->w);
    }
}

CT_SIMD static void plane_backward(const struct ct_lrn *p, const float *x,
                                   const float *dy, float *ratio, float *dx)
{
    const float twice = 2 * lrn_a(p) * p->beta;
    float line[LINE], q[LINE];

    clear_ends(p, line);
    for (int64_t h = 0; h < p->h; h++) {
        const int64_t o = h * p->w;

        box_row(p, h, true, x, line, q);
        lrn_row_parts(p->w, lrn_a(p), p->k, p->beta, x + o, dy + o, q, dx + o,
                      ratio + o);
    }
    for (int64_t h = 0; h < p->h; h++) {
        const int64_t o = h * p->w;

        box_row(p, h, false, ratio, line, q);
        CT_SIMD_EACH (i, p->w)
            dx[o + i] -= twice * x[o + i] * q[i];
    }
}

/* Tile i of the image: where it starts, how many positions it has. */
static int64_t tile_at(const struct ct_lrn *p, int64_t i, int64_t *n)
{
    const int64_t plane = p->h * p->w, tiles = (plane + TILE - 1) / TILE;
    const int64_t from = i % tiles * TILE;

    *n = plane - from < TILE ? plane - from : TILE;
    return i / tiles * p->c * plane + from;
}

static enum ct_status plain_forward(const struct ct_lrn *p, const float *x,
                                    float *y)
{
    const int64_t plane = p->h * p->w, tiles = (plane + TILE - 1) / TILE;

    if (p->within) {
        CT_FOR_ROWS (i, p->n * p->c, plane)
            plane_forward(p, x + i * plane, y + i * plane);
        return CT_OK;
    }
    CT_FOR_ROWS (i, p->n * tiles, TILE * p->c) {
        int64_t n, o = tile_at(p, i, &n);

        tile_forward(p, n, x + o, y + o);
    }
    return CT_OK;
}

static enum ct_status plain_backward(const struct ct_lrn *p, const float *x,
                                     const float *dy, float *scratch, float *dx)
{
    const int64_t plane = p->h * p->w, tiles = (plane + TILE - 1) / TILE;

    if (p->within) {
        CT_FOR_ROWS (i, p->n * p->c, plane)
            plane_backward(p, x + i * plane, dy + i * plane,
                           scratch + i * plane, dx + i * plane);
        return CT_OK;
    }
    CT_FOR_ROWS (i, p->n * tiles, TILE * p->c) {
        int64_t n, o = tile_at(p, i, &n);

        tile_backward(p, n, x + o, dy + o, dx + o);
    }
    return CT_OK;
}

const struct ct_lrn_impl ct_lrn_plain = {
    .head     = { .name = "plain", .takes = plain_takes },
    .forward  = plain_forward,
    .backward = plain_backward,
};
