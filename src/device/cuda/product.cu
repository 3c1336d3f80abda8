/* product.cu - a small matrix product.
 *
 * Where a matrix has few tiles and the sums are long, a library's blocks each
 * walk along all of k and most of the GPU has nothing to do.  Here a block has
 * a small tile, 16 x 32, and its eight warps share out k; their sums are then
 * added in the same order each time.  Sums are float32, whatever the operands
 * are.
 *
 * On Hopper GPUs up to eight blocks, a cluster, have one tile: they share out k
 * too, and each adds up a part of the tile out of the shared memory of all. */
#include "device/cuda/kernel.h"
#include "device/cuda/product.h"
#include "device/cuda/product_cut.h"

enum {
    TILE_M  = CT_PRODUCT_M,
    TILE_N  = CT_PRODUCT_N,
    DEEP    = CT_PRODUCT_DEEP,
    WARPS   = CT_PRODUCT_WARPS,
    PITCH_M = TILE_M + 4, /* multiples of 16 bytes that share few banks */
    PITCH_N = TILE_N + 4,
    ROOM    = DEEP * (PITCH_M + PITCH_N), /* of one warp */
    EACH_M  = TILE_M * DEEP / 32,         /* values that a lane brings */
    EACH_N  = TILE_N * DEEP / 32,
    AT_ONCE = 2 /* blocks that a multiprocessor has room for */
};

static_assert(WARPS * 32 == CT_BLOCK, "a block's warps");

template <int TILE>
__device__ static inline struct ct_product_place place_of(bool by_rows)
{
    return ct_product_place_of(TILE, by_rows, (int)threadIdx.x % 32);
}

/* A lane's part of op(A) or op(B)^T, `rows` x k: rows from `first` on, k from
 * `from` to `to`; zeros outside. */
template <int TILE, int N, typename T>
__device__ static inline void bring(const T *x, int ld, bool by_rows,
                                    int first, int rows, int from, int to,
                                    float *v)
{
    const struct ct_product_place p = place_of<TILE>(by_rows);
    const int at    = p.at + (by_rows ? first : from);
    const int line  = p.line + (by_rows ? from : first);
    const int lines = at < (by_rows ? rows : to) ? by_rows ? to : rows : 0;
    const int64_t step = (int64_t)p.step * ld;

    x += (int64_t)line * ld + at;
#pragma unroll
    for (int r = 0; r < N; r++, x += step)
        v[r] = line + r * p.step < lines ? ct_load(x) : 0.0f;
}

template <int TILE, int PITCH, int N>
__device__ static inline void put(bool by_rows, const float *v, float *to)
{
    const struct ct_product_place p = place_of<TILE>(by_rows);
    const int step = by_rows ? p.step * PITCH : p.step;

    to += by_rows ? p.line * PITCH + p.at : p.at * PITCH + p.line;
#pragma unroll
    for (int r = 0; r < N; r++)
        to[r * step] = v[r];
}

/* A NaN stays one. */
template <typename T>
__device__ static inline void finish(const struct ct_cuda_gemm &g, int i,
                                     int j, float v, float beta, T *c)
{
    T *at = c + (int64_t)i * g.ldc + j;

    if (beta != 0)
        v += beta * ct_load(at);
    if (g.bias)
        v += g.bias[j];
    ct_store(at, g.relu && v < 0 ? 0 : v);
}

/* Block `rank` of `shares` that have one tile. */
struct share {
    int rank, shares;
};

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
/* All blocks of the cluster come here, and see what the others wrote. */
__device__ static inline void meet()
{
    asm volatile("barrier.cluster.arrive;\n\t"
                 "barrier.cluster.wait;" ::: "memory");
}

/* What block `rank` has where this one has *mine, in shared memory. */
__device__ static inline float seen(const float *mine, int rank)
{
    uint32_t at = (uint32_t)__cvta_generic_to_shared(mine);
    float v;

    asm volatile("mapa.shared::cluster.u32 %0, %0, %1;"
                 : "+r"(at) : "r"(rank));
    asm volatile("ld.shared::cluster.f32 %0, [%1];"
                 : "=f"(v) : "r"(at) : "memory");
    return v;
}
#else
__device__ static inline void meet() {}
__device__ static inline float seen(const float *mine, int) { return *mine; }
#endif

/* The tile's values: sums of all warps, in `room` behind each other, and of all
 * blocks that share it; each block stores a part. */
template <typename C>
__device__ static inline void store_tile(const struct ct_cuda_gemm &g,
                                         const struct share &s, int i0, int j0,
                                         float alpha, float beta, float *room,
                                         C *c)
{
    enum { TILE = CT_PRODUCT_TILE };
    const struct ct_product_run part = ct_product_part(s.shares, s.rank);

    for (int e = threadIdx.x; s.shares > 1 && e < TILE; e += CT_BLOCK) {
        float mine = 0;

#pragma unroll
        for (int w = 0; w < WARPS; w++)
            mine += room[w * TILE + e];
        room[e] = mine; /* which this thread alone reads and writes */
    }
    if (s.shares > 1)
        meet();
    for (int e = part.from + (int)threadIdx.x; e < part.to; e += CT_BLOCK) {
        const int i = i0 + e / TILE_N, j = j0 + e % TILE_N;
        float all   = 0;

        for (int w = 0; w < s.shares && s.shares > 1; w++)
            all += seen(room + e, w);
#pragma unroll
        for (int w = 0; w < WARPS && s.shares == 1; w++)
            all += room[w * TILE + e];
        if (i < g.m && j < g.n)
            finish(g, i, j, alpha * all, beta, c);
    }
    if (s.shares > 1)
        meet(); /* nobody goes while others look at what he has */
}

/* `shares` neighbouring blocks have one tile. */
template <typename T>
__global__ static void __launch_bounds__(CT_BLOCK, AT_ONCE)
    product(struct ct_cuda_gemm g, int shares, float alpha, const T *a,
            const T *b, float beta, void *c)
{
    CT_TURN();
    __shared__ __align__(16) float room[WARPS * ROOM];
    const struct share s = { (int)blockIdx.x % shares, shares };
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int walk = s.rank * WARPS + warp; /* of all that share out k */
    const int top = lane / 8 * 4, left = lane % 8 * 4;
    const int m = (int)g.m, n = (int)g.n, lda = (int)g.lda, ldb = (int)g.ldb;
    const int across = (n + TILE_N - 1) / TILE_N;
    const int tile   = (int)blockIdx.x / shares;
    const int i0     = tile / across * TILE_M;
    const int j0     = tile % across * TILE_N;
    const struct ct_product_run run = ct_product_steps((int)g.k, shares, walk);
    const int first = run.from, last = run.to;
    const bool a_rows = g.ta == CT_T, b_rows = g.tb != CT_T;
    float *as = room + warp * ROOM, *bs = as + DEEP * PITCH_M;
    float va[EACH_M], vb[EACH_N], sum[4][4] = {};

    bring<TILE_M, EACH_M>(a, lda, a_rows, i0, m, first, last, va);
    bring<TILE_N, EACH_N>(b, ldb, b_rows, j0, n, first, last, vb);
    for (int k = first; k < last; k += DEEP) {
        put<TILE_M, PITCH_M, EACH_M>(a_rows, va, as);
        put<TILE_N, PITCH_N, EACH_N>(b_rows, vb, bs);
        __syncwarp();
        bring<TILE_M, EACH_M>(a, lda, a_rows, i0, m, k + DEEP, last, va);
        bring<TILE_N, EACH_N>(b, ldb, b_rows, j0, n, k + DEEP, last, vb);
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
    CT_BY_TYPE(g.c_type, C,
               store_tile(g, s, i0, j0, alpha, beta, room, (C *)c));
}

static int64_t tiles_of(const struct ct_cuda_gemm *g)
{
    return (g->m + TILE_M - 1) / TILE_M * ((g->n + TILE_N - 1) / TILE_N);
}

extern "C" bool ct_cuda_product_takes(const struct ct_cuda_gemm *g)
{
    const int64_t most = INT32_MAX / 2;

    return g->a_type == g->b_type && tiles_of(g) <= most && g->m <= most &&
           g->n <= most && g->k <= most && g->lda <= most && g->ldb <= most;
}

/* Several blocks for a tile have to have enough of k each, and no more than the
 * GPU has room for at once. */
extern "C" bool ct_cuda_product_shares(const struct ct_device *d,
                                       const struct ct_cuda_gemm *g,
                                       int shares)
{
    enum { LEAST = 4 * WARPS };

    return ct_cuda_product_takes(g) && ct_cuda_kernels_wait() &&
           ct_cuda(d)->major >= 9 && g->k >= LEAST * shares &&
           tiles_of(g) * shares <=
               (int64_t)AT_ONCE * ct_cuda(d)->n_multiprocessors;
}

template <typename T>
static enum ct_status start(const struct ct_device *d,
                            const struct ct_cuda_gemm *g, int shares,
                            float alpha, const T *a, const T *b, float beta,
                            void *c)
{
    cudaLaunchAttribute attrs[2] = {};
    cudaLaunchConfig_t config    = {};

    attrs[0].id               = cudaLaunchAttributeClusterDimension;
    attrs[0].val.clusterDim.x = (unsigned)shares;
    attrs[0].val.clusterDim.y = attrs[0].val.clusterDim.z = 1;
    attrs[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attrs[1].val.programmaticStreamSerializationAllowed = 1;
    config.gridDim  = dim3((unsigned)(tiles_of(g) * shares));
    config.blockDim = dim3(CT_BLOCK);
    config.stream   = ct_cuda_stream(d);
    config.attrs    = attrs;
    config.numAttrs = ct_cuda(d)->early && ct_cuda(d)->capturing ? 2 : 1;
    return ct_cuda_check(d, cudaLaunchKernelEx(&config, product<T>, *g, shares,
                                               alpha, a, b, beta, c),
                         "product");
}

extern "C" enum ct_status ct_cuda_product_by(const struct ct_device *d,
                                             const struct ct_cuda_gemm *g,
                                             int shares, float alpha,
                                             const void *a, const void *b,
                                             float beta, void *c)
{
    CT_BY_TYPE(g->a_type, T,
               return start(d, g, shares, alpha, (const T *)a, (const T *)b,
                            beta, c));
}

extern "C" enum ct_status ct_cuda_product(const struct ct_device *d,
                                          const struct ct_cuda_gemm *g,
                                          float alpha, const void *a,
                                          const void *b, float beta, void *c)
{
    CT_BY_TYPE(g->a_type, T,
               return CT_START(d, (unsigned)tiles_of(g), CT_BLOCK, 0,
                               product<T>, *g, 1, alpha, (const T *)a,
                               (const T *)b, beta, c));
}
