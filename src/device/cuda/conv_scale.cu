/* conv_scale.cu - float32 images as 16-bit ones that lose no digit of tf32. */
#include "device/cuda/conv_scale.h"

#include "device/cuda/elementwise.h"

/* A thread has K channels of a row at once, and AHEAD rows under way; a block
 * is at most ACROSS threads along channels, and a multiprocessor has EACH of
 * them at a time. */
enum { ACROSS = 32, AHEAD = 4, EACH = 4 };

/* What a pass does: finds the largest values, scales, does both, or scales
 * what was scaled by another class. */
enum task { FIND, SCALE, BOTH, MEND };

/* A NaN is the largest of all, then an infinity. */
__device__ static inline uint32_t larger(uint32_t most, float v)
{
    return max(most, __float_as_uint(fabsf(v)));
}

/* The largest of all rows of a block, and of all blocks.  It is the same in
 * whatever order it is found. */
template <int K>
__device__ static void tell_largest(int c, int channels, uint32_t (&most)[K],
                                    unsigned *largest)
{
    __shared__ uint32_t tile[K][CT_BLOCK];

#pragma unroll
    for (int k = 0; k < K; k++)
        tile[k][threadIdx.y * blockDim.x + threadIdx.x] = most[k];
    __syncthreads();
    if (threadIdx.y == 0 && c < channels)
#pragma unroll
        for (int k = 0; k < K; k++) {
            for (unsigned i = 1; i < blockDim.y; i++)
                most[k] = max(most[k], tile[k][i * blockDim.x + threadIdx.x]);
            atomicMax(largest + c + k, most[k]);
        }
}

template <int K>
__device__ static inline void put_scaled(const ct_pack<K, float> &v,
                                         const float (&scale)[K], __half *to)
{
    ct_pack<K, __half> out;

#pragma unroll
    for (int k = 0; k < K; k++)
        ct_store(out.v + k, v.v[k] * scale[k]);
    ct_store_pack<K>(to, out);
}

/* The scales of a thread's channels; whether there is anything to do. */
template <int K, enum task TASK>
__device__ static bool scales_of(int c, const unsigned *before,
                                 const unsigned *largest, float (&scale)[K])
{
    bool any = TASK != MEND;

#pragma unroll
    for (int k = 0; k < K && TASK != FIND; k++) {
        const uint32_t most = TASK == BOTH ? 0 : largest[c + k];

        scale[k] = ct_scale_of(TASK == BOTH ? before[c + k] : most);
        if (TASK == MEND && most != 0)
            any = any ||
                  ct_exponent_of(most) != ct_exponent_of(before[c + k]);
    }
    return any;
}

/* What was read before is read from its end: the cache still has that. */
template <int K, enum task TASK>
__global__ static void __launch_bounds__(CT_BLOCK, EACH)
    pass(int rows, int channels, const float *x, const unsigned *before,
         unsigned *largest, __half *to)
{
    CT_TURN();
    const int c    = (blockIdx.x * blockDim.x + threadIdx.x) * K;
    const int step = gridDim.y * blockDim.y;
    uint32_t most[K] = {};
    float scale[K];
    int r = blockIdx.y * blockDim.y + threadIdx.y;

    if (c >= channels || !scales_of<K, TASK>(c, before, largest, scale))
        r = rows;
    for (; r < rows; r += AHEAD * step) {
        ct_pack<K, float> v[AHEAD] = {};
        int64_t at[AHEAD];

#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            const int row = r + a * step;

            at[a] = (int64_t)(TASK == FIND || TASK == BOTH ? row
                                                           : rows - 1 - row) *
                        channels + c;
            if (row < rows)
                v[a] = ct_load_pack<K>(x + at[a]);
        }
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            if (TASK != FIND && r + a * step < rows)
                put_scaled<K>(v[a], scale, to + at[a]);
#pragma unroll
            for (int k = 0; k < K && (TASK == FIND || TASK == BOTH); k++)
                most[k] = larger(most[k], v[a].v[k]);
        }
    }
    if (TASK == FIND || TASK == BOTH)
        tell_largest<K>(c, channels, most, largest);
}

template <int K>
static enum ct_status run(const struct ct_device *d, int64_t rows,
                          int64_t channels, const float *x, uint32_t *largest,
                          const uint32_t *before, __half *to)
{
    unsigned across = 1;

    while (across < ACROSS && across * K < channels)
        across *= 2;
    const unsigned down   = CT_BLOCK / across;
    const unsigned blocks = (unsigned)((channels - 1) / (across * K) + 1);
    const unsigned most   = (unsigned)((rows - 1) / (AHEAD * down) + 1);
    const unsigned room =
        EACH * (unsigned)ct_cuda(d)->n_multiprocessors / blocks;
    const unsigned want = room < 1 ? 1 : room;
    const dim3 grid(blocks, want < most ? want : most), block(across, down);

    if (before) {
        CT_TRY(CT_START(d, grid, block, 0, (pass<K, BOTH>), (int)rows,
                        (int)channels, x, before, largest, to));
        return CT_START(d, grid, block, 0, (pass<K, MEND>), (int)rows,
                        (int)channels, x, before, largest, to);
    }
    CT_TRY(ct_clear_values(d, channels, CT_F32, largest));
    CT_TRY(CT_START(d, grid, block, 0, (pass<K, FIND>), (int)rows,
                    (int)channels, x, before, largest, to));
    return CT_START(d, grid, block, 0, (pass<K, SCALE>), (int)rows,
                    (int)channels, x, before, largest, to);
}

__global__ static void begin(int64_t n, uint32_t *largest, uint32_t *before)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n) {
        if (largest[i] != 0)
            before[i] = largest[i];
        largest[i] = 0;
    }
}

extern "C" enum ct_status ct_cuda_scale_begin(const struct ct_device *d,
                                              int64_t n, uint32_t *largest,
                                              uint32_t *before)
{
    return CT_LAUNCH(d, n, begin, n, largest, before);
}

extern "C" enum ct_status ct_cuda_scale_in(const struct ct_device *d,
                                           int64_t rows, int64_t channels,
                                           const float *x, uint32_t *largest,
                                           const uint32_t *before, void *to)
{
    CT_ASSERT(rows > 0 && rows <= INT32_MAX);
    return channels % 4 == 0 && ct_aligned(x)
               ? run<4>(d, rows, channels, x, largest, before, (__half *)to)
               : run<1>(d, rows, channels, x, largest, before, (__half *)to);
}
