/* conv_slabs.cu - the gradient of a convolution's weights by Hopper's tensor
 * cores, from float16 images, with sums in float32.
 *
 *     dw[o,c,t] += sum over n, p of dy[n,p,o] x[n, s p + d t - pad, c]
 *
 * slab_cut.h says how it is cut.  One thread of a block asks the copy engine
 * for boxes, `stages` ahead; groups of four warps multiply them.  Each share of
 * the positions leaves its sums in `part`, as share, output, tap, channel; a
 * second kernel adds the shares up, always in the same order, and puts the taps
 * where dw has them. */
#include "device/cuda/conv_slabs.h"

#include "device/cuda/conv_scale.h"
#include "device/cuda/elementwise.h"
#include "device/cuda/slab_cut.h"
#include "device/cuda/tensor_map.h"
#include "device/cuda/wgmma.h"

#if CUDART_VERSION >= 12050

/* Every slab comes through the cache between memory and multiprocessors, which
 * is what limits most forms: r rows and c columns take r + c slabs for r c
 * products. */
static const struct ct_slab_form forms[CT_SLABS_FORMS] = {
    { 2, 2, 3, 112, 1 }, { 2, 2, 3, 112, 3 }, { 1, 2, 2, 112, 2 },
    { 2, 2, 2, 112, 1 }, { 2, 2, 2, 112, 3 }, { 2, 2, 1, 64, 1 },
    { 3, 3, 3, 64, 1 },  { 4, 4, 2, 64, 1 },  { 4, 4, 2, 64, 3 },
    { 1, 3, 3, 48, 1 },
};

#if CT_HAS_WGMMA
/* Barriers of a block: a stage is full, or empty again. */
struct stages {
    uint64_t full[CT_SLAB_STAGES], empty[CT_SLAB_STAGES];
};

/* What one block has to do. */
struct part_of {
    int row, column;  /* the first slabs */
    int box, end_box;
};

template <int ROWS, int COLUMNS>
__device__ static struct part_of part_of_block(const struct ct_slabs &s)
{
    struct part_of p;

    p.row     = (int)blockIdx.x % s.across_rows * ROWS;
    p.column  = (int)blockIdx.x / s.across_rows * COLUMNS;
    p.box     = (int)((int64_t)s.boxes * blockIdx.y / s.shares);
    p.end_box = (int)((int64_t)s.boxes * (blockIdx.y + 1) / s.shares);
    return p;
}

/* Neighbouring columns are taps of one slab of channels: their boxes of x
 * overlap, and come from the cache. */
__device__ static inline int tap_of(const struct ct_slabs &s, int column)
{
    return column % s.taps;
}

__device__ static inline int channel_of(const struct ct_slabs &s, int column)
{
    return column / s.taps * CT_SLAB;
}

/* One thread: boxes of dy, then of x, stage after stage. */
template <int ROWS, int COLUMNS>
__device__ static void bring_boxes(const struct ct_slabs &s,
                                   const struct part_of &p,
                                   const CUtensorMap *of_dy,
                                   const CUtensorMap *of_x, struct stages *b,
                                   char *tiles)
{
    const int slab    = s.positions * CT_SLAB_ROW;
    const int rows    = min(ROWS, s.n_rows - p.row);
    const int columns = min(COLUMNS, s.n_columns - p.column);
    struct ct_stage stage = { 0, 1 };

    for (int box = p.box; box < p.end_box; box++) {
        const int x = box % s.n_box[0] * s.box[0];
        const int y = box / s.n_box[0] % s.n_box[1] * s.box[1];
        const int n = box / s.n_box[0] / s.n_box[1] * s.box[2];
        char *at    = tiles + stage.at * slab * (ROWS + COLUMNS);
        uint64_t *full = b->full + stage.at;

        ct_barrier_wait(b->empty + stage.at, stage.parity);
        ct_barrier_expect(full, slab * (rows + columns));
        for (int i = 0; i < rows; i++)
            ct_copy_box(at + i * slab, of_dy, full, (p.row + i) * CT_SLAB, x,
                        y, n);
        at += ROWS * slab;
        for (int i = 0; i < columns; i++) {
            const int tap = tap_of(s, p.column + i);

            ct_copy_box(at + i * slab, of_x, full,
                        channel_of(s, p.column + i),
                        x * s.stride[1] + tap % s.k_w * s.dilation[1] -
                            s.pad[1],
                        y * s.stride[0] + tap / s.k_w * s.dilation[0] -
                            s.pad[0],
                        n);
        }
        stage.next(s.stages);
    }
}

/* Four warps: 64 rows and SLABS of columns.  The products of a stage run while
 * those of the next are asked for. */
template <int ROWS, int COLUMNS, int SLABS>
__device__ static void multiply(const struct ct_slabs &s,
                                const struct part_of &p, int row, int column,
                                struct stages *b, const char *tiles,
                                float (&sum)[32 * SLABS])
{
    const int slab        = s.positions * CT_SLAB_ROW;
    struct ct_stage stage = { 0, 0 };
    int before            = -1;

    for (int box = p.box; box < p.end_box; box++) {
        const uint32_t at = ct_shared_address(
            tiles + stage.at * slab * (ROWS + COLUMNS));
        const uint64_t dy = ct_tile_of_rows(at + row * slab, slab);
        const uint64_t x  = ct_tile_of_rows(at + (ROWS + column) * slab, slab);

        ct_barrier_wait(b->full + stage.at, stage.parity);
        ct_products_begin();
        for (int k = 0; k < s.positions / 16; k++)
            ct_product<__half, SLABS>::add(sum, dy + k * CT_TILE_STEP,
                                           x + k * CT_TILE_STEP);
        ct_products_commit();
        ct_products_wait<1>();
        if (before >= 0 && threadIdx.x % 128 == 0)
            ct_barrier_arrive(b->empty + before);
        before = stage.at;
        stage.next(s.stages);
    }
    ct_products_wait<0>();
}

/* A thread has two neighbours of every eighth row of its warp's 16. */
template <int SLABS>
__device__ static void leave_sums(const struct ct_slabs &s, int row,
                                  int column, const float (&sum)[32 * SLABS],
                                  float *part)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32;
    const int64_t line = (int64_t)s.taps * s.channels;

    part += blockIdx.y * s.outputs * line;
#pragma unroll
    for (int j = 0; j < SLABS; j++)
#pragma unroll
        for (int i = 0; i < 16; i++) {
            const int o = row * CT_SLAB + warp * 16 + lane / 4 + i % 2 * 8;
            const int c = channel_of(s, column + j) + i / 2 * 8 + lane % 4 * 2;

            if (column + j < s.n_columns && o < s.outputs && c < s.channels)
                *(float2 *)(part + o * line +
                            tap_of(s, column + j) * s.channels + c) =
                    make_float2(sum[j * 32 + 2 * i], sum[j * 32 + 2 * i + 1]);
        }
}
#endif

/* The first group of four warps asks for boxes; each of the others has a slab
 * of rows and SLABS of columns. */
template <int ROWS, int GROUPS, int SLABS>
__global__ static void __launch_bounds__(128 * (GROUPS + 1), 1)
    sums_of_boxes(const __grid_constant__ CUtensorMap of_dy,
                  const __grid_constant__ CUtensorMap of_x, struct ct_slabs s,
                  float *part)
{
    CT_TURN();
#if CT_HAS_WGMMA
    constexpr int COLUMNS = GROUPS / ROWS * SLABS;
    /* What the group that asks for boxes leaves to the others. */
    constexpr int REGISTERS = GROUPS == 4 ? 104 : GROUPS == 3 ? 152 : 232;
    extern __shared__ char shared[];
    __shared__ struct stages b;
    char *tiles = (char *)(((uintptr_t)shared + 1023) & ~(uintptr_t)1023);
    const struct part_of p = part_of_block<ROWS, COLUMNS>(s);
    const int group        = (int)threadIdx.x / 128 - 1;

    if (threadIdx.x == 0) {
        for (int i = 0; i < s.stages; i++) {
            ct_barrier_init(b.full + i, 1);
            ct_barrier_init(b.empty + i, GROUPS);
        }
        ct_barriers_ready();
    }
    __syncthreads();
    if (group < 0) {
        ct_registers_less<40>();
        if (threadIdx.x == 0)
            bring_boxes<ROWS, COLUMNS>(s, p, &of_dy, &of_x, &b, tiles);
    } else {
        const int row = group % ROWS, column = group / ROWS * SLABS;
        float sum[32 * SLABS] = {};

        ct_registers_more<REGISTERS>();
        multiply<ROWS, COLUMNS, SLABS>(s, p, row, column, &b, tiles, sum);
        leave_sums<SLABS>(s, p.row + row, p.column + column, sum, part);
    }
#endif
}

/* A block adds up `run` channels of an output, all taps of them: `lanes`
 * threads have four channels of a tap each, and what is left of the block
 * shares the shares. */
struct joint {
    int outputs, channels, taps, shares, run, lanes;
};

__global__ static void __launch_bounds__(CT_BLOCK)
    join_shares(struct joint m, const uint32_t *largest, const float *part,
                float *dw)
{
    CT_TURN();
    extern __shared__ float tile[]; /* channel, tap: as dw has them */
    __shared__ float4 apart[CT_BLOCK];
    const int lane = threadIdx.x % m.lanes, mine = threadIdx.x / m.lanes;
    const int groups = CT_BLOCK / m.lanes, runs = (m.channels - 1) / m.run + 1;
    const int o = blockIdx.x / runs, first = blockIdx.x % runs * m.run;
    const int n = min(m.run, m.channels - first), items = n / 4 * m.taps;
    const int64_t all = (int64_t)m.outputs * m.taps * m.channels;
    const float scale =
        largest ? ct_unscale_of(largest[m.channels + o]) : 1.0f;

    for (int base = 0; base < items; base += m.lanes) {
        const int i = base + lane, tap = i / (n / 4), c = i % (n / 4) * 4;
        const float *from =
            part + ((int64_t)o * m.taps + tap) * m.channels + first + c;
        float4 v = make_float4(0, 0, 0, 0);

#pragma unroll 8
        for (int s = mine; i < items && s < m.shares; s += groups) {
            const float4 a = *(const float4 *)(from + s * all);

            v.x += a.x, v.y += a.y, v.z += a.z, v.w += a.w;
        }
        apart[threadIdx.x] = v;
        __syncthreads();
        if (mine == 0 && i < items) {
            for (int g = 1; g < groups; g++) {
                const float4 a = apart[g * m.lanes + lane];

                v.x += a.x, v.y += a.y, v.z += a.z, v.w += a.w;
            }
            tile[c * m.taps + tap]       = v.x;
            tile[(c + 1) * m.taps + tap] = v.y;
            tile[(c + 2) * m.taps + tap] = v.z;
            tile[(c + 3) * m.taps + tap] = v.w;
        }
        __syncthreads();
    }
    dw += ((int64_t)o * m.channels + first) * m.taps;
#pragma unroll 4
    for (int i = threadIdx.x; i < n * m.taps; i += CT_BLOCK)
        dw[i] += largest ? tile[i] * scale *
                               ct_unscale_of(largest[first + i / m.taps])
                         : tile[i];
}

/* An array of images and the boxes that are taken out of it, `step` positions
 * apart. */
static enum ct_status describe(const struct ct_device *d, int64_t batch,
                               const int64_t *in, int64_t channels,
                               const struct ct_slabs *s, const int *step,
                               const void *p, CUtensorMap *out)
{
    const ct_encode_fn encode = ct_find_encode();
    const cuuint64_t bytes = (cuuint64_t)channels * 2;
    const cuuint64_t size[4] = { (cuuint64_t)channels, (cuuint64_t)in[1],
                                 (cuuint64_t)in[0], (cuuint64_t)batch };
    const cuuint64_t pitch[3] = { bytes, bytes * size[1],
                                  bytes * size[1] * size[2] };
    const cuuint32_t box[4]   = { CT_SLAB, (cuuint32_t)(s->box[0] * step[1]),
                                  (cuuint32_t)(s->box[1] * step[0]),
                                  (cuuint32_t)s->box[2] };
    const cuuint32_t apart[4] = { 1, (cuuint32_t)step[1], (cuuint32_t)step[0],
                                  1 };

    if (!encode ||
        encode(out, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4,
               (void *)(uintptr_t)p, size, pitch, box, apart,
               CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
               CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
               CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS)
        return ct_fail(CT_EDEVICE, "GPU %d: the driver does not describe the "
                       "images of a convolution", d->id);
    return CT_OK;
}

static bool cut(const struct ct_conv *c, int form, struct ct_slabs *out)
{
    const struct ct_conv_desc *d = &c->desc;
    struct ct_slab_shape s       = { d->batch, d->in_channels,
                                     d->out_channels, {}, {}, {}, {}, {} };

    for (int i = 0; i < 2; i++) {
        s.out[i]      = c->out[i];
        s.kernel[i]   = d->kernel[i];
        s.stride[i]   = d->stride[i];
        s.pad[i]      = d->pad[i];
        s.dilation[i] = d->dilation[i];
    }
    return ct_slabs_cut(&s, &forms[form], ct_cuda(c->dev)->n_multiprocessors,
                        out);
}

template <int ROWS, int GROUPS, int SLABS>
static enum ct_status start(const struct ct_device *d,
                            const struct ct_slab_form *f,
                            const struct ct_slabs &s, const CUtensorMap &of_dy,
                            const CUtensorMap &of_x, float *part)
{
    const dim3 grid((unsigned)(s.across_rows * s.across_columns),
                    (unsigned)s.shares);
    const int shared = s.stages * ct_slab_stage(&s, f) + 1024;

    CT_TRY(ct_cuda_check(
        d, cudaFuncSetAttribute(
               (const void *)sums_of_boxes<ROWS, GROUPS, SLABS>,
               cudaFuncAttributeMaxDynamicSharedMemorySize, shared),
        "shared memory"));
    return CT_START(d, grid, 128 * (GROUPS + 1), (size_t)shared,
                    (sums_of_boxes<ROWS, GROUPS, SLABS>), of_dy, of_x, s,
                    part);
}

static enum ct_status start_form(const struct ct_device *d, int form,
                                 const struct ct_slabs &s,
                                 const CUtensorMap &of_dy,
                                 const CUtensorMap &of_x, float *part)
{
    const struct ct_slab_form *f = &forms[form];

    if (f->rows == 4)
        return start<4, 4, 2>(d, f, s, of_dy, of_x, part);
    if (f->rows == 3)
        return start<3, 3, 3>(d, f, s, of_dy, of_x, part);
    if (f->rows == 1 && f->groups == 3)
        return start<1, 3, 3>(d, f, s, of_dy, of_x, part);
    if (f->rows == 1)
        return start<1, 2, 2>(d, f, s, of_dy, of_x, part);
    if (f->slabs == 1)
        return start<2, 2, 1>(d, f, s, of_dy, of_x, part);
    if (f->slabs == 2)
        return start<2, 2, 2>(d, f, s, of_dy, of_x, part);
    return start<2, 2, 3>(d, f, s, of_dy, of_x, part);
}

static enum ct_status join(const struct ct_device *d, const struct ct_slabs *s,
                           const uint32_t *largest, const float *part,
                           float *dw)
{
    enum { VALUES = 2048 }; /* of a block, at most */
    const int least = 2 * ct_cuda(d)->n_multiprocessors; /* blocks, if it can */
    struct joint m = { s->outputs, s->channels, s->taps, s->shares,
                       VALUES / s->taps / 8 * 8, CT_BLOCK };
    int runs;

    m.run = m.run < 8 ? 8 : m.run > s->channels ? s->channels : m.run;
    while (m.run > 8 && s->outputs * ((s->channels - 1) / m.run + 1) < least)
        m.run = (m.run / 2 + 7) / 8 * 8;
    runs = (s->channels - 1) / m.run + 1;
    while (m.lanes > 32 && CT_BLOCK / m.lanes * 8 <= s->shares)
        m.lanes /= 2;
    return CT_START(d, (unsigned)(s->outputs * runs), CT_BLOCK,
                    (size_t)(m.run * m.taps) * sizeof(float), join_shares, m,
                    largest, part, dw);
}

extern "C" bool ct_cuda_slabs_takes(const struct ct_conv *c, int form,
                                    size_t *bytes)
{
    enum { MOST_TAPS = 512 }; /* a join's tile is in shared memory */
    const struct ct_conv_desc *d = &c->desc;
    struct ct_slabs s;

    if (d->n_spatial != 2 || d->group != 1 || c->taps > MOST_TAPS ||
        ct_cuda(c->dev)->major != 9 || !ct_find_encode() || !cut(c, form, &s))
        return false;
    *bytes = (size_t)s.shares * (size_t)(s.outputs * s.channels) *
             (size_t)s.taps * sizeof(float);
    return true;
}

extern "C" enum ct_status ct_cuda_slabs_gradient(
    const struct ct_conv *c, int form, const void *x, const void *dy,
    const uint32_t *largest, float *part, float *dw)
{
    const struct ct_conv_desc *d = &c->desc;
    const int close[2]           = { 1, 1 };
    CUtensorMap of_dy, of_x;
    struct ct_slabs s;

    if (!cut(c, form, &s))
        return ct_fail(CT_EINTERNAL, "a form that does not take this gradient");
    CT_TRY(describe(c->dev, d->batch, c->out, d->out_channels, &s, close, dy,
                    &of_dy));
    CT_TRY(describe(c->dev, d->batch, d->in, d->in_channels, &s, s.stride, x,
                    &of_x));
    CT_TRY(start_form(c->dev, form, s, of_dy, of_x, part));
    return join(c->dev, &s, largest, part, dw);
}

#else /* the run-time library cannot ask the driver for its functions */

extern "C" bool ct_cuda_slabs_takes(const struct ct_conv *, int, size_t *)
{
    return false;
}

extern "C" enum ct_status ct_cuda_slabs_gradient(const struct ct_conv *, int,
                                                 const void *, const void *,
                                                 const uint32_t *, float *,
                                                 float *)
{
    return CT_ENOTSUP;
}

#endif
