/* patch_load.h - images on their way into shared memory, as factors of
 * products; for conv_patch.cu and patch_sums.cu alone.
 *
 * A thread takes four channels of a position: of the plain layout lanes have
 * neighbouring positions, of NHWC neighbouring channels.  What lies outside of
 * the image is 0. */
#ifndef CT_DEVICE_CUDA_PATCH_LOAD_H
#define CT_DEVICE_CUDA_PATCH_LOAD_H

extern "C" {
#include "device/conv_impl.h"
}
#include "device/cuda/divide.h"
#include "device/cuda/elementwise.h"
#include "device/cuda/mma.h"

enum { CT_LOAD_AHEAD = 4 }; /* loads that a thread has under way */

/* Images as they lie outside; steps in values. */
struct ct_images {
    int  channels, height, width;
    int  image, channel, row, column;
    bool packed; /* four channels, or two of a result, may be moved at once */
    enum ct_dtype type;
};

/* A box of positions of one image, and of its channels 4 x quads. */
struct ct_box {
    int high, wide, quads;
    int pitch;   /* bytes of a position */
    bool single; /* channels are written one by one, and none is filled up */
    struct ct_divider by_wide, by_quads, by_positions;
};

static inline struct ct_images ct_images_of(int channels, const int *size,
                                            enum ct_layout layout,
                                            enum ct_dtype type)
{
    const bool last   = layout == CT_NHWC;
    struct ct_images m = {};

    m.channels = channels;
    m.height   = size[0];
    m.width    = size[1];
    m.image    = channels * size[0] * size[1];
    m.channel  = last ? 1 : size[0] * size[1];
    m.column   = last ? channels : 1;
    m.row      = size[1] * m.column;
    m.type     = type;
    return m;
}

static inline struct ct_box ct_box_of(int high, int wide, int quads, int pitch,
                                      bool single)
{
    return { high, wide, quads, pitch, single,
             ct_divider_of(wide, INT32_MAX), ct_divider_of(quads, INT32_MAX),
             ct_divider_of(high * wide, INT32_MAX) };
}

#if CT_HAS_MMA

__device__ inline uint32_t ct_word_of(__nv_bfloat162 v)
{
    return *(const uint32_t *)&v;
}

__device__ inline uint32_t ct_word_of(__half2 v)
{
    return *(const uint32_t *)&v;
}

/* Four factors at p, which is aligned for them. */
template <int FACTOR>
__device__ inline void ct_put_factors(char *p, const float *v)
{
    if (FACTOR == CT_FACTOR_F32)
        *(float4 *)p = make_float4(v[0], v[1], v[2], v[3]);
    else if (FACTOR == CT_FACTOR_TF32)
        *(uint4 *)p = make_uint4(ct_tf32(v[0]), ct_tf32(v[1]), ct_tf32(v[2]),
                                 ct_tf32(v[3]));
    else if (FACTOR == CT_FACTOR_BF16)
        *(uint2 *)p =
            make_uint2(ct_word_of(__floats2bfloat162_rn(v[0], v[1])),
                       ct_word_of(__floats2bfloat162_rn(v[2], v[3])));
    else
        *(uint2 *)p = make_uint2(ct_word_of(__floats2half2_rn(v[0], v[1])),
                                 ct_word_of(__floats2half2_rn(v[2], v[3])));
}

/* The channels of a box that are there, one by one, as 32 bits each. */
template <int FACTOR>
__device__ inline void ct_put_single(char *p, const float *v, int n)
{
#pragma unroll
    for (int k = 0; k < 4; k++)
        if (k < n)
            ((uint32_t *)p)[k] = FACTOR == CT_FACTOR_F32
                                     ? __float_as_uint(v[k])
                                     : ct_tf32(v[k]);
}

/* Four channels from c on, of those below `end`. */
template <typename T>
__device__ inline void ct_load_four(const struct ct_images &m, const T *at,
                                    int c, int end, float *v)
{
    if (m.packed) {
        if (c < end) {
            const ct_pack<4, T> p = ct_load_pack<4>(at + c);

#pragma unroll
            for (int k = 0; k < 4; k++)
                v[k] = ct_load(p.v + k);
        }
        return;
    }
#pragma unroll
    for (int k = 0; k < 4; k++)
        if (c + k < end)
            v[k] = ct_load(at + (c + k) * m.channel);
}

/* Which positions and channels thread by thread a box has. */
struct ct_box_at {
    int quad, row, column;
};

__device__ inline struct ct_box_at ct_box_find(const struct ct_box &b,
                                               bool nhwc, int i)
{
    const int positions = b.high * b.wide;
    struct ct_box_at at;
    int p;

    if (nhwc) {
        p       = ct_quotient(b.by_quads, i);
        at.quad = i - p * b.quads;
    } else {
        at.quad = ct_quotient(b.by_positions, i);
        p       = i - at.quad * positions;
    }
    at.row    = ct_quotient(b.by_wide, p);
    at.column = p - at.row * b.wide;
    return at;
}

/* A box whose first position is (top, left) of the image, and whose first
 * channel is `first`; by all threads of the block. */
template <int FACTOR, typename T>
__device__ inline void ct_box_load(const struct ct_images &m,
                                   const struct ct_box &b, const T *x,
                                   int image, int top, int left, int first,
                                   char *to)
{
    const bool nhwc = m.channel == 1;
    const int n     = b.high * b.wide * b.quads;
    const int four  = FACTOR == CT_FACTOR_BF16 || FACTOR == CT_FACTOR_F16
                          ? 8 : 16;
    const T *from   = x + (int64_t)image * m.image;

    for (int i = threadIdx.x; i < n; i += CT_LOAD_AHEAD * blockDim.x) {
        float v[CT_LOAD_AHEAD][4] = {};
        int at[CT_LOAD_AHEAD], left_over[CT_LOAD_AHEAD];

#pragma unroll
        for (int a = 0; a < CT_LOAD_AHEAD; a++) {
            const int e = i + a * (int)blockDim.x;
            const struct ct_box_at p = ct_box_find(b, nhwc, e);
            const int h = top + p.row, w = left + p.column;
            const int c = first + 4 * p.quad;

            at[a] = e < n ? (p.row * b.wide + p.column) * b.pitch +
                                p.quad * four
                          : -1;
            left_over[a] = m.channels - c;
            if (e < n && (unsigned)h < (unsigned)m.height &&
                (unsigned)w < (unsigned)m.width)
                ct_load_four(m, from + h * m.row + w * m.column, c,
                             m.channels, v[a]);
        }
#pragma unroll
        for (int a = 0; a < CT_LOAD_AHEAD; a++) {
            if (at[a] < 0)
                continue;
            if (b.single)
                ct_put_single<FACTOR>(to + at[a], v[a], left_over[a]);
            else
                ct_put_factors<FACTOR>(to + at[a], v[a]);
        }
    }
}

#endif
#endif
