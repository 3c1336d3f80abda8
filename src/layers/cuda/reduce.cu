/* reduce.cu - Reduction, Axpy and ArgMax on a GPU; formulas as in their .c
 * files.  A row is a channel of channels.h. */
#include "layers/argmax.h"
#include "layers/axpy.h"
#include "device/cuda/channel_kernels.h"
#include "layers/cuda/slots.h"
#include "layers/reduction.h"
#include "proto/params.h"

enum { ASUM  = CAFFE__REDUCTION_PARAMETER__REDUCTION_OP__ASUM,
       SUMSQ = CAFFE__REDUCTION_PARAMETER__REDUCTION_OP__SUMSQ };

struct total {
    int    op;
    float  coeff;
    float *y;

    __device__ int load(int64_t) const { return 0; }
    __device__ void add(int, float x, float, float *s, float *) const
    {
        *s += op == ASUM ? fabsf(x) : op == SUMSQ ? x * x : x;
    }
    __device__ void finish(int64_t q, double s, double) const
    {
        y[q] = (float)(s * (double)coeff);
    }
};

struct total_grad {
    int          op;
    float        coeff;
    const float *dy;

    __device__ float load(int64_t q) const { return coeff * dy[q]; }
    __device__ float operator()(float c, float x) const
    {
        if (op == ASUM)
            return x > 0 ? c : x < 0 ? -c : 0;
        return op == SUMSQ ? 2 * c * x : c;
    }
};

extern "C" enum ct_status ct_cuda_reduction_forward(struct ct_layer *l,
                                                    const struct ct_io *io)
{
    const struct reduction *r = (const struct reduction *)l->state;

    if (r->n == 0)
        return ct_cuda_fill(l->dev, r->rows, 0, ct_data(io->top[0]));
    return ct_channel_sum(l->dev, { 1, r->rows, r->n },
                          total{ r->op, r->coeff, ct_data(io->top[0]) },
                          (const float *)ct_data(io->bottom[0]),
                          (const float *)NULL);
}

extern "C" enum ct_status ct_cuda_reduction_backward(struct ct_layer *l,
                                                     const struct ct_io *io)
{
    const struct reduction *r = (const struct reduction *)l->state;

    if (!io->want_grad[0])
        return CT_OK;
    return ct_channel_map(l->dev, { 1, r->rows, r->n },
                          total_grad{ r->op, r->coeff, ct_diff(io->top[0]) },
                          ct_diff(io->bottom[0]), (float *)NULL,
                          (const float *)ct_data(io->bottom[0]));
}

enum { A, X, Y };

struct axpy_map {
    const float *a;

    __device__ float load(int64_t q) const { return a[q]; }
    __device__ float operator()(float k, float x, float y) const
    {
        return k * x + y;
    }
    __device__ float operator()(float k, float df) const { return k * df; }
};

struct axpy_dot {
    float *da;

    __device__ int load(int64_t) const { return 0; }
    __device__ void add(int, float df, float x, float *, float *t) const
    {
        *t += df * x;
    }
    __device__ void finish(int64_t q, double, double t) const
    {
        da[q] = (float)t;
    }
};

extern "C" enum ct_status ct_cuda_axpy_forward(struct ct_layer *l,
                                               const struct ct_io *io)
{
    const struct axpy *s = (const struct axpy *)l->state;

    return ct_channel_map(l->dev, { 1, s->rows, s->inner },
                          axpy_map{ ct_data(io->bottom[A]) },
                          ct_data(io->top[0]), (float *)NULL,
                          (const float *)ct_data(io->bottom[X]),
                          (const float *)ct_data(io->bottom[Y]));
}

extern "C" enum ct_status ct_cuda_axpy_backward(struct ct_layer *l,
                                                const struct ct_io *io)
{
    const struct axpy *s   = (const struct axpy *)l->state;
    const struct ct_view v = { 1, s->rows, s->inner };
    const float *df        = ct_diff(io->top[0]);

    if (io->want_grad[A] && s->inner == 0)
        CT_TRY(ct_cuda_fill(l->dev, s->rows, 0, ct_diff(io->bottom[A])));
    else if (io->want_grad[A])
        CT_TRY(ct_channel_sum(l->dev, v, axpy_dot{ ct_diff(io->bottom[A]) },
                              df, (const float *)ct_data(io->bottom[X])));
    if (io->want_grad[X])
        CT_TRY(ct_channel_map(l->dev, v, axpy_map{ ct_data(io->bottom[A]) },
                              ct_diff(io->bottom[X]), (float *)NULL, df));
    if (io->want_grad[Y])
        return ct_copy_values(l->dev, io->top[0]->count, CT_F32, df,
                              ct_diff(io->bottom[Y]));
    return CT_OK;
}

struct lines {
    int64_t n, k, dim, inner;
    bool    both, only; /* indices and values; values instead */

    __device__ const float *line(const float *x, int64_t r) const
    {
        return x + r / inner * dim * inner + r % inner;
    }
    /* The j-th best of line r is index i. */
    __device__ void write(const float *line, int64_t r, int64_t j, int64_t i,
                          float *y) const
    {
        float *to = y + r / inner * inner * k * (both ? 2 : 1) + r % inner;

        to[j * inner] = only ? line[i * inner] : (float)i;
        if (both)
            to[k + j] = line[i];
    }
};

/* One best of each line: a warp a line, the last of equals. */
__global__ static void best(struct lines s, const float *x, float *y)
{
    CT_TURN();
    const int64_t warps = (int64_t)gridDim.x * (blockDim.x / 32);

    for (int64_t r = blockIdx.x * (int64_t)(blockDim.x / 32) +
                     threadIdx.x / 32;
         r < s.n; r += warps) {
        const float *line = s.line(x, r);
        long long at      = -1;
        float v           = 0;

        for (int64_t i = threadIdx.x % 32; i < s.dim; i += 32)
            if (at < 0 || line[i * s.inner] >= v) {
                v  = line[i * s.inner];
                at = i;
            }
        for (int o = 16; o > 0; o /= 2) {
            const float w        = __shfl_xor_sync(~0u, v, o);
            const long long from = __shfl_xor_sync(~0u, at, o);

            if (from >= 0 && (at < 0 || w > v || (w == v && from > at))) {
                v  = w;
                at = from;
            }
        }
        if (threadIdx.x % 32 == 0)
            s.write(line, r, 0, at, y);
    }
}

/* The k best, best first: a thread a line. */
__global__ static void several(struct lines s, const float *x, int32_t *best,
                               float *y)
{
    CT_TURN();
    CT_KERNEL_EACH (r, s.n) {
        const float *line = s.line(x, r);
        int32_t *b        = best + r * s.k;
        int64_t n         = 0;

        for (int64_t i = 0; i < s.dim; i++) {
            const float v = line[i * s.inner];
            int64_t at    = n < s.k ? n : s.k - 1;

            if (n == s.k && !(v >= line[b[s.k - 1] * s.inner]))
                continue;
            for (; at > 0 && v >= line[b[at - 1] * s.inner]; at--)
                b[at] = b[at - 1];
            b[at] = (int32_t)i;
            n += n < s.k;
        }
        for (int64_t j = 0; j < s.k; j++)
            s.write(line, r, j, b[j], y);
    }
}

extern "C" enum ct_status ct_cuda_argmax_forward(struct ct_layer *l,
                                                 const struct ct_io *io)
{
    const Caffe__ArgMaxParameter *p = ct_argmax_param(l->param);
    const struct argmax *a          = (const struct argmax *)l->state;
    const struct lines s = { a->outer * a->inner, a->k, a->dim, a->inner,
                             p->out_max_val && !p->has_axis,
                             p->out_max_val && p->has_axis };
    const float *x = ct_data(io->bottom[0]);

    if (s.n == 0)
        return CT_OK;
    if (s.k == 1)
        return CT_LAUNCH(l->dev, s.n * 32, best, s, x, ct_data(io->top[0]));
    return CT_LAUNCH(l->dev, s.n, several, s, x, (int32_t *)ct_data(a->best),
                     ct_data(io->top[0]));
}
