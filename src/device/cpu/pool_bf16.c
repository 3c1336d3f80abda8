/* pool_bf16.c - maxima and means of bfloat16 images in NHWC.
 *
 * Rows of positions go to the threads.  At each position up to TILE channels
 * are worked on at a time, or LOT of them in registers.  Means are made of
 * floats and rounded once.  The backward passes go over the input: each
 * position gathers from the windows that cover it. */
#include "device/cpu/bf16.h"
#include "device/cpu/loop.h"
#include "device/cpu/pool_impl.h"

enum { TILE = 64, LOT = 16, LOWEST = 0xff7f }; /* number of bfloat16 */

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
CT_INLINE void window_max(const struct ct_pool *p, const uint16_t *x,
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

/* Sixteen channels in registers. */
typedef float    lot_f __attribute__((vector_size(64)));
typedef int32_t  lot_i __attribute__((vector_size(64)));
typedef int32_t  lot_any __attribute__((vector_size(64), aligned(4)));
typedef uint16_t lot_u __attribute__((vector_size(32), aligned(2),
                                      may_alias));

CT_INLINE void lot_max(const struct ct_pool *p, const uint16_t *x,
                       int64_t first, int64_t rows, int64_t columns,
                       uint16_t *y, int32_t *at)
{
    lot_f best  = ct_widen(LOWEST) - (lot_f){ 0 };
    lot_i place = (lot_i){ 0 } - 1;

    for (int64_t r = 0; r < rows; r++)
        for (int64_t s = 0; s < columns; s++) {
            const int64_t here = first + r * p->w + s;
            const lot_u raw    = *(const lot_u *)(x + here * p->c);
            const lot_i wide   = __builtin_convertvector(raw, lot_i) << 16;
            const lot_i more   = (lot_f)wide > best;

            best  = (lot_f)((more & wide) | (~more & (lot_i)best));
            place = (more & (int32_t)here) | (~more & place);
        }
    *(lot_u *)y    = __builtin_convertvector((lot_i)best >> 16, lot_u);
    *(lot_any *)at = place;
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
    lot_max(p, x + (c), first, rows, columns, y + (c), at + (c))
        if (p->c >= LOT)
            EACH_LOT(p->c, LOT, MAX_OF);
        else
            window_max(p, x, first, rows, columns, p->c, y, at);
#undef MAX_OF
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

/* dx where one window covers a position. */
CT_INLINE void copy_max(int32_t here, const uint16_t *dy, const int32_t *at,
                        int64_t n, uint16_t *dx)
{
    CT_SIMD_EACH (l, n)
        dx[l] = at[l] == here ? dy[l] : 0;
}

/* Row h of dx of one image, whose windows do not overlap. */
CT_SIMD static void row_max_apart(const struct ct_pool *p, int64_t h,
                                  const uint16_t *dy, const int32_t *at,
                                  uint16_t *dx)
{
    int64_t i0 = 0, i1 = 0, next = 0;

    pool_cover(h, p->out_h, p->kernel_h, p->stride_h, p->pad_h, &i0, &i1);
    for (int64_t j = 0; j < p->out_w && i0 < i1; j++) {
        const struct pool_span s = pool_columns_of(p, j);
        const int64_t o = (i0 * p->out_w + j) * p->c;

        if (s.from >= p->w) /* with strides beyond the kernel */
            break;
        if (next < s.from)
            memset(dx + next * p->c, 0,
                   (size_t)((s.from - next) * p->c) * sizeof(*dx));
        for (int64_t w = s.from; w < s.to; w++) {
            const int32_t here = (int32_t)(h * p->w + w);
            uint16_t *to       = dx + w * p->c;

#define COPY(c, n) copy_max(here, dy + o + (c), at + o + (c), n, to + (c))
            EACH_CHANNEL(p->c, COPY);
#undef COPY
        }
        next = s.to;
    }
    memset(dx + next * p->c, 0,
           (size_t)((p->w - next) * p->c) * sizeof(*dx));
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
    const bool apart  = p->kernel_h <= p->stride_h &&
                       p->kernel_w <= p->stride_w;

    CT_FOR_ROWS (k, p->n * p->h, row) {
        const int64_t o = k / p->h * out;

        if (apart)
            row_max_apart(p, k % p->h, ct_bf16(dy) + o, at + o,
                          ct_bf16_out(dx) + k * row);
        else
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
