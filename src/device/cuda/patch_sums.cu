/* patch_sums.cu - the gradient of a small convolution's weights.
 *
 *     dw[o,c,k] += sum over n, p of  dy[n,p,o] x[n, p + k - pad, c]
 *
 * patch_cut.h says how it is cut.  A block has 32 outputs, some columns, which
 * are taps and channels of x, and a share of the strips.  A strip's dy and its
 * patch of x are in shared memory as 32-bit factors, whatever the arrays hold;
 * a warp has the 32 outputs, up to 40 columns and, where positions are split,
 * every so many of them.  Shares are added up by a second kernel, always in
 * the same order. */
#include "device/cuda/conv_patch.h"

#include "device/cuda/patch_shape.h"

static const struct ct_sums_form forms[CT_SUMS_FORMS] = {
    { 4, 2, 1 }, { 4, 2, 2 }, { 8, 1, 1 }, { 2, 4, 1 }, { 2, 4, 2 },
    { 1, 8, 1 }, { 1, 8, 2 },
};

struct work {
    struct ct_sums    cut;
    struct ct_images  x, dy;
    struct ct_box     x_box, dy_box;
    struct ct_divider by_eights; /* of positions, in a row */
};

typedef float tile_sums[2][CT_SUMS_TILES][4];

#if CT_HAS_MMA

/* Where tiles of columns lie in a patch, for this lane; those behind the last
 * one are taken from the first. */
__device__ static inline void find_columns(const struct ct_sums &s, int first,
                                           int lane, int (&at)[CT_SUMS_TILES])
{
#pragma unroll
    for (int j = 0; j < CT_SUMS_TILES; j++) {
        const int tile = first + j < s.tiles ? first + j : 0;
        const int row  = tile / s.row_tiles;
        const int e    = (tile - row * s.row_tiles) * 8;
        const int k    = e / s.channels;

        at[j] = (row * s.wide + k) * s.pitch + e - k * s.channels + lane / 4;
    }
}

/* Eight positions: d is the lane's of dy, v that of x. */
template <int FACTOR>
__device__ static inline void one_step(const uint32_t *d, const uint32_t *v,
                                       int pitch,
                                       const int (&at)[CT_SUMS_TILES],
                                       tile_sums &sum)
{
    uint32_t a[2][4], low[2][4];

#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int k = i % 4;

        a[i / 4][k] = d[i / 4 * 16 + k % 2 * 8 + k / 2 * 4 * CT_SUMS_PITCH];
        if (FACTOR == CT_FACTOR_F32)
            ct_split(a[i / 4][k], &a[i / 4][k], &low[i / 4][k]);
    }
#pragma unroll
    for (int j = 0; j < CT_SUMS_TILES; j++) {
        uint32_t b[2] = { v[at[j]], v[at[j] + 4 * pitch] }, b_low[2];

        if (FACTOR != CT_FACTOR_F32) {
            ct_mma<CT_FACTOR_TF32>(sum[0][j], a[0], b);
            ct_mma<CT_FACTOR_TF32>(sum[1][j], a[1], b);
            continue;
        }
        ct_split(b[0], &b[0], &b_low[0]);
        ct_split(b[1], &b[1], &b_low[1]);
        ct_mma_split(sum[0][j], a[0], low[0], b, b_low);
        ct_mma_split(sum[1][j], a[1], low[1], b, b_low);
    }
}

/* A strip.  In float32 its sums are taken by themselves and then added: tensor
 * cores do not round to nearest. */
template <int FACTOR>
__device__ static inline void one_strip(const struct work &m, int split,
                                        int lane, const uint32_t *xs,
                                        const uint32_t *ys,
                                        const int (&at)[CT_SUMS_TILES],
                                        tile_sums &sum)
{
    const struct ct_sums &s = m.cut;
    const int across = s.columns / 8, n = s.rows * across;
    tile_sums mine   = {};

    for (int q = split; q < n; q += s.splits) {
        const int row    = ct_quotient(m.by_eights, q);
        const int column = (q - row * across) * 8 + lane % 4;

        one_step<FACTOR>(ys + (row * s.columns + column) * CT_SUMS_PITCH +
                             lane / 4,
                         xs + (row * s.wide + column) * s.pitch, s.pitch, at,
                         FACTOR == CT_FACTOR_F32 ? mine : sum);
    }
    if (FACTOR == CT_FACTOR_F32)
#pragma unroll
        for (int i = 0; i < 8 * CT_SUMS_TILES; i++)
            (&sum[0][0][0])[i] += (&mine[0][0][0])[i];
}

/* The sums of warps that have other positions of the same columns; whether
 * this warp has the whole. */
__device__ static bool join_positions(const struct ct_sums &s, int warp,
                                      int split, int lane, float *room,
                                      tile_sums &sum)
{
    enum { N = 8 * CT_SUMS_TILES };
    float *v = &sum[0][0][0];

    if (s.splits == 1)
        return true;
    __syncthreads();
    if (split > 0)
#pragma unroll
        for (int i = 0; i < N; i++)
            room[(((split - 1) * s.warps + warp) * N + i) * 32 + lane] = v[i];
    __syncthreads();
    for (int k = 0; split == 0 && k < s.splits - 1; k++)
#pragma unroll
        for (int i = 0; i < N; i++)
            v[i] += room[((k * s.warps + warp) * N + i) * 32 + lane];
    return split == 0;
}

/* Into a share: output, column. */
__device__ static void store_share(const struct ct_sums &s, int output,
                                   int first, int lane, const tile_sums &sum,
                                   float *share)
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int o = output + 8 * i + lane / 4;
        float *to   = share + ((int64_t)o * s.tiles + first) * 8 +
                    lane % 4 * 2;

        if (o >= s.shape.outputs)
            continue;
#pragma unroll
        for (int j = 0; j < CT_SUMS_TILES; j++)
            if (first + j < s.tiles)
                *(float2 *)(to + 8 * j) =
                    make_float2(sum[i / 2][j][2 * (i % 2)],
                                sum[i / 2][j][2 * (i % 2) + 1]);
    }
}

#endif

template <int FACTOR>
__global__ static void __launch_bounds__(CT_BLOCK)
    strip_sums(struct work m, const void *x, const void *dy, float *part)
{
    CT_TURN();
#if CT_HAS_MMA
    extern __shared__ uint4 shared[];
    const struct ct_sums &s = m.cut;
    const int lane   = threadIdx.x % 32, split = threadIdx.x / 32 / s.warps;
    const int warp   = threadIdx.x / 32 % s.warps;
    const int first  = ((int)blockIdx.y * s.warps + warp) * CT_SUMS_TILES;
    const int output = (int)blockIdx.z * CT_PATCH_TILE;
    uint32_t *ys     = (uint32_t *)shared;
    uint32_t *xs     = ys + s.rows * s.columns * CT_SUMS_PITCH;
    tile_sums sum    = {};
    int at[CT_SUMS_TILES];

    find_columns(s, first, lane, at);
    for (int strip = blockIdx.x; strip < s.shape.batch * s.each;
         strip += gridDim.x) {
        const int image = strip / s.each, top = strip % s.each * s.rows;

        __syncthreads();
        CT_BY_TYPE(m.dy.type, T,
                   (ct_box_load<FACTOR>(m.dy, m.dy_box, (const T *)dy, image,
                                        top, 0, output, (char *)ys)));
        CT_BY_TYPE(m.x.type, T,
                   (ct_box_load<FACTOR>(m.x, m.x_box, (const T *)x, image,
                                        top - s.shape.pad[0],
                                        -s.shape.pad[1], 0, (char *)xs)));
        __syncthreads();
        one_strip<FACTOR>(m, split, lane, xs, ys, at, sum);
    }
    if (join_positions(s, warp, split, lane, (float *)shared, sum))
        store_share(s, output, first, lane, sum,
                    part + (int64_t)blockIdx.x * s.shape.outputs * s.tiles *
                               8);
#endif
}

/* The shares of 32 columns a block, 32 x 8 threads, into their places. */
__global__ static void join_shares(struct ct_sums s, int n, const float *part,
                                   float *dw)
{
    CT_TURN();
    __shared__ float tile[8][32];
    const int i = blockIdx.x * 32 + threadIdx.x;
    const int o = i / (s.tiles * 8), column = i - o * s.tiles * 8;
    const int row = column / (s.row_tiles * 8);
    const int e = column - row * s.row_tiles * 8, k = e / s.channels;
    const int c = e - k * s.channels;
    const struct ct_patch_shape &d = s.shape;
    float sum = 0;

#pragma unroll 8
    for (int j = threadIdx.y; j < (i < n ? s.shares : 0); j += 8)
        sum += part[(int64_t)j * n + i];
    tile[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y > 0 || i >= n || k >= d.kernel[1] || c >= d.channels)
        return;
    for (int j = 1; j < 8; j++)
        sum += tile[j][threadIdx.x];
    dw[((o * d.channels + c) * d.kernel[0] + row) * d.kernel[1] + k] += sum;
}

static bool cut(const struct ct_conv *c, int form, struct ct_sums *out)
{
    struct ct_patch_shape s = {};

    return ct_patch_shape_of(c, &s) &&
           ct_sums_cut(&s, &forms[form], ct_cuda(c->dev)->n_multiprocessors,
                       out);
}

extern "C" bool ct_cuda_sums_takes(const struct ct_conv *c, int form,
                                   size_t *bytes)
{
    struct ct_sums s = {};

    if (!cut(c, form, &s))
        return false;
    *bytes = (size_t)ct_sums_values(&s) * sizeof(float);
    return true;
}

template <int FACTOR>
static enum ct_status start(const struct ct_device *d, const struct work &m,
                            const void *x, const void *dy, float *part)
{
    const dim3 grid((unsigned)m.cut.shares, (unsigned)m.cut.parts,
                    (unsigned)m.cut.o_parts);
    const unsigned threads = 32u * (unsigned)(m.cut.warps * m.cut.splits);
    const int bytes        = ct_sums_bytes(&m.cut);

    CT_TRY(ct_cuda_check(
        d, cudaFuncSetAttribute((const void *)strip_sums<FACTOR>,
                                cudaFuncAttributeMaxDynamicSharedMemorySize,
                                CT_SUMS_SHARED),
        "shared memory"));
    return CT_START(d, grid, threads, (size_t)bytes, strip_sums<FACTOR>, m, x,
                    dy, part);
}

extern "C" enum ct_status ct_cuda_sums_gradient(const struct ct_conv *c,
                                                int form, const void *x,
                                                const void *dy, float *part,
                                                float *dw)
{
    const struct ct_conv_desc *d = &c->desc;
    struct work m    = {};
    const bool takes = cut(c, form, &m.cut);
    const struct ct_patch_shape *s = &m.cut.shape;
    const int n = s->outputs * m.cut.tiles * 8;
    const bool few = m.cut.pitch == s->channels && s->channels <= 4;

    CT_ASSERT(takes);
    m.x  = ct_images_of(s->channels, s->in, d->src_layout, d->src_type);
    m.dy = ct_images_of(s->outputs, s->out, d->dst_layout, d->dst_type);
    m.x.packed  = ct_images_packed(m.x, 4, x);
    m.dy.packed = ct_images_packed(m.dy, 4, dy);
    m.x_box     = ct_box_of(m.cut.high, m.cut.wide,
                            (m.cut.channels + 3) / 4, m.cut.pitch * 4, few);
    m.dy_box    = ct_box_of(m.cut.rows, m.cut.columns, CT_PATCH_TILE / 4,
                            CT_SUMS_PITCH * 4, false);
    m.by_eights = ct_divider_of(m.cut.columns / 8, INT32_MAX);
    if (ct_factor_of(c->dev) == CT_FACTOR_F32)
        CT_TRY(start<CT_FACTOR_F32>(c->dev, m, x, dy, part));
    else
        CT_TRY(start<CT_FACTOR_TF32>(c->dev, m, x, dy, part));
    return CT_START(c->dev, (unsigned)(n + 31) / 32, dim3(32, 8), 0,
                    join_shares, m.cut, n, (const float *)part, dw);
}
