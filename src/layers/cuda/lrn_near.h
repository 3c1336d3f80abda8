/* lrn_near.h - LRN within a channel for windows of 3 and 5, some neighbouring
 * values a thread; for lrn.cu alone.
 *
 * In NHWC a thread has sixteen bytes of channels of one position, in the plain
 * layout four columns of a row: what it finds out about its place holds for
 * all of them.  The sums have the order of the definition. */
#ifndef CT_LAYERS_CUDA_LRN_NEAR_H
#define CT_LAYERS_CUDA_LRN_NEAR_H

#include "device/cuda/divide.h"
#include "device/cuda/elementwise.h"
#include "layers/lrn.h"

/* s^-beta, and s^-(beta + 1) where asked for; an error of a few units in the
 * last place. */
__device__ static inline float power(float s, float beta, float *next)
{
    const float r = rsqrtf(s);
    const float p = beta == 0.75f ? r * r * rsqrtf(r) : exp2f(-beta * log2f(s));

    if (next)
        *next = p * (r * r);
    return p;
}

/* Threads are dealt out over n packs: packs of a position or of a row, then
 * columns (1 in the plain layout), then rows. */
struct near {
    int   n, h, w;
    int   row, column; /* values from row to row and column to column */
    float a, k, beta;
    struct ct_divider packs, columns, rows;
};

/* A pack: its first column, its row, and where it begins. */
struct near_place {
    int     r, c;
    int64_t at;
};

template <bool NHWC, int K>
__device__ static inline struct near_place near_place_of(const struct near &p,
                                                         int i)
{
    const int above  = ct_quotient(p.packs, i);
    const int line   = NHWC ? ct_quotient(p.columns, above) : above;
    const int column = NHWC ? above - line * p.w
                            : (i - above * (int)p.packs.d) * K;
    const int row    = line - ct_quotient(p.rows, line) * p.h;

    return { row, column, (int64_t)i * K };
}

/* sum[k] += f of the values around value k, in the row at x. */
template <int HALF, bool NHWC, bool SQUARE, int K, typename T>
__device__ static inline void add_row(const struct near &p,
                                      const struct near_place &o, const T *x,
                                      float *sum)
{
    constexpr int N = NHWC ? 1 : K + 2 * HALF; /* values side by side */
    float v[N];

    if constexpr (NHWC) {
#pragma unroll
        for (int j = -HALF; j <= HALF; j++) {
            if (o.c + j < 0 || o.c + j >= p.w)
                continue;
            const ct_pack<K, T> in = ct_load_pack<K>(x + j * p.column);

#pragma unroll
            for (int k = 0; k < K; k++) {
                v[0] = ct_load(in.v + k);
                sum[k] += SQUARE ? v[0] * v[0] : v[0];
            }
        }
    } else {
        const ct_pack<K, T> in = ct_load_pack<K>(x);

#pragma unroll
        for (int k = 0; k < K; k++)
            v[HALF + k] = ct_load(in.v + k);
#pragma unroll
        for (int j = 1; j <= HALF; j++) {
            v[HALF - j] = o.c - j >= 0 ? ct_load(x - j) : 0;
            v[HALF + K - 1 + j] =
                o.c + K - 1 + j < p.w ? ct_load(x + K - 1 + j) : 0;
        }
#pragma unroll
        for (int k = 0; k < K; k++)
#pragma unroll
            for (int j = 0; j <= 2 * HALF; j++)
                sum[k] += SQUARE ? v[k + j] * v[k + j] : v[k + j];
    }
}

/* The sums over the windows around K values. */
template <int HALF, bool NHWC, bool SQUARE, int K, typename T>
__device__ static inline void near_sums(const struct near &p,
                                        const struct near_place &o, const T *x,
                                        float *sum)
{
#pragma unroll
    for (int k = 0; k < K; k++)
        sum[k] = 0;
#pragma unroll
    for (int j = -HALF; j <= HALF; j++)
        if (o.r + j >= 0 && o.r + j < p.h)
            add_row<HALF, NHWC, SQUARE, K>(p, o, x + o.at + j * p.row, sum);
}

template <int HALF, bool NHWC, int K, typename T>
__global__ static void near_forward(struct near p, const T *x, T *y)
{
    CT_TURN();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < p.n;
         i += gridDim.x * blockDim.x) {
        const struct near_place o = near_place_of<NHWC, K>(p, i);
        const ct_pack<K, T> in    = ct_load_pack<K>(x + o.at);
        ct_pack<K, T> out;
        float sum[K];

        near_sums<HALF, NHWC, true, K>(p, o, x, sum);
#pragma unroll
        for (int k = 0; k < K; k++)
            ct_store(out.v + k, ct_load(in.v + k) *
                                    power(p.k + p.a * sum[k], p.beta, NULL));
        ct_store_pack<K>(y + o.at, out);
    }
}

/* dy x s^(-beta-1). */
template <int HALF, bool NHWC, int K, typename T>
__global__ static void near_terms(struct near p, const T *x, const T *dy,
                                  float *term)
{
    CT_TURN();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < p.n;
         i += gridDim.x * blockDim.x) {
        const struct near_place o = near_place_of<NHWC, K>(p, i);
        const ct_pack<K, T> in    = ct_load_pack<K>(x + o.at);
        const ct_pack<K, T> d     = ct_load_pack<K>(dy + o.at);
        ct_pack<K, float> out;
        float sum[K];

        near_sums<HALF, NHWC, true, K>(p, o, x, sum);
#pragma unroll
        for (int k = 0; k < K; k++) {
            const float s = p.k + p.a * sum[k];

            out.v[k] = ct_load(d.v + k) * ct_load(in.v + k) *
                       power(s, p.beta, NULL) / s;
        }
        ct_store_pack<K>(term + o.at, out);
    }
}

template <int HALF, bool NHWC, int K, typename T>
__global__ static void near_backward(struct near p, const T *x, const T *dy,
                                     const float *term, T *dx)
{
    CT_TURN();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < p.n;
         i += gridDim.x * blockDim.x) {
        const struct near_place o = near_place_of<NHWC, K>(p, i);
        const ct_pack<K, T> in    = ct_load_pack<K>(x + o.at);
        const ct_pack<K, T> d     = ct_load_pack<K>(dy + o.at);
        ct_pack<K, T> out;
        float sum[K], terms[K];

        near_sums<HALF, NHWC, true, K>(p, o, x, sum);
        near_sums<HALF, NHWC, false, K>(p, o, term, terms);
#pragma unroll
        for (int k = 0; k < K; k++)
            ct_store(out.v + k,
                     ct_load(d.v + k) *
                             power(p.k + p.a * sum[k], p.beta, NULL) -
                         2 * p.a * p.beta * ct_load(in.v + k) * terms[k]);
        ct_store_pack<K>(dx + o.at, out);
    }
}

/* Threads take k values each. */
static struct near near_of(const struct ct_lrn *p, int k)
{
    const bool nhwc     = p->layout == CT_NHWC;
    const int64_t n     = p->n * p->c * p->h * p->w / k;
    const int64_t packs = (nhwc ? p->c : p->w) / k;

    return { (int)n, (int)p->h, (int)p->w, (int)(nhwc ? p->w * p->c : p->w),
             (int)(nhwc ? p->c : 1), p->alpha / (float)(p->size * p->size),
             p->k, p->beta, ct_divider_of(packs, n), ct_divider_of(p->w, n),
             ct_divider_of(p->h, n) };
}

/* Values of a thread: sixteen bytes of channels, or four columns. */
template <typename T, bool NHWC>
constexpr int near_values = NHWC ? 16 / (int)sizeof(T) : 4;

template <typename T>
static bool takes_near(const struct lrn *s, const void *a, const void *b,
                       const void *c)
{
    const struct ct_lrn *p = &s->lrn;
    const bool packs       = p->layout == CT_NHWC
                                 ? p->c % near_values<T, true> == 0
                                 : p->w % near_values<T, false> == 0;

    return s->near && p->within && (p->size == 3 || p->size == 5) && packs &&
           p->n * p->c * p->h * p->w < INT32_MAX && ct_aligned(a) &&
           ct_aligned(b) && ct_aligned(c) && ct_aligned(ct_data(s->scratch));
}

#define NEAR_BY(d, p, T, nhwc, half, kernel, ...)                            \
    return CT_LAUNCH((d), near_of((p), (near_values<T, nhwc>)).n,            \
                     (kernel<half, nhwc, (near_values<T, nhwc>), T>),        \
                     near_of((p), (near_values<T, nhwc>)), __VA_ARGS__)

/* Launches `kernel` and returns a status. */
#define NEAR(d, p, T, kernel, ...)                                           \
    do {                                                                     \
        if ((p)->layout == CT_NHWC && (p)->size == 3)                        \
            NEAR_BY(d, p, T, true, 1, kernel, __VA_ARGS__);                  \
        if ((p)->layout == CT_NHWC)                                          \
            NEAR_BY(d, p, T, true, 2, kernel, __VA_ARGS__);                  \
        if ((p)->size == 3)                                                  \
            NEAR_BY(d, p, T, false, 1, kernel, __VA_ARGS__);                 \
        NEAR_BY(d, p, T, false, 2, kernel, __VA_ARGS__);                     \
    } while (0)

template <typename T>
static enum ct_status near_terms_of(const struct ct_device *d,
                                    const struct ct_lrn *p, const T *x,
                                    const T *dy, float *term)
{
    NEAR(d, p, T, near_terms, x, dy, term);
}

#endif
