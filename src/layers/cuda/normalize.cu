/* normalize.cu - Normalize on a GPU; formulas as in device/norm.h's unit
 * vectors.  The vector of a position is a thread's, which goes through the
 * channels; in NHWC, where its values are neighbours, it is a warp's.  Whole
 * items are a block's. */
#include "device/cuda/elementwise.h"
#include "layers/cuda/slots.h"
#include "layers/normalize.h"

struct unit {
    int64_t      n, c, inner;
    bool         whole, shared;
    float        eps;
    const float *scale;
    float       *inverse;

    __device__ float scale_of(int64_t q) const { return scale[shared ? 0 : q]; }
    /* 1 / r of value i. */
    __device__ float inverse_of(int64_t i) const
    {
        const int64_t item = i / (c * inner);

        return inverse[whole ? item : item * inner + i % inner];
    }
};

__global__ static void inverse_positions(struct unit u, const float *x)
{
    CT_TURN();
    CT_KERNEL_EACH (i, u.n * u.inner) {
        const float *of = x + i / u.inner * u.c * u.inner + i % u.inner;
        float sum       = u.eps;

        for (int64_t q = 0; q < u.c; q++)
            sum += of[q * u.inner] * of[q * u.inner];
        u.inverse[i] = 1 / sqrtf(sum);
    }
}

__global__ static void inverse_items(struct unit u, const float *x)
{
    CT_TURN();
    const int64_t n = u.c * u.inner;
    double sum      = 0;

    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
        const double v = x[blockIdx.x * n + i];

        sum += v * v;
    }
    sum = ct_block_sum(sum);
    if (threadIdx.x == 0)
        u.inverse[blockIdx.x] = (float)(1 / sqrt(u.eps + sum));
}

__global__ static void unit_forward(struct unit u, const float *x, float *y)
{
    CT_TURN();
    CT_KERNEL_EACH (i, u.n * u.c * u.inner)
        y[i] = x[i] * (u.scale_of(i / u.inner % u.c) * u.inverse_of(i));
}

/* part[q] = the channel's sum of dy x / r; a block a channel. */
__global__ static void scale_grad(struct unit u, const float *x,
                                  const float *dy, float *part)
{
    CT_TURN();
    const int64_t q = blockIdx.x;
    double sum      = 0;

    for (int64_t i = threadIdx.x; i < u.n * u.inner; i += blockDim.x) {
        const int64_t at =
            (i / u.inner * u.c + q) * u.inner + i % u.inner;

        sum += (double)(dy[at] * x[at] * u.inverse_of(at));
    }
    sum = ct_block_sum(sum);
    if (threadIdx.x == 0)
        part[q] = (float)sum;
}

/* dscale[q] += the sum of column q of `rows` rows of parts. */
__global__ static void scale_add(int64_t c, int rows, const float *part,
                                 float *dscale)
{
    CT_TURN();
    CT_KERNEL_EACH (q, c) {
        double sum = 0;

        for (int r = 0; r < rows; r++)
            sum += (double)part[r * c + q];
        dscale[q] += (float)sum;
    }
}

/* *dscale += the sum of n parts; one block. */
__global__ static void scale_add_all(int64_t n, const float *part,
                                     float *dscale)
{
    CT_TURN();
    double sum = 0;

    for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
        sum += (double)part[i];
    sum = ct_block_sum(sum);
    if (threadIdx.x == 0)
        *dscale += (float)sum;
}

/* dot[k] = item k's sum of dy scale x / r; a block an item. */
__global__ static void item_dots(struct unit u, const float *x,
                                 const float *dy, float *dot)
{
    CT_TURN();
    const int64_t n = u.c * u.inner, k = blockIdx.x;
    double sum      = 0;

    for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
        sum += (double)(dy[k * n + i] * x[k * n + i]) *
               (double)u.scale_of(i / u.inner);
    sum = ct_block_sum(sum);
    if (threadIdx.x == 0)
        dot[k] = (float)(sum * (double)u.inverse[k]);
}

__global__ static void unit_backward_items(struct unit u, const float *x,
                                           const float *dy, const float *dot,
                                           float *dx)
{
    CT_TURN();
    CT_KERNEL_EACH (i, u.n * u.c * u.inner) {
        const int64_t k = i / (u.c * u.inner);
        const float r   = u.inverse[k];

        dx[i] = dy[i] * (u.scale_of(i / u.inner % u.c) * r) -
                x[i] * (dot[k] * r * r);
    }
}

__global__ static void unit_backward_positions(struct unit u, const float *x,
                                               const float *dy, float *dx)
{
    CT_TURN();
    CT_KERNEL_EACH (i, u.n * u.inner) {
        const int64_t from = i / u.inner * u.c * u.inner + i % u.inner;
        const float r      = u.inverse[i];
        float dot          = 0;

        for (int64_t q = 0; q < u.c; q++) {
            const int64_t at = from + q * u.inner;

            dot += dy[at] * x[at] * (u.scale_of(q) * r);
        }
        dot *= r * r;
        for (int64_t q = 0; q < u.c; q++) {
            const int64_t at = from + q * u.inner;

            dx[at] = dy[at] * (u.scale_of(q) * r) - x[at] * dot;
        }
    }
}

/* ---- NHWC: a warp a position, K neighbours a thread at a time */

enum { ROWS = 8, MOST_PARTS = 64 };

#define EACH_POSITION(i, n)                                                  \
    for (int64_t i = (blockIdx.x * (int64_t)blockDim.x + threadIdx.x) / 32;  \
         i < (n); i += (int64_t)gridDim.x * blockDim.x / 32)

__device__ static inline float warp_sum(float v)
{
    for (int o = 16; o > 0; o /= 2)
        v += __shfl_xor_sync(~0u, v, o);
    return v;
}

template <int K, typename T>
__global__ static void nhwc_forward(struct unit u, const T *x, T *y)
{
    CT_TURN();
    const int64_t first = threadIdx.x % 32 * K, step = 32 * K;

    EACH_POSITION (i, u.n * u.inner) {
        const T *from = x + i * u.c;
        float sum     = 0, r;

        for (int64_t q = first; q < u.c; q += step) {
            const ct_pack<K, T> v = ct_load_pack<K>(from + q);

#pragma unroll
            for (int k = 0; k < K; k++)
                sum += ct_load(v.v + k) * ct_load(v.v + k);
        }
        r = 1 / sqrtf(u.eps + warp_sum(sum));
        for (int64_t q = first; q < u.c; q += step) {
            ct_pack<K, T> v = ct_load_pack<K>(from + q);

#pragma unroll
            for (int k = 0; k < K; k++)
                ct_store(v.v + k, ct_load(v.v + k) * (u.scale_of(q + k) * r));
            ct_store_pack<K>(y + i * u.c + q, v);
        }
        if (first == 0)
            u.inverse[i] = r;
    }
}

template <int K, typename T>
__global__ static void nhwc_backward(struct unit u, const T *x, const T *dy,
                                     T *dx)
{
    CT_TURN();
    const int64_t first = threadIdx.x % 32 * K, step = 32 * K;

    EACH_POSITION (i, u.n * u.inner) {
        const int64_t at = i * u.c;
        const float r    = u.inverse[i];
        float dot        = 0;

        for (int64_t q = first; q < u.c; q += step) {
            const ct_pack<K, T> v = ct_load_pack<K>(x + at + q);
            const ct_pack<K, T> d = ct_load_pack<K>(dy + at + q);

#pragma unroll
            for (int k = 0; k < K; k++)
                dot += ct_load(d.v + k) * ct_load(v.v + k) *
                       (u.scale_of(q + k) * r);
        }
        dot = warp_sum(dot) * r * r;
        for (int64_t q = first; q < u.c; q += step) {
            const ct_pack<K, T> v = ct_load_pack<K>(x + at + q);
            ct_pack<K, T> d       = ct_load_pack<K>(dy + at + q);

#pragma unroll
            for (int k = 0; k < K; k++)
                ct_store(d.v + k, ct_load(d.v + k) * (u.scale_of(q + k) * r) -
                                      ct_load(v.v + k) * dot);
            ct_store_pack<K>(dx + at + q, d);
        }
    }
}

/* part[b][q] = the channel's sum of dy x / r over every gridDim.y-th lot of
 * ROWS positions; blocks are 32 channels by ROWS. */
template <typename T>
__global__ static void nhwc_scale_grad(struct unit u, const T *x, const T *dy,
                                       float *part)
{
    CT_TURN();
    __shared__ float sums[ROWS][32];
    const int64_t q = blockIdx.x * 32 + threadIdx.x;
    float sum       = 0;

    for (int64_t i = blockIdx.y * (int64_t)ROWS + threadIdx.y;
         q < u.c && i < u.n * u.inner; i += (int64_t)gridDim.y * ROWS)
        sum += ct_load(dy + i * u.c + q) * ct_load(x + i * u.c + q) *
               u.inverse[i];
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y > 0 || q >= u.c)
        return;
    for (int k = 1; k < ROWS; k++)
        sum += sums[k][threadIdx.x];
    part[blockIdx.y * u.c + q] = sum;
}

static struct unit unit_of(const struct ct_layer *l)
{
    const struct normalize *s = (const struct normalize *)l->state;
    const struct ct_unit *u   = &s->unit;

    return { u->n, u->c, u->inner, u->whole, u->shared, u->eps,
             ct_data(l->blob[0]), ct_data(s->inverse) };
}

/* Whether positions begin where packs may. */
template <typename T>
static bool in_packs(const struct unit *u, const T *x, const T *y,
                     const T *z)
{
    return u->c * (int64_t)sizeof(T) % 16 == 0 && ct_aligned(x) &&
           ct_aligned(y) && ct_aligned(z);
}

template <typename T>
static enum ct_status forward_nhwc(const struct ct_layer *l,
                                   const struct unit *u, const T *x, T *y)
{
    constexpr int K = 16 / sizeof(T);
    const int64_t n = u->n * u->inner * 32;

    if (in_packs<T>(u, x, y, x))
        return CT_LAUNCH(l->dev, n, (nhwc_forward<K, T>), *u, x, y);
    return CT_LAUNCH(l->dev, n, (nhwc_forward<1, T>), *u, x, y);
}

extern "C" enum ct_status ct_cuda_normalize_forward(struct ct_layer *l,
                                                    const struct ct_io *io)
{
    const struct ct_tensor *in = &io->bottom[0]->data;
    const struct unit u        = unit_of(l);
    const float *x             = ct_data(io->bottom[0]);

    if (io->bottom[0]->count == 0)
        return CT_OK;
    if (in->layout == CT_NHWC)
        CT_BY_TYPE(in->dtype, T,
                   return forward_nhwc(l, &u, (const T *)x,
                                       (T *)ct_data(io->top[0])));
    if (u.whole) {
        inverse_items<<<(unsigned)u.n, 512, 0, ct_cuda_stream(l->dev)>>>(u, x);
        CT_TRY(CT_CUDA_LAUNCHED(l->dev, "lengths of items"));
    } else {
        CT_TRY(CT_LAUNCH(l->dev, u.n * u.inner, inverse_positions, u, x));
    }
    return CT_LAUNCH(l->dev, io->bottom[0]->count, unit_forward, u, x,
                     ct_data(io->top[0]));
}

/* Adds rows of parts to the gradient: each to its own, or all to one. */
static enum ct_status add_parts(const struct ct_layer *l, const struct unit *u,
                                int rows, const float *part)
{
    float *dscale = ct_diff(l->blob[0]);

    if (!u->shared)
        return CT_LAUNCH(l->dev, u->c, scale_add, u->c, rows, part, dscale);
    scale_add_all<<<1, CT_BLOCK, 0, ct_cuda_stream(l->dev)>>>(
        rows * u->c, part, dscale);
    return CT_CUDA_LAUNCHED(l->dev, "gradient of scales");
}

static enum ct_status scale_backward(const struct ct_layer *l,
                                     const struct unit *u, const float *x,
                                     const float *dy, float *part)
{
    scale_grad<<<(unsigned)u->c, CT_BLOCK, 0, ct_cuda_stream(l->dev)>>>(
        *u, x, dy, part);
    CT_TRY(CT_CUDA_LAUNCHED(l->dev, "gradient of scales"));
    return add_parts(l, u, 1, part);
}

template <typename T>
static enum ct_status backward_nhwc(const struct ct_layer *l,
                                    const struct unit *u, const T *x,
                                    const T *dy, T *dx)
{
    const struct normalize *s = (const struct normalize *)l->state;
    constexpr int K    = 16 / sizeof(T);
    const int64_t n    = u->n * u->inner * 32;
    const int64_t room = ct_unit_parts(&s->unit) / u->c;
    const int rows     = (int)(room < MOST_PARTS ? room : MOST_PARTS);
    float *part        = ct_data(s->parts);

    if (l->blob_wants_grad[0]) {
        nhwc_scale_grad<<<dim3((unsigned)((u->c + 31) / 32), (unsigned)rows),
                          dim3(32, ROWS), 0, ct_cuda_stream(l->dev)>>>(
            *u, x, dy, part);
        CT_TRY(CT_CUDA_LAUNCHED(l->dev, "gradient of scales"));
        CT_TRY(add_parts(l, u, rows, part));
    }
    if (!dx)
        return CT_OK;
    if (in_packs<T>(u, x, dy, dx))
        return CT_LAUNCH(l->dev, n, (nhwc_backward<K, T>), *u, x, dy, dx);
    return CT_LAUNCH(l->dev, n, (nhwc_backward<1, T>), *u, x, dy, dx);
}

extern "C" enum ct_status ct_cuda_normalize_backward(struct ct_layer *l,
                                                     const struct ct_io *io)
{
    const struct normalize *s = (const struct normalize *)l->state;
    const struct unit u       = unit_of(l);
    const float *x = ct_data(io->bottom[0]), *dy = ct_diff(io->top[0]);
    float *dx = ct_diff(io->bottom[0]), *part = ct_data(s->parts);

    if (io->bottom[0]->count == 0)
        return CT_OK;
    if (io->bottom[0]->data.layout == CT_NHWC)
        CT_BY_TYPE(io->bottom[0]->data.dtype, T,
                   return backward_nhwc(l, &u, (const T *)x, (const T *)dy,
                                        io->want_grad[0] ? (T *)dx
                                                         : (T *)NULL));
    if (l->blob_wants_grad[0])
        CT_TRY(scale_backward(l, &u, x, dy, part));
    if (!io->want_grad[0])
        return CT_OK;
    if (!u.whole)
        return CT_LAUNCH(l->dev, u.n * u.inner, unit_backward_positions, u, x,
                         dy, dx);
    item_dots<<<(unsigned)u.n, 512, 0, ct_cuda_stream(l->dev)>>>(u, x, dy,
                                                                 part);
    CT_TRY(CT_CUDA_LAUNCHED(l->dev, "dots of items"));
    return CT_LAUNCH(l->dev, io->bottom[0]->count, unit_backward_items, u, x,
                     dy, (const float *)part, dx);
}
