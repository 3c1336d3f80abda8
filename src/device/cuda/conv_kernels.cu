/* conv_kernels.cu - the bias of a convolution, and its gradient.
 *
 * Both read and write 16 bytes a thread where the shape allows it.  Sums are
 * taken in two steps, shares of the rows and then the shares, in an order
 * that depends on the shape alone. */
#include "device/cuda/conv.h"
#include "device/cuda/vector.h"

/* Channel of value i: innermost, or every `spatial` values. */
template <typename T>
__global__ static void bias_add(int64_t n, int64_t channels, int64_t spatial,
                                const float *b, T *y)
{
    CT_KERNEL_EACH (i, n)
        ct_store(y + i, ct_load(y + i) + b[i / spatial % channels]);
}

/* Rows of vectors: every vector of a row has its own channels (NHWC), or all
 * of them have the row's (plain). */
template <typename T>
__global__ static void bias_add16(int n, int row, int channels, bool nhwc,
                                  const float *b, T *y)
{
    enum { V = CT_VECTOR(T) };

    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += gridDim.x * blockDim.x) {
        const int c = nhwc ? i % row * V : i / row % channels;
        float v[V];

        ct_load16(y + (int64_t)i * V, v);
#pragma unroll
        for (int j = 0; j < V; j++)
            v[j] += b[nhwc ? c + j : c];
        ct_store16(y + (int64_t)i * V, v);
    }
}

/* Plain: one block a channel and share of the images. */
template <typename T>
__global__ static void bias_sums_plain(int batch, int channels, int spatial,
                                       const T *dy, float *part)
{
    const int c = blockIdx.x;
    float sum   = 0;

    for (int n = blockIdx.y; n < batch; n += gridDim.y) {
        const T *from = dy + ((int64_t)n * channels + c) * spatial;

        for (int i = threadIdx.x; i < spatial; i += blockDim.x)
            sum += ct_load(from + i);
    }
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

/* NHWC by vectors: a block takes as many rows at once as it has threads for,
 * and steps over the rows; `row` vectors a row, at most CT_BLOCK. */
template <typename T>
__global__ static void bias_sums16(int rows, int row, const T *dy, float *part)
{
    enum { V = CT_VECTOR(T) };
    __shared__ float tile[CT_BLOCK][V + 1];
    const int at_once = CT_BLOCK / row, mine = threadIdx.x / row;
    const int column = threadIdx.x % row;
    float sum[V]     = {};

    for (int64_t r = (int64_t)blockIdx.x * at_once + mine;
         mine < at_once && r < rows; r += (int64_t)gridDim.x * at_once) {
        float v[V];

        ct_load16(dy + (r * row + column) * V, v);
#pragma unroll
        for (int j = 0; j < V; j++)
            sum[j] += v[j];
    }
#pragma unroll
    for (int j = 0; j < V; j++)
        tile[threadIdx.x][j] = sum[j];
    __syncthreads();
    for (int c = threadIdx.x; c < row * V; c += CT_BLOCK) {
        float all = 0;

        for (int i = 0; i < at_once; i++)
            all += tile[i * row + c / V][c % V];
        part[(int64_t)blockIdx.x * row * V + c] = all;
    }
}

/* The shares of 32 channels a block, 32 x 8 threads. */
__global__ static void bias_join(int channels, int shares, const float *part,
                                 float *db)
{
    __shared__ float tile[8][32];
    const int c = blockIdx.x * 32 + threadIdx.x;
    float sum   = 0;

    for (int i = threadIdx.y; c < channels && i < shares; i += 8)
        sum += part[(int64_t)i * channels + c];
    tile[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && c < channels) {
        for (int i = 1; i < 8; i++)
            sum += tile[i][threadIdx.x];
        db[c] += sum;
    }
}

extern "C" enum ct_status ct_cuda_conv_bias_forward(
    const struct ct_device *d, const struct ct_bias_desc *desc, const float *b,
    void *y)
{
    const int64_t n   = desc->batch * desc->channels * desc->spatial;
    const bool nhwc   = desc->layout == CT_NHWC;
    const int64_t row = nhwc ? desc->channels : desc->spatial;

    if (n == 0)
        return CT_OK;
    if (n <= INT32_MAX && ct_fits16(y, desc->dtype, row))
        CT_BY_TYPE(desc->dtype, T,
                   return CT_LAUNCH(d, n / CT_VECTOR(T), bias_add16<T>,
                                    (int)(n / CT_VECTOR(T)),
                                    (int)(row / CT_VECTOR(T)),
                                    (int)desc->channels, nhwc, b, (T *)y));
    CT_BY_TYPE(desc->dtype, T,
               return CT_LAUNCH(d, n, bias_add<T>, n, desc->channels,
                                nhwc ? 1 : desc->spatial, b, (T *)y));
}

/* Launches the sums over shares and says how many there are. */
static enum ct_status sum_shares(const struct ct_device *d,
                                 const struct ct_bias_desc *desc,
                                 const void *dy, float *part, int *out)
{
    const int64_t c = desc->channels, rows = desc->batch * desc->spatial;
    const int64_t row = c * (int64_t)ct_dtype_bytes(desc->dtype) / 16;
    cudaStream_t s    = ct_cuda_stream(d);

    if (desc->layout == CT_NHWC && rows <= INT32_MAX && row <= CT_BLOCK &&
        ct_fits16(dy, desc->dtype, c)) {
        CT_BY_TYPE(desc->dtype, T,
                   (bias_sums16<T><<<*out, CT_BLOCK, 0, s>>>(
                       (int)rows, (int)row, (const T *)dy, part)));
    } else if (desc->layout == CT_NHWC) {
        const dim3 grid((unsigned)((c + 31) / 32), (unsigned)*out);

        CT_BY_TYPE(desc->dtype, T,
                   (bias_sums_nhwc<T><<<grid, dim3(32, 8), 0, s>>>(
                       rows, c, (const T *)dy, part)));
    } else {
        const dim3 grid((unsigned)c, (unsigned)(desc->batch < *out
                                                    ? desc->batch
                                                    : *out));

        *out = (int)grid.y;
        CT_BY_TYPE(desc->dtype, T,
                   (bias_sums_plain<T><<<grid, CT_BLOCK, 0, s>>>(
                       (int)desc->batch, (int)c, (int)desc->spatial,
                       (const T *)dy, part)));
    }
    return CT_CUDA_LAUNCHED(d, "bias sums");
}

extern "C" enum ct_status ct_cuda_conv_bias_backward(
    const struct ct_device *d, const struct ct_bias_desc *desc, const void *dy,
    float *db)
{
    const int64_t c = desc->channels, rows = desc->batch * desc->spatial;
    const int64_t most = 2 * ct_cuda(d)->n_multiprocessors;
    int shares         = (int)((rows + 63) / 64 < most ? (rows + 63) / 64
                                                       : most);
    void *part;

    if (rows * c == 0)
        return CT_OK;
    CT_TRY(ct_cuda_workspace(d, (size_t)(shares * c) * sizeof(float), &part));
    CT_TRY(sum_shares(d, desc, dy, (float *)part, &shares));
    bias_join<<<(unsigned)((c + 31) / 32), dim3(32, 8), 0,
                ct_cuda_stream(d)>>>((int)c, shares, (const float *)part, db);
    return CT_CUDA_LAUNCHED(d, "bias_join");
}
