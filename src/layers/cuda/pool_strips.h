/* pool_strips.h - pooling over plain float32 images in steps of 2 without
 * padding, some neighbours a thread; for pooling.cu alone.
 *
 * Forward a thread makes four outputs of a row, backward the gradients of four
 * columns of two rows.  Every place in a window is then known to the compiler;
 * sums have the order of the other ways. */
#ifndef CT_LAYERS_CUDA_POOL_STRIPS_H
#define CT_LAYERS_CUDA_POOL_STRIPS_H

#include <float.h>

#include "device/cuda/elementwise.h"
#include "layers/cuda/windows.h"

/* n threads: strips of a row, then rows, or pairs of them, then planes. */
struct strips {
    int n, h, w, oh, ow;
    struct ct_divider across, down;
};

struct strip {
    int plane, r, q; /* r: the row or pair; q: the strip */
};

__device__ static inline struct strip strip_of(const struct strips &p, int i)
{
    const int line = ct_quotient(p.across, i);
    struct strip s;

    s.q     = i - line * (int)p.across.d;
    s.plane = ct_quotient(p.down, line);
    s.r     = line - s.plane * (int)p.down.d;
    return s;
}

/* Row i of four windows, nine columns of which the last may not be there. */
template <int K, bool MAX>
__device__ static inline void strip_row(const float *v, int i, bool last,
                                        float *out, uint8_t *arg)
{
#pragma unroll
    for (int o = 0; o < 4; o++)
#pragma unroll
        for (int j = 0; j < K; j++) {
            const float x = v[2 * o + j];
            const bool is = 2 * o + j < 8 || last;

            if (!MAX) {
                out[o] += is ? x : 0;
            } else if (is && x > out[o]) {
                out[o] = x;
                arg[o] = (uint8_t)(i * K + j);
            }
        }
}

/* Of a maximum that is not above 0, `clamps` makes 0 without a place. */
template <int K, bool MAX>
__global__ static void strips_forward(struct strips p, bool clamps,
                                      const float *x, float *y, uint8_t *at)
{
    CT_TURN();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < p.n;
         i += gridDim.x * blockDim.x) {
        const struct strip s = strip_of(p, i);
        const int64_t from   = ((int64_t)s.plane * p.h + 2 * s.r) * p.w +
                             8 * s.q;
        const bool last = 8 * s.q + 8 < p.w;
        const int rows  = min(K, p.h - 2 * s.r);
        ct_pack<4, float> out;
        ct_pack<4, uint8_t> arg;

#pragma unroll
        for (int o = 0; o < 4; o++) {
            out.v[o] = MAX ? -FLT_MAX : 0;
            arg.v[o] = 255;
        }
#pragma unroll
        for (int j = 0; j < K; j++) {
            const float *row = x + from + min(j, rows - 1) * p.w;
            const ct_pack<4, float> a = ct_load_pack<4>(row);
            const ct_pack<4, float> b = ct_load_pack<4>(row + 4);
            const float c   = K > 2 && last ? row[8] : 0;
            const float v[] = { a.v[0], a.v[1], a.v[2], a.v[3], b.v[0],
                                b.v[1], b.v[2], b.v[3], c };

            if (j < rows)
                strip_row<K, MAX>(v, j, last, out.v, arg.v);
        }
#pragma unroll
        for (int o = 0; o < 4; o++)
            if (!MAX) {
                out.v[o] /= (float)rows *
                            (float)(o < 3 || last || K < 3 ? K : K - 1);
            } else if (clamps && !(out.v[o] > 0)) {
                out.v[o] = 0;
                arg.v[o] = 255;
            }
        ct_store_pack<4>(y + (int64_t)i * 4, out);
        if (MAX)
            ct_store_pack<4>(at + (int64_t)i * 4, arg);
    }
}

/* What a window that begins at LINE, COLUMN of a strip's 2 x 4 values adds. */
template <int K, bool MAX, int LINE, int COLUMN>
__device__ static inline void strip_window(float d, int arg,
                                           float (*sum)[4])
{
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
        for (int c = 0; c < 4; c++) {
            const int i = r - LINE, j = c - COLUMN;

            if (i < 0 || i >= K || j < 0 || j >= K)
                continue;
            sum[r][c] += !MAX || arg == i * K + j ? d : 0;
        }
}

/* The window of row r - 1 + I and column 2 q - 1 + J. */
template <int K, bool MAX, int I, int J>
__device__ static inline void add_window(const struct strips &p,
                                         const struct strip &s,
                                         const float *dy, const uint8_t *at,
                                         float (*sum)[4])
{
    const int row = s.r - 1 + I, column = 2 * s.q - 1 + J;
    const bool is = row >= 0 && row < p.oh && column >= 0 && column < p.ow;
    const int64_t w = ((int64_t)s.plane * p.oh + max(min(row, p.oh - 1), 0)) *
                          p.ow + max(min(column, p.ow - 1), 0);
    float d = dy[w];
    int arg = 0;

    if (MAX)
        arg = at[w];
    else
        d /= (float)min(K, p.h - 2 * row) * (float)min(K, p.w - 2 * column);
    strip_window<K, MAX, 2 * I - 2, 2 * J - 2>(is ? d : 0, arg, sum);
}

/* dx = 0 where `mask`, if there is one, is not above 0. */
template <int K, bool MAX>
__global__ static void strips_backward(struct strips p, const float *dy,
                                       const uint8_t *at, const float *mask,
                                       float *dx)
{
    CT_TURN();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < p.n;
         i += gridDim.x * blockDim.x) {
        const struct strip s = strip_of(p, i);
        const int64_t to     = ((int64_t)s.plane * p.h + 2 * s.r) * p.w +
                           4 * s.q;
        float sum[2][4] = {};
        ct_pack<4, float> sign[2];

#pragma unroll
        for (int r = 0; r < 2; r++)
            if (!MAX && mask && 2 * s.r + r < p.h)
                sign[r] = ct_load_pack<4>(mask + to + r * p.w);
        if constexpr (K > 2) {
            add_window<K, MAX, 0, 0>(p, s, dy, at, sum);
            add_window<K, MAX, 0, 1>(p, s, dy, at, sum);
            add_window<K, MAX, 0, 2>(p, s, dy, at, sum);
            add_window<K, MAX, 1, 0>(p, s, dy, at, sum);
        }
        add_window<K, MAX, 1, 1>(p, s, dy, at, sum);
        add_window<K, MAX, 1, 2>(p, s, dy, at, sum);
#pragma unroll
        for (int k = 0; k < 8; k++)
            if (!MAX && mask && !(sign[k / 4].v[k % 4] > 0))
                sum[k / 4][k % 4] = 0;
#pragma unroll
        for (int r = 0; r < 2; r++)
            if (2 * s.r + r < p.h)
                ct_store_pack<4>(dx + to + r * p.w,
                                 { sum[r][0], sum[r][1], sum[r][2],
                                   sum[r][3] });
    }
}

/* Strips of a pass; false: it has none. */
static bool strips_of(const struct ct_pool *p, bool back, const void *a,
                      const void *b, const void *at, struct strips *s)
{
    const int64_t across = back ? p->w / 4 : p->out_w / 4;
    const int64_t down   = back ? (p->h + 1) / 2 : p->out_h;
    const int64_t n      = p->n * p->c * across * down;

    if (p->layout != CT_PLAIN || p->stride_h != 2 || p->stride_w != 2 ||
        p->pad_h || p->pad_w || p->kernel_h != p->kernel_w ||
        (p->kernel_h != 2 && p->kernel_h != 3) || p->w % 4 != 0 ||
        (!back && p->out_w % 4 != 0) || !ct_aligned(a) || !ct_aligned(b) ||
        (uintptr_t)at % 4 != 0 || p->n * p->c * p->h * p->w > INT32_MAX)
        return false;
    *s = { (int)n, (int)p->h, (int)p->w, (int)p->out_h, (int)p->out_w,
           ct_divider_of(across, n), ct_divider_of(down, n) };
    return true;
}

static enum ct_status strips_max(const struct ct_device *d,
                                 const struct ct_pool *p,
                                 const struct strips &s, bool clamps,
                                 const float *x, float *y, uint8_t *at)
{
    if (p->kernel_h == 2)
        return CT_LAUNCH(d, s.n, (strips_forward<2, true>), s, clamps, x, y,
                         at);
    return CT_LAUNCH(d, s.n, (strips_forward<3, true>), s, clamps, x, y, at);
}

static enum ct_status strips_average(const struct ct_device *d,
                                     const struct ct_pool *p,
                                     const struct strips &s, const float *x,
                                     float *y)
{
    if (p->kernel_h == 2)
        return CT_LAUNCH(d, s.n, (strips_forward<2, false>), s, false, x, y,
                         (uint8_t *)NULL);
    return CT_LAUNCH(d, s.n, (strips_forward<3, false>), s, false, x, y,
                     (uint8_t *)NULL);
}

/* Places are given for a maximum, and a mask for a mean at most. */
static enum ct_status strips_back(const struct ct_device *d,
                                  const struct ct_pool *p,
                                  const struct strips &s, const uint8_t *at,
                                  const float *mask, const float *dy,
                                  float *dx)
{
    if (at && p->kernel_h == 2)
        return CT_LAUNCH(d, s.n, (strips_backward<2, true>), s, dy, at,
                         mask, dx);
    if (at)
        return CT_LAUNCH(d, s.n, (strips_backward<3, true>), s, dy, at,
                         mask, dx);
    if (p->kernel_h == 2)
        return CT_LAUNCH(d, s.n, (strips_backward<2, false>), s, dy, at,
                         mask, dx);
    return CT_LAUNCH(d, s.n, (strips_backward<3, false>), s, dy, at,
                         mask, dx);
}

#endif
