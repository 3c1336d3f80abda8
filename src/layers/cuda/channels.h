/* channels.h - channel-wise maps and sums on a GPU: what BatchNorm, Scale,
 * Bias, PReLU and MVN are made of; for .cu files alone.
 *
 * An array is outer x c x inner; NHWC is outer x c with inner 1.  Two ways to
 * walk it.  By columns, where inner is small: a thread keeps K neighbouring
 * columns of the matrix outer x (c inner) and goes down its rows.  By lines
 * otherwise: a warp takes pieces of `inner` neighbours, which have one channel.
 *
 * Sums are made in float by threads, in double above them, in an order that
 * depends on the shape alone. */
#ifndef CT_LAYERS_CUDA_CHANNELS_H
#define CT_LAYERS_CUDA_CHANNELS_H

#include "device/cuda/elementwise.h"

struct ct_view {
    int64_t outer, c, inner;
};

enum { CT_PIECE = 1024, CT_MANY_BLOCKS = 1024, CT_FEW = 32 };

/* The matrix outer x columns and how blocks lie on it: bx packs by `by` rows.
 */
struct ct_columns {
    int64_t rows, columns, inner;
};

static inline unsigned ct_columns_across(const struct ct_columns *m, int k)
{
    unsigned bx = 1;

    while (bx < 32 && bx < (m->columns + k - 1) / k)
        bx *= 2;
    return bx;
}

template <typename F>
struct ct_channel_coef {
    typedef decltype(((const F *)nullptr)->load(0)) type;
};

/* y = f(coefficients of the channel, x ...); kept, where not NULL, gets the
 * first x as it was. */
template <int K, typename F, typename Y, typename X, typename... Z>
__device__ inline void ct_channel_pack(
    const F &f, const typename ct_channel_coef<F>::type *coef, int step, Y *y,
    X *kept, const ct_pack<K, X> &x, const Z &...z)
{
    ct_pack<K, Y> out;

#pragma unroll
    for (int k = 0; k < K; k++)
        ct_store(out.v + k, f(coef[k * step], ct_load(x.v + k),
                              ct_load(z.v + k)...));
    if (kept)
        ct_store_pack<K>(kept, x);
    ct_store_pack<K>(y, out);
}

template <int K, typename F, typename Y, typename X, typename... Z>
__global__ static void ct_map_columns(struct ct_columns m, F f, Y *y, X *kept,
                                      const X *x, const Z *...z)
{
    const int64_t at =
        (blockIdx.x * (int64_t)blockDim.x + threadIdx.x) * K;
    typename ct_channel_coef<F>::type coef[K];

    if (at >= m.columns)
        return;
#pragma unroll
    for (int k = 0; k < K; k++)
        coef[k] = f.load((at + k) / m.inner);
    for (int64_t r = blockIdx.y * (int64_t)blockDim.y + threadIdx.y;
         r < m.rows; r += (int64_t)gridDim.y * blockDim.y) {
        const int64_t i = r * m.columns + at;

        ct_channel_pack<K>(f, coef, 1, y + i, kept ? kept + i : kept,
                           ct_load_pack<K>(x + i), ct_load_pack<K>(z + i)...);
    }
}

template <int K, typename F, typename Y, typename X, typename... Z>
__global__ static void ct_map_lines(struct ct_view v, F f, Y *y, X *kept,
                                    const X *x, const Z *...z)
{
    const int64_t pieces = (v.inner + CT_PIECE - 1) / CT_PIECE;
    const int64_t warps  = (int64_t)gridDim.x * (blockDim.x / 32);

    for (int64_t w = blockIdx.x * (int64_t)(blockDim.x / 32) +
                     threadIdx.x / 32;
         w < v.outer * v.c * pieces; w += warps) {
        const int64_t line = w / pieces, from = w % pieces * CT_PIECE;
        const int64_t to   = from + CT_PIECE < v.inner ? from + CT_PIECE
                                                       : v.inner;
        const typename ct_channel_coef<F>::type coef = f.load(line % v.c);

        for (int64_t j = from + (int64_t)(threadIdx.x % 32) * K; j < to;
             j += 32 * K) {
            const int64_t i = line * v.inner + j;

            ct_channel_pack<K>(f, &coef, 0, y + i, kept ? kept + i : kept,
                               ct_load_pack<K>(x + i),
                               ct_load_pack<K>(z + i)...);
        }
    }
}

template <int K, typename F, typename Y, typename X, typename... Z>
static enum ct_status ct_channel_map_by(const struct ct_device *d,
                                        struct ct_view v, F f, Y *y, X *kept,
                                        const X *x, const Z *...z)
{
    const struct ct_columns m = { v.outer, v.c * v.inner, v.inner };

    if (v.inner < CT_FEW) {
        const unsigned bx = ct_columns_across(&m, K), by = CT_BLOCK / bx;
        const int64_t across = (m.columns / K + bx - 1) / bx;
        const int64_t most   = (m.rows + by - 1) / by;
        const int64_t want   = 4 * CT_MANY_BLOCKS / across + 1;

        ct_map_columns<K, F, Y, X, Z...>
            <<<dim3((unsigned)across, (unsigned)(want < most ? want : most)),
               dim3(bx, by), 0, ct_cuda_stream(d)>>>(m, f, y, kept, x, z...);
        return CT_CUDA_LAUNCHED(d, "map of columns");
    }
    return CT_LAUNCH(d, v.outer * v.c *
                            ((v.inner + CT_PIECE - 1) / CT_PIECE) * 32,
                     (ct_map_lines<K, F, Y, X, Z...>), v, f, y, kept, x,
                     z...);
}

/* Whether K neighbours can be handled as one: no pack crosses a row, or an
 * end of a line. */
static inline bool ct_channel_packs(const struct ct_view *v, int k)
{
    return (v->inner < CT_FEW ? v->c * v->inner : v->inner) % k == 0;
}

/* f has load(q), which gives the coefficients of channel q, and is called with
 * them and a value of each array. */
template <typename F, typename Y, typename X, typename... Z>
static enum ct_status ct_channel_map(const struct ct_device *d,
                                     struct ct_view v, F f, Y *y, X *kept,
                                     const X *x, const Z *...z)
{
    constexpr int K = 16 / sizeof(Y);

    if (v.outer * v.c * v.inner == 0)
        return CT_OK;
    if (ct_channel_packs(&v, K) && ct_aligned(y) && ct_aligned(kept) &&
        ct_aligned(x) && (ct_aligned(z) && ...))
        return ct_channel_map_by<K>(d, v, f, y, kept, x, z...);
    return ct_channel_map_by<1>(d, v, f, y, kept, x, z...);
}

/* Adds up blockDim.y values of each column of threads; threads of row 0 have
 * the sum. */
__device__ static inline double ct_sum_down(double v)
{
    __shared__ double part[CT_BLOCK];
    const unsigned at = threadIdx.y * blockDim.x + threadIdx.x;

    __syncthreads();
    part[at] = v;
    for (unsigned h = blockDim.y / 2; h > 0; h /= 2) {
        __syncthreads();
        if (threadIdx.y < h)
            part[at] += part[at + h * blockDim.x];
    }
    return part[at];
}

/* part[(column splits + split) 2]: both sums of a column over a share of the
 * rows; with one split and inner 1 that is all, and r finishes it. */
template <int K, bool TWO, typename R, typename T>
__global__ static void ct_sum_columns(struct ct_columns m, R r, const T *a,
                                      const T *b, double *part)
{
    typedef decltype(r.load(0)) coef_type;
    const int64_t at =
        (blockIdx.x * (int64_t)blockDim.x + threadIdx.x) * K;
    const bool inside = at < m.columns;
    coef_type coef[K];
    float s[K] = { 0 }, t[K] = { 0 };

#pragma unroll
    for (int k = 0; k < K; k++)
        if (inside)
            coef[k] = r.load((at + k) / m.inner);
    for (int64_t i = blockIdx.y * (int64_t)blockDim.y + threadIdx.y;
         inside && i < m.rows; i += (int64_t)gridDim.y * blockDim.y) {
        const ct_pack<K, T> x = ct_load_pack<K>(a + i * m.columns + at);
        const ct_pack<K, T> z =
            TWO ? ct_load_pack<K>(b + i * m.columns + at) : x;

#pragma unroll
        for (int k = 0; k < K; k++)
            r.add(coef[k], ct_load(x.v + k), ct_load(z.v + k), s + k, t + k);
    }
#pragma unroll
    for (int k = 0; k < K; k++) {
        const double all = ct_sum_down(s[k]), dot = ct_sum_down(t[k]);
        double *to = part + ((at + k) * gridDim.y + blockIdx.y) * 2;

        if (threadIdx.y > 0 || !inside)
            continue;
        if (gridDim.y == 1 && m.inner == 1) {
            r.finish(at + k, all, dot);
        } else {
            to[0] = all;
            to[1] = dot;
        }
    }
}

/* The same by lines: a block of (channel, split). */
template <int K, bool TWO, typename R, typename T>
__global__ static void ct_sum_lines(struct ct_view v, R r, const T *a,
                                    const T *b, double *part)
{
    const int64_t pieces = (v.inner + CT_PIECE - 1) / CT_PIECE;
    const int64_t q = blockIdx.x, step = (int64_t)gridDim.y * blockDim.x / 32;
    const auto coef = r.load(q);
    float s = 0, t = 0;
    double all, dot;

    for (int64_t w = blockIdx.y * (int64_t)(blockDim.x / 32) +
                     threadIdx.x / 32;
         w < v.outer * pieces; w += step) {
        const int64_t from = w % pieces * CT_PIECE;
        const int64_t to   = from + CT_PIECE < v.inner ? from + CT_PIECE
                                                       : v.inner;
        const int64_t line = (w / pieces * v.c + q) * v.inner;

        for (int64_t j = from + (int64_t)(threadIdx.x % 32) * K; j < to;
             j += 32 * K) {
            const ct_pack<K, T> x = ct_load_pack<K>(a + line + j);
            const ct_pack<K, T> z = TWO ? ct_load_pack<K>(b + line + j) : x;

#pragma unroll
            for (int k = 0; k < K; k++)
                r.add(coef, ct_load(x.v + k), ct_load(z.v + k), &s, &t);
        }
    }
    all = ct_block_sum((double)s);
    dot = ct_block_sum((double)t);
    if (threadIdx.x > 0)
        return;
    if (gridDim.y == 1) {
        r.finish(q, all, dot);
    } else {
        part[(q * gridDim.y + blockIdx.y) * 2]     = all;
        part[(q * gridDim.y + blockIdx.y) * 2 + 1] = dot;
    }
}

/* A warp a channel: adds its n pairs up. */
template <typename R>
__global__ static void ct_sum_finish(int64_t c, int64_t n, R r,
                                     const double *part)
{
    const int64_t q = (blockIdx.x * (int64_t)blockDim.x + threadIdx.x) / 32;
    const unsigned lane = threadIdx.x % 32;
    double all = 0, dot = 0;

    if (q >= c)
        return;
    for (int64_t i = lane; i < n; i += 32) {
        all += part[(q * n + i) * 2];
        dot += part[(q * n + i) * 2 + 1];
    }
    for (int o = 16; o > 0; o /= 2) {
        all += __shfl_xor_sync(~0u, all, o);
        dot += __shfl_xor_sync(~0u, dot, o);
    }
    if (lane == 0)
        r.finish(q, all, dot);
}

static inline int64_t ct_splits(int64_t blocks, int64_t most, int64_t columns)
{
    int64_t s = CT_MANY_BLOCKS / blocks;

    s = s < most ? s : most;
    s = s < CT_CUDA_PARTS / 2 / columns ? s : CT_CUDA_PARTS / 2 / columns;
    return s > 1 ? s : 1;
}

template <typename R>
static enum ct_status ct_channel_finish(const struct ct_device *d, int64_t c,
                                        int64_t n, R r)
{
    ct_sum_finish<R><<<(unsigned)((c + 7) / 8), CT_BLOCK, 0,
                       ct_cuda_stream(d)>>>(c, n, r, ct_cuda_parts(d));
    return CT_CUDA_LAUNCHED(d, "sums of channels");
}

template <int K, bool TWO, typename R, typename T>
static enum ct_status ct_channel_sum_by(const struct ct_device *d,
                                        struct ct_view v, R r, const T *a,
                                        const T *b)
{
    const struct ct_columns m = { v.outer, v.c * v.inner, v.inner };
    const int64_t pieces      = (v.inner + CT_PIECE - 1) / CT_PIECE;
    double *part              = ct_cuda_parts(d);
    int64_t n;

    if (v.inner == 1 ||
        (v.inner < CT_FEW && 2 * m.columns <= CT_CUDA_PARTS)) {
        const unsigned bx = ct_columns_across(&m, K), by = CT_BLOCK / bx;
        const int64_t across = (m.columns / K + bx - 1) / bx;

        n = ct_splits(across, (m.rows + 4 * by - 1) / (4 * by), m.columns);
        ct_sum_columns<K, TWO, R, T>
            <<<dim3((unsigned)across, (unsigned)n), dim3(bx, by), 0,
               ct_cuda_stream(d)>>>(m, r, a, b, part);
        CT_TRY(CT_CUDA_LAUNCHED(d, "sums of columns"));
        return n == 1 && v.inner == 1 ? CT_OK
                                      : ct_channel_finish(d, v.c, n * v.inner,
                                                          r);
    }
    n = ct_splits(v.c, (v.outer * pieces + 7) / 8, v.c);
    ct_sum_lines<K, TWO, R, T>
        <<<dim3((unsigned)v.c, (unsigned)n), CT_BLOCK, 0,
           ct_cuda_stream(d)>>>(v, r, a, b, part);
    CT_TRY(CT_CUDA_LAUNCHED(d, "sums of lines"));
    return n == 1 ? CT_OK : ct_channel_finish(d, v.c, n, r);
}

template <int K, typename R, typename T>
static enum ct_status ct_channel_sum_of(const struct ct_device *d,
                                        struct ct_view v, R r, const T *a,
                                        const T *b)
{
    return b ? ct_channel_sum_by<K, true>(d, v, r, a, b)
             : ct_channel_sum_by<K, false>(d, v, r, a, a);
}

/* Two sums over each channel.  r has load(q); add(coefficients, a, b, &s, &t),
 * which adds a value's part to both; and finish(q, s, t), called once for each
 * channel.  b NULL: add() gets a twice. */
template <typename R, typename T>
static enum ct_status ct_channel_sum(const struct ct_device *d,
                                     struct ct_view v, R r, const T *a,
                                     const T *b)
{
    constexpr int K = 16 / sizeof(T);

    if (v.outer * v.c * v.inner == 0)
        return CT_OK;
    if (ct_channel_packs(&v, K) && ct_aligned(a) && ct_aligned(b) &&
        (v.inner == 1 || v.inner >= CT_FEW ||
         2 * v.c * v.inner <= CT_CUDA_PARTS))
        return ct_channel_sum_of<K>(d, v, r, a, b);
    return ct_channel_sum_of<1>(d, v, r, a, b);
}

#endif
