/* conv_scale.cu - float32 images as 16-bit ones that lose no digit of tf32. */
#include "device/cuda/conv_scale.h"

#include "device/cuda/elementwise.h"

/* A thread has K channels of a row at once, and AHEAD rows under way; a block
 * is at most ACROSS threads along channels. */
enum { ACROSS = 32, AHEAD = 4 };

/* A NaN is the largest of all, then an infinity. */
__device__ static inline uint32_t larger(uint32_t most, float v)
{
    return max(most, __float_as_uint(fabsf(v)));
}

template <int K>
__global__ static void __launch_bounds__(CT_BLOCK)
    find_largest(int rows, int channels, const float *x, unsigned *largest)
{
    CT_TURN();
    __shared__ uint32_t tile[K][CT_BLOCK];
    const int c    = (blockIdx.x * blockDim.x + threadIdx.x) * K;
    const int step = gridDim.y * blockDim.y;
    uint32_t most[K] = {};

    for (int r = blockIdx.y * blockDim.y + threadIdx.y;
         c < channels && r < rows; r += AHEAD * step) {
        ct_pack<K, float> v[AHEAD] = {};

#pragma unroll
        for (int a = 0; a < AHEAD; a++)
            if (r + a * step < rows)
                v[a] = ct_load_pack<K>(x + (int64_t)(r + a * step) * channels +
                                       c);
#pragma unroll
        for (int a = 0; a < AHEAD; a++)
#pragma unroll
            for (int k = 0; k < K; k++)
                most[k] = larger(most[k], v[a].v[k]);
    }
#pragma unroll
    for (int k = 0; k < K; k++)
        tile[k][threadIdx.y * blockDim.x + threadIdx.x] = most[k];
    __syncthreads();
    /* The largest is the same in whatever order it is found. */
    if (threadIdx.y == 0 && c < channels)
#pragma unroll
        for (int k = 0; k < K; k++) {
            for (unsigned i = 1; i < blockDim.y; i++)
                most[k] = max(most[k], tile[k][i * blockDim.x + threadIdx.x]);
            atomicMax(largest + c + k, most[k]);
        }
}

/* Last to first: the end of x is what the cache still has. */
template <int K>
__global__ static void __launch_bounds__(CT_BLOCK)
    scale_in(int rows, int channels, const float *x, const unsigned *largest,
             __half *to)
{
    CT_TURN();
    const int c    = (blockIdx.x * blockDim.x + threadIdx.x) * K;
    const int step = gridDim.y * blockDim.y;
    float scale[K];

    if (c >= channels)
        return;
#pragma unroll
    for (int k = 0; k < K; k++)
        scale[k] = ct_scale_of(largest[c + k]);
    for (int r = rows - 1 - (int)(blockIdx.y * blockDim.y + threadIdx.y);
         r >= 0; r -= AHEAD * step) {
        ct_pack<K, float> v[AHEAD];

#pragma unroll
        for (int a = 0; a < AHEAD; a++)
            if (r - a * step >= 0)
                v[a] = ct_load_pack<K>(x + (int64_t)(r - a * step) * channels +
                                       c);
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            ct_pack<K, __half> out;

#pragma unroll
            for (int k = 0; k < K; k++)
                ct_store(out.v + k, v[a].v[k] * scale[k]);
            if (r - a * step >= 0)
                ct_store_pack<K>(to + (int64_t)(r - a * step) * channels + c,
                                 out);
        }
    }
}

template <int K>
static enum ct_status run(const struct ct_device *d, int64_t rows,
                          int64_t channels, const float *x, uint32_t *largest,
                          __half *to)
{
    unsigned across = 1;

    while (across < ACROSS && across * K < channels)
        across *= 2;
    const unsigned down   = CT_BLOCK / across;
    const unsigned blocks = (unsigned)((channels - 1) / (across * K) + 1);
    const unsigned most   = (unsigned)((rows - 1) / (AHEAD * down) + 1);
    const unsigned want =
        8 * (unsigned)ct_cuda(d)->n_multiprocessors / blocks + 1;
    const dim3 grid(blocks, want < most ? want : most), block(across, down);

    CT_TRY(ct_clear_values(d, channels, CT_F32, largest));
    CT_TRY(CT_START(d, grid, block, 0, find_largest<K>, (int)rows,
                    (int)channels, x, largest));
    return CT_START(d, grid, block, 0, scale_in<K>, (int)rows, (int)channels,
                    x, (const unsigned *)largest, to);
}

extern "C" enum ct_status ct_cuda_scale_in(const struct ct_device *d,
                                           int64_t rows, int64_t channels,
                                           const float *x, uint32_t *largest,
                                           void *to)
{
    CT_ASSERT(rows > 0 && rows <= INT32_MAX);
    return channels % 4 == 0 && ct_aligned(x)
               ? run<4>(d, rows, channels, x, largest, (__half *)to)
               : run<1>(d, rows, channels, x, largest, (__half *)to);
}
