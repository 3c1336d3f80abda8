/* column_sums.h - masks of a ReLU in 16-byte vectors, and sums over rows of
 * channels; for .cu files alone.
 *
 * Blocks share rows as ct_columns says (tiles.h), and threads add up what they
 * see of their channels.  ct_column_sums() adds those up: first in the block,
 * then, by the block that ends last, over all shares of the rows, in an order
 * that depends on the shape and the GPU alone. */
#ifndef CT_DEVICE_CUDA_COLUMN_SUMS_H
#define CT_DEVICE_CUDA_COLUMN_SUMS_H

#include "device/cuda/kernel.h"
#include "device/cuda/tiles.h"
#include "device/cuda/vector.h"

static_assert((int)CT_TILE_THREADS == (int)CT_BLOCK, "one size of blocks");

/* Whether this block is the last of `blocks` to come here: what the others
 * wrote before is there for it.  The turn is 0 again afterwards. */
__device__ inline bool ct_is_last(unsigned blocks, unsigned *turn)
{
    __shared__ bool last;

    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        last = atomicInc(turn, blocks - 1) == blocks - 1;
    __syncthreads();
    return last;
}

/* Words of 16-byte vectors: dy where y is above 0, else 0, and their sums. */
__device__ inline uint32_t ct_keep(const float *, uint32_t dy, uint32_t y)
{
    return __uint_as_float(y) > 0 ? dy : 0;
}

__device__ inline uint32_t ct_keep(const __nv_bfloat16 *, uint32_t dy,
                                   uint32_t y)
{
    const __nv_bfloat162 v = *(const __nv_bfloat162 *)&y;

    return dy & __hgt2_mask(v, __floats2bfloat162_rn(0, 0));
}

__device__ inline uint32_t ct_keep(const __half *, uint32_t dy, uint32_t y)
{
    const __half2 v = *(const __half2 *)&y;

    return dy & __hgt2_mask(v, __floats2half2_rn(0, 0));
}

__device__ inline void ct_add(const float *, uint32_t w, float *sum)
{
    sum[0] += __uint_as_float(w);
}

__device__ inline void ct_add(const __nv_bfloat16 *, uint32_t w,
                              float *sum)
{
    sum[0] += __uint_as_float(w << 16);
    sum[1] += __uint_as_float(w & 0xffff0000u);
}

__device__ inline void ct_add(const __half *, uint32_t w, float *sum)
{
    const float2 v = __half22float2(*(const __half2 *)&w);

    sum[0] += v.x;
    sum[1] += v.y;
}

/* Floats of the tile in shared memory, for vectors of v values. */
#define CT_COLUMN_TILE(v) (CT_BLOCK * ((v) + 1))

/* The sums over all shares of n channels from `first` on, by one block: each
 * thread has four channels, and of the shares every so many. */
template <typename PLACE>
__device__ inline void ct_join_columns(int n, int first, int shares,
                                       const float *part, float4 *tile,
                                       const PLACE &place)
{
    const int fours = n / 4, at_once = CT_BLOCK / fours;
    const int column = threadIdx.x % fours, mine = threadIdx.x / fours;
    float4 sum = make_float4(0, 0, 0, 0);
    float *to;

#pragma unroll 16
    for (int i = mine; i < (mine < at_once ? shares : 0); i += at_once) {
        const float4 v = __ldcg((const float4 *)part + i * fours + column);

        sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
    }
    tile[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x >= fours)
        return;
    for (int i = 1; i < at_once; i++) {
        const float4 v = tile[i * fours + column];

        sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
    }
    to = place(first + 4 * column);
    if (!to)
        return;
    to[0] += sum.x;
    to[1] += sum.y;
    to[2] += sum.z;
    to[3] += sum.w;
}

/* Adds the sums of V channels of every thread to where `place` has them:
 * place(channel) is that of one, or NULL, and of four neighbours at once.  All
 * threads of the block come here; `tile` has CT_COLUMN_TILE(V) floats and is
 * aligned to 16 bytes. */
template <int V, typename PLACE>
__device__ inline void ct_column_sums(const struct ct_columns &m,
                                      const float (&sum)[V], float *tile,
                                      float *part, unsigned *turn,
                                      const PLACE &place)
{
    enum { STEP = V + 1 }; /* odd: no two in one bank */
    const int n = m.width * V, folds = CT_BLOCK / n;

#pragma unroll
    for (int j = 0; j < V; j++)
        tile[threadIdx.x * STEP + j] = sum[j];
    __syncthreads();
    /* Many rows at once: first by all threads, down to `folds` of them. */
    if (folds > 1) {
        const int c = threadIdx.x % n, mine = threadIdx.x / n;
        float all = 0;

        for (int i = mine; i < (mine < folds ? m.at_once : 0); i += folds)
            all += tile[(i * m.width + c / V) * STEP + c % V];
        __syncthreads();
        tile[threadIdx.x] = all;
        __syncthreads();
    }
    for (int c = threadIdx.x; c < n; c += CT_BLOCK) {
        float all = 0;

        for (int i = 0; i < (folds > 1 ? folds : m.at_once); i++)
            all += folds > 1 ? tile[i * n + c]
                             : tile[(i * m.width + c / V) * STEP + c % V];
        if (m.shares > 1)
            part[(blockIdx.x * m.shares + blockIdx.y) * n + c] = all;
        else if (float *to = place(blockIdx.x * n + c))
            *to += all;
    }
    if (m.shares > 1 && ct_is_last(m.shares, turn + blockIdx.x))
        ct_join_columns(n, blockIdx.x * n, m.shares,
                        part + blockIdx.x * m.shares * n, (float4 *)tile,
                        place);
}

#endif
