/* pool_bf16.c - maxima and means of bfloat16 images in NHWC.
 *
 * Rows of positions go to the threads.  At each position up to TILE channels
 * are worked on at a time.  Maxima are found among 16-bit integers of the same
 * order, twice as many to a vector as floats.  Means are made of floats and
 * rounded once.  The backward passes go over the input: each position gathers
 * from the windows that cover it. */
#include "device/cpu/bf16.h"
#include "device/cpu/loop.h"
#include "device/cpu/pool_impl.h"

/* LOWEST: the lowest number of bfloat16.  PLACES: of a window whose places are
 * counted in 16 bits. */
enum { TILE = 64, LOWEST = 0xff7f, PLACES = 64 };

/* f(first, n) for all channels, n of them at a time, which the compiler knows
 * from 16 on; the last lot may overlap the one before. */
#define EACH_LOT(channels, lot, f)                                           \
    for (int64_t lot_at = 0; lot_at < (channels); lot_at += (lot))           \
    f((lot_at + (lot) <= (channels) ? lot_at : (channels) - (lot)), lot)
#define EACH_CHANNEL(channels, f)                                            \
    do {                                                                     \
        if ((channels) >= TILE)                                              \
            EACH_LOT(channels, TILE, f);                                     \
        else if ((channels) >= 32)                                           \
            EACH_LOT(channels, 32, f);                                       \
        else if ((channels) >= 16)                                           \
            EACH_LOT(channels, 16, f);                                       \
        else                                                                 \
            f(0, channels);                                                  \
    } while (0)

static bool bf16_takes(const void *op)
{
    const struct ct_pool *p = op;

    return p->dtype == CT_BF16 && p->layout == CT_NHWC;
}

/* One window of `rows` x `columns` from position `first` on. */
CT_INLINE void large_window_max(const struct ct_pool *p, const uint16_t *x,
                                int64_t first, int64_t rows, int64_t columns,
                                int64_t n, uint16_t *y, int32_t *at)
{
    float best[TILE];
    int32_t place[TILE];

    CT_SIMD_EACH (l, n) {
        best[l]  = ct_widen(LOWEST);
        place[l] = -1;
    }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t s = 0; s < columns; s++) {
            const int64_t here   = first + r * p->w + s;
            const uint16_t *from = x + here * p->c;

            CT_SIMD_EACH (l, n) {
                const float v  = ct_widen(from[l]);
                const int more = v > best[l];

                best[l]  = more ? v : best[l];
                place[l] = more ? (int32_t)here : place[l];
            }
        }
    CT_SIMD_EACH (l, n) {
        y[l]  = ct_narrow(best[l]);
        at[l] = place[l];
    }
}

/* An integer for each value, in the order of the values; the same for both
 * zeros, and the lowest for what compares with nothing. */
CT_INLINE int16_t key_of(uint16_t v)
{
    const uint16_t size = v & 0x7fff;
    const int16_t key   = (int16_t)(v & 0x8000 ? ~size : size);

    return size > 0x7f80 ? INT16_MIN : size == 0 ? 0 : key;
}

CT_INLINE uint16_t value_of(int16_t key)
{
    return (uint16_t)(key < 0 ? (uint16_t)~key | 0x8000 : (uint16_t)key);
}

/* The same for windows of up to PLACES. */
CT_INLINE void window_max(const struct ct_pool *p, const uint16_t *x,
                          int64_t first, int64_t rows, int64_t columns,
                          int64_t n, uint16_t *y, int32_t *at)
{
    int16_t best[TILE], place[TILE];
    int32_t places[PLACES];
    int16_t k = 0;

    CT_SIMD_EACH (l, n) {
        best[l]  = key_of(LOWEST);
        place[l] = -1;
    }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t s = 0; s < columns; s++, k++) {
            const int64_t here   = first + r * p->w + s;
            const uint16_t *from = x + here * p->c;

            places[k] = (int32_t)here;
            CT_SIMD_EACH (l, n) {
                const int16_t v = key_of(from[l]);

                place[l] = v > best[l] ? k : place[l];
                best[l]  = v > best[l] ? v : best[l];
            }
        }
    CT_SIMD_EACH (l, n)
        y[l] = value_of(best[l]);
    for (int64_t l = 0; l < n; l++)
        at[l] = place[l] < 0 ? -1 : places[place[l]];
}

/* Row i of the output of one image. */
CT_SIMD static void row_max(const struct ct_pool *p, int64_t i,
                            const uint16_t *x, uint16_t *y, int32_t *at)
{
    const struct pool_span r = pool_rows_of(p, i);

    for (int64_t j = 0; j < p->out_w; j++, y += p->c, at += p->c) {
        const struct pool_span s = pool_columns_of(p, j);
        const int64_t first = r.from * p->w + s.from;
        const int64_t rows = r.to - r.from, columns = s.to - s.from;

#define MAX_OF(c, n)                                                         \
    window_max(p, x + (c), first, rows, columns, n, y + (c), at + (c))
#define LARGE_MAX_OF(c, n)                                                   \
    large_window_max(p, x + (c), first, rows, columns, n, y + (c), at + (c))
        if (rows * columns <= PLACES)
            EACH_CHANNEL(p->c, MAX_OF);
        else
            EACH_CHANNEL(p->c, LARGE_MAX_OF);
#undef MAX_OF
#undef LARGE_MAX_OF
    }
}

static enum ct_status bf16_max(const struct ct_pool *p, const float *x,
                               float *y, int32_t *at)
{
    const int64_t in = p->h * p->w * p->c, row = p->out_w * p->c;

    CT_FOR_ROWS (k, p->n * p->out_h, row * p->kernel_h)
        row_max(p, k % p->out_h, ct_bf16(x) + k / p->out_h * in,
                ct_bf16_out(y) + k * row, at + k * row);
    return CT_OK;
}

/* The windows that cover a position. */
struct covers {
    int64_t i0, i1, j0, j1;
};

CT_INLINE void gather_max(const struct ct_pool *p, const struct covers *v,
                          int32_t here, const uint16_t *dy, const int32_t *at,
                          int64_t n, uint16_t *dx)
{
    float sum[TILE] = { 0 };

    for (int64_t i = v->i0; i < v->i1; i++)
        for (int64_t j = v->j0; j < v->j1; j++) {
            const int64_t o = (i * p->out_w + j) * p->c;

            CT_SIMD_EACH (l, n) {
                const float d = ct_widen(dy[o + l]);

                sum[l] += at[o + l] == here ? d : 0;
            }
        }
    CT_SIMD_EACH (l, n)
        dx[l] = ct_narrow(sum[l]);
}

/* Row h of dx of one image. */
CT_SIMD static void row_max_backward(const struct ct_pool *p, int64_t h,
                                     const uint16_t *dy, const int32_t *at,
                                     uint16_t *dx)
{
    struct covers v = { 0 };

    pool_cover(h, p->out_h, p->kernel_h, p->stride_h, p->pad_h, &v.i0, &v.i1);
    for (int64_t w = 0; w < p->w; w++, dx += p->c) {
        const int32_t here = (int32_t)(h * p->w + w);

        pool_cover(w, p->out_w, p->kernel_w, p->stride_w, p->pad_w, &v.j0,
                   &v.j1);
#define GATHER(c, n) gather_max(p, &v, here, dy + (c), at + (c), n, dx + (c))
        EACH_CHANNEL(p->c, GATHER);
#undef GATHER
    }
}

static enum ct_status bf16_max_backward(const struct ct_pool *p,
                                        const float *dy, const int32_t *at,
                                        float *dx)
{
    const int64_t out = p->out_h * p->out_w * p->c, row = p->w * p->c;

    CT_FOR_ROWS (k, p->n * p->h, row) {
        const int64_t o = k / p->h * out;

        row_max_backward(p, k % p->h, ct_bf16(dy) + o, at + o,
                         ct_bf16_out(dx) + k * row);
    }
    return CT_OK;
}

CT_INLINE void window_mean(const struct ct_pool *p, const uint16_t *x,
                           int64_t rows, int64_t columns, float part,
                           int64_t n, uint16_t *y)
{
    float sum[TILE] = { 0 };

    for (int64_t r = 0; r < rows; r++)
        for (int64_t s = 0; s < columns; s++) {
            const uint16_t *from = x + (r * p->w + s) * p->c;

            CT_SIMD_EACH (l, n)
                sum[l] += ct_widen(from[l]);
        }
    CT_SIMD_EACH (l, n)
        y[l] = ct_narrow(sum[l] * part);
}

CT_SIMD static void row_mean(const struct ct_pool *p, int64_t i,
                             const uint16_t *x, uint16_t *y)
{
    const struct pool_span r = pool_rows_of(p, i);

    for (int64_t j = 0; j < p->out_w; j++, y += p->c) {
        const struct pool_span s = pool_columns_of(p, j);
        const uint16_t *from = x + (r.from * p->w + s.from) * p->c;
        const int64_t size = r.size * s.size;
        const float part = size > 0 ? 1 / (float)size : 0;

#define MEAN_OF(c, n)                                                        \
    window_mean(p, from + (c), r.to - r.from, s.to - s.from, part, n, y + (c))
        EACH_CHANNEL(p->c, MEAN_OF);
#undef MEAN_OF
    }
}

static enum ct_status bf16_average(const struct ct_pool *p, const float *x,
                                   float *y)
{
    const int64_t in = p->h * p->w * p->c, row = p->out_w * p->c;

    CT_FOR_ROWS (k, p->n * p->out_h, row * p->kernel_h)
        row_mean(p, k % p->out_h, ct_bf16(x) + k / p->out_h * in,
                 ct_bf16_out(y) + k * row);
    return CT_OK;
}

CT_INLINE void gather_mean(const struct ct_pool *p, const struct covers *v,
                           const uint16_t *dy, int64_t n, uint16_t *dx)
{
    float sum[TILE] = { 0 };

    for (int64_t i = v->i0; i < v->i1; i++)
        for (int64_t j = v->j0; j < v->j1; j++) {
            const uint16_t *from = dy + (i * p->out_w + j) * p->c;
            const float part = 1 / (float)pool_size_of(p, i, j);

            CT_SIMD_EACH (l, n)
                sum[l] += ct_widen(from[l]) * part;
        }
    CT_SIMD_EACH (l, n)
        dx[l] = ct_narrow(sum[l]);
}

CT_SIMD static void row_mean_backward(const struct ct_pool *p, int64_t h,
                                      const uint16_t *dy, uint16_t *dx)
{
    struct covers v = { 0 };

    pool_cover(h, p->out_h, p->kernel_h, p->stride_h, p->pad_h, &v.i0, &v.i1);
    for (int64_t w = 0; w < p->w; w++, dx += p->c) {
        pool_cover(w, p->out_w, p->kernel_w, p->stride_w, p->pad_w, &v.j0,
                   &v.j1);
#define GATHER(c, n) gather_mean(p, &v, dy + (c), n, dx + (c))
        EACH_CHANNEL(p->c, GATHER);
#undef GATHER
    }
}

static enum ct_status bf16_average_backward(const struct ct_pool *p,
                                            const float *dy, float *dx)
{
    const int64_t out = p->out_h * p->out_w * p->c, row = p->w * p->c;

    CT_FOR_ROWS (k, p->n * p->h, row)
        row_mean_backward(p, k % p->h, ct_bf16(dy) + k / p->h * out,
                          ct_bf16_out(dx) + k * row);
    return CT_OK;
}

const struct ct_pool_impl ct_pool_bf16 = {
    .head             = { .name = "bf16", .takes = bf16_takes },
    .max              = bf16_max,
    .max_backward     = bf16_max_backward,
    .average          = bf16_average,
    .average_backward = bf16_average_backward,
};
