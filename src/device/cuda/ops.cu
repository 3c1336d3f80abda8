/* ops.cu - the vector operations of the device table, as kernels.
 *
 * Sums are made in double, in an order that depends on n and the GPU alone. */
#include "device/cuda/elementwise.h"

enum { PARTS = 256 }; /* partial sums, the size of struct ct_cuda.sum */

__global__ static void fill(int64_t n, float v, float *y)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n)
        y[i] = v;
}

__global__ static void scale(int64_t n, float alpha, float *x)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n)
        x[i] *= alpha;
}

__global__ static void scale_by(int64_t n, const float *alpha, float *x)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n)
        x[i] *= *alpha;
}

__global__ static void axpby(int64_t n, float alpha, const float *x,
                             float beta, float *y)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n)
        y[i] = beta == 0 ? alpha * x[i] : alpha * x[i] + beta * y[i];
}

__global__ static void count(uint64_t *counter)
{
    CT_TURN();
    *counter += 1;
}

/* part[b] = the sum over block b's share of x y; y NULL: of |x|. */
__global__ static void dot_parts(int64_t n, const float *x, const float *y,
                                 double *part)
{
    CT_TURN();
    double sum = 0;

    CT_KERNEL_EACH (i, n)
        sum += y ? (double)x[i] * y[i] : fabs((double)x[i]);
    sum = ct_block_sum(sum);
    if (threadIdx.x == 0)
        part[blockIdx.x] = sum;
}

__global__ static void add_parts(int n, const double *part, double *out)
{
    CT_TURN();
    double sum = (int)threadIdx.x < n ? part[threadIdx.x] : 0;

    sum = ct_block_sum(sum);
    if (threadIdx.x == 0)
        *out = sum;
}

struct as_it_is {
    __device__ float operator()(float v) const { return v; }
};

/* Tiles of 32 x 32 through shared memory: both sides in full lines.  x is
 * rows x columns for each of the images, y its transpose. */
template <typename A, typename B>
__global__ static void transpose(int64_t rows, int64_t columns, const A *x,
                                 B *y)
{
    CT_TURN();
    __shared__ float tile[32][33];
    const int64_t image = blockIdx.z * rows * columns;
    const int64_t c0 = blockIdx.x * 32, r0 = blockIdx.y * 32;

    for (int j = threadIdx.y; j < 32; j += blockDim.y)
        if (r0 + j < rows && c0 + threadIdx.x < columns)
            tile[j][threadIdx.x] =
                ct_load(x + image + (r0 + j) * columns + c0 + threadIdx.x);
    __syncthreads();
    for (int j = threadIdx.y; j < 32; j += blockDim.y)
        if (c0 + j < columns && r0 + threadIdx.x < rows)
            ct_store(y + image + (c0 + j) * rows + r0 + threadIdx.x,
                     tile[threadIdx.x][j]);
}

extern "C" enum ct_status ct_cuda_fill(const struct ct_device *d, int64_t n,
                                       float v, float *y)
{
    if (v == 0 && !signbit(v))
        return ct_cuda_check(d, cudaMemsetAsync(y, 0, (size_t)n * sizeof(*y),
                                                ct_cuda_stream(d)), "clear");
    return n ? CT_LAUNCH(d, n, fill, n, v, y) : CT_OK;
}

extern "C" enum ct_status ct_cuda_scale(const struct ct_device *d, int64_t n,
                                        float alpha, float *x)
{
    return n ? CT_LAUNCH(d, n, scale, n, alpha, x) : CT_OK;
}

extern "C" enum ct_status ct_cuda_scale_by(const struct ct_device *d,
                                           int64_t n, const float *alpha,
                                           float *x)
{
    return n ? CT_LAUNCH(d, n, scale_by, n, alpha, x) : CT_OK;
}

extern "C" enum ct_status ct_cuda_axpby(const struct ct_device *d, int64_t n,
                                        float alpha, const float *x,
                                        float beta, float *y)
{
    return n ? CT_LAUNCH(d, n, axpby, n, alpha, x, beta, y) : CT_OK;
}

extern "C" enum ct_status ct_cuda_tick(const struct ct_device *d,
                                       uint64_t *counter)
{
    return CT_START(d, 1, 1, 0, count, counter);
}

/* Code for a newer GPU is there, but made by the driver from that of an older
 * one, has no waiting in it. */
extern "C" bool ct_cuda_kernels_wait(void)
{
    struct cudaFuncAttributes of;

    if (cudaFuncGetAttributes(&of, count) == cudaSuccess)
        return of.ptxVersion >= 90;
    (void)cudaGetLastError();
    return false;
}

static unsigned parts_for(int64_t n)
{
    int64_t want = (n + 4 * CT_BLOCK - 1) / (4 * CT_BLOCK);

    return (unsigned)(want < 1 ? 1 : want < PARTS ? want : PARTS);
}

/* Two kernels, then the one number comes to the host. */
static enum ct_status reduce(const struct ct_device *d, int64_t n,
                             const float *x, const float *y, double *out)
{
    struct ct_cuda *g    = ct_cuda(d);
    const unsigned parts = parts_for(n);

    dot_parts<<<parts, CT_BLOCK, 0, g->stream>>>(n, x, y, g->sum);
    CT_TRY(CT_CUDA_LAUNCHED(d, "dot_parts"));
    add_parts<<<1, PARTS, 0, g->stream>>>((int)parts, g->sum, g->sum + PARTS);
    CT_TRY(CT_CUDA_LAUNCHED(d, "add_parts"));
    CT_TRY(ct_cuda_check(d, cudaMemcpyAsync(g->host_sum, g->sum + PARTS,
                                            sizeof(double),
                                            cudaMemcpyDeviceToHost, g->stream),
                         "copy of a sum"));
    CT_TRY(d->ops->sync(d));
    *out = *g->host_sum;
    return CT_OK;
}

extern "C" enum ct_status ct_cuda_dot(const struct ct_device *d, int64_t n,
                                      const float *x, const float *y,
                                      double *out)
{
    *out = 0;
    return n ? reduce(d, n, x, y, out) : CT_OK;
}

extern "C" enum ct_status ct_cuda_asum(const struct ct_device *d, int64_t n,
                                       const float *x, double *out)
{
    *out = 0;
    return n ? reduce(d, n, x, NULL, out) : CT_OK;
}

template <typename A>
static enum ct_status convert_from(const struct ct_device *d, int64_t n,
                                   const A *x, enum ct_dtype to, void *y)
{
    CT_BY_TYPE(to, B, return ct_map(d, n, as_it_is(), (B *)y, x));
}

extern "C" enum ct_status ct_cuda_convert(const struct ct_device *d, int64_t n,
                                          enum ct_dtype from, const void *x,
                                          enum ct_dtype to, void *y)
{
    CT_BY_TYPE(from, A, return convert_from(d, n, (const A *)x, to, y));
}

template <typename A>
static enum ct_status transpose_from(const struct ct_device *d, dim3 grid,
                                     int64_t rows, int64_t columns, const A *x,
                                     enum ct_dtype to, void *y)
{
    CT_BY_TYPE(to, B,
               return CT_START(d, grid, dim3(32, 8), 0, (transpose<A, B>),
                               rows, columns, x, (B *)y));
}

extern "C" enum ct_status ct_cuda_layout_convert(
    const struct ct_device *d, int64_t n, int64_t c, int64_t positions,
    enum ct_layout from, enum ct_dtype from_type, const void *x,
    enum ct_layout to, enum ct_dtype to_type, void *y)
{
    /* Plain images are c x positions, NHWC ones positions x c. */
    const int64_t rows    = from == CT_NHWC ? positions : c;
    const int64_t columns = from == CT_NHWC ? c : positions;
    enum { MOST = 32768 }; /* images a launch */

    if (n * c * positions == 0)
        return CT_OK;
    if (from == to || c == 1 || positions == 1)
        return ct_cuda_convert(d, n * c * positions, from_type, x, to_type, y);
    for (int64_t i = 0; i < n; i += MOST) {
        const unsigned images = (unsigned)(n - i < MOST ? n - i : MOST);
        const dim3 grid((unsigned)((columns + 31) / 32),
                        (unsigned)((rows + 31) / 32), images);
        const int64_t at = i * c * positions;
        void *out = (char *)y + at * (int64_t)ct_dtype_bytes(to_type);

        CT_BY_TYPE(from_type, A,
                   CT_TRY(transpose_from(d, grid, rows, columns,
                                         (const A *)x + at, to_type, out)));
    }
    return CT_OK;
}
