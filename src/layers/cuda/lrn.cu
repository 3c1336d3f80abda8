/* lrn.cu - local response normalization on a GPU; formulas as in
 * device/lrn.h.
 *
 * Across channels a block takes a tile of channels by positions, with the
 * channels that their windows reach, into shared memory: squares, then the
 * terms of the gradient's sum.  Tiles are wide in the direction in which
 * memory is: positions in the plain layout, channels in NHWC.
 *
 * Within a channel, and for windows too large for that, a thread makes a value
 * from its definition; within a channel backward by way of the terms. */
#include "device/cuda/elementwise.h"
#include "layers/cuda/cuda.h"
#include "layers/lrn.h"

enum { TILE = 1024, SHARED = 48 << 10 };

/* images x channels x positions, neighbours in a channel `step` apart. */
struct across {
    int64_t images, positions, image_step; /* values from image to image */
    int     c, half, q, p;                 /* a tile's channels, positions */
    bool    nhwc;
    float   a, k, beta;
};

struct tile {
    int64_t at;        /* of position 0, channel 0 */
    int     c0, lo, hi, n; /* first channel; those loaded; positions */
};

__device__ static inline float power(float s, float beta)
{
    float r;

    if (beta != 0.75f)
        return exp2f(-beta * log2f(s));
    r = rsqrtf(s);
    return r * sqrtf(r);
}

__device__ static inline struct tile tile_of(const struct across &v, int reach)
{
    const int64_t chunks = (v.c + v.q - 1) / v.q;
    const int64_t rows   = (v.positions + v.p - 1) / v.p;
    const int64_t b      = blockIdx.x / chunks;
    const int64_t from   = b % rows * v.p;
    struct tile t;

    t.c0 = (int)(blockIdx.x % chunks) * v.q;
    t.lo = max(t.c0 - reach, 0);
    t.hi = min(t.c0 + v.q + reach, v.c);
    t.n  = (int)min((int64_t)v.p, v.positions - from);
    t.at = b / rows * v.image_step + from * (v.nhwc ? v.c : 1);
    return t;
}

/* Channel and position of value e of a tile's channels [lo, hi). */
__device__ static inline int2 spot(const struct across &v, int e, int lo,
                                   int hi, int n)
{
    return v.nhwc ? make_int2(lo + e % (hi - lo), e / (hi - lo))
                  : make_int2(lo + e / n, e % n);
}

__device__ static inline int64_t spot_at(const struct across &v,
                                         const struct tile &t, int2 s)
{
    return t.at + (v.nhwc ? (int64_t)s.y * v.c + s.x
                          : (int64_t)s.x * v.positions + s.y);
}

/* Where channel c of position p lies among channels [lo, hi) of n. */
__device__ static inline int inside(const struct across &v, int2 s, int lo,
                                    int hi, int n)
{
    return v.nhwc ? s.y * (hi - lo) + s.x - lo : (s.x - lo) * n + s.y;
}

/* The sum over the window around s of `of`, which holds [lo, hi). */
__device__ static inline float window(const struct across &v, int2 s, int lo,
                                      int hi, int n, const float *of)
{
    const int from = max(s.x - v.half, lo), to = min(s.x + v.half + 1, hi);
    const int step = v.nhwc ? 1 : n;
    float sum      = 0;

    of += inside(v, make_int2(from, s.y), lo, hi, n);
    for (int c = from; c < to; c++, of += step)
        sum += *of;
    return sum;
}

template <typename T>
__device__ static inline void squares(const struct across &v,
                                      const struct tile &t, const T *x,
                                      float *square)
{
    for (int e = threadIdx.x; e < (t.hi - t.lo) * t.n; e += blockDim.x) {
        const float a = ct_load(x + spot_at(v, t, spot(v, e, t.lo, t.hi, t.n)));

        square[e] = a * a;
    }
    __syncthreads();
}

template <typename T>
__global__ static void across_forward(struct across v, const T *x, T *y)
{
    extern __shared__ float square[];
    const struct tile t = tile_of(v, v.half);
    const int end       = min(t.c0 + v.q, v.c);

    squares(v, t, x, square);
    for (int e = threadIdx.x; e < (end - t.c0) * t.n; e += blockDim.x) {
        const int2 s    = spot(v, e, t.c0, end, t.n);
        const int64_t i = spot_at(v, t, s);
        const float sum = window(v, s, t.lo, t.hi, t.n, square);

        ct_store(y + i, ct_load(x + i) * power(v.k + v.a * sum, v.beta));
    }
}

template <typename T>
__global__ static void across_backward(struct across v, const T *x,
                                       const T *dy, T *dx)
{
    extern __shared__ float square[];
    const struct tile t = tile_of(v, 2 * v.half);
    const int end       = min(t.c0 + v.q, v.c);
    const int lo        = max(t.c0 - v.half, 0);
    const int hi        = min(end + v.half, v.c);
    float *term         = square + (t.hi - t.lo) * t.n;

    squares(v, t, x, square);
    for (int e = threadIdx.x; e < (hi - lo) * t.n; e += blockDim.x) {
        const int2 s    = spot(v, e, lo, hi, t.n);
        const int64_t i = spot_at(v, t, s);
        const float of  = v.k + v.a * window(v, s, t.lo, t.hi, t.n, square);

        term[e] = ct_load(dy + i) * ct_load(x + i) * power(of, v.beta) / of;
    }
    __syncthreads();
    for (int e = threadIdx.x; e < (end - t.c0) * t.n; e += blockDim.x) {
        const int2 s    = spot(v, e, t.c0, end, t.n);
        const int64_t i = spot_at(v, t, s);
        const float of  = v.k + v.a * window(v, s, t.lo, t.hi, t.n, square);
        const float sum = window(v, s, lo, hi, t.n, term);

        ct_store(dx + i, ct_load(dy + i) * power(of, v.beta) -
                             2 * v.a * v.beta * ct_load(x + i) * sum);
    }
}

/* Any window, one value a thread. */
struct any {
    int64_t n, c, h, w, half;
    bool    within, nhwc;
    float   a, k, beta;
};

struct spot4 {
    int64_t n, c, h, w;
};

__device__ static inline int64_t at(const struct any &v, struct spot4 s)
{
    return v.nhwc ? ((s.n * v.h + s.h) * v.w + s.w) * v.c + s.c
                  : ((s.n * v.c + s.c) * v.h + s.h) * v.w + s.w;
}

__device__ static inline struct spot4 spot_of(const struct any &v, int64_t i)
{
    struct spot4 s;

    if (v.nhwc) {
        s.c = i % v.c;
        i  /= v.c;
    }
    s.w = i % v.w;
    i  /= v.w;
    s.h = i % v.h;
    i  /= v.h;
    if (!v.nhwc) {
        s.c = i % v.c;
        i  /= v.c;
    }
    s.n = i;
    return s;
}

/* The sum over the window around s of x^2, or of x. */
template <bool SQUARE, typename T>
__device__ static inline float around(const struct any &v, struct spot4 s,
                                      const T *x)
{
    float sum = 0;

    if (!v.within) {
        const int64_t to = min(s.c + v.half + 1, v.c);

        for (int64_t c = max(s.c - v.half, (int64_t)0); c < to; c++) {
            const float a = ct_load(x + at(v, { s.n, c, s.h, s.w }));

            sum += SQUARE ? a * a : a;
        }
        return sum;
    }
    for (int64_t h = max(s.h - v.half, (int64_t)0);
         h < min(s.h + v.half + 1, v.h); h++)
        for (int64_t w = max(s.w - v.half, (int64_t)0);
             w < min(s.w + v.half + 1, v.w); w++) {
            const float a = ct_load(x + at(v, { s.n, s.c, h, w }));

            sum += SQUARE ? a * a : a;
        }
    return sum;
}

template <typename T>
__global__ static void any_forward(struct any v, int64_t n, const T *x, T *y)
{
    CT_KERNEL_EACH (i, n) {
        const float s = v.k + v.a * around<true>(v, spot_of(v, i), x);

        ct_store(y + i, ct_load(x + i) * power(s, v.beta));
    }
}

template <typename T>
__device__ static inline float term_of(const struct any &v, struct spot4 o,
                                       const T *x, const T *dy)
{
    const float s   = v.k + v.a * around<true>(v, o, x);
    const int64_t i = at(v, o);

    return ct_load(dy + i) * ct_load(x + i) * power(s, v.beta) / s;
}

template <typename T>
__global__ static void any_terms(struct any v, int64_t n, const T *x,
                                 const T *dy, float *term)
{
    CT_KERNEL_EACH (i, n)
        term[i] = term_of(v, spot_of(v, i), x, dy);
}

/* The same sum across channels, each term made again. */
template <typename T>
__device__ static inline float around_terms(const struct any &v,
                                            struct spot4 o, const T *x,
                                            const T *dy)
{
    const int64_t to = min(o.c + v.half + 1, v.c);
    float sum        = 0;

    for (int64_t c = max(o.c - v.half, (int64_t)0); c < to; c++)
        sum += term_of(v, { o.n, c, o.h, o.w }, x, dy);
    return sum;
}

template <typename T>
__global__ static void any_backward(struct any v, int64_t n, const T *x,
                                    const T *dy, const float *term, T *dx)
{
    CT_KERNEL_EACH (i, n) {
        const struct spot4 o = spot_of(v, i);
        const float s   = v.k + v.a * around<true>(v, o, x);
        const float sum = v.within ? around<false>(v, o, term)
                                   : around_terms(v, o, x, dy);

        ct_store(dx + i, ct_load(dy + i) * power(s, v.beta) -
                             2 * v.a * v.beta * ct_load(x + i) * sum);
    }
}

static struct any any_of(const struct ct_lrn *p)
{
    const float size = (float)p->size;

    return { p->n, p->c, p->h, p->w, p->size / 2, p->within,
             p->layout == CT_NHWC,
             p->alpha / (p->within ? size * size : size), p->k, p->beta };
}

static struct across across_of(const struct ct_lrn *p)
{
    const bool nhwc = p->layout == CT_NHWC;
    struct across v = { nhwc ? 1 : p->n,
                        nhwc ? p->n * p->h * p->w : p->h * p->w,
                        p->c * p->h * p->w, (int)p->c, (int)(p->size / 2), 0,
                        0, nhwc, p->alpha / (float)p->size, p->k, p->beta };

    v.q = nhwc ? p->c < 256 ? (int)p->c : 256 : 32;
    v.p = TILE / v.q > 1 ? TILE / v.q : 1;
    return v;
}

/* Bytes of shared memory for a tile and what `reach` adds on both sides; more
 * than SHARED where that is too much to say. */
static size_t room(const struct across *v, int64_t reach)
{
    const int64_t n = (v->q + 2 * reach) * v->p * (int64_t)sizeof(float);

    return n < SHARED ? (size_t)n : SHARED + 1;
}

static unsigned tiles(const struct across *v)
{
    return (unsigned)(v->images * ((v->positions + v->p - 1) / v->p) *
                      ((v->c + v->q - 1) / v->q));
}

static bool takes_tiles(const struct ct_lrn *p, const struct across *v)
{
    const int64_t half = p->size / 2;

    return !p->within && p->c < 1 << 20 && half < 1 << 12 &&
           room(v, 2 * half) + room(v, half) <= SHARED;
}

template <typename T>
static enum ct_status forward(const struct ct_layer *l, const struct ct_io *io)
{
    const struct lrn *s   = (const struct lrn *)l->state;
    const struct across v = across_of(&s->lrn);
    const int64_t n       = ct_elements(io->top[0]);
    const T *x = (const T *)ct_data(io->bottom[0]);
    T *y = (T *)ct_data(io->top[0]);

    if (!takes_tiles(&s->lrn, &v))
        return CT_LAUNCH(l->dev, n, any_forward<T>, any_of(&s->lrn), n, x, y);
    across_forward<T><<<tiles(&v), CT_BLOCK, room(&v, v.half),
                        ct_cuda_stream(l->dev)>>>(v, x, y);
    return CT_CUDA_LAUNCHED(l->dev, "LRN");
}

template <typename T>
static enum ct_status backward(const struct ct_layer *l,
                               const struct ct_io *io)
{
    const struct lrn *s   = (const struct lrn *)l->state;
    const struct across v = across_of(&s->lrn);
    const int64_t n       = ct_elements(io->top[0]);
    const T *x = (const T *)ct_data(io->bottom[0]);
    const T *dy = (const T *)ct_diff(io->top[0]);
    T *dx = (T *)ct_diff(io->bottom[0]);
    float *term = ct_data(s->scratch);

    if (!takes_tiles(&s->lrn, &v)) {
        if (s->lrn.within)
            CT_TRY(CT_LAUNCH(l->dev, n, any_terms<T>, any_of(&s->lrn), n, x,
                             dy, term));
        return CT_LAUNCH(l->dev, n, any_backward<T>, any_of(&s->lrn), n, x, dy,
                         (const float *)term, dx);
    }
    across_backward<T><<<tiles(&v), CT_BLOCK,
                         room(&v, 2 * v.half) + room(&v, v.half),
                         ct_cuda_stream(l->dev)>>>(v, x, dy, dx);
    return CT_CUDA_LAUNCHED(l->dev, "gradient of LRN");
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
    if (!io->want_grad[0] || io->top[0]->count == 0)
        return CT_OK;
    CT_BY_TYPE(io->bottom[0]->data.dtype, T, return backward<T>(l, io));
}
