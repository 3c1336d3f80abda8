/* pool_rows.h - gradients of pooling over plain float32 images, four columns of
 * a row a thread; for pooling.cu alone.
 *
 * Windows of K x K in steps of S: a thread looks once at each window that
 * touches its columns, where a thread a position looks once for each column,
 * and the arithmetic on places is shared.  Sums are taken in the same order.
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

/* The gradients of columns c .. c + 3 of the row that `a` names. */
template <int K, int S, typename TO>
__device__ static inline ct_pack<POOL_COLUMNS, float> columns_of(
    const struct shape &p, const TO &to, const float *dy,
    const struct place &a, int c)
{
    enum { V = POOL_COLUMNS, HIGH = (K + S - 1) / S };
    enum { WIDE = (V + K - 2) / S + 1 }; /* windows that touch the columns */
    const struct span r   = holders(a.r, p.oh, K, p.step_h, p.ph);
    const int first       = holders(c, p.ow, K, p.step_w, p.pw).from;
    const int64_t base    = a.plane * p.oh * p.ow;
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
    return sum;
}

template <int K, int S, typename TO>
__global__ static void rows_backward(struct shape p, int64_t n, TO to,
                                     const float *dy, float *dx)
{
    CT_TURN();
    CT_KERNEL_EACH (o, n) {
        const struct place a = place_of<1>(p, o);

        ct_store_pack<POOL_COLUMNS>(
            dx + o * POOL_COLUMNS,
            columns_of<K, S>(p, to, dy, a, a.c * POOL_COLUMNS));
    }
}

/* Rows that do not fall into fours: what a block makes lies together, so it
 * goes through shared memory. */
template <int K, int S, typename TO>
__global__ static void ragged_backward(struct shape p, int64_t n, TO to,
                                       const float *dy, float *dx)
{
    CT_TURN();
    enum { V = POOL_COLUMNS };
    __shared__ float tile[CT_BLOCK * V];

    for (int64_t from = blockIdx.x * (int64_t)CT_BLOCK; from < n;
         from += (int64_t)gridDim.x * CT_BLOCK) {
        const int64_t o       = from + threadIdx.x;
        const int64_t end     = from + CT_BLOCK < n ? from + CT_BLOCK : n;
        const struct place a  = place_of<1>(p, from);
        const struct place b  = place_of<1>(p, end - 1);
        const int64_t first   = (a.plane * p.h + a.r) * p.w + a.c * V;
        const int64_t to_here = (b.plane * p.h + b.r) * p.w +
                                min(b.c * V + V, p.w);

        if (o < n) {
            const struct place me = place_of<1>(p, o);
            const int c           = me.c * V;
            const int64_t at      = (me.plane * p.h + me.r) * p.w + c - first;
            const ct_pack<V, float> sum = columns_of<K, S>(p, to, dy, me, c);

#pragma unroll
            for (int k = 0; k < V; k++)
                if (c + k < p.w)
                    tile[at + k] = sum.v[k];
        }
        __syncthreads();
        for (int64_t i = first + threadIdx.x; i < to_here; i += CT_BLOCK)
            dx[i] = tile[i - first];
        __syncthreads();
    }
}

/* Whether its windows have kernels for rows. */
static bool by_rows(const struct ct_pool *p)
{
    return p->layout == CT_PLAIN && p->kernel_h == p->kernel_w &&
           p->stride_h == p->stride_w &&
           ((p->kernel_h == 3 && p->stride_h <= 2) ||
            (p->kernel_h == 2 && p->stride_h == 2));
}

template <int K, int S, typename TO>
static enum ct_status rows_of(const struct ct_device *d,
                              const struct ct_pool *p, TO to, const float *dy,
                              float *dx)
{
    const int64_t fours = (p->w + POOL_COLUMNS - 1) / POOL_COLUMNS;
    const int64_t n     = p->n * p->c * p->h * fours;
    struct shape s      = shape_of(p, false, 1);

    s.columns = ct_divider_of(fours, n);
    if (p->w % POOL_COLUMNS == 0 && ct_aligned(dx))
        return CT_LAUNCH(d, n, (rows_backward<K, S, TO>), s, n, to, dy, dx);
    return CT_LAUNCH(d, n, (ragged_backward<K, S, TO>), s, n, to, dy, dx);
}

/* dx of a pool that by_rows() takes; places are given for a maximum. */
static enum ct_status pool_rows(const struct ct_device *d,
                                const struct ct_pool *p, const uint8_t *at,
                                const float *dy, float *dx)
{
    if (at && p->kernel_h == 2)
        return rows_of<2, 2>(d, p, to_largest<2, 2>{ at }, dy, dx);
    if (at && p->stride_h == 2)
        return rows_of<3, 2>(d, p, to_largest<3, 2>{ at }, dy, dx);
    if (at)
        return rows_of<3, 1>(d, p, to_largest<3, 1>{ at }, dy, dx);
    if (p->kernel_h == 2)
        return rows_of<2, 2>(d, p, to_all<2, 2>{}, dy, dx);
    if (p->stride_h == 2)
        return rows_of<3, 2>(d, p, to_all<3, 2>{}, dy, dx);
    return rows_of<3, 1>(d, p, to_all<3, 1>{}, dy, dx);
}

#endif
