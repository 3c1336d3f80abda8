/* conv_kernels.cu - kernels around convolution: biases, and gradients of
 * weights on their way out of the library's layout. */
#include "device/cuda/conv.h"
#include "device/cuda/kernel.h"

enum { GROUPS = 64 }; /* most shares of the rows that bias sums are cut into */

template <typename T>
__global__ static void weights_add(int64_t n, int64_t in, int64_t taps,
                                   bool nhwc, const T *g, float *dw)
{
    CT_KERNEL_EACH (i, n) {
        const int64_t tap = i % taps, c = i / taps % in, o = i / (taps * in);
        const int64_t at = nhwc ? (o * taps + tap) * in + c : i;

        dw[i] += ct_load(g + at);
    }
}

/* Channel of value i: innermost, or every `spatial` values. */
template <typename T>
__global__ static void bias_add(int64_t n, int64_t channels, int64_t spatial,
                                const float *b, T *y)
{
    CT_KERNEL_EACH (i, n)
        ct_store(y + i, ct_load(y + i) + b[i / spatial % channels]);
}

/* Plain: one block a channel and share of the images. */
template <typename T>
__global__ static void bias_sums_plain(int64_t batch, int64_t channels,
                                       int64_t spatial, const T *dy,
                                       float *part)
{
    const int64_t c = blockIdx.x, n = batch * spatial;
    const int64_t each = (n + gridDim.y - 1) / gridDim.y;
    const int64_t from = blockIdx.y * each;
    const int64_t to   = from + each < n ? from + each : n;
    float sum          = 0;

    for (int64_t i = from + threadIdx.x; i < to; i += blockDim.x)
        sum += ct_load(dy + (i / spatial * channels + c) * spatial +
                       i % spatial);
    sum = ct_block_sum(sum);
    if (threadIdx.x == 0)
        part[blockIdx.y * channels + c] = sum;
}

/* NHWC: 32 channels and a share of the rows a block, 32 x 8 threads. */
template <typename T>
__global__ static void bias_sums_nhwc(int64_t rows, int64_t channels,
                                      const T *dy, float *part)
{
    __shared__ float tile[8][32];
    const int64_t c    = blockIdx.x * 32 + threadIdx.x;
    const int64_t each = (rows + gridDim.y - 1) / gridDim.y;
    const int64_t from = blockIdx.y * each;
    const int64_t to   = from + each < rows ? from + each : rows;
    float sum          = 0;

    for (int64_t r = from + threadIdx.y; c < channels && r < to; r += 8)
        sum += ct_load(dy + r * channels + c);
    tile[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && c < channels) {
        for (int i = 1; i < 8; i++)
            sum += tile[i][threadIdx.x];
        part[blockIdx.y * channels + c] = sum;
    }
}

__global__ static void bias_join(int64_t channels, int shares,
                                 const float *part, float *db)
{
    CT_KERNEL_EACH (c, channels) {
        float sum = 0;

        for (int i = 0; i < shares; i++)
            sum += part[i * channels + c];
        db[c] += sum;
    }
}

extern "C" enum ct_status ct_cuda_weights_add(
    const struct ct_device *d, int64_t out, int64_t in, int64_t taps,
    enum ct_layout layout, enum ct_dtype dtype, const void *g, float *dw)
{
    const int64_t n = out * in * taps;

    CT_BY_TYPE(dtype, T,
               return CT_LAUNCH(d, n, weights_add<T>, n, in, taps,
                                layout == CT_NHWC, (const T *)g, dw));
}

extern "C" enum ct_status ct_cuda_conv_bias_forward(
    const struct ct_device *d, const struct ct_bias_desc *desc, const float *b,
    void *y)
{
    const int64_t n       = desc->batch * desc->channels * desc->spatial;
    const int64_t spatial = desc->layout == CT_NHWC ? 1 : desc->spatial;

    if (n == 0)
        return CT_OK;
    CT_BY_TYPE(desc->dtype, T,
               return CT_LAUNCH(d, n, bias_add<T>, n, desc->channels, spatial,
                                b, (T *)y));
}

extern "C" enum ct_status ct_cuda_conv_bias_backward(
    const struct ct_device *d, const struct ct_bias_desc *desc, const void *dy,
    float *db)
{
    const int64_t c = desc->channels, rows = desc->batch * desc->spatial;
    int64_t shares  = (rows + 255) / 256;
    void *part;

    if (rows * c == 0)
        return CT_OK;
    shares = shares < GROUPS ? shares : GROUPS;
    CT_TRY(ct_cuda_workspace(d, (size_t)(GROUPS * c) * sizeof(float), &part));
    if (desc->layout == CT_NHWC) {
        const dim3 grid((unsigned)((c + 31) / 32), (unsigned)shares);

        CT_BY_TYPE(desc->dtype, T,
                   (bias_sums_nhwc<T><<<grid, dim3(32, 8), 0,
                                        ct_cuda_stream(d)>>>(
                       rows, c, (const T *)dy, (float *)part)));
    } else {
        const dim3 grid((unsigned)c, (unsigned)shares);

        CT_BY_TYPE(desc->dtype, T,
                   (bias_sums_plain<T><<<grid, CT_BLOCK, 0,
                                         ct_cuda_stream(d)>>>(
                       desc->batch, c, desc->spatial, (const T *)dy,
                       (float *)part)));
    }
    CT_TRY(CT_CUDA_LAUNCHED(d, "bias sums"));
    return CT_LAUNCH(d, c, bias_join, c, (int)shares, (const float *)part, db);
}
