/* pool_rows.h - gradients of pooling, several columns of a row a thread; for
 * pooling.cu alone.
 *
 * Windows of K x K in steps of S: a thread looks once at each window that
 * touches its columns, where a thread a position looks once for each column,
 * and the arithmetic on places is shared.  Four columns of a plain float32
 * image, or two of sixteen bytes of channels each in NHWC, for maxima.  Sums
 * are taken in the same order.
 *
 * In place of a window that is not there the nearest one is loaded, and does
 * not count: so all loads of a thread are under way at once. */
#ifndef CT_LAYERS_CUDA_POOL_ROWS_H
#define CT_LAYERS_CUDA_POOL_ROWS_H

#include "device/cuda/elementwise.h"
#include "layers/cuda/windows.h"

enum { POOL_COLUMNS = 4 };

/* What window (i, j) adds to columns c .. c + 3 of row r. */
template <int K, int S>
struct to_largest {
    const uint8_t *at; /* places in the windows */

    __device__ void add(const struct shape &p, int64_t window, int i, int j,
                        int r, int c, float d, float *sum) const
    {
        const int t    = (int)at[window] - (r - (i * S - p.ph)) * K;
        const int mine = t + j * S - p.pw - c;

#pragma unroll
        for (int k = 0; k < POOL_COLUMNS; k++)
            sum[k] += t >= 0 && t < K && mine == k ? d : 0;
    }
};

template <int K, int S>
struct to_all {
    __device__ void add(const struct shape &p, int64_t, int i, int j, int,
                        int c, float d, float *sum) const
    {
        const float size = (float)span_of(i, p.h, K, S, p.ph).size *
                           (float)span_of(j, p.w, K, S, p.pw).size;
        const int first = j * S - p.pw - c;

        d = d / size;
#pragma unroll
        for (int k = 0; k < POOL_COLUMNS; k++)
            sum[k] += k >= first && k < first + K ? d : 0;
    }
};

template <int K, int S, typename TO>
__global__ static void rows_backward(struct shape p, TO to, const float *dy,
                                     float *dx)
{
    enum { V = POOL_COLUMNS, HIGH = (K + S - 1) / S };
    enum { WIDE = (V + K - 2) / S + 1 }; /* windows that touch the columns */

    CT_KERNEL_EACH (o, p.planes * p.h * (p.w / V)) {
        const struct place a = place_of<1>(p, o);
        const int c          = a.c * V;
        const struct span r  = holders(a.r, p.oh, K, p.step_h, p.ph);
        const int first      = holders(c, p.ow, K, p.step_w, p.pw).from;
        const int64_t base   = a.plane * p.oh * p.ow;
        ct_pack<V, float> sum = {};

#pragma unroll
        for (int i = 0; i < HIGH; i++)
#pragma unroll
            for (int j = 0; j < WIDE; j++) {
                const int row = min(r.from + i, p.oh - 1);
                const int col = min(first + j, p.ow - 1);
                const bool is = r.from + i < r.to && first + j < p.ow &&
                                col * S - p.pw < c + V;
                const int64_t w = base + offset_of(p, p.y_line, row, col);
                const float d   = dy[w];

                to.add(p, w, row, col, a.r, c, is ? d : 0, sum.v);
            }
        ct_store_pack<V>(dx + o * V, sum);
    }
}

/* NHWC: columns c and c + 1, P lanes of each. */
template <int K, int S, int P, typename T>
__global__ static void pairs_backward(struct shape p, const T *dy,
                                      const uint8_t *at, T *dx)
{
    enum { HIGH = (K + S - 1) / S, WIDE = K / S + 1 };

    CT_KERNEL_EACH (o, p.planes * p.h * ((p.w + 1) / 2) * (p.lanes / P)) {
        const struct place a = place_of<P>(p, o);
        const int c          = 2 * a.c;
        const struct span r  = holders(a.r, p.oh, K, p.step_h, p.ph);
        const int first      = holders(c, p.ow, K, p.step_w, p.pw).from;
        const int64_t base   = a.plane * p.oh * p.y_line + a.lane;
        T *to = dx + a.plane * p.h * p.x_line + offset_of(p, p.x_line, a.r, c) +
                a.lane;
        float sum[2][P] = {};
        ct_pack<P, T> out[2];

#pragma unroll
        for (int i = 0; i < HIGH; i++)
#pragma unroll
            for (int j = 0; j < WIDE; j++) {
                const int row = min(r.from + i, p.oh - 1);
                const int col = min(first + j, p.ow - 1);
                const bool is = r.from + i < r.to && first + j < p.ow;
                /* What the window calls columns c and c + 1, if it does. */
                const int line = (a.r - (row * S - p.ph)) * K;
                const int in   = c - (col * S - p.pw);
                const int one  = is && in >= 0 && in < K ? line + in : -1;
                const int two  = is && in >= -1 && in < K - 1 ? line + in + 1
                                                              : -1;
                const int64_t w = base + offset_of(p, p.y_line, row, col);
                const ct_pack<P, uint8_t> arg = ct_load_pack<P>(at + w);
                const ct_pack<P, T> d = ct_load_pack<P>(dy + w);

#pragma unroll
                for (int k = 0; k < P; k++) {
                    const float v = ct_load(d.v + k);

                    sum[0][k] += arg.v[k] == one ? v : 0;
                    sum[1][k] += arg.v[k] == two ? v : 0;
                }
            }
#pragma unroll
        for (int k = 0; k < P; k++) {
            ct_store(out[0].v + k, sum[0][k]);
            ct_store(out[1].v + k, sum[1][k]);
        }
        ct_store_pack<P>(to, out[0]);
        if (c + 1 < p.w)
            ct_store_pack<P>(to + (int)p.lanes, out[1]);
    }
}

/* Whether rows fall into packs of columns. */
static bool by_rows(const struct ct_pool *p, const void *dx)
{
    return p->layout == CT_PLAIN && p->w % POOL_COLUMNS == 0 &&
           ct_aligned(dx) && p->kernel_h == p->kernel_w &&
           p->stride_h == p->stride_w && p->stride_h == 2 &&
           (p->kernel_h == 2 || p->kernel_h == 3);
}

template <int K, typename TO>
static enum ct_status rows_of(const struct ct_device *d,
                              const struct ct_pool *p, TO to, const float *dy,
                              float *dx)
{
    const int64_t n   = p->n * p->c * p->h * (p->w / POOL_COLUMNS);
    struct shape s    = shape_of(p, false, 1);

    s.columns = ct_divider_of(p->w / POOL_COLUMNS, n);
    return CT_LAUNCH(d, n, (rows_backward<K, 2, TO>), s, to, dy, dx);
}

/* Whether its windows have kernels for pairs of columns. */
static bool by_pairs(const struct ct_pool *p)
{
    return p->kernel_h == p->kernel_w && p->stride_h == p->stride_w &&
           ((p->kernel_h == 3 && p->stride_h <= 2) ||
            (p->kernel_h == 2 && p->stride_h == 2));
}

/* dx of a maximum over NHWC images whose channels come in packs. */
template <typename T>
static enum ct_status pool_pairs(const struct ct_device *d,
                                 const struct ct_pool *p, const uint8_t *at,
                                 const T *dy, T *dx)
{
    constexpr int P   = 16 / sizeof(T);
    const int64_t n   = p->n * p->h * ((p->w + 1) / 2) * (p->c / P);
    struct shape s    = shape_of(p, false, P);

    s.columns = ct_divider_of((p->w + 1) / 2, n);
    if (p->kernel_h == 2)
        return CT_LAUNCH(d, n, (pairs_backward<2, 2, P, T>), s, dy, at, dx);
    if (p->stride_h == 2)
        return CT_LAUNCH(d, n, (pairs_backward<3, 2, P, T>), s, dy, at, dx);
    return CT_LAUNCH(d, n, (pairs_backward<3, 1, P, T>), s, dy, at, dx);
}

/* dx of a pool that by_rows() takes; places are given for a maximum. */
static enum ct_status pool_rows(const struct ct_device *d,
                                const struct ct_pool *p, const uint8_t *at,
                                const float *dy, float *dx)
{
    if (at && p->kernel_h == 2)
        return rows_of<2>(d, p, to_largest<2, 2>{ at }, dy, dx);
    if (at)
        return rows_of<3>(d, p, to_largest<3, 2>{ at }, dy, dx);
    if (p->kernel_h == 2)
        return rows_of<2>(d, p, to_all<2, 2>{}, dy, dx);
    return rows_of<3>(d, p, to_all<3, 2>{}, dy, dx);
}

#endif
