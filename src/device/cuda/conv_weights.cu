/* conv_weights.cu - weights on their way into the form that cuDNN takes, and
 * their gradients on the way out.
 *
 * Three kernels for each: where the order of values is the same, 16 bytes a
 * thread; where channels become innermost, tiles that are turned in shared
 * memory, so that both sides are read and written in long runs (tiles.h); and
 * one for every other form, value by value.
 *
 * All arrays have fewer than 2^31 values, so that indices are 32 bits. */
#include "device/cuda/conv_kernels.h"
#include "device/cuda/elementwise.h"
#include "device/cuda/tiles.h"

static_assert((int)CT_TILE_THREADS == (int)CT_BLOCK, "one size of blocks");

/* Groups of four values that a thread has of a tile. */
enum { FOURS = CT_TILE_VALUES / 4 / CT_BLOCK };

/* Value i inside comes from here outside; below 0 it is a fill value. */
__device__ static int weight_of(const struct ct_conv_cells &f, int i)
{
    const int channels = (int)f.channels, s_w = (int)f.s_w;
    const int v = i % (int)f.inside, cell = i / (int)f.inside;
    const int o = cell / (int)(f.kc_h * f.kc_w);
    const int c = v % channels, dx = v / channels % s_w;
    const int dy = v / channels / s_w;
    const int y = cell / (int)f.kc_w % (int)f.kc_h * (int)f.s_h + dy;
    const int x = cell % (int)f.kc_w * s_w + dx;

    return dy >= f.s_h || y >= f.k_h || x >= f.k_w || o >= f.outputs
               ? -1
               : ((o * channels + c) * (int)f.k_h + y) * (int)f.k_w + x;
}

template <typename T>
__global__ static void weights_in(struct ct_conv_cells f, int n,
                                  const float *w, T *to)
{
    CT_TURN();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += gridDim.x * blockDim.x) {
        const int at = weight_of(f, i);

        ct_store(to + i, at < 0 ? 0.0f : w[at]);
    }
}

template <typename T>
__global__ static void weights_add(struct ct_conv_cells f, int n, const T *g,
                                   float *dw)
{
    CT_TURN();
    const int channels = (int)f.channels, s_h = (int)f.s_h, s_w = (int)f.s_w;

    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += gridDim.x * blockDim.x) {
        const int x = i % (int)f.k_w, y = i / (int)f.k_w % (int)f.k_h;
        const int line = i / (int)(f.k_w * f.k_h);
        const int c = line % channels, o = line / channels;

        dw[i] += ct_load(g + ((o * (int)f.kc_h + y / s_h) * (int)f.kc_w +
                              x / s_w) * (int)f.inside +
                         (y % s_h * s_w + x % s_w) * channels + c);
    }
}

/* Four values outside from i on; zeros behind the last. */
__device__ static inline float4 four_at(const float *w, int i, int n)
{
    float4 v = make_float4(0, 0, 0, 0);

    if (i + 4 <= n)
        return *(const float4 *)(w + i);
    v.x = i < n ? w[i] : 0;
    v.y = i + 1 < n ? w[i + 1] : 0;
    v.z = i + 2 < n ? w[i + 2] : 0;
    return v;
}

/* Of a tile's lines, behind each other. */
extern __shared__ float4 tile_fours[];

/* K channels at once inside. */
template <int K, typename T>
__global__ static void tiles_in(struct ct_weight_tiles m,
                                const float *w,
                                T *__restrict__ to)
{
    CT_TURN();
    float *const tile = (float *)tile_fours;
    const struct ct_weight_column c =
        ct_weight_column_of(&m, K, blockIdx.x, threadIdx.x);
    const int first = ct_weight_first(&m, blockIdx.x);
    const int fours = m.lines * m.taps / 4;
    float4 four[FOURS];

#pragma unroll
    for (int k = 0; k < FOURS; k++) {
        const int i = k * CT_BLOCK + (int)threadIdx.x;

        if (i < fours)
            four[k] = four_at(w, first + 4 * i, m.n);
    }
#pragma unroll
    for (int k = 0; k < FOURS; k++) {
        const int i = k * CT_BLOCK + (int)threadIdx.x;

        if (i < fours)
            tile_fours[i] = four[k];
    }
    __syncthreads();
    if (c.at < 0)
        return;
#pragma unroll 4
    for (int t = c.tap; t < m.taps; t += c.step) {
        ct_pack<K, T> v;

#pragma unroll
        for (int k = 0; k < K; k++)
            ct_store(v.v + k, tile[(c.line + k) * m.taps + t]);
        ct_store_pack<K>(to + c.at + t * m.channels, v);
    }
}

/* dw is asked for first: it arrives while the gradient is turned. */
template <int K, typename T>
__global__ static void tiles_add(struct ct_weight_tiles m,
                                 const T *g,
                                 float *__restrict__ dw)
{
    CT_TURN();
    float *const tile = (float *)tile_fours;
    const struct ct_weight_column c =
        ct_weight_column_of(&m, K, blockIdx.x, threadIdx.x);
    const int first = ct_weight_first(&m, blockIdx.x);
    const int most  = min(m.lines * m.taps, m.n - first);
    float4 sum[FOURS];

#pragma unroll
    for (int k = 0; k < FOURS; k++) {
        const int i = 4 * (k * CT_BLOCK + (int)threadIdx.x);

        if (i < most)
            sum[k] = four_at(dw, first + i, m.n);
    }
#pragma unroll 8
    for (int t = c.tap; t < (c.at < 0 ? 0 : m.taps); t += c.step) {
        const ct_pack<K, T> v = ct_load_pack<K>(g + c.at + t * m.channels);

#pragma unroll
        for (int k = 0; k < K; k++)
            tile[(c.line + k) * m.taps + t] = ct_load(v.v + k);
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < FOURS; k++) {
        const int i = 4 * (k * CT_BLOCK + (int)threadIdx.x);
        float *to   = dw + first + i;
        float4 v;

        if (i >= most)
            continue;
        v = tile_fours[i / 4];
        sum[k].x += v.x, sum[k].y += v.y, sum[k].z += v.z, sum[k].w += v.w;
        if (i + 4 <= most) {
            *(float4 *)to = sum[k];
            continue;
        }
        to[0] = sum[k].x;
        if (i + 1 < most)
            to[1] = sum[k].y;
        if (i + 2 < most)
            to[2] = sum[k].z;
    }
}

struct plus {
    __device__ float operator()(float a, float b) const { return a + b; }
};

/* Channels are innermost inside, one position a cell: NHWC. */
static bool one_position(const struct ct_conv_cells *f)
{
    return f->s_h == 1 && f->s_w == 1 && f->inside == f->channels;
}

/* Whether values follow each other as they do outside. */
static bool same_order(const struct ct_conv_cells *f)
{
    return one_position(f) && (f->k_h * f->k_w == 1 || f->channels == 1);
}

static bool by_tiles(const struct ct_device *d, const struct ct_conv_cells *f,
                     int64_t outputs_inside, const float *w, const void *inside,
                     struct ct_weight_tiles *m)
{
    return one_position(f) && ct_aligned(w) && ct_aligned(inside) &&
           ct_weight_tiles_make(f->outputs, outputs_inside, f->channels,
                                f->k_h * f->k_w,
                                2 * ct_cuda(d)->n_multiprocessors, m);
}

static size_t shared_bytes(const struct ct_weight_tiles *m)
{
    return (size_t)(m->lines * m->taps) * sizeof(float);
}

/* Two channels at once of 16 bits each, where they are even. */
template <typename T>
static enum ct_status start_in(const struct ct_device *d,
                               const struct ct_weight_tiles *m,
                               const float *w, T *to)
{
    constexpr int K    = 4 / sizeof(T);
    const size_t bytes = shared_bytes(m);

    if (m->channels % K == 0)
        return CT_START(d, (unsigned)m->n_tiles, CT_BLOCK, bytes,
                        (tiles_in<K, T>), *m, w, to);
    return CT_START(d, (unsigned)m->n_tiles, CT_BLOCK, bytes,
                    (tiles_in<1, T>), *m, w, to);
}

template <typename T>
static enum ct_status start_add(const struct ct_device *d,
                                const struct ct_weight_tiles *m, const T *g,
                                float *dw)
{
    constexpr int K    = 4 / sizeof(T);
    const size_t bytes = shared_bytes(m);

    if (m->channels % K == 0)
        return CT_START(d, (unsigned)m->n_tiles, CT_BLOCK, bytes,
                        (tiles_add<K, T>), *m, g, dw);
    return CT_START(d, (unsigned)m->n_tiles, CT_BLOCK, bytes,
                    (tiles_add<1, T>), *m, g, dw);
}

extern "C" enum ct_status ct_cuda_weights_in(const struct ct_device *d,
                                             const struct ct_conv_cells *f,
                                             const float *w,
                                             enum ct_dtype type, void *to)
{
    const int64_t n     = f->outputs_inside * f->kc_h * f->kc_w * f->inside;
    const int64_t plain = f->outputs * f->channels * f->k_h * f->k_w;
    struct ct_weight_tiles m;

    CT_ASSERT(n <= INT32_MAX);
    if (n == 0)
        return CT_OK;
    if (same_order(f)) {
        CT_TRY(ct_cuda_convert(d, plain, CT_F32, w, type, to));
        return ct_clear_values(d, n - plain, type,
                               (char *)to +
                                   (size_t)plain * ct_dtype_bytes(type));
    }
    if (by_tiles(d, f, f->outputs_inside, w, to, &m))
        CT_BY_TYPE(type, T, return start_in(d, &m, w, (T *)to));
    CT_BY_TYPE(type, T,
               return CT_LAUNCH(d, n, weights_in<T>, *f, (int)n, w, (T *)to));
}

extern "C" enum ct_status ct_cuda_weights_add(const struct ct_device *d,
                                              const struct ct_conv_cells *f,
                                              enum ct_layout layout,
                                              enum ct_dtype type,
                                              const void *g, float *dw)
{
    const int64_t n = f->outputs * f->channels * f->k_h * f->k_w;
    struct ct_weight_tiles m;

    CT_ASSERT(n <= INT32_MAX);
    if (n == 0)
        return CT_OK;
    if (layout != CT_NHWC || same_order(f))
        CT_BY_TYPE(type, T,
                   return ct_map(d, n, plus(), dw, (const float *)dw,
                                 (const T *)g));
    if (by_tiles(d, f, f->outputs, dw, g, &m))
        CT_BY_TYPE(type, T, return start_add(d, &m, (const T *)g, dw));
    CT_BY_TYPE(type, T,
               return CT_LAUNCH(d, n, weights_add<T>, *f, (int)n,
                                (const T *)g, dw));
}
