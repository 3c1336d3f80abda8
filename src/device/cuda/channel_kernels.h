/* channel_kernels.h - channel-wise maps and sums on a GPU: what BatchNorm,
 * Scale, Bias, PReLU and MVN are made of; for .cu files alone.
 *
 * An array is outer x c x inner; NHWC is outer x c with inner 1.  Two ways to
 * walk it.  By columns, where inner is small: a thread keeps K neighbouring
 * columns of the matrix outer x (c inner) and goes down its rows.  By lines
 * otherwise: a warp takes pieces of `inner` neighbours, which have one channel.
 *
 * Memory is far away: a thread asks for AHEAD packs at once, and goes through
 * rows last to first where the pass before went first to last, so that it finds
 * in the cache what that one read last.
 *
 * Sums are made in float by threads, in double above them, in an order that
 * depends on the shape and the GPU alone. */
#ifndef CT_DEVICE_CUDA_CHANNEL_KERNELS_H
#define CT_DEVICE_CUDA_CHANNEL_KERNELS_H

#include "device/cuda/elementwise.h"

struct ct_view {
    int64_t outer, c, inner;
};

enum { CT_PIECE = 1024, CT_FEW = 256, CT_AHEAD = 4, CT_MANY_PARTS = 64 };

/* Blocks that a multiprocessor has at once, at least: as many as registers for
 * the packs of one array, or two, allow. */
constexpr int ct_resident(bool two)
{
    return two ? 2 : 4;
}

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

/* Gets what a map writes to y.  Of overloads, the one for an F of one's own may
 * keep something of it. */
template <int K, typename F, typename Y>
__device__ inline void ct_channel_note(const F &, const Y *,
                                       const ct_pack<K, Y> &)
{
}

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
    ct_channel_note(f, y, out);
}

/* N packs, `step` values apart. */
template <int N, int K, typename T>
struct ct_packs {
    ct_pack<K, T> v[N];
};

template <int N, int K, typename T>
__device__ inline struct ct_packs<N, K, T> ct_load_packs(const T *p,
                                                         int64_t step)
{
    struct ct_packs<N, K, T> all;

#pragma unroll
    for (int u = 0; u < N; u++)
        all.v[u] = ct_load_pack<K>(p + u * step);
    return all;
}

template <int N, int K, typename F, typename Y, typename X, typename... Z>
__device__ inline void ct_channel_packs_out(
    const F &f, const typename ct_channel_coef<F>::type *coef, int coef_step,
    int64_t step, Y *y, X *kept, const struct ct_packs<N, K, X> &x,
    const struct ct_packs<N, K, Z> &...z)
{
#pragma unroll
    for (int u = 0; u < N; u++)
        ct_channel_pack<K>(f, coef, coef_step, y + u * step,
                           kept ? kept + u * step : kept, x.v[u], z.v[u]...);
}

/* N places from `i` on, `step` apart: all are asked for before one is used. */
template <int N, int K, typename F, typename Y, typename X, typename... Z>
__device__ inline void ct_channel_places(
    const F &f, const typename ct_channel_coef<F>::type *coef, int coef_step,
    int64_t i, int64_t step, Y *y, X *kept, const X *x, const Z *...z)
{
    ct_channel_packs_out<N, K>(f, coef, coef_step, step, y + i,
                               kept ? kept + i : kept,
                               ct_load_packs<N, K>(x + i, step),
                               ct_load_packs<N, K>(z + i, step)...);
}

/* n places from `i` on, `step` apart; the last few by two and by one. */
template <int K, typename F, typename Y, typename X, typename... Z>
__device__ inline void ct_channel_walk(
    const F &f, const typename ct_channel_coef<F>::type *coef, int coef_step,
    int64_t i, int64_t n, int64_t step, Y *y, X *kept, const X *x,
    const Z *...z)
{
    for (; n >= CT_AHEAD; n -= CT_AHEAD, i += CT_AHEAD * step)
        ct_channel_places<CT_AHEAD, K>(f, coef, coef_step, i, step, y, kept, x,
                                       z...);
    for (; n >= 2; n -= 2, i += 2 * step)
        ct_channel_places<2, K>(f, coef, coef_step, i, step, y, kept, x, z...);
    if (n > 0)
        ct_channel_places<1, K>(f, coef, coef_step, i, step, y, kept, x, z...);
}

template <int K, typename F, typename Y, typename X, typename... Z>
__global__ static void __launch_bounds__(CT_BLOCK,
                                         ct_resident(sizeof...(Z) > 0))
    ct_map_columns(struct ct_columns m, F f, Y *y, X *kept, const X *x,
                   const Z *...z)
{
    CT_TURN();
    const int64_t at =
        (blockIdx.x * (int64_t)blockDim.x + threadIdx.x) * K;
    const int64_t r = blockIdx.y * (int64_t)blockDim.y + threadIdx.y;
    const int64_t rows = (int64_t)gridDim.y * blockDim.y;
    typename ct_channel_coef<F>::type coef[K];

    if (at >= m.columns || r >= m.rows)
        return;
#pragma unroll
    for (int k = 0; k < K; k++)
        coef[k] = f.load((at + k) / m.inner);
    ct_channel_walk<K>(f, coef, 1, (m.rows - 1 - r) * m.columns + at,
                       (m.rows - 1 - r) / rows + 1, -rows * m.columns, y,
                       kept, x, z...);
}

template <int K, typename F, typename Y, typename X, typename... Z>
__global__ static void ct_map_lines(struct ct_view v, F f, Y *y, X *kept,
                                    const X *x, const Z *...z)
{
    CT_TURN();
    const int64_t pieces = (v.inner + CT_PIECE - 1) / CT_PIECE;
    const int64_t warps  = (int64_t)gridDim.x * (blockDim.x / 32);
    const int64_t all    = v.outer * v.c * pieces;

    for (int64_t w = blockIdx.x * (int64_t)(blockDim.x / 32) +
                     threadIdx.x / 32;
         w < all; w += warps) {
        const int64_t line = (all - 1 - w) / pieces;
        const int64_t from = (all - 1 - w) % pieces * CT_PIECE +
                             (int64_t)(threadIdx.x % 32) * K;
        const int64_t end = from - (int64_t)(threadIdx.x % 32) * K + CT_PIECE;
        const int64_t to  = end < v.inner ? end : v.inner;
        const typename ct_channel_coef<F>::type coef = f.load(line % v.c);

        if (from < to)
            ct_channel_walk<K>(f, &coef, 0, line * v.inner + from,
                               (to - from - 1) / (32 * K) + 1, 32 * K, y,
                               kept, x, z...);
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
        const int64_t want =
            2 * ct_resident(sizeof...(Z) > 0) *
            (int64_t)ct_cuda(d)->n_multiprocessors / across + 1;

        return CT_START(d, dim3((unsigned)across,
                                (unsigned)(want < most ? want : most)),
                        dim3(bx, by), 0, (ct_map_columns<K, F, Y, X, Z...>), m,
                        f, y, kept, x, z...);
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

/* What a thread adds up: both sums of K neighbours. */
template <int K>
struct ct_sums {
    float s[K], t[K];
};

template <int K, typename R, typename C, typename T>
__device__ inline void ct_sum_pack(const R &r, const C *coef, int coef_step,
                                   const ct_pack<K, T> &a,
                                   const ct_pack<K, T> &b,
                                   struct ct_sums<K> *out)
{
#pragma unroll
    for (int k = 0; k < K; k++)
        r.add(coef[k * coef_step], ct_load(a.v + k), ct_load(b.v + k),
              out->s + k, out->t + k);
}

/* Where sums read: an array.  Others make their values of several ones, and
 * may write them: fetch() asks for all that take() needs, and take() alone
 * writes, so that no load waits behind a store.  AHEAD places are under way at
 * once, as many as registers have room for.  Where value i of the other array
 * lies, where() says. */
template <typename T>
struct ct_array {
    enum { AHEAD = CT_AHEAD };
    typedef T type;
    const T  *p;

    template <int K>
    using raw = ct_pack<K, T>;

    template <int K>
    __device__ raw<K> fetch(int64_t i) const
    {
        return ct_load_pack<K>(p + i);
    }
    template <int K>
    __device__ ct_pack<K, T> take(int64_t, const raw<K> &r) const
    {
        return r;
    }
    template <typename R>
    __device__ int64_t where(int64_t i, const R &) const
    {
        return i;
    }
    bool aligned() const { return ct_aligned(p); }
};

/* N places from `i` on, `step` apart: all are asked for before one is used. */
template <int N, int K, bool TWO, typename R, typename C, typename A,
          typename T>
__device__ inline void ct_sum_places(const R &r, const C *coef, int coef_step,
                                     int64_t i, int64_t step, const A &a,
                                     const T *b, struct ct_sums<K> *out)
{
    typename A::template raw<K> raw[N];
    ct_pack<K, T> z[N];

#pragma unroll
    for (int u = 0; u < N; u++) {
        raw[u] = a.template fetch<K>(i + u * step);
        if (TWO)
            z[u] = ct_load_pack<K>(b + a.where(i + u * step, raw[u]));
    }
#pragma unroll
    for (int u = 0; u < N; u++) {
        const ct_pack<K, T> x = a.template take<K>(i + u * step, raw[u]);

        ct_sum_pack<K>(r, coef, coef_step, x, TWO ? z[u] : x, out);
    }
}

/* n places from `i` on, `step` apart; the last few by two and by one. */
template <int K, bool TWO, typename R, typename C, typename A, typename T>
__device__ inline void ct_sum_walk(const R &r, const C *coef, int coef_step,
                                   int64_t i, int64_t n, int64_t step,
                                   const A &a, const T *b,
                                   struct ct_sums<K> *out)
{
    for (; n >= A::AHEAD; n -= A::AHEAD, i += A::AHEAD * step)
        ct_sum_places<A::AHEAD, K, TWO>(r, coef, coef_step, i, step, a, b,
                                        out);
    for (; A::AHEAD > 2 && n >= 2; n -= 2, i += 2 * step)
        ct_sum_places<2, K, TWO>(r, coef, coef_step, i, step, a, b, out);
    if (n > 0)
        ct_sum_places<1, K, TWO>(r, coef, coef_step, i, step, a, b, out);
}

/* part[(column splits + split) 2]: both sums of a column over a share of the
 * rows; with one split and inner 1 that is all, and r finishes it. */
template <int K, bool TWO, typename R, typename A, typename T>
__global__ static void __launch_bounds__(CT_BLOCK, ct_resident(TWO))
    ct_sum_columns(struct ct_columns m, R r, A a, const T *b, double *part)
{
    CT_TURN();
    typedef decltype(r.load(0)) coef_type;
    __shared__ float tile[2 * K][CT_BLOCK];
    const unsigned me = threadIdx.y * blockDim.x + threadIdx.x;
    const int64_t first = blockIdx.x * (int64_t)blockDim.x * K;
    const int64_t at    = first + (int64_t)threadIdx.x * K;
    const int64_t row   = blockIdx.y * (int64_t)blockDim.y + threadIdx.y;
    const int64_t rows  = (int64_t)gridDim.y * blockDim.y;
    struct ct_sums<K> sum = {};
    coef_type coef[K];

    if (at < m.columns && row < m.rows) {
#pragma unroll
        for (int k = 0; k < K; k++)
            coef[k] = r.load((at + k) / m.inner);
        ct_sum_walk<K, TWO>(r, coef, 1, row * m.columns + at,
                            (m.rows - 1 - row) / rows + 1, rows * m.columns,
                            a, b, &sum);
    }
#pragma unroll
    for (int k = 0; k < K; k++) {
        tile[k][me]     = sum.s[k];
        tile[K + k][me] = sum.t[k];
    }
    __syncthreads();
    for (unsigned o = me; o < K * blockDim.x; o += CT_BLOCK) {
        const unsigned k = o / blockDim.x, x = o % blockDim.x;
        const int64_t q  = first + (int64_t)x * K + k;
        double all = 0, dot = 0;

        for (unsigned y = 0; y < blockDim.y; y++) {
            all += tile[k][y * blockDim.x + x];
            dot += tile[K + k][y * blockDim.x + x];
        }
        if (q >= m.columns)
            continue;
        if (gridDim.y == 1 && m.inner == 1) {
            r.finish(q, all, dot);
        } else {
            double *to = part + (q * gridDim.y + blockIdx.y) * 2;

            to[0] = all;
            to[1] = dot;
        }
    }
}

/* Sums of channels by lines: a block of (channel, split). */
template <int K, bool TWO, typename R, typename A, typename T>
__global__ static void ct_sum_lines(struct ct_view v, R r, A a, const T *b,
                                    double *part)
{
    CT_TURN();
    const int64_t pieces = (v.inner + CT_PIECE - 1) / CT_PIECE;
    const int64_t q = blockIdx.x, step = (int64_t)gridDim.y * blockDim.x / 32;
    const auto coef       = r.load(q);
    struct ct_sums<K> sum = {};
    float s = 0, t = 0;
    double all, dot;

    for (int64_t w = blockIdx.y * (int64_t)(blockDim.x / 32) +
                     threadIdx.x / 32;
         w < v.outer * pieces; w += step) {
        const int64_t from = w % pieces * CT_PIECE +
                             (int64_t)(threadIdx.x % 32) * K;
        const int64_t end  = w % pieces * CT_PIECE + CT_PIECE;
        const int64_t to   = end < v.inner ? end : v.inner;
        const int64_t line = (w / pieces * v.c + q) * v.inner;

        if (from < to)
            ct_sum_walk<K, TWO>(r, &coef, 0, line + from,
                                (to - from - 1) / (32 * K) + 1, 32 * K, a, b,
                                &sum);
    }
#pragma unroll
    for (int k = 0; k < K; k++) {
        s += sum.s[k];
        t += sum.t[k];
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
                                     const double2 *part)
{
    CT_TURN();
    const int64_t q = (blockIdx.x * (int64_t)blockDim.x + threadIdx.x) / 32;
    const unsigned lane = threadIdx.x % 32;
    double all = 0, dot = 0;

    if (q >= c)
        return;
    for (int64_t i = lane; i < n; i += 32) {
        const double2 v = part[q * n + i];

        all += v.x;
        dot += v.y;
    }
    for (int o = 16; o > 0; o /= 2) {
        all += __shfl_xor_sync(~0u, all, o);
        dot += __shfl_xor_sync(~0u, dot, o);
    }
    if (lane == 0)
        r.finish(q, all, dot);
}

/* A block a channel, where there are many pairs: loads wait for memory side by
 * side, not one after the other. */
template <typename R>
__global__ static void ct_sum_finish_many(int64_t n, R r, const double2 *part)
{
    CT_TURN();
    const int64_t q = blockIdx.x;
    double all = 0, dot = 0;

    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
        const double2 v = part[q * n + i];

        all += v.x;
        dot += v.y;
    }
    all = ct_block_sum(all);
    dot = ct_block_sum(dot);
    if (threadIdx.x == 0)
        r.finish(q, all, dot);
}

/* Shares of the rows for `blocks` blocks, of which `resident` are at work on a
 * multiprocessor: all from the beginning to the end. */
static inline int64_t ct_splits(const struct ct_device *d, int resident,
                                int64_t blocks, int64_t most, int64_t columns)
{
    int64_t s = ct_cuda(d)->n_multiprocessors * (int64_t)resident / blocks;

    s = s < most ? s : most;
    s = s < CT_CUDA_PARTS / 2 / columns ? s : CT_CUDA_PARTS / 2 / columns;
    return s > 1 ? s : 1;
}

template <typename R>
static enum ct_status ct_channel_finish(const struct ct_device *d, int64_t c,
                                        int64_t n, R r)
{
    const double2 *part = (const double2 *)ct_cuda_parts(d);

    if (n > CT_MANY_PARTS)
        return CT_START(d, (unsigned)c, CT_BLOCK, 0, ct_sum_finish_many<R>, n,
                        r, part);
    return CT_START(d, (unsigned)((c + 7) / 8), CT_BLOCK, 0, ct_sum_finish<R>,
                    c, n, r, part);
}

/* Whether sums go by columns: each has a place for its parts. */
static inline bool ct_sums_by_columns(const struct ct_view *v)
{
    return v->inner == 1 ||
           (v->inner < CT_FEW && 2 * v->c * v->inner <= CT_CUDA_PARTS);
}

template <int K, bool TWO, typename R, typename A, typename T>
static enum ct_status ct_channel_sum_by(const struct ct_device *d,
                                        struct ct_view v, R r, A a, const T *b)
{
    const struct ct_columns m = { v.outer, v.c * v.inner, v.inner };
    const int64_t pieces      = (v.inner + CT_PIECE - 1) / CT_PIECE;
    double *part              = ct_cuda_parts(d);
    int64_t n;

    if (ct_sums_by_columns(&v)) {
        const unsigned bx = ct_columns_across(&m, K), by = CT_BLOCK / bx;
        const int64_t across = (m.columns / K + bx - 1) / bx;

        n = ct_splits(d, ct_resident(TWO), across,
                      (m.rows + 4 * by - 1) / (4 * by), m.columns);
        CT_TRY(CT_START(d, dim3((unsigned)across, (unsigned)n), dim3(bx, by),
                        0, (ct_sum_columns<K, TWO, R, A, T>), m, r, a, b,
                        part));
        return n == 1 && v.inner == 1 ? CT_OK
                                      : ct_channel_finish(d, v.c, n * v.inner,
                                                          r);
    }
    n = ct_splits(d, 8, v.c, (v.outer * pieces + 7) / 8, v.c);
    CT_TRY(CT_START(d, dim3((unsigned)v.c, (unsigned)n), CT_BLOCK, 0,
                    (ct_sum_lines<K, TWO, R, A, T>), v, r, a, b, part));
    return n == 1 ? CT_OK : ct_channel_finish(d, v.c, n, r);
}

/* Two sums over each channel of what `a` makes and of array b.  r has load(q);
 * add(coefficients, a, b, &s, &t), which adds a value's part to both; and
 * finish(q, s, t), called once for each channel. */
template <typename R, typename A>
static enum ct_status ct_channel_sum_from(const struct ct_device *d,
                                          struct ct_view v, R r, A a,
                                          const typename A::type *b)
{
    constexpr int K = 16 / sizeof(typename A::type);

    if (v.outer * v.c * v.inner == 0)
        return CT_OK;
    if ((ct_sums_by_columns(&v) ? v.c * v.inner : v.inner) % K == 0 &&
        a.aligned() && ct_aligned(b))
        return ct_channel_sum_by<K, true>(d, v, r, a, b);
    return ct_channel_sum_by<1, true>(d, v, r, a, b);
}

/* The sums of an array's channels; b NULL: add() gets a twice. */
template <typename R, typename T>
static enum ct_status ct_channel_sum(const struct ct_device *d,
                                     struct ct_view v, R r, const T *a,
                                     const T *b)
{
    constexpr int K           = 16 / sizeof(T);
    const struct ct_array<T> x = { a };

    if (b)
        return ct_channel_sum_from(d, v, r, x, b);
    if (v.outer * v.c * v.inner == 0)
        return CT_OK;
    if ((ct_sums_by_columns(&v) ? v.c * v.inner : v.inner) % K == 0 &&
        x.aligned())
        return ct_channel_sum_by<K, false>(d, v, r, x, a);
    return ct_channel_sum_by<1, false>(d, v, r, x, a);
}

#endif
