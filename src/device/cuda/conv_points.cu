/* conv_points.cu - a convolution whose kernel is one point, with the sums of
 * its output's channels, by Hopper's tensor cores.
 *
 *     y[p,o] = sum over c of x[p,c] w[o,c]      p: positions of all images
 *
 * points_cut.h says how it is cut.  One thread of a block asks the copy engine
 * for tiles of x and w, `stages` ahead, also while the other warps are at the
 * end of a tile: these multiply, round to bfloat16, put the tile into shared
 * memory, from where the copy engine takes it to y, and add up its columns.
 *
 * Sums are of differences from the first value that a half of a block sees in
 * the column, in float by threads; who reads them adds them up in double.  Each
 * has one slot, so they are the same each time. */
#include "device/cuda/conv_points.h"

#include "device/cuda/channel_kernels.h"
#include "device/cuda/points_cut.h"
#include "device/cuda/tensor_map.h"
#include "device/cuda/wgmma.h"

#if CUDART_VERSION >= 12050

static const struct ct_points_form forms[CT_POINTS_FORMS] = {
    { 4, 1 }, { 2, 2 }, { 2, 1 }, { 1, 2 }, { 1, 3 },
};

enum { THREADS = 128 * CT_POINTS_HALVES + 32, HALF = 64 /* rows */ };

#if CT_HAS_WGMMA
/* Barriers of a block: a stage is full, or empty again. */
struct stages {
    uint64_t full[CT_POINTS_STAGES], empty[CT_POINTS_STAGES];
};

/* Sums of a thread's two neighbouring columns. */
struct columns {
    float2 first, s, t;
    int    n; /* rows of this half, in all its warps */
};

/* What the warps of a half have added up, when they put it together. */
struct meeting {
    float4 of[CT_POINTS_HALVES][4][32];
};

/* One thread: tiles of x, then of w, stage after stage. */
template <int S>
__device__ static void bring_tiles(const struct ct_points &p, int tile,
                                   int end, const CUtensorMap *of_x,
                                   const CUtensorMap *of_w, struct stages *b,
                                   char *tiles)
{
    struct ct_stage stage = { 0, 1 };

    for (; tile < end; tile++) {
        const int row    = tile % p.down * CT_POINTS_ROWS;
        const int column = tile / p.down * (S * CT_POINTS_SLAB);

        for (int k = 0; k < p.steps; k++) {
            char *at       = tiles + stage.at * ct_points_stage(S);
            uint64_t *full = b->full + stage.at;

            ct_barrier_wait_long(b->empty + stage.at, stage.parity);
            ct_barrier_expect(full, ct_points_stage(S));
            ct_copy_part(at, of_x, full, k * CT_POINTS_SLAB, row);
            ct_copy_part(at + CT_POINTS_ROWS * CT_POINTS_SLAB * 2, of_w, full,
                         k * CT_POINTS_SLAB, column);
            stage.next(p.stages);
        }
    }
}

/* Four warps: the 64 rows of a half.  The products of a stage run while those
 * of the next are asked for. */
template <int S>
__device__ static void multiply(const struct ct_points &p, int half,
                                struct stages *b, const char *tiles,
                                struct ct_stage *stage, float (&sum)[32 * S])
{
    const bool speaks = threadIdx.x % 32 == 0;
    int before        = -1;

#pragma unroll
    for (int i = 0; i < 32 * S; i++)
        sum[i] = 0;
    for (int k = 0; k < p.steps; k++) {
        const uint32_t at =
            ct_shared_address(tiles + stage->at * ct_points_stage(S));
        const uint64_t x =
            ct_tile_of_steps(at + half * HALF * CT_POINTS_SLAB * 2);
        const uint64_t w =
            ct_tile_of_steps(at + CT_POINTS_ROWS * CT_POINTS_SLAB * 2);

        ct_barrier_wait_long(b->full + stage->at, stage->parity);
        ct_products_begin();
#pragma unroll
        for (int i = 0; i < CT_POINTS_SLAB / 16; i++)
            ct_inner_product<__nv_bfloat16, S>::add(
                sum, x + i * CT_TILE_STEPS, w + i * CT_TILE_STEPS);
        ct_products_commit();
        ct_products_wait<1>();
        if (before >= 0 && speaks)
            ct_barrier_arrive(b->empty + before);
        before = stage->at;
        stage->next(p.stages);
    }
    ct_products_wait<0>();
    if (speaks)
        ct_barrier_arrive(b->empty + before);
}

/* Where two neighbours of a row lie in a swizzled tile of 64 columns. */
__device__ static inline int place_of(int row, int column)
{
    return row * (CT_POINTS_SLAB * 2) + ((column / 8 ^ row % 8) * 16) +
           column % 8 * 2;
}

/* Rounded into the half's place: a thread has two neighbours of every eighth
 * row of its warp's 16. */
template <int S>
__device__ static void put(const float (&sum)[32 * S], char *out)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32;

#pragma unroll
    for (int j = 0; j < S; j++)
#pragma unroll
        for (int i = 0; i < 16; i++) {
            const int row    = warp * 16 + lane / 4 + i % 2 * 8;
            const int column = i / 2 * 8 + lane % 4 * 2;

            *(__nv_bfloat162 *)(out + j * HALF * CT_POINTS_SLAB * 2 +
                                place_of(row, column)) =
                __floats2bfloat162_rn(sum[j * 32 + 2 * i],
                                      sum[j * 32 + 2 * i + 1]);
        }
}

__device__ static inline void add_row(const char *out, int row, int column,
                                      struct columns *c)
{
    const float2 v = __bfloat1622float2(
        *(const __nv_bfloat162 *)(out + place_of(row, column)));
    const float x = v.x - c->first.x, y = v.y - c->first.y;

    c->s.x += x;
    c->s.y += y;
    c->t.x += x * x;
    c->t.y += y * y;
}

/* A warp has one slab of columns, and 16 S of the half's `rows` rows. */
template <int S>
__device__ static void add_rows(const char *out, int rows, struct columns *c)
{
    const int warp = threadIdx.x % 128 / 32, column = threadIdx.x % 32 * 2;
    const int from = warp / S * 16 * S;
    const char *slab = out + warp % S * HALF * CT_POINTS_SLAB * 2;

    if (rows <= 0)
        return;
    if (c->n == 0)
        c->first = __bfloat1622float2(
            *(const __nv_bfloat162 *)(slab + place_of(0, column)));
    c->n += rows;
    if (rows == HALF) {
#pragma unroll 8
        for (int r = 0; r < 16 * S; r++)
            add_row(slab, from + r, column, c);
    } else {
        for (int r = from; r < min(from + 16 * S, rows); r++)
            add_row(slab, r, column, c);
    }
}

/* The sums of a strip into this half's slot, and nothing into slots that are
 * nobody's. */
template <int S>
__device__ static void leave_sums(const struct ct_points &p, int strip,
                                  int half, const struct columns &c,
                                  struct meeting *m, float4 *part)
{
    const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
    const int block = (int)blockIdx.x - ct_points_from(&p, strip);
    const int n     = ct_points_blocks(&p, strip);
    const int q = (strip * S + warp % S) * CT_POINTS_SLAB + lane * 2;
    float4 v    = make_float4(c.s.x, c.s.y, c.t.x, c.t.y);

    m->of[half][warp][lane] = v;
    ct_threads_meet(1 + half, 128);
    if (warp < S && q < p.outputs) {
        float4 *to = part + (int64_t)q * p.slots;

        for (int w = warp + S; w < 4; w += S) {
            const float4 a = m->of[half][w][lane];

            v.x += a.x, v.y += a.y, v.z += a.z, v.w += a.w;
        }
        to[block * CT_POINTS_HALVES + half] =
            make_float4((float)c.n, c.first.x, v.x, v.z);
        to[p.slots + block * CT_POINTS_HALVES + half] =
            make_float4((float)c.n, c.first.y, v.y, v.w);
        for (int i = n * CT_POINTS_HALVES + half;
             block == n - 1 && i < p.slots; i += CT_POINTS_HALVES)
            to[i] = to[p.slots + i] = make_float4(0, 0, 0, 0);
    }
    ct_threads_meet(1 + half, 128);
}

/* A half's tiles, one after the other. */
template <int S>
__device__ static void make_tiles(const struct ct_points &p, int tile, int end,
                                  int half, const CUtensorMap *of_y,
                                  struct stages *b, const char *tiles,
                                  char *out, struct meeting *m, float4 *part)
{
    const bool speaks     = threadIdx.x % 128 == 0;
    struct ct_stage stage = { 0, 0 };
    struct columns c      = {};
    float sum[32 * S];

    for (; tile < end; tile++) {
        const int strip = tile / p.down;
        const int row   = tile % p.down * CT_POINTS_ROWS + half * HALF;

        multiply<S>(p, half, b, tiles, &stage, sum);
        if (speaks)
            ct_stores_read();
        ct_threads_meet(1 + half, 128);
        put<S>(sum, out);
        ct_writes_shown();
        ct_threads_meet(1 + half, 128);
        if (speaks) {
            for (int j = 0; j < S; j++)
                ct_store_part(of_y, out + j * HALF * CT_POINTS_SLAB * 2,
                              (strip * S + j) * CT_POINTS_SLAB, row);
            ct_stores_commit();
        }
        add_rows<S>(out, min(HALF, p.rows - row), &c);
        if (tile + 1 == end || (tile + 1) / p.down != strip) {
            leave_sums<S>(p, strip, half, c, m, part);
            c = {};
        }
    }
    if (speaks)
        ct_stores_done();
}
#endif

/* The last warp asks for tiles; the others have half of the rows each. */
template <int S, int RESIDENT>
__global__ static void __launch_bounds__(THREADS, RESIDENT)
    points(const __grid_constant__ CUtensorMap of_x,
           const __grid_constant__ CUtensorMap of_w,
           const __grid_constant__ CUtensorMap of_y, struct ct_points p,
           float4 *part)
{
    CT_TURN();
#if CT_HAS_WGMMA
    extern __shared__ char shared[];
    __shared__ struct stages b;
    __shared__ struct meeting m;
    char *out   = (char *)(((uintptr_t)shared + 1023) & ~(uintptr_t)1023);
    char *tiles = out + ct_points_out(S);
    const int half  = (int)threadIdx.x / 128;
    const int first = ct_points_first(&p, (int)blockIdx.x);
    const int end   = ct_points_first(&p, (int)blockIdx.x + 1);

    if (threadIdx.x == 0) {
        for (int i = 0; i < p.stages; i++) {
            ct_barrier_init(b.full + i, 1);
            ct_barrier_init(b.empty + i, 4 * CT_POINTS_HALVES);
        }
        ct_barriers_ready();
    }
    __syncthreads();
    if (half < CT_POINTS_HALVES)
        make_tiles<S>(p, first, end, half, &of_y, &b, tiles,
                      out + half * ct_points_out(S) / CT_POINTS_HALVES, &m,
                      part);
    else if (threadIdx.x % 32 == 0)
        bring_tiles<S>(p, first, end, &of_x, &of_w, &b, tiles);
#endif
}

static bool cut(const struct ct_conv *c, int form, struct ct_points *out)
{
    const struct ct_conv_desc *d = &c->desc;

    return ct_points_cut(d->batch * c->out_spatial, d->in_channels,
                         d->out_channels, &forms[form],
                         ct_cuda(c->dev)->n_multiprocessors, out);
}

extern "C" bool ct_cuda_points_fit(const struct ct_conv *c)
{
    const struct ct_conv_desc *d = &c->desc;

    return d->n_spatial == 2 && d->group == 1 && c->taps == 1 &&
           d->stride[0] == 1 && d->stride[1] == 1 && d->pad[0] == 0 &&
           d->pad[1] == 0 && d->src_layout == CT_NHWC &&
           d->dst_layout == CT_NHWC && d->src_type == CT_BF16 &&
           d->dst_type == CT_BF16 && ct_cuda(c->dev)->major == 9 &&
           ct_find_encode();
}

extern "C" bool ct_cuda_points_takes(const struct ct_conv *c, int form,
                                     int64_t *slots)
{
    struct ct_points p;

    if (form < 0 || form >= CT_POINTS_FORMS || c->desc.has_bias ||
        c->desc.relu || !ct_cuda_points_fit(c) || !cut(c, form, &p))
        return false;
    *slots = p.slots;
    return true;
}

template <int S, int RESIDENT>
static enum ct_status start(const struct ct_conv *c, const struct ct_points &p,
                            const void *x, const void *w, void *y,
                            float4 *part)
{
    const int shared = ct_points_out(S) + p.stages * ct_points_stage(S) + 1024;
    CUtensorMap of_x, of_w, of_y;

    CT_TRY(ct_describe(c->dev, p.rows, p.channels, CT_POINTS_ROWS, x, &of_x));
    CT_TRY(ct_describe(c->dev, p.outputs, p.channels, S * CT_POINTS_SLAB, w,
                    &of_w));
    CT_TRY(ct_describe(c->dev, p.rows, p.outputs, HALF, y, &of_y));
    CT_TRY(ct_cuda_check(
        c->dev, cudaFuncSetAttribute(
                    (const void *)points<S, RESIDENT>,
                    cudaFuncAttributeMaxDynamicSharedMemorySize, shared),
        "shared memory"));
    return CT_START(c->dev, (unsigned)p.blocks, THREADS, (size_t)shared,
                    (points<S, RESIDENT>), of_x, of_w, of_y, p, part);
}

extern "C" enum ct_status ct_cuda_points_forward(const struct ct_conv *c,
                                                 int form, const void *x,
                                                 const void *w, void *y,
                                                 float *part)
{
    float4 *to = (float4 *)part;
    struct ct_points p;

    if (!cut(c, form, &p))
        return ct_fail(CT_EINTERNAL, "a form that does not take this "
                       "convolution");
    switch (form) {
    case 0:
        return start<4, 1>(c, p, x, w, y, to);
    case 1:
        return start<2, 2>(c, p, x, w, y, to);
    case 2:
        return start<2, 1>(c, p, x, w, y, to);
    case 3:
        return start<1, 2>(c, p, x, w, y, to);
    default:
        return start<1, 3>(c, p, x, w, y, to);
    }
}

#else /* the run-time library cannot ask the driver for its functions */

extern "C" bool ct_cuda_points_takes(const struct ct_conv *, int, int64_t *)
{
    return false;
}

extern "C" enum ct_status ct_cuda_points_forward(const struct ct_conv *, int,
                                                 const void *, const void *,
                                                 void *, float *)
{
    return CT_ENOTSUP;
}

#endif

/* As BatchNorm's: differences from the channel's first value. */
struct plain_moments {
    const __nv_bfloat16 *y;
    double2             *out;

    __device__ float load(int64_t q) const { return ct_load(y + q); }
    __device__ void add(float first, float a, float, float *s, float *t) const
    {
        const float d = a - first;

        *s += d;
        *t += d * d;
    }
    __device__ void finish(int64_t q, double s, double t) const
    {
        out[q] = make_double2(s, t);
    }
};

extern "C" enum ct_status ct_cuda_points_pass(const struct ct_conv *c,
                                              const void *y, float *part)
{
    const __nv_bfloat16 *from = (const __nv_bfloat16 *)y;
    const struct ct_view v    = { c->desc.batch * c->out_spatial,
                                  c->desc.out_channels, 1 };

    return ct_channel_sum(c->dev, v,
                          plain_moments{ from, (double2 *)(void *)part }, from,
                          (const __nv_bfloat16 *)NULL);
}
