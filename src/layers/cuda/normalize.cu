/* normalize.cu - Normalize on a GPU; formulas as in device/norm.h's unit
 * vectors.  The vectors of a position are a thread's, which goes through the
 * channels; whole items are a block's. */
#include "device/cuda/kernel.h"
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
    CT_KERNEL_EACH (i, u.n * u.c * u.inner)
        y[i] = x[i] * (u.scale_of(i / u.inner % u.c) * u.inverse_of(i));
}

/* part[q] = the channel's sum of dy x / r; a block a channel. */
__global__ static void scale_grad(struct unit u, const float *x,
                                  const float *dy, float *part)
{
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

/* Adds the parts to the scale's gradient: each to its own, or all to one. */
__global__ static void scale_add(int64_t c, bool shared, const float *part,
                                 float *dscale)
{
    double sum = 0;

    for (int64_t q = threadIdx.x; q < c; q += blockDim.x)
        if (shared)
            sum += (double)part[q];
        else
            dscale[q] += part[q];
    sum = ct_block_sum(sum);
    if (shared && threadIdx.x == 0)
        *dscale += (float)sum;
}

/* dot[k] = item k's sum of dy scale x / r; a block an item. */
__global__ static void item_dots(struct unit u, const float *x,
                                 const float *dy, float *dot)
{
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

static struct unit unit_of(const struct ct_layer *l)
{
    const struct normalize *s = (const struct normalize *)l->state;
    const struct ct_unit *u   = &s->unit;

    return { u->n, u->c, u->inner, u->whole, u->shared, u->eps,
             ct_data(l->blob[0]), ct_data(s->inverse) };
}

extern "C" enum ct_status ct_cuda_normalize_forward(struct ct_layer *l,
                                                    const struct ct_io *io)
{
    const struct unit u = unit_of(l);
    const float *x      = ct_data(io->bottom[0]);

    if (io->bottom[0]->count == 0)
        return CT_OK;
    if (u.whole) {
        inverse_items<<<(unsigned)u.n, 512, 0, ct_cuda_stream(l->dev)>>>(u, x);
        CT_TRY(CT_CUDA_LAUNCHED(l->dev, "lengths of items"));
    } else {
        CT_TRY(CT_LAUNCH(l->dev, u.n * u.inner, inverse_positions, u, x));
    }
    return CT_LAUNCH(l->dev, io->bottom[0]->count, unit_forward, u, x,
                     ct_data(io->top[0]));
}

static enum ct_status scale_backward(const struct ct_layer *l,
                                     const struct unit *u, const float *x,
                                     const float *dy, float *part)
{
    scale_grad<<<(unsigned)u->c, CT_BLOCK, 0, ct_cuda_stream(l->dev)>>>(
        *u, x, dy, part);
    CT_TRY(CT_CUDA_LAUNCHED(l->dev, "gradient of scales"));
    scale_add<<<1, CT_BLOCK, 0, ct_cuda_stream(l->dev)>>>(
        u->c, u->shared, part, ct_diff(l->blob[0]));
    return CT_CUDA_LAUNCHED(l->dev, "gradient of scales");
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
