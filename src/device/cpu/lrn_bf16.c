/* lrn_bf16.c - local response normalization of bfloat16 images in NHWC.
 *
 * Across channels: STEP channels of a position at a time, in rows of floats
 * with the neighbours that their windows and the windows of those reach.
 * Within a channel: sums over neighbouring positions, STEP channels at a time;
 * the backward pass keeps its ratios, as floats, in `scratch`. */
#include "device/cpu/bf16.h"
#include "device/cpu/loop.h"
#include "device/cpu/lrn_impl.h"

enum { STEP = 256, REACH = CT_LRN_BF16_MOST / 2, WIDE = STEP + 4 * REACH };

static bool bf16_takes(const void *op)
{
    const struct ct_lrn *p = op;

    return p->dtype == CT_BF16 && p->layout == CT_NHWC &&
           (p->within || p->size <= CT_LRN_BF16_MOST);
}

/* Channels [from, to) of a row that starts at channel `base`; 0 where the
 * image has none. */
CT_INLINE void enter(const struct ct_lrn *p, const uint16_t *x, int64_t base,
                     float *row)
{
    const int64_t first = base < 0 ? -base : 0;
    const int64_t end   = p->c - base < WIDE ? p->c - base : WIDE;

    memset(row, 0, WIDE * sizeof(*row));
    CT_SIMD_FROM (i, first, end)
        row[i] = ct_widen(x[base + i]);
}

/* sum[i] over the window around i, for i in [from, to). */
CT_INLINE void windows(int64_t half, int64_t from, int64_t to, const float *v,
                       float *sum)
{
    CT_SIMD_FROM (i, from, to)
        sum[i] = 0;
    for (int64_t d = -half; d <= half; d++)
        CT_SIMD_FROM (i, from, to)
            sum[i] += v[i + d];
}

CT_INLINE void squares(int64_t n, const float *x, float *q)
{
    CT_SIMD_EACH (i, n)
        q[i] = x[i] * x[i];
}

/* One position. */
CT_SIMD static void across_forward(const struct ct_lrn *p, const uint16_t *x,
                                   uint16_t *y)
{
    const int64_t half = p->size / 2, pad = 2 * REACH;
    float v[WIDE], q[WIDE], sum[WIDE], out[STEP];

    for (int64_t c = 0; c < p->c; c += STEP) {
        const int64_t n = p->c - c < STEP ? p->c - c : STEP;

        enter(p, x, c - pad, v);
        squares(WIDE, v, q);
        windows(half, pad, pad + n, q, sum);
        lrn_row(n, lrn_a(p), p->k, p->beta, v + pad, sum + pad, out);
        CT_SIMD_EACH (i, n)
            y[c + i] = ct_narrow(out[i]);
    }
}

CT_SIMD static void across_backward(const struct ct_lrn *p, const uint16_t *x,
                                    const uint16_t *dy, uint16_t *dx)
{
    const int64_t half = p->size / 2, pad = 2 * REACH;
    const float twice  = 2 * lrn_a(p) * p->beta;
    float v[WIDE], d[WIDE], q[WIDE], sum[WIDE], kept[WIDE], ratio[WIDE];

    for (int64_t c = 0; c < p->c; c += STEP) {
        const int64_t n = p->c - c < STEP ? p->c - c : STEP;
        /* What the windows reach, as far as there are channels: elsewhere a k
         * of 0 would give 0 / 0. */
        const int64_t from = c < half ? pad - c : pad - half;
        const int64_t rest = p->c - c < n + half ? p->c - c : n + half;

        enter(p, x, c - pad, v);
        enter(p, dy, c - pad, d);
        squares(WIDE, v, q);
        windows(half, from, pad + rest, q, sum);
        memset(ratio, 0, sizeof(ratio));
        lrn_row_parts(pad + rest - from, lrn_a(p), p->k, p->beta, v + from,
                      d + from, sum + from, kept + from, ratio + from);
        windows(half, pad, pad + n, ratio, sum);
        CT_SIMD_EACH (i, n)
            dx[c + i] = ct_narrow(kept[pad + i] -
                                  twice * v[pad + i] * sum[pad + i]);
    }
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

/* q = the sums of squares around a position, of n channels from x on. */
CT_INLINE void squares_around(const struct ct_lrn *p, const struct around *q,
                              int64_t n, const uint16_t *x, float *sum)
{
    CT_SIMD_EACH (i, n)
        sum[i] = 0;
    for (int64_t h = q->h0; h < q->h1; h++)
        for (int64_t w = q->w0; w < q->w1; w++) {
            const uint16_t *from = x + (h * p->w + w) * p->c;

            CT_SIMD_EACH (i, n)
                sum[i] += ct_widen(from[i]) * ct_widen(from[i]);
        }
}

CT_INLINE void widen(int64_t n, const uint16_t *x, float *y)
{
    CT_SIMD_EACH (i, n)
        y[i] = ct_widen(x[i]);
}

/* One position at (h, w) of an image. */
CT_SIMD static void within_forward(const struct ct_lrn *p, int64_t h,
                                   int64_t w, const uint16_t *x, uint16_t *y)
{
    const struct around q = around(p, h, w);
    const int64_t here    = (h * p->w + w) * p->c;
    float v[STEP], sum[STEP], out[STEP];

    for (int64_t c = 0; c < p->c; c += STEP) {
        const int64_t n = p->c - c < STEP ? p->c - c : STEP;

        squares_around(p, &q, n, x + c, sum);
        widen(n, x + here + c, v);
        lrn_row(n, lrn_a(p), p->k, p->beta, v, sum, out);
        CT_SIMD_EACH (i, n)
            y[here + c + i] = ct_narrow(out[i]);
    }
}

CT_SIMD static void within_ratios(const struct ct_lrn *p, int64_t h, int64_t w,
                                  const uint16_t *x, const uint16_t *dy,
                                  float *ratio)
{
    const struct around q = around(p, h, w);
    const int64_t here    = (h * p->w + w) * p->c;
    float v[STEP], d[STEP], sum[STEP], kept[STEP];

    for (int64_t c = 0; c < p->c; c += STEP) {
        const int64_t n = p->c - c < STEP ? p->c - c : STEP;

        squares_around(p, &q, n, x + c, sum);
        widen(n, x + here + c, v);
        widen(n, dy + here + c, d);
        lrn_row_parts(n, lrn_a(p), p->k, p->beta, v, d, sum, kept,
                      ratio + here + c);
    }
}

/* dy s^-beta is the ratio times s / x; it is made again, because x may be 0. */
CT_SIMD static void within_join(const struct ct_lrn *p, int64_t h, int64_t w,
                                const uint16_t *x, const uint16_t *dy,
                                const float *ratio, uint16_t *dx)
{
    const struct around q = around(p, h, w);
    const int64_t here    = (h * p->w + w) * p->c;
    const float twice     = 2 * lrn_a(p) * p->beta;
    float d[STEP], sum[STEP], kept[STEP];

    for (int64_t c = 0; c < p->c; c += STEP) {
        const int64_t n = p->c - c < STEP ? p->c - c : STEP;

        squares_around(p, &q, n, x + c, sum);
        widen(n, dy + here + c, d);
        lrn_row(n, lrn_a(p), p->k, p->beta, d, sum, kept);
        CT_SIMD_EACH (i, n)
            sum[i] = 0;
        for (int64_t j = q.h0; j < q.h1; j++)
            for (int64_t k = q.w0; k < q.w1; k++) {
                const float *from = ratio + (j * p->w + k) * p->c + c;

                CT_SIMD_EACH (i, n)
                    sum[i] += from[i];
            }
        CT_SIMD_EACH (i, n)
            dx[here + c + i] = ct_narrow(
                kept[i] - twice * ct_widen(x[here + c + i]) * sum[i]);
    }
}

static enum ct_status bf16_forward(const struct ct_lrn *p, const float *x,
                                   float *y)
{
    const int64_t plane = p->h * p->w, image = plane * p->c;

    CT_FOR_ROWS (i, p->n * plane, p->c * 16) {
        const int64_t s = i % plane, at = i / plane * image;

        if (p->within)
            within_forward(p, s / p->w, s % p->w, ct_bf16(x) + at,
                           ct_bf16_out(y) + at);
        else
            across_forward(p, ct_bf16(x) + i * p->c,
                           ct_bf16_out(y) + i * p->c);
    }
    return CT_OK;
}

static enum ct_status bf16_backward(const struct ct_lrn *p, const float *x,
                                    const float *dy, float *scratch, float *dx)
{
    const int64_t plane = p->h * p->w, image = plane * p->c;

    if (!p->within) {
        CT_FOR_ROWS (i, p->n * plane, p->c * 16)
            across_backward(p, ct_bf16(x) + i * p->c, ct_bf16(dy) + i * p->c,
                            ct_bf16_out(dx) + i * p->c);
        return CT_OK;
    }
    CT_FOR_ROWS (i, p->n * plane, p->c * 16) {
        const int64_t s = i % plane, at = i / plane * image;

        within_ratios(p, s / p->w, s % p->w, ct_bf16(x) + at, ct_bf16(dy) + at,
                      scratch + at);
    }
    CT_FOR_ROWS (i, p->n * plane, p->c * 16) {
        const int64_t s = i % plane, at = i / plane * image;

        within_join(p, s / p->w, s % p->w, ct_bf16(x) + at, ct_bf16(dy) + at,
                    scratch + at, ct_bf16_out(dx) + at);
    }
    return CT_OK;
}

const struct ct_lrn_impl ct_lrn_bf16 = {
    .head     = { .name = "bf16", .takes = bf16_takes },
    .forward  = bf16_forward,
    .backward = bf16_backward,
};
