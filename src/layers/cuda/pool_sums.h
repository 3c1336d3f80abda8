/* pool_sums.h - sums over the channels of a max pooling's gradient, of the
 * windows that have a place; for pooling.cu alone.
 *
 * That are the sums of dx, which has as many values or more. */
#ifndef CT_LAYERS_CUDA_POOL_SUMS_H
#define CT_LAYERS_CUDA_POOL_SUMS_H

#include "device/cuda/column_sums.h"
#include "device/cuda/elementwise.h"
#include "device/pool.h"

enum {
    POOL_NOWHERE = 0xff, /* the place of a window without one */
    POOL_AHEAD   = 4     /* rows that a thread has under way */
};

struct pool_column {
    float *db;
    __device__ float *operator()(int channel) const { return db + channel; }
};

template <typename T>
__global__ static void __launch_bounds__(CT_BLOCK)
    sums_of_taken(struct ct_columns m, const T *dy, const uint8_t *at,
                  float *part, unsigned *turn, struct pool_column to)
{
    CT_TURN();
    enum { V = CT_VECTOR(T) };
    __shared__ __align__(16) float tile[CT_COLUMN_TILE(V)];
    const struct ct_column c =
        ct_column_of(&m, blockIdx.x, blockIdx.y, threadIdx.x);
    float sum[V] = {};

    for (int r = c.row; r < m.rows; r += POOL_AHEAD * c.step) {
        ct_pack<V, uint8_t> where[POOL_AHEAD];
        ct_pack<V, T> d[POOL_AHEAD];

#pragma unroll
        for (int a = 0; a < POOL_AHEAD; a++) {
            const int row   = min(r + a * c.step, m.rows - 1);
            const int64_t i = ((int64_t)row * m.row + c.column) * V;

            where[a] = ct_load_pack<V>(at + i);
            d[a]     = ct_load_pack<V>(dy + i);
        }
#pragma unroll
        for (int a = 0; a < POOL_AHEAD; a++)
#pragma unroll
            for (int k = 0; k < V; k++)
                sum[k] += r + a * c.step < m.rows &&
                                  where[a].v[k] != POOL_NOWHERE
                              ? ct_load(d[a].v + k)
                              : 0;
    }
    ct_column_sums<V>(m, sum, tile, part, turn, to);
}

/* db += the sums; CT_ENOTSUP: not for this shape. */
template <typename T>
static enum ct_status pool_sums(const struct ct_device *d,
                                const struct ct_pool *p, const T *dy,
                                const uint8_t *at, float *db)
{
    const int64_t rows = p->n * p->out_h * p->out_w;
    struct ct_columns m;

    if (p->layout != CT_NHWC || rows < 1 || rows > INT32_MAX / 2 ||
        !ct_fits16(dy, p->dtype, p->c) ||
        !ct_columns_make(rows, p->c / CT_VECTOR(T), CT_VECTOR(T),
                         4 * ct_cuda(d)->n_multiprocessors, POOL_AHEAD,
                         CT_CUDA_PARTS, CT_CUDA_TURNS, &m))
        return CT_ENOTSUP;
    return CT_START(d, dim3((unsigned)m.groups, (unsigned)m.shares), CT_BLOCK,
                    0, sums_of_taken<T>, m, dy, at, (float *)ct_cuda_parts(d),
                    ct_cuda_turns(d), pool_column{ db });
}

#endif
