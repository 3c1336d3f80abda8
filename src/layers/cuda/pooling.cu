/* pooling.cu - pooling on a GPU; formulas and shapes as in pooling.c and
 * device/pool.h.
 *
 * A thread makes K neighbouring lanes of one position (windows.h).  Gradients
 * are gathered: a position adds up the windows that hold it, in their order, so
 * that sums repeat.
 *
 * A window's place is kept in a byte, counted within the window, where the
 * window is small, and else as a place in the plane.  A window without one has
 * all ones there. */
#include <float.h>

#include "device/cuda/elementwise.h"
#include "layers/cuda/slots.h"
#include "layers/cuda/pass_draws.h"
#include "layers/cuda/pool_packs.h"
#include "layers/cuda/pool_rows.h"
#include "layers/cuda/pool_strips.h"
#include "layers/cuda/pool_sums.h"
#include "layers/cuda/windows.h"
#include "layers/pooling.h"
#include "proto/params.h"

extern "C" {
#include "device/cuda/conv_kernels.h"
#include "device/recording.h"
}

#define METHOD(m) CAFFE__POOLING_PARAMETER__POOL_METHOD__##m

/* Kernels are made for windows of N x N, or holders of a position in N x N
 * windows, so that all loads of a thread are under way at once; with N 0 the
 * span tells how many there are.  For a place beyond the end of a span that
 * of its last one is loaded, and does not count. */
template <int N>
__device__ static inline int turns(const struct span &s)
{
    return N ? N : s.to - s.from;
}

template <int N>
__device__ static inline int turn(const struct span &s, int i)
{
    return N ? max(min(s.from + i, s.to - 1), 0) : s.from + i;
}

template <int N>
__device__ static inline bool within(const struct span &s, int i)
{
    return !N || s.from + i < s.to;
}

/* What is not above 0: with `masks` it has no place, and with `clamps` y is
 * 0. */
template <int N, int K, typename T, typename I>
__global__ static void max_forward(struct shape p, bool masks, bool clamps,
                                   const T *x, T *y, I *at)
{
    CT_TURN();
    CT_KERNEL_EACH (o, p.planes * p.oh * p.ow * (p.lanes / K)) {
        const struct place a = place_of<K>(p, o);
        const struct span r  = span_of(a.r, p.h, p.kh, p.sh, p.ph);
        const struct span s  = span_of(a.c, p.w, p.kw, p.sw, p.pw);
        const T *from = x + a.plane * p.h * p.w * p.lanes + a.lane;
        float best[K];
        ct_pack<K, I> arg;
        ct_pack<K, T> out;

#pragma unroll
        for (int k = 0; k < K; k++) {
            best[k]  = -FLT_MAX;
            arg.v[k] = (I)-1;
        }
#pragma unroll
        for (int i = 0; i < turns<N>(r); i++)
#pragma unroll
            for (int j = 0; j < turns<N>(s); j++) {
                const int row = turn<N>(r, i), col = turn<N>(s, j);
                const ct_pack<K, T> v = ct_load_pack<K>(
                    from + offset_of(p, p.x_line, row, col));
                const I here    = code<I>(p, a.r, a.c, row, col);
                const bool mine = within<N>(r, i) && within<N>(s, j);

#pragma unroll
                for (int k = 0; k < K; k++)
                    if (mine && ct_load(v.v + k) > best[k]) {
                        best[k]  = ct_load(v.v + k);
                        arg.v[k] = here;
                    }
            }
#pragma unroll
        for (int k = 0; k < K; k++) {
            ct_store(out.v + k, clamps && !(best[k] > 0) ? 0 : best[k]);
            arg.v[k] = masks && !(best[k] > 0) ? (I)-1 : arg.v[k];
        }
        ct_store_pack<K>(y + o * K, out);
        ct_store_pack<K>(at + o * K, arg);
    }
}

template <int N, int K, typename T, typename I>
__global__ static void max_backward(struct shape p, const T *dy, const I *at,
                                    T *dx)
{
    CT_TURN();
    CT_KERNEL_EACH (o, p.planes * p.h * p.w * (p.lanes / K)) {
        const struct place a = place_of<K>(p, o);
        const struct span r  = holders(a.r, p.oh, p.kh, p.step_h, p.ph);
        const struct span s  = holders(a.c, p.ow, p.kw, p.step_w, p.pw);
        const int64_t base = a.plane * p.oh * p.ow * p.lanes + a.lane;
        float sum[K] = { 0 };
        ct_pack<K, T> out;

#pragma unroll
        for (int i = 0; i < turns<N>(r); i++)
#pragma unroll
            for (int j = 0; j < turns<N>(s); j++) {
                const int row = turn<N>(r, i), col = turn<N>(s, j);
                const int64_t w = base + offset_of(p, p.y_line, row, col);
                const ct_pack<K, I> arg = ct_load_pack<K>(at + w);
                const ct_pack<K, T> d   = ct_load_pack<K>(dy + w);
                const I here    = code<I>(p, row, col, a.r, a.c);
                const bool mine = within<N>(r, i) && within<N>(s, j);

#pragma unroll
                for (int k = 0; k < K; k++)
                    sum[k] += mine && arg.v[k] == here ? ct_load(d.v + k) : 0;
            }
#pragma unroll
        for (int k = 0; k < K; k++)
            ct_store(out.v + k, sum[k]);
        ct_store_pack<K>(dx + o * K, out);
    }
}

template <int N, int K, typename T>
__global__ static void average_forward(struct shape p, const T *x, T *y)
{
    CT_TURN();
    CT_KERNEL_EACH (o, p.planes * p.oh * p.ow * (p.lanes / K)) {
        const struct place a = place_of<K>(p, o);
        const struct span r  = span_of(a.r, p.h, p.kh, p.sh, p.ph);
        const struct span s  = span_of(a.c, p.w, p.kw, p.sw, p.pw);
        const T *from    = x + a.plane * p.h * p.w * p.lanes + a.lane;
        const float size = (float)r.size * (float)s.size;
        float sum[K] = { 0 };
        ct_pack<K, T> out;

#pragma unroll
        for (int i = 0; i < turns<N>(r); i++)
#pragma unroll
            for (int j = 0; j < turns<N>(s); j++) {
                const ct_pack<K, T> v = ct_load_pack<K>(
                    from + offset_of(p, p.x_line, turn<N>(r, i),
                                     turn<N>(s, j)));
                const bool mine = within<N>(r, i) && within<N>(s, j);

#pragma unroll
                for (int k = 0; k < K; k++)
                    sum[k] += mine ? ct_load(v.v + k) : 0;
            }
#pragma unroll
        for (int k = 0; k < K; k++)
            ct_store(out.v + k, size > 0 ? sum[k] / size : 0);
        ct_store_pack<K>(y + o * K, out);
    }
}

/* dx = 0 where `mask`, if there is one, is not above 0. */
template <int N, int K, typename T>
__global__ static void average_backward(struct shape p, const T *dy,
                                        const T *mask, T *dx)
{
    CT_TURN();
    CT_KERNEL_EACH (o, p.planes * p.h * p.w * (p.lanes / K)) {
        const struct place a = place_of<K>(p, o);
        const struct span r  = holders(a.r, p.oh, p.kh, p.step_h, p.ph);
        const struct span s  = holders(a.c, p.ow, p.kw, p.step_w, p.pw);
        const T *from = dy + a.plane * p.oh * p.ow * p.lanes + a.lane;
        float sum[K] = { 0 };
        ct_pack<K, T> out, sign = {};

        if (mask)
            sign = ct_load_pack<K>(mask + o * K);
#pragma unroll
        for (int i = 0; i < turns<N>(r); i++)
#pragma unroll
            for (int j = 0; j < turns<N>(s); j++) {
                const int row = turn<N>(r, i), col = turn<N>(s, j);
                const ct_pack<K, T> d = ct_load_pack<K>(
                    from + offset_of(p, p.y_line, row, col));
                const float size =
                    (float)span_of(row, p.h, p.kh, p.sh, p.ph).size *
                    (float)span_of(col, p.w, p.kw, p.sw, p.pw).size;
                const bool mine = within<N>(r, i) && within<N>(s, j);

#pragma unroll
                for (int k = 0; k < K; k++)
                    sum[k] += mine ? ct_load(d.v + k) / size : 0;
            }
#pragma unroll
        for (int k = 0; k < K; k++)
            ct_store(out.v + k,
                     !mask || ct_load(sign.v + k) > 0 ? sum[k] : 0);
        ct_store_pack<K>(dx + o * K, out);
    }
}

/* Of image k, element e: ct_uniform(key, first + k, e). */
template <typename T, typename I>
__global__ static void stochastic(struct shape p, int64_t channels, bool nhwc,
                                  struct draws d, const T *x, T *y, I *at)
{
    CT_TURN();
    const uint64_t first = d.first(nhwc ? p.planes : p.planes / channels);

    CT_KERNEL_EACH (o, p.planes * p.oh * p.ow * p.lanes) {
        const struct place a = place_of<1>(p, o);
        const struct span r  = span_of(a.r, p.h, p.kh, p.sh, p.ph);
        const struct span s  = span_of(a.c, p.w, p.kw, p.sw, p.pw);
        const T *from = x + a.plane * p.h * p.w * p.lanes + a.lane;
        const int64_t image = nhwc ? a.plane : a.plane / channels;
        const int64_t c     = nhwc ? a.lane : a.plane % channels;
        float sum = 0, goal, value = 0;
        I arg = (I)-1;

        for (int i = r.from; i < r.to; i++)
            for (int j = s.from; j < s.to; j++)
                sum += ct_load(from + offset_of(p, p.x_line, i, j));
        goal = sum * ct_uniform(d.key, first + (uint64_t)image,
                                (uint64_t)((c * p.oh + a.r) * p.ow + a.c));
        sum  = 0;
        for (int i = r.from; i < r.to; i++)
            for (int j = s.from; j < s.to; j++) {
                const float v = ct_load(from + offset_of(p, p.x_line, i, j));

                sum += v;
                if (arg == (I)-1 && sum >= goal) {
                    arg   = code<I>(p, a.r, a.c, i, j);
                    value = v;
                }
            }
        ct_store(y + o, value);
        at[o] = arg;
    }
}

/* sum x^2 / sum x of window (i, j); 0 where the sum is not above 0. */
template <typename T>
__device__ static inline float expected(const struct shape &p, int i, int j,
                                        const T *from, float *sum)
{
    const struct span r = span_of(i, p.h, p.kh, p.sh, p.ph);
    const struct span s = span_of(j, p.w, p.kw, p.sw, p.pw);
    float squares = 0;

    *sum = 0;
    for (int h = r.from; h < r.to; h++)
        for (int w = s.from; w < s.to; w++) {
            const float v = ct_load(from + offset_of(p, p.x_line, h, w));

            *sum += v;
            squares += v * v;
        }
    return *sum > 0 ? squares / *sum : 0;
}

template <typename T>
__global__ static void expected_forward(struct shape p, const T *x, T *y)
{
    CT_TURN();
    CT_KERNEL_EACH (o, p.planes * p.oh * p.ow * p.lanes) {
        const struct place a = place_of<1>(p, o);
        float sum;

        ct_store(y + o,
                 expected(p, a.r, a.c,
                          x + a.plane * p.h * p.w * p.lanes + a.lane, &sum));
    }
}

template <typename T>
__global__ static void expected_backward(struct shape p, const T *x,
                                         const T *dy, T *dx)
{
    CT_TURN();
    CT_KERNEL_EACH (o, p.planes * p.h * p.w * p.lanes) {
        const struct place a = place_of<1>(p, o);
        const struct span r  = holders(a.r, p.oh, p.kh, p.step_h, p.ph);
        const struct span s  = holders(a.c, p.ow, p.kw, p.step_w, p.pw);
        const T *from = x + a.plane * p.h * p.w * p.lanes + a.lane;
        const T *d    = dy + a.plane * p.oh * p.ow * p.lanes + a.lane;
        const float v = ct_load(x + o);
        float all = 0;

        for (int i = r.from; i < r.to; i++)
            for (int j = s.from; j < s.to; j++) {
                float sum;
                const float y = expected(p, i, j, from, &sum);

                if (sum > 0)
                    all += ct_load(d + offset_of(p, p.y_line, i, j)) / sum *
                           (2 * v - y);
            }
        ct_store(dx + o, all);
    }
}

/* The second top: places in the plane, in whatever layout that top has. */
template <typename T, typename I>
__global__ static void mask(struct shape p, int64_t channels, bool nhwc,
                            bool to_nhwc, const I *at, T *y)
{
    CT_TURN();
    const int64_t plane = (int64_t)p.oh * p.ow;

    CT_KERNEL_EACH (o, p.planes * plane * p.lanes) {
        const struct place a = place_of<1>(p, o);
        const int64_t image = nhwc ? a.plane : a.plane / channels;
        const int64_t c     = nhwc ? a.lane : a.plane % channels;
        const int64_t pos   = (int64_t)a.r * p.ow + a.c;
        const int64_t to = to_nhwc ? (image * plane + pos) * channels + c
                                   : (image * channels + c) * plane + pos;

        ct_store(y + to, (float)decode<I>(p, a.r, a.c, at[o]));
    }
}

/* Whether places fit into bytes. */
static bool by_bytes(const struct ct_pool *p)
{
    return p->kernel_h <= 255 && p->kernel_w <= 255 &&
           p->kernel_h * p->kernel_w <= 255;
}

/* Whether a thread takes sixteen bytes of lanes. */
template <typename T>
static bool by_packs(const struct ct_pool *p, const void *a, const void *b)
{
    return p->layout == CT_NHWC && p->c % (16 / (int)sizeof(T)) == 0 &&
           ct_aligned(a) && ct_aligned(b);
}

/* Windows of n x n that have kernels of their own, and the windows that hold
 * a position; 0: any. */
static int window_size(const struct ct_pool *p)
{
    return p->kernel_h == p->kernel_w && p->kernel_h > 1 && p->kernel_h < 4
               ? (int)p->kernel_h
               : 0;
}

static int holder_size(const struct ct_pool *p)
{
    const int64_t h = (p->kernel_h + p->stride_h - 1) / p->stride_h;
    const int64_t w = (p->kernel_w + p->stride_w - 1) / p->stride_w;

    return h == w && h < 4 ? (int)h : 0;
}

/* Runs `...`, where N is n. */
#define BY_SIZE(n, N, ...)                                                   \
    do {                                                                     \
        if ((n) == 1) {                                                      \
            constexpr int N = 1;                                             \
            __VA_ARGS__;                                                     \
        } else if ((n) == 2) {                                               \
            constexpr int N = 2;                                             \
            __VA_ARGS__;                                                     \
        } else if ((n) == 3) {                                               \
            constexpr int N = 3;                                             \
            __VA_ARGS__;                                                     \
        } else {                                                             \
            constexpr int N = 0;                                             \
            __VA_ARGS__;                                                     \
        }                                                                    \
    } while (0)

template <int N, typename T, typename I>
static enum ct_status max_run(const struct ct_layer *l, const struct ct_io *io)
{
    const struct pooling *s = (const struct pooling *)l->state;
    const T *x = (const T *)ct_data(io->bottom[0]);
    T *y = (T *)ct_data(io->top[0]);
    I *at = (I *)ct_data(s->at);
    const int64_t n  = ct_elements(io->top[0]);
    const bool masks = s->masks || s->relu;
    constexpr int K  = 16 / sizeof(T);
    struct strips st;

    if constexpr (N > 1 && sizeof(T) == 4 && sizeof(I) == 1)
        if (s->strips && strips_of(&s->pool, false, x, y, at, &st))
            return strips_max(l->dev, &s->pool, st, s->relu, x, y, at);
    if constexpr (N > 1 && sizeof(T) == 2 && sizeof(I) == 1)
        if (by_packs<T>(&s->pool, x, y))
            return CT_LAUNCH(l->dev, n / K, (max_pairs<N, T>),
                             shape_of(&s->pool, true, K), masks, s->relu, x, y,
                             at);
    if (by_packs<T>(&s->pool, x, y))
        return CT_LAUNCH(l->dev, n / K, (max_forward<N, K, T, I>),
                         shape_of(&s->pool, true, K), masks, s->relu, x, y, at);
    return CT_LAUNCH(l->dev, n, (max_forward<N, 1, T, I>),
                     shape_of(&s->pool, true, 1), masks, s->relu, x, y, at);
}

template <typename T, typename I>
static enum ct_status max_of(const struct ct_layer *l, const struct ct_io *io)
{
    const struct pooling *s = (const struct pooling *)l->state;

    if constexpr (sizeof(I) == 1)
        BY_SIZE(window_size(&s->pool), N,
                CT_TRY((max_run<N, T, I>(l, io))));
    else
        CT_TRY((max_run<0, T, I>(l, io)));
    if (io->n_top < 2)
        return CT_OK;
    CT_BY_TYPE(io->top[1]->data.dtype, M,
               return CT_LAUNCH(l->dev, ct_elements(io->top[0]), (mask<M, I>),
                                shape_of(&s->pool, true, 1), s->pool.c,
                                s->pool.layout == CT_NHWC,
                                io->top[1]->data.layout == CT_NHWC,
                                (const I *)ct_data(s->at),
                                (M *)ct_data(io->top[1])));
}

template <typename T, typename I>
static enum ct_status drawn(const struct ct_layer *l, const struct ct_io *io)
{
    const struct pooling *s = (const struct pooling *)l->state;

    return CT_LAUNCH(l->dev, ct_elements(io->top[0]), (stochastic<T, I>),
                     shape_of(&s->pool, true, 1), s->pool.c,
                     s->pool.layout == CT_NHWC, draws_of(l),
                     (const T *)ct_data(io->bottom[0]),
                     (T *)ct_data(io->top[0]), (I *)ct_data(s->at));
}

template <int N, typename T>
static enum ct_status average_of(const struct ct_layer *l,
                                 const struct ct_io *io)
{
    const struct pooling *s = (const struct pooling *)l->state;
    const T *x = (const T *)ct_data(io->bottom[0]);
    T *y = (T *)ct_data(io->top[0]);
    const int64_t n = ct_elements(io->top[0]);
    constexpr int K = 16 / sizeof(T);
    struct strips st;

    if constexpr (N > 1 && sizeof(T) == 4)
        if (s->strips && strips_of(&s->pool, false, x, y, NULL, &st))
            return strips_average(l->dev, &s->pool, st, x, y);
    if (by_packs<T>(&s->pool, x, y))
        return CT_LAUNCH(l->dev, n / K, (average_forward<N, K, T>),
                         shape_of(&s->pool, true, K), x, y);
    return CT_LAUNCH(l->dev, n, (average_forward<N, 1, T>),
                     shape_of(&s->pool, true, 1), x, y);
}

template <typename T>
static enum ct_status forward(const struct ct_layer *l, const struct ct_io *io)
{
    const struct pooling *s = (const struct pooling *)l->state;
    const int64_t n         = ct_elements(io->bottom[0]);

    switch (ct_pooling_param(l->param)->pool) {
    case METHOD(AVE):
        BY_SIZE(window_size(&s->pool), N, return (average_of<N, T>(l, io)));
    case METHOD(STOCHASTIC):
        if (!s->kept)
            return by_bytes(&s->pool) ? drawn<T, uint8_t>(l, io)
                                      : drawn<T, int32_t>(l, io);
        CT_TRY(CT_LAUNCH(l->dev, ct_elements(io->top[0]), expected_forward<T>,
                         shape_of(&s->pool, true, 1),
                         (const T *)ct_data(io->bottom[0]),
                         (T *)ct_data(io->top[0])));
        return ct_copy_values(l->dev, n, io->bottom[0]->data.dtype,
                              ct_data(io->bottom[0]), ct_data(s->kept));
    default:
        return by_bytes(&s->pool) ? max_of<T, uint8_t>(l, io)
                                  : max_of<T, int32_t>(l, io);
    }
}

template <int N, typename T, typename I>
static enum ct_status max_back(const struct ct_layer *l,
                               const struct ct_io *io)
{
    const struct pooling *s = (const struct pooling *)l->state;
    const T *dy = (const T *)ct_diff(io->top[0]);
    T *dx = (T *)ct_diff(io->bottom[0]);
    const I *at = (const I *)ct_data(s->at);
    const int64_t n = ct_elements(io->bottom[0]);
    constexpr int K = 16 / sizeof(T);

    if (sizeof(I) == 1 && by_packs<T>(&s->pool, dy, dx) && by_quads(&s->pool))
        return pool_quads<T>(l->dev, &s->pool, (const uint8_t *)at, dy, dx);
    if (by_packs<T>(&s->pool, dy, dx))
        return CT_LAUNCH(l->dev, n / K, (max_backward<N, K, T, I>),
                         shape_of(&s->pool, false, K), dy, at, dx);
    return CT_LAUNCH(l->dev, n, (max_backward<N, 1, T, I>),
                     shape_of(&s->pool, false, 1), dy, at, dx);
}

template <int N, typename T>
static enum ct_status average_back(const struct ct_layer *l,
                                   const struct ct_io *io, const T *mask)
{
    const struct pooling *s = (const struct pooling *)l->state;
    const T *dy = (const T *)ct_diff(io->top[0]);
    T *dx = (T *)ct_diff(io->bottom[0]);
    const int64_t n = ct_elements(io->bottom[0]);
    constexpr int K = 16 / sizeof(T);

    if (by_packs<T>(&s->pool, dy, dx) && ct_aligned(mask))
        return CT_LAUNCH(l->dev, n / K, (average_backward<N, K, T>),
                         shape_of(&s->pool, false, K), dy, mask, dx);
    return CT_LAUNCH(l->dev, n, (average_backward<N, 1, T>),
                     shape_of(&s->pool, false, 1), dy, mask, dx);
}

template <typename T>
static enum ct_status backward(const struct ct_layer *l,
                               const struct ct_io *io)
{
    const struct pooling *s = (const struct pooling *)l->state;
    const int holders       = holder_size(&s->pool);
    const uint8_t *at = s->at ? (const uint8_t *)ct_data(s->at) : NULL;
    float *dy = ct_diff(io->top[0]), *dx = ct_diff(io->bottom[0]);
    const T *mask = s->masks && s->pool.average
                        ? (const T *)ct_data(io->bottom[0])
                        : NULL;
    struct strips st;

    if (io->top[0]->count == 0)
        return ct_clear_values(l->dev, ct_elements(io->bottom[0]),
                               io->bottom[0]->diff.dtype,
                               ct_diff(io->bottom[0]));
    if (sizeof(T) == 4 && !s->kept && s->strips && ct_aligned(mask) &&
        strips_of(&s->pool, true, dy, dx, at, &st))
        return strips_back(l->dev, &s->pool, st, at, (const float *)mask, dy,
                           dx);
    if (sizeof(T) == 4 && !s->kept && !mask && by_rows(&s->pool))
        return pool_rows(l->dev, &s->pool, at, dy, dx);
    if (s->at && by_bytes(&s->pool))
        BY_SIZE(holders, N, return (max_back<N, T, uint8_t>(l, io)));
    if (s->at)
        return max_back<0, T, int32_t>(l, io);
    if (s->kept)
        return CT_LAUNCH(l->dev, ct_elements(io->bottom[0]),
                         expected_backward<T>, shape_of(&s->pool, false, 1),
                         (const T *)ct_data(s->kept),
                         (const T *)ct_diff(io->top[0]),
                         (T *)ct_diff(io->bottom[0]));
    BY_SIZE(holders, N, return (average_back<N, T>(l, io, mask)));
}

extern "C" enum ct_status ct_cuda_pooling_forward(struct ct_layer *l,
                                                  const struct ct_io *io)
{
    struct pooling *s = (struct pooling *)l->state;
    float *db;

    /* Ways through plain images keep all places, and have no sums of them. */
    s->masks = (s->pool.layout == CT_NHWC || s->pool.average) &&
               pooling_masks(l, io, &db);
    if (io->top[0]->count == 0)
        return CT_OK;
    CT_BY_TYPE(io->bottom[0]->data.dtype, T, return forward<T>(l, io));
}

/* Of a mean dx has to be read again, beside what follows. */
static enum ct_status sums_of_means(const struct ct_layer *l,
                                    const struct ct_io *io, float *db)
{
    const struct ct_pool *p        = &((const struct pooling *)l->state)->pool;
    const struct ct_bias_desc desc = { p->n, p->c, p->h * p->w, p->layout,
                                       p->dtype };
    const bool aside               = l->run->aside &&
                       (((const struct pooling *)l->state)->writer->flags &
                        CT_LAYER_ASIDE);

    if (aside)
        CT_TRY(ct_side_begin(l->dev));
    CT_TRY(ct_cuda_conv_bias_backward(l->dev, &desc, ct_diff(io->bottom[0]),
                                      db));
    return aside ? ct_side_end(l->dev) : CT_OK;
}

/* The convolution before it is spared a pass over dx. */
static enum ct_status spare_writer(const struct ct_layer *l,
                                   const struct ct_io *io)
{
    const struct pooling *s = (const struct pooling *)l->state;
    enum ct_status st       = CT_OK;
    float *db;

    if (!s->masks || !pooling_masks(l, io, &db))
        return CT_OK;
    if (db && !s->pool.average && !by_bytes(&s->pool))
        return CT_OK;
    if (db && s->pool.average)
        st = sums_of_means(l, io, db);
    else if (db)
        CT_BY_TYPE(io->top[0]->diff.dtype, T,
                   st = pool_sums<T>(l->dev, &s->pool,
                                     (const T *)ct_diff(io->top[0]),
                                     (const uint8_t *)ct_data(s->at), db));
    if (st == CT_OK)
        pooling_masked(l);
    return st == CT_ENOTSUP ? CT_OK : st;
}

extern "C" enum ct_status ct_cuda_pooling_backward(struct ct_layer *l,
                                                   const struct ct_io *io)
{
    if (!io->want_grad[0] || io->bottom[0]->count == 0)
        return CT_OK;
    CT_BY_TYPE(io->top[0]->diff.dtype, T, CT_TRY(backward<T>(l, io)));
    return spare_writer(l, io);
}
