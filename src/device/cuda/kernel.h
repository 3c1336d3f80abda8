/* kernel.h - what kernels are written with; for .cu files alone.
 *
 *     __global__ void relu(int64_t n, float slope, const T *x, T *y)
 *     {
 *         CT_TURN();
 *         CT_KERNEL_EACH (i, n) ...
 *     }
 *     CT_LAUNCH(dev, n, relu, n, slope, x, y);
 *
 * Arithmetic is in float; ct_load and ct_store know the types.
 *
 * In a recorded step a kernel is set up while the one before it still runs,
 * which saves most of the time between them.  So every kernel begins with
 * CT_TURN() (tools/check_banned looks), before it reads or writes anything: it
 * waits until all that the kernel depends on has ended and is visible, and
 * then lets the next one be set up.  One that comes two later waits for the
 * one between, which has waited for the first.  What it reads may be written
 * while it waits, so inputs are never const and __restrict__, by which the
 * compiler would take them for constant. */
#ifndef CT_DEVICE_CUDA_KERNEL_H
#define CT_DEVICE_CUDA_KERNEL_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "device/cuda/cuda.h"

enum { CT_BLOCK = 256 };

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define CT_TURN()                                                            \
    do {                                                                     \
        cudaGridDependencySynchronize();                                     \
        cudaTriggerProgrammaticLaunchCompletion();                           \
    } while (0)
#else
#define CT_TURN() ((void)0)
#endif

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

/* A kernel and where it runs; called with the kernel's arguments.  Each file
 * has its own: arguments of two files may have types of the same name. */
namespace {
template <typename... P>
struct ct_start {
    void (*kernel)(P...);
    const struct ct_device *d;
    dim3                    grid, block;
    size_t                  shared;

    cudaError_t operator()(P... p) const
    {
        void *at[] = { (void *)&p..., NULL };
        cudaLaunchAttribute early = {};
        cudaLaunchConfig_t config = {};

        early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        early.val.programmaticStreamSerializationAllowed = 1;
        config.gridDim          = grid;
        config.blockDim         = block;
        config.dynamicSmemBytes = shared;
        config.stream           = ct_cuda_stream(d);
        config.attrs            = &early;
        config.numAttrs = ct_cuda(d)->early && ct_cuda(d)->capturing ? 1 : 0;
        (void)cudaLaunchKernelExC(&config, (const void *)kernel, at);
        return cudaGetLastError();
    }
};
} // namespace

template <typename... P>
static inline struct ct_start<P...> ct_start_of(const struct ct_device *d,
                                                dim3 grid, dim3 block,
                                                size_t shared,
                                                void (*kernel)(P...))
{
    return { kernel, d, grid, block, shared };
}

/* Launches `kernel` and evaluates to a status. */
#define CT_START(d, grid, block, shared, kernel, ...)                        \
    ct_cuda_check((d),                                                       \
                  ct_start_of((d), (grid), (block), (shared),                \
                              kernel)(__VA_ARGS__),                          \
                  #kernel)

/* CT_START on enough threads for n. */
#define CT_LAUNCH(d, n, kernel, ...)                                         \
    CT_START((d), ct_blocks((d), (n)), CT_BLOCK, 0, kernel, __VA_ARGS__)

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
