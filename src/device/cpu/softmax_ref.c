/* softmax_ref.c - softmax on the CPU, for any shape.
 *
 * Rows that lie together (inner 1) are handled one by one; otherwise tiles of
 * TILE neighbouring positions go through the classes side by side, so that
 * every access is to consecutive floats. */
#include "device/cpu/loop.h"
#include "device/cpu/simd.h"
#include "device/cpu/softmax_impl.h"

enum { TILE = 64 };

CT_SIMD static void row_forward(int64_t c, const float *x, float *y)
{
    float top = x[0], sum = 0;

    CT_SIMD_MAX (j, c, top)
        top = x[j] > top ? x[j] : top;
    CT_SIMD_SUM (j, c, sum) {
        y[j] = ct_exp_row(x[j] - top);
        sum += y[j];
    }
    sum = 1 / sum;
    CT_SIMD_EACH (j, c)
        y[j] *= sum;
}

CT_SIMD static void row_backward(int64_t c, const float *y, const float *dy,
                                 float *dx)
{
    float dot = 0;

    CT_SIMD_SUM (j, c, dot)
        dot += y[j] * dy[j];
    CT_SIMD_EACH (j, c)
        dx[j] = y[j] * (dy[j] - dot);
}

CT_SIMD static void tile_forward(int64_t c, int64_t inner, int64_t n,
                                 const float *x, float *y)
{
    float top[TILE], sum[TILE];

    CT_SIMD_EACH (i, n) {
        top[i] = x[i];
        sum[i] = 0;
    }
    for (int64_t j = 1; j < c; j++)
        CT_SIMD_EACH (i, n)
            top[i] = x[j * inner + i] > top[i] ? x[j * inner + i] : top[i];
    for (int64_t j = 0; j < c; j++)
        CT_SIMD_EACH (i, n) {
            float e = ct_exp_row(x[j * inner + i] - top[i]);

            y[j * inner + i] = e;
            sum[i] += e;
        }
    CT_SIMD_EACH (i, n)
        sum[i] = 1 / sum[i];
    for (int64_t j = 0; j < c; j++)
        CT_SIMD_EACH (i, n)
            y[j * inner + i] *= sum[i];
}

CT_SIMD static void tile_backward(int64_t c, int64_t inner, int64_t n,
                                  const float *y, const float *dy, float *dx)
{
    float dot[TILE] = { 0 };

    for (int64_t j = 0; j < c; j++)
        CT_SIMD_EACH (i, n)
            dot[i] += y[j * inner + i] * dy[j * inner + i];
    for (int64_t j = 0; j < c; j++)
        CT_SIMD_EACH (i, n)
            dx[j * inner + i] =
                y[j * inner + i] * (dy[j * inner + i] - dot[i]);
}

static enum ct_status ref_forward(const struct ct_softmax *p, const float *x,
                                  float *y)
{
    const int64_t c = p->c, inner = p->inner;
    const int64_t tiles = (inner + TILE - 1) / TILE;

    if (c == 0)
        return CT_OK;
    if (inner == 1) {
        CT_FOR_ROWS (o, p->outer, c)
            row_forward(c, x + o * c, y + o * c);
        return CT_OK;
    }
    CT_FOR_ROWS (t, p->outer * tiles, c * TILE) {
        int64_t i  = t % tiles * TILE, n = inner - i < TILE ? inner - i : TILE;
        int64_t at = t / tiles * c * inner + i;

        tile_forward(c, inner, n, x + at, y + at);
    }
    return CT_OK;
}

static enum ct_status ref_backward(const struct ct_softmax *p, const float *y,
                                   const float *dy, float *dx)
{
    const int64_t c = p->c, inner = p->inner;
    const int64_t tiles = (inner + TILE - 1) / TILE;

    if (inner == 1) {
        CT_FOR_ROWS (o, p->outer, c)
            row_backward(c, y + o * c, dy + o * c, dx + o * c);
        return CT_OK;
    }
    CT_FOR_ROWS (t, p->outer * tiles, c * TILE) {
        int64_t i  = t % tiles * TILE, n = inner - i < TILE ? inner - i : TILE;
        int64_t at = t / tiles * c * inner + i;

        tile_backward(c, inner, n, y + at, dy + at, dx + at);
    }
    return CT_OK;
}

const struct ct_softmax_impl ct_softmax_ref = {
    .head     = { .name = "ref" },
    .forward  = ref_forward,
    .backward = ref_backward,
};
