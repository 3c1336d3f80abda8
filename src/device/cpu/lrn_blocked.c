/* lrn_blocked.c - local response normalization where channels lie together in
 * eights or sixteens.
 *
 * Across channels: a tile of TILE positions goes through the blocks.  For each
 * position a strip holds three blocks, the one at work in the middle,
 *
 *     | block - 1 | block | block + 1 |
 *
 * so that the windows of eight channels are loads at shifted addresses.  The
 * backward pass does the same with the ratios, one block behind.
 *
 * Within a channel: sums over neighbouring positions, eight lanes at a time. */
#include "device/cpu/loop.h"
#include "device/cpu/lrn_impl.h"

enum { TILE = 16, BLOCK = 16, STRIP = 3 * BLOCK };

static bool blocked_takes(const void *op)
{
    const struct ct_lrn *p = op;

    int64_t b = ct_layout_block(p->layout, p->c);

    /* Without k padding would become 0 * 0^-beta, which is no number. */
    return (p->layout == CT_BLOCKED8 || p->layout == CT_BLOCKED16) &&
           (p->within || p->size / 2 <= b) && (p->k > 0 || p->c % b == 0);
}

/* Moves every strip one block on; the last third waits to be written. */
CT_INLINE void shift(int64_t n, int64_t b, float (*strip)[STRIP])
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t l = 0; l < 2 * b; l += CT_LANES)
            *(ct_v8f *)(strip[i] + l) = CT_LOAD8(strip[i] + b + l);
}

/* The last third: squares of x, or zeros where there is no block. */
CT_INLINE void enter_squares(int64_t n, int64_t b, const float *x,
                             float (*strip)[STRIP])
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t l = 0; l < b; l += CT_LANES) {
            ct_v8f v = { 0 };

            if (x)
                v = CT_LOAD8(x + i * b + l);
            *(ct_v8f *)(strip[i] + 2 * b + l) = v * v;
        }
}

/* sum[i b + l] over the window around channel l of the middle block. */
CT_INLINE void windows(int64_t n, int64_t b, int64_t half,
                       float (*strip)[STRIP], float *sum)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t l = 0; l < b; l += CT_LANES) {
            ct_v8f s = { 0 };

            for (int64_t d = -half; d <= half; d++)
                s += CT_LOAD8(strip[i] + b + l + d);
            *(ct_v8f *)(sum + i * b + l) = s;
        }
}

/* x, y: n positions of the first block; blocks are `step` floats apart. */
CT_INLINE void tile_forward(const struct ct_lrn *p, int64_t b, int64_t n,
                            const float *x, float *y)
{
    const int64_t blocks = (p->c + b - 1) / b, step = p->h * p->w * b;
    float strip[TILE][STRIP] = { { 0 } }, sum[TILE * BLOCK];

    enter_squares(n, b, x, strip);
    for (int64_t k = 0; k < blocks; k++, x += step, y += step) {
        shift(n, b, strip);
        enter_squares(n, b, k + 1 < blocks ? x + step : NULL, strip);
        windows(n, b, p->size / 2, strip, sum);
        lrn_row(n * b, lrn_a(p), p->k, p->beta, x, sum, y);
    }
}

CT_INLINE void tile_backward(const struct ct_lrn *p, int64_t b, int64_t n,
                             const float *x, const float *dy, float *dx)
{
    const int64_t blocks = (p->c + b - 1) / b, step = p->h * p->w * b;
    const float twice = 2 * lrn_a(p) * p->beta;
    float square[TILE][STRIP] = { { 0 } }, ratio[TILE][STRIP] = { { 0 } };
    float kept[2][TILE * BLOCK], sum[TILE * BLOCK], r[TILE * BLOCK] = { 0 };

    enter_squares(n, b, x, square);
    for (int64_t k = 0; k <= blocks; k++) {
        const float *here = x + k * step;

        shift(n, b, ratio);
        if (k < blocks) {
            shift(n, b, square);
            enter_squares(n, b, k + 1 < blocks ? here + step : NULL, square);
            windows(n, b, p->size / 2, square, sum);
            lrn_row_parts(n * b, lrn_a(p), p->k, p->beta, here, dy + k * step,
                          sum, kept[k % 2], r);
        }
        for (int64_t i = 0; i < n; i++)
            CT_SIMD_EACH (l, b)
                ratio[i][2 * b + l] = k < blocks ? r[i * b + l] : 0;
        if (k == 0)
            continue;
        windows(n, b, p->size / 2, ratio, sum);
        CT_SIMD_EACH (i, n * b)
            dx[(k - 1) * step + i] = kept[(k - 1) % 2][i] -
                                     twice * (here - step)[i] * sum[i];
    }
}

/* Constant blocks unroll the loops over lanes. */
CT_SIMD static void across_forward(const struct ct_lrn *p, int64_t n,
                                   const float *x, float *y)
{
    if (p->layout == CT_BLOCKED16)
        tile_forward(p, 16, n, x, y);
    else
        tile_forward(p, 8, n, x, y);
}

CT_SIMD static void across_backward(const struct ct_lrn *p, int64_t n,
                                    const float *x, const float *dy, float *dx)
{
    if (p->layout == CT_BLOCKED16)
        tile_backward(p, 16, n, x, dy, dx);
    else
        tile_backward(p, 8, n, x, dy, dx);
}

/* The positions of a plane around (h, w): rows [h0, h1), columns [w0, w1). */
struct around {
    int64_t h0, h1, w0, w1;
};

static inline struct around around(const struct ct_lrn *p, int64_t h,
                                   int64_t w)
{
    const int64_t half = p->size / 2;

    return (struct around){
        h > half ? h - half : 0, h + half < p->h ? h + half + 1 : p->h,
        w > half ? w - half : 0, w + half < p->w ? w + half + 1 : p->w
    };
}

/* y = the sum of squares around each position of row h. */
CT_INLINE void row_squares(const struct ct_lrn *p, int64_t b, int64_t h,
                           const float *x, float *y)
{
    for (int64_t w = 0; w < p->w; w++) {
        const struct around q = around(p, h, w);

        for (int64_t l = 0; l < b; l += CT_LANES) {
            ct_v8f s = { 0 };

            for (int64_t j = q.h0; j < q.h1; j++)
                for (int64_t v = j * p->w + q.w0; v < j * p->w + q.w1; v++)
                    s += CT_LOAD8(x + v * b + l) * CT_LOAD8(x + v * b + l);
            *(ct_v8f *)(y + w * b + l) = s;
        }
    }
}

CT_SIMD static void within_forward(const struct ct_lrn *p, int64_t b,
                                   const float *x, float *y)
{
    const int64_t row = p->w * b;

    for (int64_t h = 0; h < p->h; h++) {
        row_squares(p, b, h, x, y + h * row);
        lrn_row(row, lrn_a(p), p->k, p->beta, x + h * row, y + h * row,
                y + h * row);
    }
}

CT_SIMD static void within_backward(const struct ct_lrn *p, int64_t b,
                                    const float *x, const float *dy,
                                    float *ratio, float *dx)
{
    const int64_t row = p->w * b;
    const float twice = 2 * lrn_a(p) * p->beta;

    for (int64_t h = 0; h < p->h; h++) {
        const int64_t o = h * row;

        row_squares(p, b, h, x, ratio + o);
        lrn_row_parts(row, lrn_a(p), p->k, p->beta, x + o, dy + o, ratio + o,
                      dx + o, ratio + o);
    }
    for (int64_t i = 0; i < p->h * p->w; i++) {
        const struct around q = around(p, i / p->w, i % p->w);

        for (int64_t l = i * b; l < (i + 1) * b; l += CT_LANES) {
            ct_v8f s = { 0 };

            for (int64_t j = q.h0; j < q.h1; j++)
                for (int64_t v = j * p->w + q.w0; v < j * p->w + q.w1; v++)
                    s += CT_LOAD8(ratio + v * b + l - i * b);
            *(ct_v8f *)(dx + l) -= twice * CT_LOAD8(x + l) * s;
        }
    }
}

/* Tile i: where its first block starts, how many positions it has. */
static int64_t tile_at(const struct ct_lrn *p, int64_t b, int64_t i, int64_t *n)
{
    const int64_t plane = p->h * p->w, tiles = (plane + TILE - 1) / TILE;
    const int64_t from = i % tiles * TILE;

    *n = plane - from < TILE ? plane - from : TILE;
    return i / tiles * ((p->c + b - 1) / b) * plane * b + from * b;
}

static enum ct_status blocked_forward(const struct ct_lrn *p, const float *x,
                                      float *y)
{
    const int64_t b = ct_layout_block(p->layout, p->c), plane = p->h * p->w;
    const int64_t tiles = (plane + TILE - 1) / TILE;

    if (p->within) {
        CT_FOR_ROWS (i, p->n * ((p->c + b - 1) / b), plane * b)
            within_forward(p, b, x + i * plane * b, y + i * plane * b);
        return CT_OK;
    }
    CT_FOR_ROWS (i, p->n * tiles, TILE * p->c) {
        int64_t n, o = tile_at(p, b, i, &n);

        across_forward(p, n, x + o, y + o);
    }
    return CT_OK;
}

static enum ct_status blocked_backward(const struct ct_lrn *p, const float *x,
                                       const float *dy, float *scratch,
                                       float *dx)
{
    const int64_t b = ct_layout_block(p->layout, p->c), plane = p->h * p->w;
    const int64_t tiles = (plane + TILE - 1) / TILE;

    if (p->within) {
        CT_FOR_ROWS (i, p->n * ((p->c + b - 1) / b), plane * b)
            within_backward(p, b, x + i * plane * b, dy + i * plane * b,
                            scratch + i * plane * b, dx + i * plane * b);
        return CT_OK;
    }
    CT_FOR_ROWS (i, p->n * tiles, TILE * p->c) {
        int64_t n, o = tile_at(p, b, i, &n);

        across_backward(p, n, x + o, dy + o, dx + o);
    }
    return CT_OK;
}

const struct ct_lrn_impl ct_lrn_blocked = {
    .head     = { .name = "blocked", .takes = blocked_takes },
    .forward  = blocked_forward,
    .backward = blocked_backward,
};
