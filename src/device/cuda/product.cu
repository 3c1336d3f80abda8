/* product.cu - a small matrix product.
 *
 * Where a matrix has few tiles and the sums are long, a library's blocks each
 * walk along all of k and most of the GPU has nothing to do.  Here a block has
 * a small tile, 16 x 32, and its eight warps share out k; their sums are then
 * added in the same order each time.  Sums are float32, whatever the operands
 * are. */
#include "device/cuda/kernel.h"

enum {
    TILE_M = 16,
    TILE_N = 32,
    DEEP   = 16, /* k that a warp has in shared memory */
    WARPS  = CT_BLOCK / 32,
    PITCH_M = TILE_M + 4, /* multiples of 16 bytes that share few banks */
    PITCH_N = TILE_N + 4,
    ROOM    = DEEP * (PITCH_M + PITCH_N), /* of one warp */
    EACH_M  = TILE_M * DEEP / 32,         /* values that a lane brings */
    EACH_N  = TILE_N * DEEP / 32
};

/* Where value e of a tile lies: along its rows, or along k, whichever is
 * contiguous in memory. */
struct place {
    int i, k;
};

template <int TILE>
__device__ static inline struct place place_of(int e, bool by_rows)
{
    return by_rows ? place{ e % TILE, e / TILE } : place{ e / DEEP, e % DEEP };
}

/* A lane's part of op(A) or op(B)^T, `rows` x k: rows from `first` on, k from
 * `from` to `to`; zeros outside. */
template <int TILE, int N, typename T>
__device__ static inline void bring(const T *x, int64_t ld, bool by_rows,
                                    int64_t first, int64_t rows, int64_t from,
                                    int64_t to, float *v)
{
#pragma unroll
    for (int r = 0; r < N; r++) {
        const struct place p =
            place_of<TILE>((int)(threadIdx.x % 32) + 32 * r, by_rows);
        const int64_t i = first + p.i, k = from + p.k;

        v[r] = i < rows && k < to
                   ? ct_load(x + (by_rows ? k * ld + i : i * ld + k))
                   : 0.0f;
    }
}

template <int TILE, int PITCH, int N>
__device__ static inline void put(bool by_rows, const float *v, float *to)
{
#pragma unroll
    for (int r = 0; r < N; r++) {
        const struct place p =
            place_of<TILE>((int)(threadIdx.x % 32) + 32 * r, by_rows);

        to[p.k * PITCH + p.i] = v[r];
    }
}

/* A NaN stays one. */
template <typename T>
__device__ static inline void finish(const struct ct_cuda_gemm &g, int64_t i,
                                     int64_t j, float v, float beta, T *c)
{
    T *at = c + i * g.ldc + j;

    if (beta != 0)
        v += beta * ct_load(at);
    if (g.bias)
        v += g.bias[j];
    ct_store(at, g.relu && v < 0 ? 0 : v);
}

template <typename T>
__global__ static void __launch_bounds__(CT_BLOCK)
    product(struct ct_cuda_gemm g, float alpha, const T *a, const T *b,
            float beta, void *c)
{
    CT_TURN();
    __shared__ __align__(16) float room[WARPS * ROOM];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int top = lane / 8 * 4, left = lane % 8 * 4;
    const int64_t across = (g.n + TILE_N - 1) / TILE_N;
    const int64_t i0     = blockIdx.x / across * TILE_M;
    const int64_t j0     = blockIdx.x % across * TILE_N;
    const int64_t each   = (g.k + WARPS - 1) / WARPS;
    const int64_t last   = (warp + 1) * each < g.k ? (warp + 1) * each : g.k;
    const bool a_rows = g.ta == CT_T, b_rows = g.tb != CT_T;
    float *as = room + warp * ROOM, *bs = as + DEEP * PITCH_M;
    float va[EACH_M], vb[EACH_N], sum[4][4] = {};

    bring<TILE_M, EACH_M>(a, g.lda, a_rows, i0, g.m, warp * each, last, va);
    bring<TILE_N, EACH_N>(b, g.ldb, b_rows, j0, g.n, warp * each, last, vb);
    for (int64_t k = warp * each; k < last; k += DEEP) {
        put<TILE_M, PITCH_M, EACH_M>(a_rows, va, as);
        put<TILE_N, PITCH_N, EACH_N>(b_rows, vb, bs);
        __syncwarp();
        bring<TILE_M, EACH_M>(a, g.lda, a_rows, i0, g.m, k + DEEP, last, va);
        bring<TILE_N, EACH_N>(b, g.ldb, b_rows, j0, g.n, k + DEEP, last, vb);
#pragma unroll
        for (int d = 0; d < DEEP; d++) {
            const float4 x = *(const float4 *)(as + d * PITCH_M + top);
            const float4 y = *(const float4 *)(bs + d * PITCH_N + left);
            const float xs[] = { x.x, x.y, x.z, x.w };
            const float ys[] = { y.x, y.y, y.z, y.w };

#pragma unroll
            for (int e = 0; e < 16; e++)
                sum[e / 4][e % 4] = fmaf(xs[e / 4], ys[e % 4],
                                         sum[e / 4][e % 4]);
        }
        __syncwarp();
    }
    __syncthreads();
#pragma unroll
    for (int e = 0; e < 16; e++)
        room[warp * TILE_M * TILE_N + (top + e / 4) * TILE_N + left + e % 4] =
            sum[e / 4][e % 4];
    __syncthreads();
    for (int e = threadIdx.x; e < TILE_M * TILE_N; e += CT_BLOCK) {
        const int64_t i = i0 + e / TILE_N, j = j0 + e % TILE_N;
        float all       = 0;

#pragma unroll
        for (int w = 0; w < WARPS; w++)
            all += room[w * TILE_M * TILE_N + e];
        if (i < g.m && j < g.n)
            CT_BY_TYPE(g.c_type, C,
                       finish(g, i, j, alpha * all, beta, (C *)c));
    }
}

static int64_t tiles_of(const struct ct_cuda_gemm *g)
{
    return (g->m + TILE_M - 1) / TILE_M * ((g->n + TILE_N - 1) / TILE_N);
}

extern "C" bool ct_cuda_product_takes(const struct ct_cuda_gemm *g)
{
    return g->a_type == g->b_type && tiles_of(g) <= INT32_MAX;
}

extern "C" enum ct_status ct_cuda_product(const struct ct_device *d,
                                          const struct ct_cuda_gemm *g,
                                          float alpha, const void *a,
                                          const void *b, float beta, void *c)
{
    CT_BY_TYPE(g->a_type, T,
               return CT_START(d, (unsigned)tiles_of(g), CT_BLOCK, 0,
                               product<T>, *g, alpha, (const T *)a,
                               (const T *)b, beta, c));
}
