/* embed.cu - Embed on a GPU; formulas as in embed.c.
 *
 * The gradient of a row is made by the first of the indices that name it,
 * which adds up all of them in order: nobody else writes there, and sums
 * repeat.  An index out of range gives NaN. */
#include "device/cuda/channel_kernels.h"
#include "layers/cuda/slots.h"
#include "layers/embed.h"

__device__ static inline int64_t row_of(float x, int64_t k)
{
    return x > -1 && x < (float)k ? (int64_t)x : -1;
}

__global__ static void embed_forward(int64_t count, struct embed e,
                                     const float *x, const float *w,
                                     const float *b, float *y)
{
    CT_TURN();
    CT_KERNEL_EACH (i, count) {
        const int64_t row = row_of(x[i / e.n], e.k), c = i % e.n;

        y[i] = row < 0 ? NAN : w[row * e.n + c] + (b ? b[c] : 0);
    }
}

__global__ static void embed_backward(struct embed e, const float *x,
                                      const float *dy, float *dw)
{
    CT_TURN();
    for (int64_t i = blockIdx.x; i < e.m; i += gridDim.x) {
        const int64_t row = row_of(x[i], e.k);
        int before        = row < 0;

        for (int64_t j = threadIdx.x; j < i && !before; j += blockDim.x)
            before = row_of(x[j], e.k) == row;
        if (__syncthreads_or(before))
            continue;
        for (int64_t c = threadIdx.x; c < e.n; c += blockDim.x) {
            float sum = 0;

            for (int64_t j = i; j < e.m; j++)
                if (row_of(x[j], e.k) == row)
                    sum += dy[j * e.n + c];
            dw[row * e.n + c] += sum;
        }
    }
}

struct bias_grad {
    float *db;

    __device__ int load(int64_t) const { return 0; }
    __device__ void add(int, float dy, float, float *s, float *) const
    {
        *s += dy;
    }
    __device__ void finish(int64_t q, double s, double) const
    {
        db[q] += (float)s;
    }
};

extern "C" enum ct_status ct_cuda_embed_forward(struct ct_layer *l,
                                                const struct ct_io *io)
{
    const struct embed *e = (const struct embed *)l->state;
    const int64_t n       = io->top[0]->count;

    return n ? CT_LAUNCH(l->dev, n, embed_forward, n, *e,
                         (const float *)ct_data(io->bottom[0]),
                         (const float *)ct_data(l->blob[EMBED_WEIGHT]),
                         e->has_bias ? ct_data(l->blob[EMBED_BIAS])
                                     : (const float *)NULL,
                         ct_data(io->top[0]))
             : CT_OK;
}

extern "C" enum ct_status ct_cuda_embed_backward(struct ct_layer *l,
                                                 const struct ct_io *io)
{
    const struct embed *e = (const struct embed *)l->state;
    const float *dy       = ct_diff(io->top[0]);

    if (io->top[0]->count == 0)
        return CT_OK;
    if (l->blob_wants_grad[EMBED_WEIGHT])
        CT_TRY(CT_LAUNCH(l->dev, e->m * CT_BLOCK, embed_backward, *e,
                         (const float *)ct_data(io->bottom[0]), dy,
                         ct_diff(l->blob[EMBED_WEIGHT])));
    if (e->has_bias && l->blob_wants_grad[EMBED_BIAS])
        return ct_channel_sum(l->dev, { e->m, e->n, 1 },
                              bias_grad{ ct_diff(l->blob[EMBED_BIAS]) }, dy,
                              (const float *)NULL);
    return CT_OK;
}
