/* pool_blocked.c - pooling where channels lie together, eight or a multiple.
 *
 * A plane is 8 or 16 channels (`lanes`): one or two vectors of eight a
 * position, positions being `step` floats apart.  Kernels of 2 x 2 and 3 x 3
 * that lie inside the image are unrolled.  The backward passes go over the
 * input: each position gathers from the windows that cover it, so that dx is
 * written once and never read. */
#include <float.h>

#include "device/cpu/loop.h"
#include "device/cpu/pool_impl.h"
#include "device/cpu/simd.h"

enum { HALVES = 2 }; /* vectors of eight in the widest plane */

static bool blocked_takes(const void *op)
{
    const struct ct_pool *p = op;

    return p->layout != CT_PLAIN &&
           ct_layout_block(p->layout, p->c) % CT_LANES == 0;
}

/* A window without values.  The padding of the last block stays zero. */
static void empty_max(int64_t lanes, int64_t channels, float *y, int32_t *at)
{
    for (int64_t l = 0; l < lanes; l++) {
        y[l]  = l < channels ? -FLT_MAX : 0;
        at[l] = -1;
    }
}

/* One window of kh x kw values from position `first` on. */
CT_INLINE void window_max(const float *x, int64_t step, int64_t lanes,
                          int64_t w, int64_t first, int64_t kh, int64_t kw,
                          float *y, int32_t *at)
{
    ct_v8f best[HALVES];
    ct_v8i arg[HALVES];

    for (int64_t q = 0; q < lanes / CT_LANES; q++) {
        best[q] = (ct_v8f){ 0 } - FLT_MAX;
        arg[q]  = (ct_v8i){ 0 } - 1;
    }
    for (int64_t h = 0; h < kh; h++)
        for (int64_t k = 0; k < kw; k++) {
            const int64_t v   = first + h * w + k;
            const ct_v8i here = (ct_v8i){ 0 } + (int32_t)v;

            for (int64_t q = 0; q < lanes / CT_LANES; q++) {
                ct_v8f value = CT_LOAD8(x + v * step + q * CT_LANES);
                ct_v8i more  = value > best[q];

                best[q] = (ct_v8f)((more & (ct_v8i)value) |
                                   (~more & (ct_v8i)best[q]));
                arg[q]  = (more & here) | (~more & arg[q]);
            }
        }
    for (int64_t q = 0; q < lanes / CT_LANES; q++) {
        *(ct_v8f *)(y + q * CT_LANES)  = best[q];
        *(ct_v8i *)(at + q * CT_LANES) = arg[q];
    }
}

CT_INLINE void plane_max(const struct ct_pool *p, int64_t step, int64_t lanes,
                         int64_t channels, const float *x, float *y,
                         int32_t *at)
{
    for (int64_t i = 0; i < p->out_h; i++) {
        const struct pool_span r = pool_rows_of(p, i);
        const int64_t kh = r.to - r.from;

        for (int64_t j = 0; j < p->out_w; j++, y += step, at += step) {
            const struct pool_span s = pool_columns_of(p, j);
            const int64_t kw = s.to - s.from, first = r.from * p->w + s.from;

            if (kh == 3 && kw == 3)
                window_max(x, step, lanes, p->w, first, 3, 3, y, at);
            else if (kh == 2 && kw == 2)
                window_max(x, step, lanes, p->w, first, 2, 2, y, at);
            else if (kh > 0 && kw > 0)
                window_max(x, step, lanes, p->w, first, kh, kw, y, at);
            else
                empty_max(lanes, channels, y, at);
        }
    }
}

CT_INLINE void window_sum(const float *x, int64_t step, int64_t lanes,
                          int64_t w, int64_t kh, int64_t kw, float part,
                          float *y)
{
    ct_v8f sum[HALVES] = { { 0 } };

    for (int64_t h = 0; h < kh; h++)
        for (int64_t k = 0; k < kw; k++)
            for (int64_t q = 0; q < lanes / CT_LANES; q++)
                sum[q] += CT_LOAD8(x + (h * w + k) * step + q * CT_LANES);
    for (int64_t q = 0; q < lanes / CT_LANES; q++)
        *(ct_v8f *)(y + q * CT_LANES) = sum[q] * part;
}

CT_INLINE void plane_average(const struct ct_pool *p, int64_t step,
                             int64_t lanes, const float *x, float *y)
{
    const float full = 1 / (float)(p->kernel_h * p->kernel_w);

    for (int64_t i = 0; i < p->out_h; i++) {
        const struct pool_span r = pool_rows_of(p, i);
        const int64_t kh = r.to - r.from;

        for (int64_t j = 0; j < p->out_w; j++, y += step) {
            const struct pool_span s = pool_columns_of(p, j);
            const int64_t kw = s.to - s.from, size = r.size * s.size;
            const float *from = x + (r.from * p->w + s.from) * step;
            const float part = size == p->kernel_h * p->kernel_w ? full
                               : size > 0 ? 1 / (float)size : 0;

            if (kh == 3 && kw == 3)
                window_sum(from, step, lanes, p->w, 3, 3, part, y);
            else if (kh == 2 && kw == 2)
                window_sum(from, step, lanes, p->w, 2, 2, part, y);
            else
                window_sum(from, step, lanes, p->w, kh, kw, part, y);
        }
    }
}

CT_INLINE void plane_max_backward(const struct ct_pool *p, int64_t step,
                                  int64_t lanes, const float *dy,
                                  const int32_t *at, float *dx)
{
    int64_t i0 = 0, i1 = 0;

    for (int64_t h = 0; h < p->h; h++) {
        int64_t j0 = 0, j1 = 0;

        pool_cover(h, p->out_h, p->kernel_h, p->stride_h, p->pad_h, &i0, &i1);
        for (int64_t w = 0; w < p->w; w++, dx += step) {
            const ct_v8i here = (ct_v8i){ 0 } + (int32_t)(h * p->w + w);
            ct_v8f sum[HALVES] = { { 0 } };

            pool_cover(w, p->out_w, p->kernel_w, p->stride_w, p->pad_w, &j0,
                       &j1);
            for (int64_t i = i0; i < i1; i++)
                for (int64_t o = (i * p->out_w + j0) * step;
                     o < (i * p->out_w + j1) * step; o += step)
                    for (int64_t q = 0; q < lanes / CT_LANES; q++) {
                        const int64_t v = o + q * CT_LANES;
                        ct_v8i mine = *(const ct_v8i *)(at + v) == here;

                        sum[q] += (ct_v8f)(mine & (ct_v8i)CT_LOAD8(dy + v));
                    }
            for (int64_t q = 0; q < lanes / CT_LANES; q++)
                *(ct_v8f *)(dx + q * CT_LANES) = sum[q];
        }
    }
}

CT_INLINE void plane_average_backward(const struct ct_pool *p, int64_t step,
                                      int64_t lanes, const float *dy,
                                      float *dx)
{
    const float full = 1 / (float)(p->kernel_h * p->kernel_w);
    int64_t i0 = 0, i1 = 0;

    for (int64_t h = 0; h < p->h; h++) {
        int64_t j0 = 0, j1 = 0;

        pool_cover(h, p->out_h, p->kernel_h, p->stride_h, p->pad_h, &i0, &i1);
        for (int64_t w = 0; w < p->w; w++, dx += step) {
            ct_v8f sum[HALVES] = { { 0 } };

            pool_cover(w, p->out_w, p->kernel_w, p->stride_w, p->pad_w, &j0,
                       &j1);
            for (int64_t i = i0; i < i1; i++)
                for (int64_t j = j0; j < j1; j++) {
                    const float *from = dy + (i * p->out_w + j) * step;
                    const int64_t size = pool_size_of(p, i, j);
                    const float part = size == p->kernel_h * p->kernel_w
                                           ? full : 1 / (float)size;

                    for (int64_t q = 0; q < lanes / CT_LANES; q++)
                        sum[q] += CT_LOAD8(from + q * CT_LANES) * part;
                }
            for (int64_t q = 0; q < lanes / CT_LANES; q++)
                *(ct_v8f *)(dx + q * CT_LANES) = sum[q];
        }
    }
}

/* How the array falls into planes. */
struct planes {
    int64_t n, step, lanes;
    int64_t in, out; /* positions */
};

static struct planes planes_of(const struct ct_pool *p)
{
    const int64_t b = ct_layout_block(p->layout, p->c);
    const int64_t lanes = b % 16 == 0 ? 16 : CT_LANES;

    return (struct planes){ pool_planes(p) * (b / lanes), b, lanes,
                            p->h * p->w, p->out_h * p->out_w };
}

/* Where plane k starts in an array of `positions` a plane. */
static int64_t plane_at(const struct planes *a, int64_t k, int64_t positions)
{
    const int64_t per_block = a->step / a->lanes;

    return k / per_block * positions * a->step + k % per_block * a->lanes;
}

/* Channels of plane k that are not padding. */
static int64_t channels_of(const struct ct_pool *p, const struct planes *a,
                           int64_t k)
{
    int64_t left = p->c - k % (a->n / (p->n ? p->n : 1)) * a->lanes;

    return left < a->lanes ? left : a->lanes;
}

/* Constant lanes unroll the loops over vectors. */
CT_SIMD static void max_of(const struct ct_pool *p, const struct planes *a,
                           int64_t channels, const float *x, float *y,
                           int32_t *at)
{
    if (a->lanes == 16)
        plane_max(p, a->step, 16, channels, x, y, at);
    else
        plane_max(p, a->step, 8, channels, x, y, at);
}

CT_SIMD static void max_backward_of(const struct ct_pool *p,
                                    const struct planes *a, const float *dy,
                                    const int32_t *at, float *dx)
{
    if (a->lanes == 16)
        plane_max_backward(p, a->step, 16, dy, at, dx);
    else
        plane_max_backward(p, a->step, 8, dy, at, dx);
}

CT_SIMD static void average_of(const struct ct_pool *p, const struct planes *a,
                               const float *x, float *y)
{
    if (a->lanes == 16)
        plane_average(p, a->step, 16, x, y);
    else
        plane_average(p, a->step, 8, x, y);
}

CT_SIMD static void average_backward_of(const struct ct_pool *p,
                                        const struct planes *a,
                                        const float *dy, float *dx)
{
    if (a->lanes == 16)
        plane_average_backward(p, a->step, 16, dy, dx);
    else
        plane_average_backward(p, a->step, 8, dy, dx);
}

static enum ct_status blocked_max(const struct ct_pool *p, const float *x,
                                  float *y, int32_t *at)
{
    const struct planes a = planes_of(p);

    CT_FOR_ROWS (k, a.n, a.in * a.lanes) {
        const int64_t o = plane_at(&a, k, a.out);

        max_of(p, &a, channels_of(p, &a, k), x + plane_at(&a, k, a.in), y + o,
               at + o);
    }
    return CT_OK;
}

static enum ct_status blocked_max_backward(const struct ct_pool *p,
                                           const float *dy, const int32_t *at,
                                           float *dx)
{
    const struct planes a = planes_of(p);

    CT_FOR_ROWS (k, a.n, a.in * a.lanes) {
        const int64_t o = plane_at(&a, k, a.out);

        max_backward_of(p, &a, dy + o, at + o, dx + plane_at(&a, k, a.in));
    }
    return CT_OK;
}

static enum ct_status blocked_average(const struct ct_pool *p, const float *x,
                                      float *y)
{
    const struct planes a = planes_of(p);

    CT_FOR_ROWS (k, a.n, a.in * a.lanes)
        average_of(p, &a, x + plane_at(&a, k, a.in),
                   y + plane_at(&a, k, a.out));
    return CT_OK;
}

static enum ct_status blocked_average_backward(const struct ct_pool *p,
                                               const float *dy, float *dx)
{
    const struct planes a = planes_of(p);

    CT_FOR_ROWS (k, a.n, a.in * a.lanes)
        average_backward_of(p, &a, dy + plane_at(&a, k, a.out),
                            dx + plane_at(&a, k, a.in));
    return CT_OK;
}

const struct ct_pool_impl ct_pool_blocked = {
    .head             = { .name = "blocked", .takes = blocked_takes },
    .max              = blocked_max,
    .max_backward     = blocked_max_backward,
    .average          = blocked_average,
    .average_backward = blocked_average_backward,
};
