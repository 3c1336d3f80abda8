/* kernel.h - what kernels are written with; for .cu files alone.
 *
 *     __global__ void relu(int64_t n, float slope, const T *x, T *y)
 *     {
 *         CT_KERNEL_EACH (i, n) ...
 *     }
 *     CT_LAUNCH(dev, n, relu, n, slope, x, y);
 *
 * Arithmetic is in float; ct_load and ct_store know the types. */
#ifndef CT_DEVICE_CUDA_KERNEL_H
#define CT_DEVICE_CUDA_KERNEL_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "device/cuda/cuda.h"

enum { CT_BLOCK = 256 };

/* One loop over n in steps of the whole grid. */
#define CT_KERNEL_EACH(i, n)                                                 \
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;         \
         i < (n); i += (int64_t)gridDim.x * blockDim.x)

/* Blocks for n threads of work, no more than keep the GPU busy. */
static inline unsigned ct_blocks(const struct ct_device *d, int64_t n)
{
    int64_t most = (int64_t)ct_cuda(d)->n_multiprocessors * 16;
    int64_t want = (n + CT_BLOCK - 1) / CT_BLOCK;

    return (unsigned)(want < 1 ? 1 : want < most ? want : most);
}

/* Launches `kernel` on enough threads for n and evaluates to a status. */
#define CT_LAUNCH(d, n, kernel, ...)                                         \
    ((kernel)<<<ct_blocks((d), (n)), CT_BLOCK, 0, ct_cuda_stream(d)>>>(      \
         __VA_ARGS__),                                                       \
     CT_CUDA_LAUNCHED((d), #kernel))

__device__ inline float ct_load(const float *p) { return *p; }
__device__ inline float ct_load(const __nv_bfloat16 *p)
{
    return __bfloat162float(*p);
}
__device__ inline float ct_load(const __half *p) { return __half2float(*p); }
__device__ inline void ct_store(float *p, float v) { *p = v; }
__device__ inline void ct_store(__nv_bfloat16 *p, float v)
{
    *p = __float2bfloat16(v);
}
__device__ inline void ct_store(__half *p, float v) { *p = __float2half(v); }

/* Runs `...`, where T is the type that `dtype` names. */
#define CT_BY_TYPE(dtype, T, ...)                                            \
    do {                                                                     \
        if ((dtype) == CT_BF16) {                                            \
            typedef __nv_bfloat16 T;                                         \
            __VA_ARGS__;                                                     \
        } else if ((dtype) == CT_F16) {                                      \
            typedef __half T;                                                \
            __VA_ARGS__;                                                     \
        } else {                                                             \
            typedef float T;                                                 \
            __VA_ARGS__;                                                     \
        }                                                                    \
    } while (0)

/* The sum over the block, in every thread; blockDim.x is a multiple of 32 and
 * at most 1024. */
template <typename V>
__device__ inline V ct_block_sum(V v)
{
    __shared__ V part[32];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned warps = blockDim.x / 32;

    for (int o = 16; o > 0; o /= 2)
        v += __shfl_xor_sync(~0u, v, o);
    __syncthreads();
    if (lane == 0)
        part[warp] = v;
    __syncthreads();
    v = lane < warps ? part[lane] : (V)0;
    for (int o = 16; o > 0; o /= 2)
        v += __shfl_xor_sync(~0u, v, o);
    return v;
}

template <typename V>
__device__ inline V ct_block_max(V v)
{
    __shared__ V part[32];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned warps = blockDim.x / 32;

    for (int o = 16; o > 0; o /= 2) {
        V w = __shfl_xor_sync(~0u, v, o);
        v   = w > v ? w : v;
    }
    __syncthreads();
    if (lane == 0)
        part[warp] = v;
    __syncthreads();
    v = part[lane < warps ? lane : 0];
    for (int o = 16; o > 0; o /= 2) {
        V w = __shfl_xor_sync(~0u, v, o);
        v   = w > v ? w : v;
    }
    return v;
}

#endif
