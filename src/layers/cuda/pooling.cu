/* pooling.cu - pooling on a GPU; formulas and shapes as in pooling.c and
 * device/pool.h.
 *
 * An array is planes x positions x lanes: image and channel with one lane in
 * the plain layout, images with a lane a channel in NHWC.  A thread makes K
 * neighbouring lanes of one position.  Gradients are gathered: a position adds
 * up the windows that hold it, in their order, so that sums repeat.
 *
 * A window's place is kept in a byte, counted within the window, where the
 * window is small, and else as a place in the plane. */
#include <float.h>

#include "device/cuda/divide.h"
#include "device/cuda/elementwise.h"
#include "layers/cuda/cuda.h"
#include "layers/cuda/draws.h"
#include "layers/pooling.h"
#include "proto/params.h"

#define METHOD(m) CAFFE__POOLING_PARAMETER__POOL_METHOD__##m

struct shape {
    int64_t planes, lanes;
    int     h, w, oh, ow, kh, kw, sh, sw, ph, pw;
    /* Of the array that threads are dealt out over: packs of lanes, columns
     * and rows. */
    struct ct_divider packs, columns, rows;
};

static int small(int64_t v)
{
    return (int)(v < 1 << 28 ? v : 1 << 28); /* more than any image */
}

/* Threads are dealt out over the output (else over the input), k lanes each. */
static struct shape shape_of(const struct ct_pool *p, bool output, int k)
{
    const bool nhwc = p->layout == CT_NHWC;
    const int64_t h = output ? p->out_h : p->h, w = output ? p->out_w : p->w;
    const int64_t n = p->n * p->c * h * w / k;
    const int64_t lanes = nhwc ? p->c : 1;

    return { nhwc ? p->n : p->n * p->c, lanes,
             small(p->h), small(p->w), small(p->out_h), small(p->out_w),
             small(p->kernel_h), small(p->kernel_w), small(p->stride_h),
             small(p->stride_w), small(p->pad_h), small(p->pad_w),
             ct_divider_of(lanes / k, n), ct_divider_of(w, n),
             ct_divider_of(h, n) };
}

/* A thread's position (row r, column c), and its lanes. */
struct place {
    int64_t plane, lane;
    int     r, c;
};

template <int K>
__device__ static inline struct place place_of(const struct shape &p,
                                               int64_t i)
{
    struct place a;
    int64_t rest;

    i       = ct_divide(p.packs, i, &rest);
    a.lane  = rest * K;
    i       = ct_divide(p.columns, i, &rest);
    a.c     = (int)rest;
    a.plane = ct_divide(p.rows, i, &rest);
    a.r     = (int)rest;
    return a;
}

/* Along one axis: [from, to) inside the image, and the size with padding. */
struct span {
    int from, to, size;
};

__device__ static inline struct span span_of(int i, int in, int kernel,
                                             int stride, int pad)
{
    const int from = i * stride - pad;
    int to         = from + kernel;
    struct span s;

    to     = min(to, in + pad);
    s.size = max(to - from, 0);
    s.from = max(from, 0);
    s.to   = max(min(to, in), s.from);
    return s;
}

/* The windows [from, to) that hold position i of an axis. */
__device__ static inline struct span holders(int i, int out, int kernel,
                                             int stride, int pad)
{
    struct span s;

    s.from = i + pad < kernel ? 0 : (i + pad - kernel) / stride + 1;
    s.to   = min((i + pad) / stride + 1, out);
    s.size = 0;
    return s;
}

template <typename I>
__device__ static inline I code(const struct shape &p, int i, int j, int r,
                                int c)
{
    if (sizeof(I) == 1)
        return (I)((r - (i * p.sh - p.ph)) * p.kw + c - (j * p.sw - p.pw));
    return (I)(r * p.w + c);
}

template <typename I>
__device__ static inline int decode(const struct shape &p, int i, int j, I at)
{
    if (at == (I)-1)
        return -1;
    if (sizeof(I) == 1)
        return (i * p.sh - p.ph + at / p.kw) * p.w + j * p.sw - p.pw +
               at % p.kw;
    return (int)at;
}

template <int K, typename T, typename I>
__global__ static void max_forward(struct shape p, const T *x, T *y, I *at)
{
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
        for (int i = r.from; i < r.to; i++)
            for (int j = s.from; j < s.to; j++) {
                const ct_pack<K, T> v = ct_load_pack<K>(
                    from + ((int64_t)i * p.w + j) * p.lanes);
                const I here = code<I>(p, a.r, a.c, i, j);

#pragma unroll
                for (int k = 0; k < K; k++)
                    if (ct_load(v.v + k) > best[k]) {
                        best[k]  = ct_load(v.v + k);
                        arg.v[k] = here;
                    }
            }
#pragma unroll
        for (int k = 0; k < K; k++)
            ct_store(out.v + k, best[k]);
        ct_store_pack<K>(y + o * K, out);
        ct_store_pack<K>(at + o * K, arg);
    }
}

template <int K, typename T, typename I>
__global__ static void max_backward(struct shape p, const T *dy, const I *at,
                                    T *dx)
{
    CT_KERNEL_EACH (o, p.planes * p.h * p.w * (p.lanes / K)) {
        const struct place a = place_of<K>(p, o);
        const struct span r  = holders(a.r, p.oh, p.kh, p.sh, p.ph);
        const struct span s  = holders(a.c, p.ow, p.kw, p.sw, p.pw);
        const int64_t base = a.plane * p.oh * p.ow * p.lanes + a.lane;
        float sum[K] = { 0 };
        ct_pack<K, T> out;

        for (int i = r.from; i < r.to; i++)
            for (int j = s.from; j < s.to; j++) {
                const int64_t w = base + ((int64_t)i * p.ow + j) * p.lanes;
                const ct_pack<K, I> arg = ct_load_pack<K>(at + w);
                const ct_pack<K, T> d   = ct_load_pack<K>(dy + w);
                const I here            = code<I>(p, i, j, a.r, a.c);

#pragma unroll
                for (int k = 0; k < K; k++)
                    sum[k] += arg.v[k] == here ? ct_load(d.v + k) : 0;
            }
#pragma unroll
        for (int k = 0; k < K; k++)
            ct_store(out.v + k, sum[k]);
        ct_store_pack<K>(dx + o * K, out);
    }
}

template <int K, typename T>
__global__ static void average_forward(struct shape p, const T *x, T *y)
{
    CT_KERNEL_EACH (o, p.planes * p.oh * p.ow * (p.lanes / K)) {
        const struct place a = place_of<K>(p, o);
        const struct span r  = span_of(a.r, p.h, p.kh, p.sh, p.ph);
        const struct span s  = span_of(a.c, p.w, p.kw, p.sw, p.pw);
        const T *from    = x + a.plane * p.h * p.w * p.lanes + a.lane;
        const float size = (float)r.size * (float)s.size;
        float sum[K] = { 0 };
        ct_pack<K, T> out;

        for (int i = r.from; i < r.to; i++)
            for (int j = s.from; j < s.to; j++) {
                const ct_pack<K, T> v = ct_load_pack<K>(
                    from + ((int64_t)i * p.w + j) * p.lanes);

#pragma unroll
                for (int k = 0; k < K; k++)
                    sum[k] += ct_load(v.v + k);
            }
#pragma unroll
        for (int k = 0; k < K; k++)
            ct_store(out.v + k, size > 0 ? sum[k] / size : 0);
        ct_store_pack<K>(y + o * K, out);
    }
}

template <int K, typename T>
__global__ static void average_backward(struct shape p, const T *dy, T *dx)
{
    CT_KERNEL_EACH (o, p.planes * p.h * p.w * (p.lanes / K)) {
        const struct place a = place_of<K>(p, o);
        const struct span r  = holders(a.r, p.oh, p.kh, p.sh, p.ph);
        const struct span s  = holders(a.c, p.ow, p.kw, p.sw, p.pw);
        const T *from = dy + a.plane * p.oh * p.ow * p.lanes + a.lane;
        float sum[K] = { 0 };
        ct_pack<K, T> out;

        for (int i = r.from; i < r.to; i++)
            for (int j = s.from; j < s.to; j++) {
                const ct_pack<K, T> d = ct_load_pack<K>(
                    from + ((int64_t)i * p.ow + j) * p.lanes);
                const float size =
                    (float)span_of(i, p.h, p.kh, p.sh, p.ph).size *
                    (float)span_of(j, p.w, p.kw, p.sw, p.pw).size;

#pragma unroll
                for (int k = 0; k < K; k++)
                    sum[k] += ct_load(d.v + k) / size;
            }
#pragma unroll
        for (int k = 0; k < K; k++)
            ct_store(out.v + k, sum[k]);
        ct_store_pack<K>(dx + o * K, out);
    }
}

/* Of image k, element e: ct_uniform(key, first + k, e). */
template <typename T, typename I>
__global__ static void stochastic(struct shape p, int64_t channels, bool nhwc,
                                  struct draws d, const T *x, T *y, I *at)
{
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
                sum += ct_load(from + ((int64_t)i * p.w + j) * p.lanes);
        goal = sum * ct_uniform(d.key, first + (uint64_t)image,
                                (uint64_t)((c * p.oh + a.r) * p.ow + a.c));
        sum  = 0;
        for (int i = r.from; i < r.to; i++)
            for (int j = s.from; j < s.to; j++) {
                const float v =
                    ct_load(from + ((int64_t)i * p.w + j) * p.lanes);

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
            const float v = ct_load(from + ((int64_t)h * p.w + w) * p.lanes);

            *sum += v;
            squares += v * v;
        }
    return *sum > 0 ? squares / *sum : 0;
}

template <typename T>
__global__ static void expected_forward(struct shape p, const T *x, T *y)
{
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
    CT_KERNEL_EACH (o, p.planes * p.h * p.w * p.lanes) {
        const struct place a = place_of<1>(p, o);
        const struct span r  = holders(a.r, p.oh, p.kh, p.sh, p.ph);
        const struct span s  = holders(a.c, p.ow, p.kw, p.sw, p.pw);
        const T *from = x + a.plane * p.h * p.w * p.lanes + a.lane;
        const T *d    = dy + a.plane * p.oh * p.ow * p.lanes + a.lane;
        const float v = ct_load(x + o);
        float all = 0;

        for (int i = r.from; i < r.to; i++)
            for (int j = s.from; j < s.to; j++) {
                float sum;
                const float y = expected(p, i, j, from, &sum);

                if (sum > 0)
                    all += ct_load(d + ((int64_t)i * p.ow + j) * p.lanes) /
                           sum * (2 * v - y);
            }
        ct_store(dx + o, all);
    }
}

/* The second top: places in the plane, in whatever layout that top has. */
template <typename T, typename I>
__global__ static void mask(struct shape p, int64_t channels, bool nhwc,
                            bool to_nhwc, const I *at, T *y)
{
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

template <typename T, typename I>
static enum ct_status max_of(const struct ct_layer *l, const struct ct_io *io)
{
    const struct pooling *s = (const struct pooling *)l->state;
    const struct shape p    = shape_of(&s->pool, true, 1);
    const T *x = (const T *)ct_data(io->bottom[0]);
    T *y = (T *)ct_data(io->top[0]);
    I *at = (I *)ct_data(s->at);
    const int64_t n = ct_elements(io->top[0]);
    constexpr int K = 16 / sizeof(T);

    if (by_packs<T>(&s->pool, x, y))
        CT_TRY(CT_LAUNCH(l->dev, n / K, (max_forward<K, T, I>),
                         shape_of(&s->pool, true, K), x, y, at));
    else
        CT_TRY(CT_LAUNCH(l->dev, n, (max_forward<1, T, I>), p, x, y, at));
    if (io->n_top < 2)
        return CT_OK;
    CT_BY_TYPE(io->top[1]->data.dtype, M,
               return CT_LAUNCH(l->dev, n, (mask<M, I>), p, s->pool.c,
                                s->pool.layout == CT_NHWC,
                                io->top[1]->data.layout == CT_NHWC,
                                (const I *)at, (M *)ct_data(io->top[1])));
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

template <typename T>
static enum ct_status average_of(const struct ct_layer *l,
                                 const struct ct_io *io)
{
    const struct pooling *s = (const struct pooling *)l->state;
    const T *x = (const T *)ct_data(io->bottom[0]);
    T *y = (T *)ct_data(io->top[0]);
    const int64_t n = ct_elements(io->top[0]);
    constexpr int K = 16 / sizeof(T);

    if (by_packs<T>(&s->pool, x, y))
        return CT_LAUNCH(l->dev, n / K, (average_forward<K, T>),
                         shape_of(&s->pool, true, K), x, y);
    return CT_LAUNCH(l->dev, n, (average_forward<1, T>),
                     shape_of(&s->pool, true, 1), x, y);
}

template <typename T>
static enum ct_status forward(const struct ct_layer *l, const struct ct_io *io)
{
    const struct pooling *s = (const struct pooling *)l->state;
    const int64_t n         = ct_elements(io->bottom[0]);

    switch (ct_pooling_param(l->param)->pool) {
    case METHOD(AVE):
        return average_of<T>(l, io);
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

template <typename T, typename I>
static enum ct_status max_back(const struct ct_layer *l,
                               const struct ct_io *io)
{
    const struct pooling *s = (const struct pooling *)l->state;
    const T *dy = (const T *)ct_diff(io->top[0]);
    T *dx = (T *)ct_diff(io->bottom[0]);
    const I *at = (const I *)ct_data(s->at);
    const int64_t n = ct_elements(io->bottom[0]);
    constexpr int K = 16 / sizeof(T);

    if (by_packs<T>(&s->pool, dy, dx))
        return CT_LAUNCH(l->dev, n / K, (max_backward<K, T, I>),
                         shape_of(&s->pool, false, K), dy, at, dx);
    return CT_LAUNCH(l->dev, n, (max_backward<1, T, I>),
                     shape_of(&s->pool, false, 1), dy, at, dx);
}

template <typename T>
static enum ct_status backward(const struct ct_layer *l,
                               const struct ct_io *io)
{
    const struct pooling *s = (const struct pooling *)l->state;
    const struct shape p    = shape_of(&s->pool, false, 1);
    const T *dy = (const T *)ct_diff(io->top[0]);
    T *dx = (T *)ct_diff(io->bottom[0]);
    const int64_t n = ct_elements(io->bottom[0]);
    constexpr int K = 16 / sizeof(T);

    if (s->at)
        return by_bytes(&s->pool) ? max_back<T, uint8_t>(l, io)
                                  : max_back<T, int32_t>(l, io);
    if (s->kept)
        return CT_LAUNCH(l->dev, n, expected_backward<T>, p,
                         (const T *)ct_data(s->kept), dy, dx);
    if (by_packs<T>(&s->pool, dy, dx))
        return CT_LAUNCH(l->dev, n / K, (average_backward<K, T>),
                         shape_of(&s->pool, false, K), dy, dx);
    return CT_LAUNCH(l->dev, n, (average_backward<1, T>), p, dy, dx);
}

extern "C" enum ct_status ct_cuda_pooling_forward(struct ct_layer *l,
                                                  const struct ct_io *io)
{
    if (io->top[0]->count == 0)
        return CT_OK;
    CT_BY_TYPE(io->bottom[0]->data.dtype, T, return forward<T>(l, io));
}

extern "C" enum ct_status ct_cuda_pooling_backward(struct ct_layer *l,
                                                   const struct ct_io *io)
{
    if (!io->want_grad[0] || io->bottom[0]->count == 0)
        return CT_OK;
    CT_BY_TYPE(io->top[0]->diff.dtype, T, return backward<T>(l, io));
}
