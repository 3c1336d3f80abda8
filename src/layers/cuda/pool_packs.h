/* pool_packs.h - maxima over NHWC images, sixteen bytes of channels at a time;
 * for pooling.cu alone.
 *
 * With the size of windows known, and for gradients the step and the padding,
 * every place in a window is a constant.  For a position or a window that is
 * not there the nearest one is loaded, and does not count: so all loads of a
 * thread are under way at once. */
#ifndef CT_LAYERS_CUDA_POOL_PACKS_H
#define CT_LAYERS_CUDA_POOL_PACKS_H

#include "device/cuda/elementwise.h"
#include "layers/cuda/windows.h"

/* Two lanes of a 16-bit type, for instructions that take both. */
template <typename T>
struct lanes;
template <>
struct lanes<__half> {
    typedef __half2 two;
    enum : uint32_t { LOWEST = 0xFC00FC00 }; /* -infinity, twice */
};
template <>
struct lanes<__nv_bfloat16> {
    typedef __nv_bfloat162 two;
    enum : uint32_t { LOWEST = 0xFF80FF80 };
};

template <typename T>
__device__ static inline typename lanes<T>::two two_of(uint32_t bits)
{
    return *reinterpret_cast<typename lanes<T>::two *>(&bits);
}

template <typename T>
__device__ static inline uint32_t larger(uint32_t a, uint32_t b)
{
    const typename lanes<T>::two v = __hmax2(two_of<T>(a), two_of<T>(b));

    return *reinterpret_cast<const uint32_t *>(&v);
}

/* The largest of n pairs of lanes of which some are there, and its place,
 * the first of several.  As in float, neither NaN nor -infinity is taken: the
 * place is all ones then, and where the largest is not above `floor`. */
template <typename T, int N>
__device__ static inline uint32_t largest(const uint32_t *v, const bool *is,
                                          uint32_t floor, uint32_t *place)
{
    uint32_t best = lanes<T>::LOWEST, at = 0;

#pragma unroll
    for (int i = 0; i < N; i++)
        best = is[i] ? larger<T>(best, v[i]) : best;
#pragma unroll
    for (int i = N - 1; i >= 0; i--) {
        const uint32_t same =
            is[i] ? __heq2_mask(two_of<T>(v[i]), two_of<T>(best)) : 0;

        at = (same & (uint32_t)(i * 0x10001)) | (~same & at);
    }
    *place = at |
             ~__hgt2_mask(two_of<T>(best), two_of<T>(floor));
    return best;
}

/* Windows of K x K in 16 bits; as max_forward(). */
template <int K, typename T>
__global__ static void max_pairs(struct shape p, bool masks, bool clamps,
                                 const T *x, T *y, uint8_t *at)
{
    CT_TURN();
    enum { P = 8, PAIRS = P / 2, N = K * K };
    const uint32_t floor = masks ? 0 : lanes<T>::LOWEST;

    CT_KERNEL_EACH (o, p.planes * p.oh * p.ow * (p.lanes / P)) {
        const struct place a = place_of<P>(p, o);
        const T *from = x + a.plane * p.h * p.x_line + a.lane;
        const int row = a.r * p.sh - p.ph, col = a.c * p.sw - p.pw;
        uint32_t v[PAIRS][N], place[PAIRS];
        bool is[N];
        ct_pack<PAIRS, uint32_t> out;
        ct_pack<2, uint32_t> where;

#pragma unroll
        for (int i = 0; i < N; i++) {
            const int r = row + i / K, c = col + i % K;
            const ct_pack<PAIRS, uint32_t> in =
                ct_load_pack<PAIRS>((const uint32_t *)(
                    from + offset_of(p, p.x_line, max(min(r, p.h - 1), 0),
                                     max(min(c, p.w - 1), 0))));

            is[i] = r >= 0 && r < p.h && c >= 0 && c < p.w;
#pragma unroll
            for (int k = 0; k < PAIRS; k++)
                v[k][i] = in.v[k];
        }
#pragma unroll
        for (int k = 0; k < PAIRS; k++) {
            out.v[k] = largest<T, N>(v[k], is, floor, place + k);
            out.v[k] = clamps ? larger<T>(out.v[k], 0) : out.v[k];
        }
        /* The low bytes of four pairs of places. */
        where.v[0] = __byte_perm(place[0], place[1], 0x6420);
        where.v[1] = __byte_perm(place[2], place[3], 0x6420);
        ct_store_pack<PAIRS>((uint32_t *)(y + o * P), out);
        ct_store_pack<2>((uint32_t *)(at + o * P), where);
    }
}

/* Gradients of rows r and r + 1 of columns c and c + 1, both even: windows that
 * hold one of them are counted from FIRST behind window r / S, and the i-th
 * has r in its line PAD - S (FIRST + i), if there is one. */
template <int K, int S, int PAD, int P, typename T>
__global__ static void quads_backward(struct shape p, int64_t n, const T *dy,
                                      const uint8_t *at, T *dx)
{
    CT_TURN();
    enum { FIRST = (PAD - K + 1) / S, COUNT = (PAD + 1) / S - FIRST + 1 };

    CT_KERNEL_EACH (o, n) {
        const struct place a = place_of<P>(p, o);
        const int64_t base   = a.plane * p.oh * p.y_line + a.lane;
        float sum[4][P]      = {};

#pragma unroll
        for (int w = 0; w < COUNT * COUNT; w++) {
            const int i = FIRST + w / COUNT, j = FIRST + w % COUNT;
            const int row = a.r * (2 / S) + i, col = a.c * (2 / S) + j;
            const bool is = row >= 0 && row < p.oh && col >= 0 && col < p.ow;
            const int64_t window =
                base + offset_of(p, p.y_line, max(min(row, p.oh - 1), 0),
                                 max(min(col, p.ow - 1), 0));
            const ct_pack<P, uint8_t> arg = ct_load_pack<P>(at + window);
            const ct_pack<P, T> d         = ct_load_pack<P>(dy + window);

#pragma unroll
            for (int q = 0; q < 4; q++) {
                const int line = PAD - S * i + q / 2;
                const int in   = PAD - S * j + q % 2;
                const int mine = is ? line * K + in : -1;

                if (line < 0 || line >= K || in < 0 || in >= K)
                    continue;
#pragma unroll
                for (int k = 0; k < P; k++)
                    sum[q][k] += arg.v[k] == mine ? ct_load(d.v + k) : 0;
            }
        }
#pragma unroll
        for (int q = 0; q < 4; q++) {
            const int r = 2 * a.r + q / 2, c = 2 * a.c + q % 2;
            ct_pack<P, T> out;

#pragma unroll
            for (int k = 0; k < P; k++)
                ct_store(out.v + k, sum[q][k]);
            if (r < p.h && c < p.w)
                ct_store_pack<P>(dx + a.plane * p.h * p.x_line +
                                     offset_of(p, p.x_line, r, c) + a.lane,
                                 out);
        }
    }
}

/* Whether its windows are those of quads_backward(). */
static bool by_quads(const struct ct_pool *p)
{
    return p->kernel_h == p->kernel_w && p->stride_h == p->stride_w &&
           p->pad_h == p->pad_w && p->pad_h <= 1 &&
           ((p->kernel_h == 3 && p->stride_h <= 2) ||
            (p->kernel_h == 2 && p->stride_h == 2));
}

template <int K, int S, typename T>
static enum ct_status quads_of(const struct ct_device *d,
                               const struct ct_pool *p, const uint8_t *at,
                               const T *dy, T *dx)
{
    constexpr int P    = 16 / sizeof(T);
    const int64_t rows = (p->h + 1) / 2, columns = (p->w + 1) / 2;
    const int64_t n    = p->n * rows * columns * (p->c / P);
    struct shape s     = shape_of(p, false, P);

    s.rows    = ct_divider_of(rows, n);
    s.columns = ct_divider_of(columns, n);
    if (p->pad_h)
        return CT_LAUNCH(d, n, (quads_backward<K, S, 1, P, T>), s, n, dy, at,
                         dx);
    return CT_LAUNCH(d, n, (quads_backward<K, S, 0, P, T>), s, n, dy, at, dx);
}

/* dx of a maximum that by_quads() takes, whose channels come in packs. */
template <typename T>
static enum ct_status pool_quads(const struct ct_device *d,
                                 const struct ct_pool *p, const uint8_t *at,
                                 const T *dy, T *dx)
{
    if (p->kernel_h == 2)
        return quads_of<2, 2>(d, p, at, dy, dx);
    if (p->stride_h == 2)
        return quads_of<3, 2>(d, p, at, dy, dx);
    return quads_of<3, 1>(d, p, at, dy, dx);
}

#endif
