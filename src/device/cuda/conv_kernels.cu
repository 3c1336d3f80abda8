/* conv_kernels.cu - what is done to the output of a convolution: its bias and
 * ReLU, and backward the ReLU's mask with the gradient of the bias.
 *
 *     y = max(y + b, 0)        dy = 0 where y is not above it, db += sums of dy
 *
 * Each is one pass over memory, of 16 bytes a thread where the shape allows
 * it.  Sums are taken in two steps, shares of the rows and then the shares, by
 * the block that ends last, in an order that depends on the shape and the GPU
 * alone. */
#include "device/cuda/conv_kernels.h"
#include "device/cuda/column_sums.h"
#include "device/cuda/divide.h"
#include "device/cuda/elementwise.h"

/* A NaN stays one. */
__device__ static inline float finish(float v, bool relu)
{
    return relu && v < 0 ? 0 : v;
}

/* Channel of value i: innermost, or every `spatial` values. */
template <typename T>
__global__ static void bias_add(int64_t n, int64_t channels, int64_t spatial,
                                const float *b, bool relu, T *y)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n)
        ct_store(y + i, finish(ct_load(y + i) +
                                   (b ? b[i / spatial % channels] : 0),
                               relu));
}

/* Rows of vectors: every vector of a row has its own channels (NHWC), or all
 * of them have the row's (plain). */
template <typename T>
__global__ static void bias_add16(int n, int row, int channels, bool nhwc,
                                  const float *b, bool relu, T *y)
{
    CT_TURN();
    enum { V = CT_VECTOR(T) };

    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += gridDim.x * blockDim.x) {
        const int c = nhwc ? i % row * V : i / row % channels;
        float v[V];

        ct_load16(y + (int64_t)i * V, v);
#pragma unroll
        for (int j = 0; j < V; j++)
            v[j] = finish(b ? v[j] + b[nhwc ? c + j : c] : v[j], relu);
        ct_store16(y + (int64_t)i * V, v);
    }
}

struct where_above {
    __device__ float operator()(float dy, float y) const
    {
        return y > 0 ? dy : 0;
    }
};

/* Plain: one block a channel and share of the images, K neighbours a time. */
template <int K, bool MASK, typename T>
__global__ static void sums_plain(int batch, int channels,
                                  struct ct_divider plane, const T *y, T *dy,
                                  float *part, unsigned *turn, float *db)
{
    CT_TURN();
    const int c = blockIdx.x, shares = (int)gridDim.y;
    const int each  = (batch + shares - 1) / shares;
    const int first = blockIdx.y * each;
    const int n     = max(min(each, batch - first), 0) * (int)plane.d;
    float sum       = 0;

    for (int t = threadIdx.x; t < n; t += blockDim.x) {
        const int image  = ct_quotient(plane, t);
        const int64_t at = (((int64_t)(first + image) * channels + c) *
                                (int)plane.d + t - image * (int)plane.d) * K;
        ct_pack<K, T> v = ct_load_pack<K>(dy + at);

        if (MASK) {
            const ct_pack<K, T> out = ct_load_pack<K>(y + at);

#pragma unroll
            for (int k = 0; k < K; k++)
                ct_store(v.v + k, where_above()(ct_load(v.v + k),
                                                ct_load(out.v + k)));
            ct_store_pack<K>(dy + at, v);
        }
#pragma unroll
        for (int k = 0; k < K; k++)
            sum += ct_load(v.v + k);
    }
    sum = ct_block_sum(sum);
    if (threadIdx.x == 0)
        part[(int64_t)c * shares + blockIdx.y] = sum;
    if (!ct_is_last(shares, turn + c))
        return;
    sum = 0;
    for (int i = threadIdx.x; i < shares; i += blockDim.x)
        sum += __ldcg(part + (int64_t)c * shares + i);
    sum = ct_block_sum(sum);
    if (threadIdx.x == 0)
        db[c] += sum;
}

/* Masks v and adds it up; whether that changed v. */
template <bool MASK, typename T>
__device__ static inline bool take(uint4 *v, const uint4 &out, float *sum)
{
    enum { EACH = CT_VECTOR(T) / 4 };
    const T *const type = NULL;
    const uint4 was     = *v;

    if (MASK) {
        v->x = ct_keep(type, was.x, out.x);
        v->y = ct_keep(type, was.y, out.y);
        v->z = ct_keep(type, was.z, out.z);
        v->w = ct_keep(type, was.w, out.w);
    }
    ct_add(type, v->x, sum);
    ct_add(type, v->y, sum + EACH);
    ct_add(type, v->z, sum + 2 * EACH);
    ct_add(type, v->w, sum + 3 * EACH);
    return v->x != was.x || v->y != was.y || v->z != was.z || v->w != was.w;
}

enum { AHEAD = 4 }; /* rows that a thread has under way */

/* Where the sum of a channel goes. */
struct in_a_row {
    float *db;
    __device__ float *operator()(int channel) const { return db + channel; }
};

/* NHWC by vectors, as tiles.h shares them out: one group of columns and one
 * share of the rows a block.  What the mask leaves as it is need not be
 * written: behind a max pooling that is nearly all. */
template <bool MASK, typename T>
__global__ static void __launch_bounds__(CT_BLOCK, 4)
sums16(struct ct_columns m, const T *y, T *__restrict__ dy,
       float *part, unsigned *turn, float *db)
{
    CT_TURN();
    enum { V = CT_VECTOR(T) };
    __shared__ __align__(16) float tile[CT_COLUMN_TILE(V)];
    const struct ct_column at =
        ct_column_of(&m, blockIdx.x, blockIdx.y, threadIdx.x);
    float sum[V] = {};

    for (int r = at.row; r < m.rows; r += AHEAD * at.step) {
        uint4 v[AHEAD], out[AHEAD];

#pragma unroll
        for (int a = 0; a < AHEAD; a++)
            if (r + a * at.step < m.rows) {
                const int64_t i = (r + a * at.step) * m.row + at.column;

                v[a] = ((const uint4 *)dy)[i];
                if (MASK)
                    out[a] = ((const uint4 *)y)[i];
            }
#pragma unroll
        for (int a = 0; a < AHEAD; a++)
            if (r + a * at.step < m.rows &&
                take<MASK, T>(&v[a], out[a], sum) && MASK)
                ((uint4 *)dy)[(r + a * at.step) * m.row + at.column] = v[a];
    }
    ct_column_sums<V>(m, sum, tile, part, turn, in_a_row{ db });
}

/* Any shape: 32 channels and a share of the rows a block, 32 x 8 threads. */
template <typename T>
__global__ static void bias_sums(int64_t batch, int64_t channels,
                                 int64_t spatial, bool nhwc, const T *dy,
                                 float *part)
{
    CT_TURN();
    __shared__ float tile[8][32];
    const int64_t rows = batch * spatial;
    const int64_t c    = blockIdx.x * 32 + threadIdx.x;
    const int64_t each = (rows + gridDim.y - 1) / gridDim.y;
    const int64_t from = blockIdx.y * each;
    const int64_t to   = from + each < rows ? from + each : rows;
    float sum          = 0;

    for (int64_t r = from + threadIdx.y; c < channels && r < to; r += 8)
        sum += ct_load(dy + (nhwc ? r * channels + c
                                  : (r / spatial * channels + c) * spatial +
                                        r % spatial));
    tile[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && c < channels) {
        for (int i = 1; i < 8; i++)
            sum += tile[i][threadIdx.x];
        part[blockIdx.y * channels + c] = sum;
    }
}

/* The shares of 32 sums a block, 32 x 8 threads. */
__global__ static void join(int n, int shares, const float *part, float *to)
{
    CT_TURN();
    __shared__ float tile[8][32];
    const int c = blockIdx.x * 32 + threadIdx.x;
    float sum   = 0;

#pragma unroll 8
    for (int i = threadIdx.y; i < (c < n ? shares : 0); i += 8)
        sum += part[(int64_t)i * n + c];
    tile[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && c < n) {
        for (int i = 1; i < 8; i++)
            sum += tile[i][threadIdx.x];
        to[c] += sum;
    }
}

extern "C" enum ct_status ct_cuda_join(const struct ct_device *d, int n,
                                       int shares, const float *part,
                                       float *to)
{
    return CT_START(d, (unsigned)(n + 31) / 32, dim3(32, 8), 0, join, n,
                    shares, part, to);
}

extern "C" enum ct_status ct_cuda_conv_finish(const struct ct_device *d,
                                              const struct ct_bias_desc *desc,
                                              const float *b, bool relu,
                                              void *y)
{
    const int64_t n   = desc->batch * desc->channels * desc->spatial;
    const bool nhwc   = desc->layout == CT_NHWC;
    const int64_t row = nhwc ? desc->channels : desc->spatial;

    if (n == 0 || (!b && !relu))
        return CT_OK;
    if (n <= INT32_MAX && ct_fits16(y, desc->dtype, row))
        CT_BY_TYPE(desc->dtype, T,
                   return CT_LAUNCH(d, n / CT_VECTOR(T), bias_add16<T>,
                                    (int)(n / CT_VECTOR(T)),
                                    (int)(row / CT_VECTOR(T)),
                                    (int)desc->channels, nhwc, b, relu,
                                    (T *)y));
    CT_BY_TYPE(desc->dtype, T,
               return CT_LAUNCH(d, n, bias_add<T>, n, desc->channels,
                                nhwc ? 1 : desc->spatial, b, relu, (T *)y));
}

/* Whether a channel's images come in vectors, or a position's channels. */
static bool by_vectors(const struct ct_bias_desc *desc, const void *y,
                       const void *dy)
{
    const int64_t row = desc->layout == CT_NHWC ? desc->channels
                                                : desc->spatial;

    return ct_fits16(dy, desc->dtype, row) && ct_fits16(y, desc->dtype, row);
}

static bool columns_of(const struct ct_device *d,
                       const struct ct_bias_desc *desc, struct ct_columns *m)
{
    const int vector = 16 / (int)ct_dtype_bytes(desc->dtype);

    return ct_columns_make(desc->batch * desc->spatial,
                           desc->channels / vector, vector,
                           4 * ct_cuda(d)->n_multiprocessors, AHEAD,
                           CT_CUDA_PARTS, CT_CUDA_TURNS, m);
}

template <bool MASK, typename T>
static enum ct_status sums_of_columns(const struct ct_device *d,
                                      const struct ct_bias_desc *desc,
                                      const T *y, T *dy, float *db)
{
    struct ct_columns m;
    const bool fits = columns_of(d, desc, &m);

    CT_ASSERT(fits);
    return CT_START(d, dim3((unsigned)m.groups, (unsigned)m.shares), CT_BLOCK,
                    0, (sums16<MASK, T>), m, y, dy, (float *)ct_cuda_parts(d),
                    ct_cuda_turns(d), db);
}

/* Enough shares to keep the GPU busy, and values for each to do. */
template <int K, bool MASK, typename T>
static enum ct_status sums_of_planes(const struct ct_device *d,
                                     const struct ct_bias_desc *desc,
                                     const T *y, T *dy, float *db)
{
    enum { EACH = 8 * CT_BLOCK, MOST = 128 };
    const int64_t n = desc->batch * desc->spatial / K;
    int64_t shares  = (n + EACH - 1) / EACH;

    shares = shares < MOST ? shares : MOST;
    shares = shares < desc->batch ? shares : desc->batch;
    return CT_START(d, dim3((unsigned)desc->channels, (unsigned)shares),
                    CT_BLOCK, 0, (sums_plain<K, MASK, T>), (int)desc->batch,
                    (int)desc->channels, ct_divider_of(desc->spatial / K, n),
                    y, dy, (float *)ct_cuda_parts(d), ct_cuda_turns(d), db);
}

template <bool MASK, typename T>
static enum ct_status sums(const struct ct_device *d,
                           const struct ct_bias_desc *desc, const T *y, T *dy,
                           float *db)
{
    const bool vectors = by_vectors(desc, y, dy);

    if (desc->layout == CT_NHWC)
        return sums_of_columns<MASK, T>(d, desc, y, dy, db);
    return vectors ? sums_of_planes<CT_VECTOR(T), MASK, T>(d, desc, y, dy, db)
                   : sums_of_planes<1, MASK, T>(d, desc, y, dy, db);
}

/* Whether the kernels above take it. */
static bool at_once(const struct ct_device *d, const struct ct_bias_desc *desc,
                    const void *y, const void *dy)
{
    struct ct_columns m;

    if (desc->batch * desc->spatial * desc->channels > INT32_MAX)
        return false;
    if (desc->layout == CT_NHWC)
        return by_vectors(desc, y, dy) && columns_of(d, desc, &m);
    return desc->channels <= CT_CUDA_TURNS;
}

/* Any shape, dy as it is. */
static enum ct_status any_sums(const struct ct_device *d,
                               const struct ct_bias_desc *desc, const void *dy,
                               float *db)
{
    const int64_t c = desc->channels, rows = desc->batch * desc->spatial;
    const int64_t most   = 2 * ct_cuda(d)->n_multiprocessors;
    const int64_t shares = (rows + 63) / 64 < most ? (rows + 63) / 64 : most;
    const dim3 grid((unsigned)((c + 31) / 32), (unsigned)shares);
    void *part;

    CT_TRY(ct_cuda_workspace(d, (size_t)(shares * c) * sizeof(float), &part));
    CT_BY_TYPE(desc->dtype, T,
               CT_TRY(CT_START(d, grid, dim3(32, 8), 0, bias_sums<T>,
                               desc->batch, c, desc->spatial,
                               desc->layout == CT_NHWC, (const T *)dy,
                               (float *)part)));
    return ct_cuda_join(d, (int)c, (int)shares, (const float *)part, db);
}

extern "C" enum ct_status ct_cuda_conv_bias_backward(
    const struct ct_device *d, const struct ct_bias_desc *desc, const void *dy,
    float *db)
{
    if (desc->batch * desc->spatial * desc->channels == 0)
        return CT_OK;
    if (!at_once(d, desc, dy, dy))
        return any_sums(d, desc, dy, db);
    CT_BY_TYPE(desc->dtype, T,
               return (sums<false, T>(d, desc, (const T *)NULL, (T *)dy, db)));
}

extern "C" enum ct_status ct_cuda_conv_mask(const struct ct_device *d,
                                            const struct ct_bias_desc *desc,
                                            const void *y, void *dy, float *db)
{
    const int64_t n = desc->batch * desc->spatial * desc->channels;

    if (n == 0)
        return CT_OK;
    if (db && at_once(d, desc, y, dy))
        CT_BY_TYPE(desc->dtype, T,
                   return (sums<true, T>(d, desc, (const T *)y, (T *)dy, db)));
    CT_BY_TYPE(desc->dtype, T,
               CT_TRY(ct_map(d, n, where_above(), (T *)dy, (const T *)dy,
                             (const T *)y)));
    return db ? any_sums(d, desc, dy, db) : CT_OK;
}
