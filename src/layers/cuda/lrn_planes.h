/* lrn_planes.h - LRN within a channel, with images in shared memory; for lrn.cu
 * alone. */
#ifndef CT_LAYERS_CUDA_LRN_PLANES_H
#define CT_LAYERS_CUDA_LRN_PLANES_H

#include "device/cuda/divide.h"
#include "device/cuda/kernel.h"

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

/* Any window, one value a thread. */
struct any {
    int64_t n, step; /* step: from position to position */
    int     c, h, w, half;
    bool    within, nhwc;
    float   a, k, beta;
    struct ct_divider by_c, by_h, by_w;
};

/* Within a channel: the planes of some channels of an image, by one block.
 * Values follow each other as they do in memory. */
struct planes {
    struct any        v;
    int               each, groups; /* channels of a block, and blocks */
    int               values;       /* of a block: each x h x w */
    struct ct_divider by_each, by_plane;
};

struct value {
    int     h, w;
    bool    in; /* the last group may have fewer channels */
    int64_t at; /* in the array */
};

__device__ static inline struct value value_of(const struct planes &p, int i)
{
    const int plane = p.v.h * p.v.w, image = blockIdx.x / p.groups;
    const int first = blockIdx.x % p.groups * p.each;
    const int c     = p.v.nhwc ? i - ct_quotient(p.by_each, i) * p.each
                               : ct_quotient(p.by_plane, i);
    const int place = p.v.nhwc ? ct_quotient(p.by_each, i) : i - c * plane;
    struct value o;

    o.h  = ct_quotient(p.v.by_w, place);
    o.w  = place - o.h * p.v.w;
    o.in = first + c < p.v.c;
    o.at = p.v.nhwc ? ((int64_t)image * plane + place) * p.v.c + first + c
                    : ((int64_t)image * p.v.c + first) * plane + i;
    return o;
}

/* The sum over the window around value i of x^2, or of x. */
template <bool SQUARE>
__device__ static inline float window(const struct planes &p,
                                      const struct value &o, int i,
                                      const float *x)
{
    const int step = p.v.nhwc ? p.each : 1;
    const int h0 = max(-p.v.half, -o.h), h1 = min(p.v.half, p.v.h - 1 - o.h);
    const int w0 = max(-p.v.half, -o.w), w1 = min(p.v.half, p.v.w - 1 - o.w);
    float sum = 0;

    for (int h = h0; h <= h1; h++)
        for (int w = w0; w <= w1; w++) {
            const float a = x[i + (h * p.v.w + w) * step];

            sum += SQUARE ? a * a : a;
        }
    return sum;
}

template <typename T>
__device__ static inline void load_planes(const struct planes &p, const T *x,
                                          float *to)
{
#pragma unroll 4
    for (int i = threadIdx.x; i < p.values; i += blockDim.x) {
        const struct value o = value_of(p, i);

        to[i] = o.in ? ct_load(x + o.at) : 0;
    }
}

template <typename T>
__global__ static void planes_forward(struct planes p, const T *x, T *y)
{
    CT_TURN();
    extern __shared__ float plane[];

    load_planes(p, x, plane);
    __syncthreads();
    for (int i = threadIdx.x; i < p.values; i += blockDim.x) {
        const struct value o = value_of(p, i);
        const float s = p.v.k + p.v.a * window<true>(p, o, i, plane);

        if (o.in)
            ct_store(y + o.at, plane[i] * power(s, p.v.beta, NULL));
    }
}

/* x, the terms, and dy s^-beta. */
template <typename T>
__global__ static void planes_backward(struct planes p, const T *x,
                                       const T *dy, T *dx)
{
    CT_TURN();
    extern __shared__ float plane[];
    float *term = plane + p.values, *first = term + p.values;

    load_planes(p, x, plane);
    load_planes(p, dy, first);
    __syncthreads();
    for (int i = threadIdx.x; i < p.values; i += blockDim.x) {
        const float s = p.v.k +
                        p.v.a * window<true>(p, value_of(p, i), i, plane);

        first[i] *= power(s, p.v.beta, NULL);
        term[i] = first[i] * plane[i] / s;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < p.values; i += blockDim.x) {
        const struct value o = value_of(p, i);

        if (o.in)
            ct_store(dx + o.at, first[i] - 2 * p.v.a * p.v.beta * plane[i] *
                                               window<false>(p, o, i, term));
    }
}

#endif
