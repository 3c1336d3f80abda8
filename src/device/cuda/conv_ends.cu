/* conv_ends.cu - the gradient of a convolution's data at the end of a residual
 * block, by Hopper's tensor cores; kernels of one point.
 *
 *     e[p,c] = other[p,c] + sum over o of dy[p,o] w[o,c]  where the block's
 *              output was above 0, else 0                 p: positions
 *     s[c]   = sum over p of e[p,c]
 *     t[c]   = sum over p of e[p,c] (x[p,c] - mean[c])
 *
 * Else the convolution writes its sum, and a pass over memory reads it again
 * with `other` and x.
 *
 * ends_cut.h says how it is cut.  The last warp of a block asks the copy engine
 * for the strip's weights once, and then for tiles of dy, other and x, ahead of
 * the other warps.  These multiply, put e where `other` was, from where the
 * copy engine takes it to memory, and add up its columns in float; who reads
 * the sums adds those of all blocks in double.  Each has one slot, so they are
 * the same each time. */
#include "device/cuda/conv_ends.h"

#include "device/cuda/channel_kernels.h"
#include "device/cuda/conv_points.h"
#include "device/cuda/ends_cut.h"
#include "device/cuda/gathered.h"
#include "device/cuda/tensor_map.h"
#include "device/cuda/wgmma.h"

#if CUDART_VERSION >= 12050

static const struct ct_points_form forms[CT_ENDS_FORMS] = {
    { 2, 1 }, { 1, 2 }, { 1, 1 },
};

enum {
    THREADS = 128 * CT_POINTS_HALVES + 32,
    HALF    = CT_POINTS_ROWS / CT_POINTS_HALVES,
    SQUARE  = CT_POINTS_SLAB * CT_POINTS_SLAB * 2, /* bytes */
    SLAB    = CT_POINTS_ROWS * CT_POINTS_SLAB * 2
};

/* What is read besides matrices. */
struct vectors {
    const uint8_t *above;
    const float   *mean;
};

struct maps {
    CUtensorMap dy, w, other, x, e;
};

#if CT_HAS_WGMMA
/* Barriers of a block: weights are there; a stage is full, or empty again; both
 * others have come, or are gone. */
struct barriers {
    uint64_t weights;
    uint64_t full[CT_POINTS_STAGES], empty[CT_POINTS_STAGES];
    uint64_t came[CT_ENDS_BOTH], gone[CT_ENDS_BOTH];
};

/* Shared memory of a block: weights, others, stages. */
struct room {
    char *weights, *others, *stages;
};

/* Sums of a thread's pairs of columns: 8 in a slab. */
template <int S>
struct columns {
    float2 s[8 * S], t[8 * S];
};

template <int S>
__device__ static void bring_others(const struct maps &m, int row, int strip,
                                    int ahead, const struct room &r,
                                    struct barriers *b, struct ct_stage *at)
{
    char *to       = r.others + at->at * ct_ends_others(S);
    uint64_t *came = b->came + at->at;

    ct_barrier_wait_long(b->gone + at->at, at->parity);
    ct_barrier_expect(came, ct_ends_others(S));
    for (int j = 0; j < S; j++) {
        const int column = (strip * S + j) * CT_POINTS_SLAB;

        ct_copy_part(to + j * SLAB, &m.other, came, column, row);
        ct_copy_part(to + (S + j) * SLAB, &m.x, came, column, row);
    }
    at->next(ahead);
}

/* One thread: the weights, then tile after tile.  Where both others have one
 * place only, which is free late, dy comes first. */
template <int S>
__device__ static void bring_tiles(const struct maps &m,
                                   const struct ct_ends &p, int tile, int end,
                                   int strip, const struct room &r,
                                   struct barriers *b)
{
    struct ct_stage stage = { 0, 1 }, others = { 0, 1 };

    ct_barrier_expect(&b->weights, p.steps * S * SQUARE);
    for (int i = 0; i < p.steps * S; i++)
        ct_copy_part(r.weights + i * SQUARE, &m.w, &b->weights,
                     (strip * S + i % S) * CT_POINTS_SLAB,
                     i / S * CT_POINTS_SLAB);
    for (; tile < end; tile++) {
        const int row = tile * CT_POINTS_ROWS;

        if (p.ahead > 1)
            bring_others<S>(m, row, strip, p.ahead, r, b, &others);
        for (int k = 0; k < p.steps; k++) {
            uint64_t *full = b->full + stage.at;

            ct_barrier_wait_long(b->empty + stage.at, stage.parity);
            ct_barrier_expect(full, ct_ends_stage());
            ct_copy_part(r.stages + stage.at * ct_ends_stage(), &m.dy, full,
                         k * CT_POINTS_SLAB, row);
            stage.next(p.stages);
        }
        if (p.ahead == 1)
            bring_others<S>(m, row, strip, p.ahead, r, b, &others);
    }
}

/* Four warps: the 64 rows of a half.  The products of a stage run while those
 * of the next are asked for. */
template <int S>
__device__ static void multiply(const struct ct_ends &p, int half,
                                const struct room &r, struct barriers *b,
                                struct ct_stage *stage, float (&sum)[32 * S])
{
    const bool speaks      = threadIdx.x % 32 == 0;
    const uint32_t weights = ct_shared_address(r.weights);
    int before             = -1;

#pragma unroll
    for (int i = 0; i < 32 * S; i++)
        sum[i] = 0;
    for (int k = 0; k < p.steps; k++) {
        const uint64_t dy = ct_tile_of_steps(
            ct_shared_address(r.stages + stage->at * ct_ends_stage()) +
            half * HALF * CT_POINTS_SLAB * 2);
        const uint64_t w = ct_tile_of_rows(weights + k * S * SQUARE, SQUARE);

        ct_barrier_wait_long(b->full + stage->at, stage->parity);
        ct_products_begin();
#pragma unroll
        for (int i = 0; i < CT_POINTS_SLAB / 16; i++)
            ct_plain_product<__nv_bfloat16, S>::add(
                sum, dy + i * CT_TILE_STEPS, w + i * CT_TILE_STEP);
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

/* The bits of a row's 64 columns, from those of a thread's first neighbours on
 * (ct_ends_column). */
template <int S>
__device__ static void load_bits(const struct ct_ends &p, int row, int strip,
                                 const uint8_t *above, uint64_t (&bits)[2 * S])
{
    const int thread = (int)threadIdx.x;

#pragma unroll
    for (int j = 0; j < S; j++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int mine   = row + ct_ends_row(thread, h);
            const int64_t at = (int64_t)mine * p.outputs +
                               (strip * S + j) * CT_POINTS_SLAB;

            bits[2 * j + h] = mine < p.rows
                                  ? *(const uint64_t *)(above + at / 8) >>
                                        ct_ends_column(thread, 0)
                                  : 0;
        }
}

__device__ static inline float2 pair_at(const char *p)
{
    return __bfloat1622float2(*(const __nv_bfloat162 *)p);
}

/* e of a half's tile, in the place of `other`. */
template <int S>
__device__ static void end_rows(const float (&sum)[32 * S],
                                const uint64_t (&bits)[2 * S], char *other,
                                const float2 *mean, struct columns<S> *c)
{
    const int thread = (int)threadIdx.x;
    const char *x    = other + S * SLAB;

#pragma unroll
    for (int i = 0; i < 8 * S; i++) {
        const int column = ct_ends_column(thread, i);
        const float2 mu  = mean[column / 2];
        const int j = i / 8, q = i % 8;

#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int at   = ct_ends_place(ct_ends_row(thread, h), column);
            const float2 o = pair_at(other + at), v = pair_at(x + at);
            const unsigned two = (unsigned)(bits[2 * j + h] >> q * 8);
            const float *g     = sum + j * 32 + 4 * q + 2 * h;
            const __nv_bfloat162 e = __floats2bfloat162_rn(
                two & 1 ? g[0] + o.x : 0, two & 2 ? g[1] + o.y : 0);
            const float2 f = __bfloat1622float2(e);

            *(__nv_bfloat162 *)(other + at) = e;
            c->s[i].x += f.x;
            c->s[i].y += f.y;
            c->t[i].x += f.x * (v.x - mu.x);
            c->t[i].y += f.y * (v.y - mu.y);
        }
    }
}

/* A half's tiles, one after the other. */
template <int S>
__device__ static void make_tiles(const struct maps &m,
                                  const struct ct_ends &p, int tile, int end,
                                  int strip, const uint8_t *above,
                                  const float2 *mean, const struct room &r,
                                  struct barriers *b, struct columns<S> *c)
{
    const int half        = (int)threadIdx.x / 128;
    const bool speaks     = threadIdx.x % 128 == 0;
    struct ct_stage stage = { 0, 0 }, others = { 0, 0 };
    float sum[32 * S];
    uint64_t bits[2 * S];

    ct_barrier_wait_long(&b->weights, 0);
    for (; tile < end; tile++) {
        const int row = tile * CT_POINTS_ROWS + half * HALF;
        char *other   = r.others + others.at * ct_ends_others(S) +
                      half * HALF * CT_POINTS_SLAB * 2;

        load_bits<S>(p, row, strip, above, bits);
        multiply<S>(p, half, r, b, &stage, sum);
        ct_barrier_wait_long(b->came + others.at, others.parity);
        end_rows<S>(sum, bits, other, mean, c);
        ct_writes_shown();
        ct_threads_meet(1 + half, 128);
        if (speaks) {
            for (int j = 0; j < S; j++)
                ct_store_part(&m.e, other + j * SLAB,
                              (strip * S + j) * CT_POINTS_SLAB, row);
            ct_stores_commit();
            ct_stores_read();
            ct_barrier_arrive(b->gone + others.at);
        }
        others.next(p.ahead);
    }
    if (speaks)
        ct_stores_done();
}

__device__ static inline float of_rows(float v)
{
    for (int o = 4; o < 32; o *= 2)
        v += __shfl_xor_sync(~0u, v, o);
    return v;
}

/* All warps put together what they have added up, in `tile`. */
template <int S>
__device__ static void leave_sums(const struct ct_ends &p, int share,
                                  int strip, const struct columns<S> &c,
                                  float2 *tile, float2 *part)
{
    enum { WARPS = 4 * CT_POINTS_HALVES, WIDE = S * CT_POINTS_SLAB };
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int q    = threadIdx.x;

    ct_threads_meet(1 + CT_POINTS_HALVES, 128 * CT_POINTS_HALVES);
#pragma unroll
    for (int i = 0; i < 8 * S; i++) {
        const float2 s = make_float2(of_rows(c.s[i].x), of_rows(c.s[i].y));
        const float2 t = make_float2(of_rows(c.t[i].x), of_rows(c.t[i].y));
        float2 *to     = tile + warp * WIDE + ct_ends_column(lane, i);

        if (lane < 4) {
            to[0] = make_float2(s.x, t.x);
            to[1] = make_float2(s.y, t.y);
        }
    }
    ct_threads_meet(1 + CT_POINTS_HALVES, 128 * CT_POINTS_HALVES);
    if (q >= WIDE)
        return;
    float2 all = tile[q];
    for (int w = 1; w < WARPS; w++) {
        const float2 v = tile[w * WIDE + q];

        all.x += v.x;
        all.y += v.y;
    }
    part[((int64_t)strip * WIDE + q) * p.shares + share] = all;
}
#endif

/* The last warp asks for tiles; the others have half of the rows each. */
template <int S, int RESIDENT>
__global__ static void __launch_bounds__(THREADS, RESIDENT)
    ends(const __grid_constant__ struct maps m, struct ct_ends p,
         struct vectors v, float2 *part)
{
    CT_TURN();
#if CT_HAS_WGMMA
    extern __shared__ char shared[];
    __shared__ struct barriers b;
    __shared__ float2 mean[S * CT_POINTS_SLAB / 2];
    const int strip = (int)blockIdx.x % p.across;
    const int share = (int)blockIdx.x / p.across;
    const int first = ct_ends_first(&p, share);
    const int end   = ct_ends_first(&p, share + 1);
    struct room r;

    r.weights = (char *)(((uintptr_t)shared + 1023) & ~(uintptr_t)1023);
    r.others  = r.weights + ct_ends_weights(&p, S);
    r.stages  = r.others + p.ahead * ct_ends_others(S);
    for (int i = threadIdx.x; i < S * CT_POINTS_SLAB / 2; i += THREADS)
        mean[i] = ((const float2 *)v.mean)[strip * S * CT_POINTS_SLAB / 2 + i];
    if (threadIdx.x == 0) {
        ct_barrier_init(&b.weights, 1);
        for (int i = 0; i < p.stages; i++) {
            ct_barrier_init(b.full + i, 1);
            ct_barrier_init(b.empty + i, 4 * CT_POINTS_HALVES);
        }
        for (int i = 0; i < p.ahead; i++) {
            ct_barrier_init(b.came + i, 1);
            ct_barrier_init(b.gone + i, CT_POINTS_HALVES);
        }
        ct_barriers_ready();
    }
    __syncthreads();
    if (threadIdx.x < 128 * CT_POINTS_HALVES) {
        struct columns<S> c = {};

        make_tiles<S>(m, p, first, end, strip, v.above, mean, r, &b, &c);
        leave_sums<S>(p, share, strip, c, (float2 *)r.stages, part);
    } else if (threadIdx.x % 32 == 0) {
        bring_tiles<S>(m, p, first, end, strip, r, &b);
    }
#endif
}

static bool cut(const struct ct_conv *c, int form, struct ct_ends *out)
{
    const struct ct_conv_desc *d = &c->desc;

    return ct_ends_cut(d->batch * c->out_spatial, d->out_channels,
                       d->in_channels, &forms[form],
                       ct_cuda(c->dev)->n_multiprocessors, out);
}

extern "C" bool ct_cuda_ends_takes(const struct ct_conv *c, int form,
                                   int64_t *slots)
{
    struct ct_ends p;

    if (form < 0 || form >= CT_ENDS_FORMS || !ct_cuda_points_fit(c) ||
        !cut(c, form, &p))
        return false;
    *slots = p.shares;
    return true;
}

template <int S, int RESIDENT>
static enum ct_status start(const struct ct_conv *c, const struct ct_ends &p,
                            const struct maps &m, const struct vectors &v,
                            float2 *part)
{
    const int shared = ct_ends_weights(&p, S) + p.ahead * ct_ends_others(S) +
                       p.stages * ct_ends_stage() + 1024;

    CT_TRY(ct_cuda_check(
        c->dev, cudaFuncSetAttribute(
                    (const void *)ends<S, RESIDENT>,
                    cudaFuncAttributeMaxDynamicSharedMemorySize, shared),
        "shared memory"));
    return CT_START(c->dev, (unsigned)(p.shares * p.across), THREADS,
                    (size_t)shared, (ends<S, RESIDENT>), m, p, v, part);
}

extern "C" enum ct_status ct_cuda_ends_data(const struct ct_conv *c, int form,
                                            const void *dy, const void *w,
                                            const struct ct_conv_end *end,
                                            float *part)
{
    const struct vectors v = { (const uint8_t *)end->above, end->mean };
    float2 *to             = (float2 *)part;
    struct ct_ends p;
    struct maps m;

    if (!cut(c, form, &p))
        return ct_fail(CT_EINTERNAL, "a form that does not take this "
                       "convolution");
    CT_TRY(ct_describe(c->dev, p.rows, p.channels, CT_POINTS_ROWS, dy, &m.dy));
    CT_TRY(ct_describe(c->dev, p.channels, p.outputs, CT_POINTS_SLAB, w,
                       &m.w));
    CT_TRY(ct_describe(c->dev, p.rows, p.outputs, CT_POINTS_ROWS, end->other,
                       &m.other));
    CT_TRY(ct_describe(c->dev, p.rows, p.outputs, CT_POINTS_ROWS, end->x,
                       &m.x));
    CT_TRY(ct_describe(c->dev, p.rows, p.outputs, HALF, end->e, &m.e));
    switch (form) {
    case 0:
        return start<2, 1>(c, p, m, v, to);
    case 1:
        return start<1, 2>(c, p, m, v, to);
    default:
        return start<1, 1>(c, p, m, v, to);
    }
}

#else /* the run-time library cannot ask the driver for its functions */

extern "C" bool ct_cuda_ends_takes(const struct ct_conv *, int, int64_t *)
{
    return false;
}

extern "C" enum ct_status ct_cuda_ends_data(const struct ct_conv *, int,
                                            const void *, const void *,
                                            const struct ct_conv_end *,
                                            float *)
{
    return CT_ENOTSUP;
}

#endif

struct plain_sums {
    const float *mean;
    double2     *out;

    __device__ float load(int64_t q) const { return mean[q]; }
    __device__ void add(float mu, float e, float x, float *s, float *t) const
    {
        *s += e;
        *t += e * (x - mu);
    }
    __device__ void finish(int64_t q, double s, double t) const
    {
        out[q] = make_double2(s, t);
    }
};

extern "C" enum ct_status ct_cuda_ends_pass(const struct ct_conv *c,
                                            const void *dx,
                                            const struct ct_conv_end *end,
                                            float *part)
{
    typedef __nv_bfloat16 T;
    const struct ct_view v = { c->desc.batch * c->in_spatial,
                               c->desc.in_channels, 1 };

    return ct_channel_sum_from(
        c->dev, v, plain_sums{ end->mean, (double2 *)(void *)part },
        gathered<T, by_bits<T>>{ (const T *)dx, (const T *)end->other,
                                 { (const uint8_t *)end->above },
                                 (T *)end->e },
        (const T *)end->x);
}
