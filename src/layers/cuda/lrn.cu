/* lrn.cu - local response normalization on a GPU; formulas as in
 * device/lrn_ops.h.
 *
 * Across channels, for windows of 3 and 5, a thread has the window in its
 * registers.  In NHWC it loads sixteen bytes of channels and the sixteen on
 * both sides, which its neighbours bring into the cache anyway, and makes the
 * gradient's terms of the channels that it reaches again.  In the plain layout
 * it walks down the channels of a position.
 *
 * Within a channel, lrn_near.h has windows of 3 and 5.  For all others a thread
 * makes a value from its definition; within a channel backward by way of the
 * terms. */
#include "device/cuda/divide.h"
#include "device/cuda/elementwise.h"
#include "layers/cuda/lrn_near.h"
#include "layers/cuda/slots.h"
#include "layers/lrn.h"

/* Across channels: `lines` runs of c channels, `step` values from channel to
 * channel; line l begins at l / inner * c * inner + l % inner. */
struct across {
    int64_t lines, inner, step;
    int     c, chunk; /* channels of a line; those that a thread walks */
    float   a, k, beta;
};

/* The pack of channels at x and the packs beside it, as floats; what is not
 * there counts as 0. */
template <int K, typename T>
__device__ static inline void with_neighbours(const T *x, bool before,
                                              bool after, float *v)
{
    const ct_pack<K, T> zero = {};
    const ct_pack<K, T> l    = before ? ct_load_pack<K>(x - K) : zero;
    const ct_pack<K, T> m    = ct_load_pack<K>(x);
    const ct_pack<K, T> r    = after ? ct_load_pack<K>(x + K) : zero;

#pragma unroll
    for (int k = 0; k < K; k++) {
        v[k]         = ct_load(l.v + k);
        v[K + k]     = ct_load(m.v + k);
        v[2 * K + k] = ct_load(r.v + k);
    }
}

/* k + a times the squares around v. */
template <int HALF>
__device__ static inline float scale_of(const struct across &p, const float *v)
{
    float sum = 0;

#pragma unroll
    for (int j = -HALF; j <= HALF; j++)
        sum += v[j] * v[j];
    return p.k + p.a * sum;
}

/* NHWC, a pack of channels a thread; groups: packs of a line. */
template <int K, int HALF, typename T>
__global__ static void packs_forward(struct across p, unsigned packs,
                                     unsigned groups, const T *x, T *y)
{
    CT_TURN();
    const unsigned step = gridDim.x * blockDim.x;

    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < packs;
         i += step) {
        const unsigned at = i % groups;
        ct_pack<K, T> out;
        float v[3 * K];

        with_neighbours<K>(x + (int64_t)i * K, at > 0, at + 1 < groups, v);
#pragma unroll
        for (int k = 0; k < K; k++)
            ct_store(out.v + k,
                     v[K + k] * power(scale_of<HALF>(p, v + K + k), p.beta,
                                      NULL));
        ct_store_pack<K>(y + (int64_t)i * K, out);
    }
}

/* What lies outside of the line has a dy of 0, and so no term.  MASKS: dx is 0
 * where x is not above it. */
template <bool MASKS, int K, int HALF, typename T>
__global__ static void packs_backward(struct across p, unsigned packs,
                                      unsigned groups, const T *x,
                                      const T *dy, T *dx)
{
    CT_TURN();
    const unsigned step = gridDim.x * blockDim.x;

    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < packs;
         i += step) {
        const unsigned at = i % groups;
        const bool before = at > 0, after = at + 1 < groups;
        float v[3 * K], d[3 * K], term[K + 2 * HALF], s[K + 2 * HALF];
        ct_pack<K, T> out;

        with_neighbours<K>(x + (int64_t)i * K, before, after, v);
        with_neighbours<K>(dy + (int64_t)i * K, before, after, d);
#pragma unroll
        for (int k = 0; k < K + 2 * HALF; k++) {
            const int at_v = K - HALF + k;
            float next;

            s[k] = power(scale_of<HALF>(p, v + at_v), p.beta, &next);
            term[k] = d[at_v] * v[at_v] * next;
        }
#pragma unroll
        for (int k = 0; k < K; k++) {
            float sum = 0;

#pragma unroll
            for (int j = 0; j <= 2 * HALF; j++)
                sum += term[k + j];
            sum = d[K + k] * s[HALF + k] -
                  2 * p.a * p.beta * v[K + k] * sum;
            ct_store(out.v + k, !MASKS || v[K + k] > 0 ? sum : 0);
        }
        ct_store_pack<K>(dx + (int64_t)i * K, out);
    }
}

/* One more value at the end of a window of n. */
template <int N>
__device__ static inline void shift(float *w, float v)
{
#pragma unroll
    for (int j = 0; j + 1 < N; j++)
        w[j] = w[j + 1];
    w[N - 1] = v;
}

struct walk {
    int64_t at; /* of the line's channel 0 */
    int     from, to;
};

__device__ static inline struct walk walk_of(const struct across &p, int64_t i)
{
    const int64_t line = i % p.lines;
    struct walk w;

    w.from = (int)(i / p.lines) * p.chunk;
    w.to   = min(w.from + p.chunk, p.c);
    w.at   = line / p.inner * p.c * p.inner + line % p.inner;
    return w;
}

template <typename T>
__device__ static inline float channel(const struct across &p, const T *line,
                                       int c)
{
    return c >= 0 && c < p.c ? ct_load(line + c * p.step) : 0;
}

/* Any layout: a thread walks down some channels of a line, neighbouring
 * threads those of neighbouring positions, with the window in registers. */
template <int HALF, typename T>
__global__ static void walk_forward(struct across p, int64_t n,
                                    const T *x,
                                    T *__restrict__ y)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n) {
        const struct walk w   = walk_of(p, i);
        float v[2 * HALF + 1] = { 0 };

#pragma unroll 8
        for (int c = w.from - 2 * HALF; c < w.to; c++) {
            shift<2 * HALF + 1>(v, channel(p, x + w.at, c + HALF));
            if (c >= w.from)
                ct_store(y + w.at + c * p.step,
                         v[HALF] * power(scale_of<HALF>(p, v + HALF), p.beta,
                                         NULL));
        }
    }
}

/* Turn c brings x of channel c + 2 HALF, the term of c + HALF and the gradient
 * of c. */
template <int HALF, typename T>
__global__ static void walk_backward(struct across p, int64_t n,
                                     const T *x,
                                     const T *dy,
                                     T *__restrict__ dx)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n) {
        const struct walk w = walk_of(p, i);
        float v[2 * HALF + 1] = { 0 }, term[2 * HALF + 1] = { 0 };
        float d[HALF + 1] = { 0 }, s[HALF + 1] = { 0 };

#pragma unroll 4
        for (int c = w.from - 4 * HALF; c < w.to; c++) {
            float next, sum = 0;

            shift<2 * HALF + 1>(v, channel(p, x + w.at, c + 2 * HALF));
            shift<HALF + 1>(d, channel(p, dy + w.at, c + HALF));
            shift<HALF + 1>(s, power(scale_of<HALF>(p, v + HALF), p.beta,
                                     &next));
            shift<2 * HALF + 1>(term, d[HALF] * v[HALF] * next);
#pragma unroll
            for (int j = 0; j <= 2 * HALF; j++)
                sum += term[j];
            if (c >= w.from)
                ct_store(dx + w.at + c * p.step,
                         d[0] * s[0] - 2 * p.a * p.beta * v[0] * sum);
        }
    }
}

/* Any window, one value a thread. */
struct any {
    int64_t n, step; /* step: from position to position */
    int     c, h, w, half;
    bool    within, nhwc;
    float   a, k, beta;
    struct ct_divider by_c, by_h, by_w;
};

/* A value's place: image and channel begin at `base`. */
struct spot {
    int64_t base;
    int     c, h, w;
};

__device__ static inline struct spot spot_of(const struct any &v, int64_t i)
{
    int64_t rest, c = 0;
    struct spot s;

    if (v.nhwc)
        i = ct_divide(v.by_c, i, &c);
    i   = ct_divide(v.by_w, i, &rest);
    s.w = (int)rest;
    i   = ct_divide(v.by_h, i, &rest);
    s.h = (int)rest;
    if (!v.nhwc)
        i = ct_divide(v.by_c, i, &c);
    s.c    = (int)c;
    s.base = (v.nhwc ? i * v.h * v.w * v.c + c : (i * v.c + c) * v.h * v.w);
    return s;
}

__device__ static inline int64_t at(const struct any &v, const struct spot &s)
{
    return s.base + ((int64_t)s.h * v.w + s.w) * v.step;
}

/* The same position `by` channels on. */
__device__ static inline struct spot beside(const struct any &v,
                                            struct spot s, int by)
{
    s.c += by;
    s.base += v.nhwc ? by : (int64_t)by * v.h * v.w;
    return s;
}

/* The sum over the window around s of x^2, or of x. */
template <bool SQUARE, typename T>
__device__ static inline float around(const struct any &v,
                                      const struct spot &s, const T *x)
{
    const int h0 = max(s.h - v.half, 0), h1 = min(s.h + v.half + 1, v.h);
    const int w0 = max(s.w - v.half, 0), w1 = min(s.w + v.half + 1, v.w);
    float sum = 0;

    if (!v.within) {
        const int to = min(v.half, v.c - 1 - s.c);

        for (int c = max(-v.half, -s.c); c <= to; c++) {
            const float a = ct_load(x + at(v, beside(v, s, c)));

            sum += SQUARE ? a * a : a;
        }
        return sum;
    }
    for (int h = h0; h < h1; h++)
        for (int w = w0; w < w1; w++) {
            const float a =
                ct_load(x + s.base + ((int64_t)h * v.w + w) * v.step);

            sum += SQUARE ? a * a : a;
        }
    return sum;
}

template <typename T>
__global__ static void any_forward(struct any v, int64_t n, const T *x, T *y)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n) {
        const float s = v.k + v.a * around<true>(v, spot_of(v, i), x);

        ct_store(y + i, ct_load(x + i) * power(s, v.beta, NULL));
    }
}

template <typename T>
__device__ static inline float term_of(const struct any &v,
                                       const struct spot &o, const T *x,
                                       const T *dy)
{
    const float s   = v.k + v.a * around<true>(v, o, x);
    const int64_t i = at(v, o);

    return ct_load(dy + i) * ct_load(x + i) * power(s, v.beta, NULL) / s;
}

template <typename T>
__global__ static void any_terms(struct any v, int64_t n, const T *x,
                                 const T *dy, float *term)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n)
        term[i] = term_of(v, spot_of(v, i), x, dy);
}

/* The same sum across channels, each term made again. */
template <typename T>
__device__ static inline float around_terms(const struct any &v,
                                            const struct spot &o, const T *x,
                                            const T *dy)
{
    const int to = min(v.half, v.c - 1 - o.c);
    float sum    = 0;

    for (int c = max(-v.half, -o.c); c <= to; c++)
        sum += term_of(v, beside(v, o, c), x, dy);
    return sum;
}

template <typename T>
__global__ static void any_backward(struct any v, int64_t n, const T *x,
                                    const T *dy, const float *term, T *dx)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n) {
        const struct spot o = spot_of(v, i);
        const float s   = v.k + v.a * around<true>(v, o, x);
        const float sum = v.within ? around<false>(v, o, term)
                                   : around_terms(v, o, x, dy);

        ct_store(dx + i, ct_load(dy + i) * power(s, v.beta, NULL) -
                             2 * v.a * v.beta * ct_load(x + i) * sum);
    }
}

/* A window wider than the image is as good as one that is just as wide. */
static struct any any_of(const struct ct_lrn *p)
{
    const float size = (float)p->size;
    const bool nhwc  = p->layout == CT_NHWC;
    const int64_t n  = p->n * p->c * p->h * p->w;
    const int64_t half = p->size / 2;

    return { n, nhwc ? p->c : 1, (int)p->c, (int)p->h, (int)p->w,
             (int)(half < 1 << 24 ? half : 1 << 24), p->within, nhwc,
             p->alpha / (p->within ? size * size : size), p->k, p->beta,
             ct_divider_of(p->c, n), ct_divider_of(p->h, n),
             ct_divider_of(p->w, n) };
}

/* Lines are cut where there are too few of them to keep the GPU busy. */
static struct across across_of(const struct ct_device *d,
                               const struct ct_lrn *p)
{
    const bool nhwc       = p->layout == CT_NHWC;
    const int64_t threads = ct_cuda(d)->n_multiprocessors * (int64_t)1024;
    struct across v = { p->n * p->h * p->w, nhwc ? 1 : p->h * p->w,
                        nhwc ? 1 : p->h * p->w, (int)p->c, (int)p->c,
                        p->alpha / (float)p->size, p->k, p->beta };

    while (v.chunk > 16 && v.lines * ((v.c + v.chunk - 1) / v.chunk) < threads)
        v.chunk = (v.chunk + 1) / 2;
    return v;
}

static bool takes_across(const struct ct_lrn *p)
{
    return !p->within && p->c < 1 << 20 && (p->size == 3 || p->size == 5);
}

template <typename T>
static bool takes_packs(const struct ct_lrn *p, const void *a, const void *b,
                        const void *c)
{
    return p->layout == CT_NHWC && p->c % (16 / (int)sizeof(T)) == 0 &&
           p->n * p->c * p->h * p->w < INT32_MAX && ct_aligned(a) &&
           ct_aligned(b) && ct_aligned(c);
}

static int64_t walks(const struct across *v)
{
    return v->lines * ((v->c + v->chunk - 1) / v->chunk);
}

template <int HALF, typename T>
static enum ct_status across_forward(const struct ct_device *d,
                                     const struct ct_lrn *p, const T *x, T *y)
{
    const struct across v = across_of(d, p);
    constexpr int K       = 16 / sizeof(T);

    if (takes_packs<T>(p, x, y, NULL)) {
        const unsigned packs = (unsigned)(v.lines * v.c / K);

        return CT_LAUNCH(d, packs, (packs_forward<K, HALF, T>), v, packs,
                         (unsigned)v.c / K, x, y);
    }
    return CT_LAUNCH(d, walks(&v), (walk_forward<HALF, T>), v, walks(&v), x,
                     y);
}

/* *masks: dx is to be masked; afterwards, it is. */
template <int HALF, typename T>
static enum ct_status across_backward(const struct ct_device *d,
                                      const struct ct_lrn *p, const T *x,
                                      const T *dy, T *dx, bool *masks)
{
    const struct across v = across_of(d, p);
    constexpr int K       = 16 / sizeof(T);

    if (takes_packs<T>(p, x, dy, dx)) {
        const unsigned packs = (unsigned)(v.lines * v.c / K);

        if (*masks)
            return CT_LAUNCH(d, packs, (packs_backward<true, K, HALF, T>), v,
                             packs, (unsigned)v.c / K, x, dy, dx);
        return CT_LAUNCH(d, packs, (packs_backward<false, K, HALF, T>), v,
                         packs, (unsigned)v.c / K, x, dy, dx);
    }
    *masks = false;
    return CT_LAUNCH(d, walks(&v), (walk_backward<HALF, T>), v, walks(&v), x,
                     dy, dx);
}

template <typename T>
static enum ct_status forward(const struct ct_layer *l, const struct ct_io *io)
{
    const struct lrn *s    = (const struct lrn *)l->state;
    const struct ct_lrn *p = &s->lrn;
    const int64_t n        = ct_elements(io->top[0]);
    const T *x = (const T *)ct_data(io->bottom[0]);
    T *y = (T *)ct_data(io->top[0]);

    if (takes_near<T>(s, x, y, NULL))
        NEAR(l->dev, p, T, near_forward, x, y);
    if (!takes_across(p))
        return CT_LAUNCH(l->dev, n, any_forward<T>, any_of(p), n, x, y);
    return p->size == 3 ? across_forward<1>(l->dev, p, x, y)
                        : across_forward<2>(l->dev, p, x, y);
}

template <typename T>
static enum ct_status backward(const struct ct_layer *l,
                               const struct ct_io *io, bool *masks)
{
    const struct lrn *s    = (const struct lrn *)l->state;
    const struct ct_lrn *p = &s->lrn;
    const int64_t n        = ct_elements(io->top[0]);
    const T *x = (const T *)ct_data(io->bottom[0]);
    const T *dy = (const T *)ct_diff(io->top[0]);
    T *dx = (T *)ct_diff(io->bottom[0]);
    float *term = ct_data(s->scratch);

    if (takes_near<T>(s, x, dy, dx)) {
        CT_TRY(near_terms_of(l->dev, p, x, dy, term));
        NEAR(l->dev, p, T, near_backward, x, dy, (const float *)term, dx);
    }
    if (takes_across(p)) {
        *masks = lrn_masks(l, io);
        return p->size == 3 ? across_backward<1>(l->dev, p, x, dy, dx, masks)
                            : across_backward<2>(l->dev, p, x, dy, dx, masks);
    }
    if (p->within)
        CT_TRY(CT_LAUNCH(l->dev, n, any_terms<T>, any_of(p), n, x, dy, term));
    return CT_LAUNCH(l->dev, n, any_backward<T>, any_of(p), n, x, dy,
                     (const float *)term, dx);
}

extern "C" enum ct_status ct_cuda_lrn_forward(struct ct_layer *l,
                                              const struct ct_io *io)
{
    if (io->top[0]->count == 0)
        return CT_OK;
    CT_BY_TYPE(io->bottom[0]->data.dtype, T, return forward<T>(l, io));
}

extern "C" enum ct_status ct_cuda_lrn_backward(struct ct_layer *l,
                                               const struct ct_io *io)
{
    struct lrn *s = (struct lrn *)l->state;

    s->masks = false;
    if (!io->want_grad[0] || io->top[0]->count == 0)
        return CT_OK;
    CT_BY_TYPE(io->bottom[0]->data.dtype, T,
               CT_TRY(backward<T>(l, io, &s->masks)));
    return s->masks ? lrn_masked(l, io) : CT_OK;
}
