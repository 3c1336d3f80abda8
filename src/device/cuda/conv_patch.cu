/* conv_patch.cu - small convolutions forward, and the gradient of data.
 *
 *     y[p,o] = b[o] + sum over k, c of  w[o,c,k] x[p + k - pad, c]
 *     dx[p,c] =       sum over k, o of  w[o,c,-k] dy[p - k + pad, o]
 *
 * Both are one kernel (patch_cut.h).  A block has a strip, which is some
 * output rows of an image, and 32 channels of the result.  The strip's patch
 * is in shared memory throughout; weights come a kernel row at a time, the
 * next while this one is multiplied.  A warp has 32 positions and, where steps
 * are split, every so many of the steps.
 *
 * Weights lie inside as tensor cores take them: part of 32 outputs, kernel
 * row, step, tile of 8 outputs, lane, word. */
#include "device/cuda/conv_patch.h"

#include "device/cuda/patch_shape.h"

static const struct ct_patch_form forms[CT_PATCH_FORMS] = {
    { 4, 1 }, { 4, 2 }, { 2, 1 }, { 2, 2 }, { 2, 4 }, { 8, 1 },
};

/* A pass: its sizes and its arrays. */
struct work {
    struct ct_patch   cut;
    struct ct_images  from, to;
    struct ct_box     box;
    struct ct_divider by_inside, by_columns;
    bool              relu;
};

/* Weights of one pass: which of them is value k of a step. */
struct order {
    struct ct_patch cut;
    bool            turned; /* the gradient of data */
    int             words;  /* of all */
};

__device__ static float weight_of(const struct order &m, const float *w,
                                  int output, int row, int step, int k)
{
    const struct ct_patch_shape &s = m.cut.shape;
    const int cell = m.cut.cell, inside = m.cut.inside;
    const int column = inside ? step / inside : 2 * step + k / cell;
    const int channel = inside ? step % inside * 2 * cell + k : k % cell;

    if (output >= s.outputs || channel >= s.channels || column >= s.kernel[1])
        return 0;
    if (m.turned)
        return w[((channel * s.outputs + output) * s.kernel[0] +
                  s.kernel[0] - 1 - row) * s.kernel[1] +
                 s.kernel[1] - 1 - column];
    return w[((output * s.channels + channel) * s.kernel[0] + row) *
                 s.kernel[1] + column];
}

/* A word of weights: one value, the rest of one, or two of 16 bits. */
template <int FACTOR>
__device__ static uint32_t weight_word(const struct order &m, const float *w,
                                       int i)
{
#if CT_HAS_MMA
    const int word = i % m.cut.words, lane = i / m.cut.words % CT_PATCH_LANES;
    const int tile = i / m.cut.words / CT_PATCH_LANES;
    const int step = tile / CT_PATCH_TILES, line = step / m.cut.steps;
    const int part = line / m.cut.shape.kernel[0];
    const int row  = line - part * m.cut.shape.kernel[0];
    const int o    = part * CT_PATCH_TILE + tile % CT_PATCH_TILES * 8 +
                  lane / 4;
    const int at   = step - line * m.cut.steps;
    const int half = word % 2, t = lane % 4;
    uint32_t high, low;
    float a, b;

    if (FACTOR == CT_FACTOR_BF16 || FACTOR == CT_FACTOR_F16) {
        a = weight_of(m, w, o, row, at, 8 * half + 2 * t);
        b = weight_of(m, w, o, row, at, 8 * half + 2 * t + 1);
        return FACTOR == CT_FACTOR_BF16
                   ? ct_word_of(__floats2bfloat162_rn(a, b))
                   : ct_word_of(__floats2half2_rn(a, b));
    }
    a = weight_of(m, w, o, row, at, 4 * half + t);
    if (FACTOR == CT_FACTOR_TF32)
        return ct_tf32(a);
    ct_split(__float_as_uint(a), &high, &low);
    return word < 2 ? high : low;
#else
    return 0;
#endif
}

template <int FACTOR>
__global__ static void patch_weights(struct order forward, struct order data,
                                     const float *w, uint32_t *to)
{
    CT_TURN();
    const int n = forward.words + data.words;

    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += gridDim.x * blockDim.x)
        to[i] = i < forward.words
                    ? weight_word<FACTOR>(forward, w, i)
                    : weight_word<FACTOR>(data, w, i - forward.words);
}

#if CT_HAS_MMA

/* The weights of a kernel row, on their way. */
__device__ static void bring(int bytes, const char *from, char *to)
{
    const uint32_t at = ct_shared_at(to);

    for (int i = 16 * threadIdx.x; i < bytes; i += 16 * blockDim.x)
        ct_copy16(at + i, from + i);
}

typedef float tile_sums[2][CT_PATCH_TILES][4];

/* The products of one step: of 32 positions, and 32 outputs. */
template <int FACTOR>
__device__ static inline void multiply(const uint32_t (&a)[2][4],
                                       const char *w, int lane,
                                       tile_sums &sum)
{
#pragma unroll
    for (int j = 0; j < CT_PATCH_TILES; j++) {
        const uint2 v      = ((const uint2 *)w)[j * CT_PATCH_LANES + lane];
        const uint32_t b[] = { v.x, v.y };

        ct_mma<FACTOR>(sum[0][j], a[0], b);
        ct_mma<FACTOR>(sum[1][j], a[1], b);
    }
}

/* The same where factors are sums. */
__device__ static inline void multiply_split(const uint32_t (&a)[2][4],
                                             const char *w, int lane,
                                             tile_sums &sum)
{
    uint32_t high[2][4], low[2][4];

#pragma unroll
    for (int i = 0; i < 8; i++)
        ct_split(a[i / 4][i % 4], &high[i / 4][i % 4], &low[i / 4][i % 4]);
#pragma unroll
    for (int j = 0; j < CT_PATCH_TILES; j++) {
        const uint4 v = ((const uint4 *)w)[j * CT_PATCH_LANES + lane];
        const uint32_t b_high[] = { v.x, v.y }, b_low[] = { v.z, v.w };

        ct_mma_split(sum[0][j], high[0], low[0], b_high, b_low);
        ct_mma_split(sum[1][j], high[1], low[1], b_high, b_low);
    }
}

/* `at` are the addresses of the lane's positions. */
template <int FACTOR>
__device__ static inline void one_step(const uint32_t (&at)[2], int off,
                                       const char *w, int lane,
                                       tile_sums &sum)
{
    uint32_t a[2][4];

    ct_load_tile(at[0] + off, a[0]);
    ct_load_tile(at[1] + off, a[1]);
    if (FACTOR == CT_FACTOR_F32)
        multiply_split(a, w, lane, sum);
    else
        multiply<FACTOR>(a, w, lane, sum);
}

/* A kernel row.  In float32 its sums are taken by themselves and then added:
 * tensor cores do not round to nearest. */
template <int FACTOR>
__device__ static inline void one_row(const struct work &m,
                                      const uint32_t (&at)[2], int first,
                                      const char *w, int lane, tile_sums &sum)
{
    const int each = CT_PATCH_TILES * CT_PATCH_LANES * m.cut.words * 4;
    tile_sums mine = {};

#pragma unroll 2
    for (int s = first; s < m.cut.steps; s += m.cut.splits)
        one_step<FACTOR>(at,
                         32 * s + m.cut.extra * ct_quotient(m.by_inside, s),
                         w + s * each, lane,
                         FACTOR == CT_FACTOR_F32 ? mine : sum);
    if (FACTOR == CT_FACTOR_F32)
#pragma unroll
        for (int i = 0; i < 8 * CT_PATCH_TILES; i++)
            (&sum[0][0][0])[i] += (&mine[0][0][0])[i];
}

/* The sums of warps that have other steps of the same positions; whether this
 * warp has the whole. */
__device__ static bool join_steps(const struct work &m, int warp, int split,
                                  int lane, float *room, tile_sums &sum)
{
    enum { N = 8 * CT_PATCH_TILES };
    float *v = &sum[0][0][0];

    if (m.cut.splits == 1)
        return true;
    __syncthreads();
    if (split > 0)
#pragma unroll
        for (int i = 0; i < N; i++)
            room[(((split - 1) * m.cut.warps + warp) * N + i) *
                     CT_PATCH_LANES + lane] = v[i];
    __syncthreads();
    for (int k = 0; split == 0 && k < m.cut.splits - 1; k++)
#pragma unroll
        for (int i = 0; i < N; i++)
            v[i] += room[((k * m.cut.warps + warp) * N + i) *
                             CT_PATCH_LANES + lane];
    return split == 0;
}

/* A NaN stays one. */
__device__ static inline float finish(float v, bool relu)
{
    return relu && v < 0 ? 0 : v;
}

/* Two channels of a position, of which the second may not be there. */
template <typename T>
__device__ static inline void store_two(const struct ct_images &m, int o,
                                        float a, float b, T *to)
{
    if (m.packed) {
        ct_pack<2, T> p;

        ct_store(p.v, a);
        ct_store(p.v + 1, b);
        if (o < m.channels)
            ct_store_pack<2>(to + o, p);
        return;
    }
    if (o < m.channels)
        ct_store(to + o * m.channel, a);
    if (o + 1 < m.channels)
        ct_store(to + (o + 1) * m.channel, b);
}

/* A warp's results; `row` is the strip's first. */
template <typename T>
__device__ static void store_tile(const struct work &m, int image, int row,
                                  int warp, int first, int lane,
                                  const tile_sums &sum, const float *b, T *y)
{
    const int width = m.to.width, o = first + lane % 4 * 2;
    float bias[CT_PATCH_TILES][2];

#pragma unroll
    for (int j = 0; j < CT_PATCH_TILES; j++)
#pragma unroll
        for (int k = 0; k < 2; k++)
            bias[j][k] = b && o + 8 * j + k < m.to.channels ? b[o + 8 * j + k]
                                                            : 0.0f;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int p = warp * CT_PATCH_TILE + 8 * i + lane / 4;
        const int h = ct_quotient(m.by_columns, p), w = p - h * width;
        T *to = y + (int64_t)image * m.to.image + (row + h) * m.to.row +
                w * m.to.column;

        if (h >= m.cut.rows || row + h >= m.to.height)
            continue;
#pragma unroll
        for (int j = 0; j < CT_PATCH_TILES; j++) {
            const float *v = sum[i / 2][j] + 2 * (i % 2);

            store_two(m.to, o + 8 * j, finish(v[0] + bias[j][0], m.relu),
                      finish(v[1] + bias[j][1], m.relu), to);
        }
    }
}

/* Where a lane's two positions lie in the patch. */
__device__ static inline void find_positions(const struct work &m, int warp,
                                             int lane, const char *patch,
                                             uint32_t (&at)[2])
{
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int p = warp * CT_PATCH_TILE + 16 * i + lane % 16;
        const int h = ct_quotient(m.by_columns, p), w = p - h * m.to.width;

        at[i] = ct_shared_at(patch) + lane / 16 * 16 +
                (h < m.cut.rows ? (h * m.cut.wide + w) * m.cut.pitch : 0);
    }
}

#endif

template <int FACTOR>
__global__ static void __launch_bounds__(CT_BLOCK)
    patch_products(struct work m, const void *x, const char *w, const float *b,
               void *y)
{
    CT_TURN();
#if CT_HAS_MMA
    extern __shared__ uint4 shared[];
    const int rows  = m.cut.shape.kernel[0], stage = m.cut.stage;
    const int image = blockIdx.x / m.cut.each;
    const int top   = blockIdx.x % m.cut.each * m.cut.rows;
    const int lane  = threadIdx.x % 32, split = threadIdx.x / 32 / m.cut.warps;
    const int warp  = threadIdx.x / 32 % m.cut.warps;
    char *stages    = (char *)shared;
    char *patch     = stages + (rows > 1 ? 2 : 1) * stage;
    const char *from = w + (int64_t)blockIdx.y * rows * stage;
    tile_sums sum   = {};
    uint32_t at[2];

    bring(stage, from, stages);
    find_positions(m, warp, lane, patch, at);
    CT_BY_TYPE(m.from.type, T,
               (ct_box_load<FACTOR>(m.from, m.box, (const T *)x, image,
                                    top - m.cut.shape.pad[0],
                                    -m.cut.shape.pad[1], 0, patch)));
    for (int k = 0; k < rows; k++) {
        ct_copies_wait();
        __syncthreads();
        if (k + 1 < rows)
            bring(stage, from + (int64_t)(k + 1) * stage,
                  stages + (k + 1) % 2 * stage);
        one_row<FACTOR>(m, at, split, stages + k % 2 * stage, lane, sum);
        at[0] += m.cut.wide * m.cut.pitch;
        at[1] += m.cut.wide * m.cut.pitch;
    }
    if (!join_steps(m, warp, split, lane, (float *)shared, sum))
        return;
    CT_BY_TYPE(m.to.type, T,
               store_tile(m, image, top, warp,
                          (int)blockIdx.y * CT_PATCH_TILE, lane, sum, b,
                          (T *)y));
#endif
}

/* The gradient of data is a convolution of dy. */
static struct ct_patch_shape turned(const struct ct_patch_shape *s)
{
    struct ct_patch_shape t = *s;

    t.channels = s->outputs;
    t.outputs  = s->channels;
    for (int i = 0; i < 2; i++) {
        t.in[i]  = s->out[i];
        t.out[i] = s->in[i];
        t.pad[i] = s->kernel[i] - 1 - s->pad[i];
    }
    return t;
}

static int bytes_of(enum ct_factor f)
{
    return f == CT_FACTOR_BF16 || f == CT_FACTOR_F16 ? 2 : 4;
}

static bool cut_pass(const struct ct_conv *c, enum ct_pass pass, int form,
                     struct ct_patch *out)
{
    const enum ct_factor f = ct_factor_of(c->dev);
    struct ct_patch_shape s = {};

    if (!ct_patch_shape_of(c, &s))
        return false;
    if (pass == CT_BACKWARD)
        s = turned(&s);
    return ct_patch_cut(&s, bytes_of(f), f == CT_FACTOR_F32, &forms[form],
                        out);
}

/* The order of a pass's weights, which no form changes. */
static struct order order_of(const struct ct_conv *c, enum ct_pass pass)
{
    const enum ct_factor f  = ct_factor_of(c->dev);
    struct ct_patch_shape s = {};
    struct order m          = {};
    const bool known        = ct_patch_shape_of(c, &s);

    CT_ASSERT(known);
    m.turned = pass == CT_BACKWARD;
    if (m.turned)
        s = turned(&s);
    ct_patch_set(&s, bytes_of(f), f == CT_FACTOR_F32, &m.cut);
    m.words = (int)ct_patch_words(&m.cut);
    return m;
}

extern "C" bool ct_cuda_patch_takes(const struct ct_conv *c, enum ct_pass pass,
                                    int form, int64_t *words, size_t *bytes)
{
    struct ct_patch cut = {};

    *words = 0;
    *bytes = 0;
    if (pass == CT_BACKWARD_WEIGHTS)
        return ct_cuda_sums_takes(c, form, bytes);
    if (!cut_pass(c, pass, form, &cut))
        return false;
    *words = (int64_t)order_of(c, CT_FORWARD).words +
             order_of(c, CT_BACKWARD).words;
    return *words <= INT32_MAX;
}

#define BY_FACTOR(f, run)                                                    \
    do {                                                                     \
        if ((f) == CT_FACTOR_F32)                                            \
            run(CT_FACTOR_F32);                                              \
        else if ((f) == CT_FACTOR_TF32)                                      \
            run(CT_FACTOR_TF32);                                             \
        else if ((f) == CT_FACTOR_BF16)                                      \
            run(CT_FACTOR_BF16);                                             \
        else                                                                 \
            run(CT_FACTOR_F16);                                              \
    } while (0)

extern "C" enum ct_status ct_cuda_patch_weights(const struct ct_conv *c,
                                                const float *w, void *inside)
{
    const struct order forward = order_of(c, CT_FORWARD);
    const struct order data    = order_of(c, CT_BACKWARD);

#define RUN(factor)                                                          \
    return CT_LAUNCH(c->dev, forward.words + data.words,                     \
                     patch_weights<factor>, forward, data, w,                \
                     (uint32_t *)inside)
    BY_FACTOR(ct_factor_of(c->dev), RUN);
#undef RUN
}

template <int FACTOR>
static enum ct_status start(const struct ct_device *d, const struct work &m,
                            const void *x, const char *w, const float *b,
                            void *y)
{
    const dim3 grid((unsigned)(m.cut.shape.batch * m.cut.each),
                    (unsigned)m.cut.parts);
    const unsigned threads = 32u * (unsigned)(m.cut.warps * m.cut.splits);
    const int bytes        = ct_patch_bytes(&m.cut);
    /* One limit for all shapes, where a GPU has so much. */
    const int most = ct_cuda(d)->major >= 9 ? (int)CT_PATCH_SHARED : bytes;

    CT_TRY(ct_cuda_check(
        d, cudaFuncSetAttribute((const void *)patch_products<FACTOR>,
                                cudaFuncAttributeMaxDynamicSharedMemorySize,
                                most),
        "shared memory"));
    return CT_START(d, grid, threads, (size_t)bytes, patch_products<FACTOR>, m,
                    x, w, b, y);
}

/* `from` and `to` are x and y, or dy and dx. */
static enum ct_status run_pass(const struct ct_conv *c, enum ct_pass pass,
                               int form, const void *from, const void *inside,
                               const float *b, void *to)
{
    const struct ct_conv_desc *d = &c->desc;
    const bool data = pass == CT_BACKWARD;
    const char *w   = (const char *)inside;
    struct work m   = {};
    const bool takes = cut_pass(c, pass, form, &m.cut);
    const struct ct_patch_shape *s = &m.cut.shape;
    int quads;

    CT_ASSERT(takes);
    quads  = (m.cut.inside ? 2 * m.cut.inside : 1) * m.cut.cell / 4;
    m.from = ct_images_of(s->channels, s->in,
                          data ? d->dst_layout : d->src_layout,
                          data ? d->dst_type : d->src_type);
    m.to   = ct_images_of(s->outputs, s->out,
                          data ? d->src_layout : d->dst_layout,
                          data ? d->src_type : d->dst_type);
    m.from.packed = ct_images_packed(m.from, 4, from);
    m.to.packed   = ct_images_packed(m.to, 2, to);
    m.box        = ct_box_of(m.cut.high, m.cut.wide, quads, m.cut.pitch,
                             false);
    m.by_inside  = ct_divider_of(m.cut.inside ? m.cut.inside : 1, INT32_MAX);
    m.by_columns = ct_divider_of(s->out[1], INT32_MAX);
    m.relu       = !data && d->relu;
    if (data)
        w += (size_t)order_of(c, CT_FORWARD).words * sizeof(uint32_t);
#define RUN(factor) return start<factor>(c->dev, m, from, w, b, to)
    BY_FACTOR(ct_factor_of(c->dev), RUN);
#undef RUN
}

extern "C" enum ct_status ct_cuda_patch_forward(const struct ct_conv *c,
                                                int form, const void *x,
                                                const void *inside,
                                                const float *b, void *y)
{
    return run_pass(c, CT_FORWARD, form, x, inside, b, y);
}

extern "C" enum ct_status ct_cuda_patch_data(const struct ct_conv *c, int form,
                                             const void *dy,
                                             const void *inside, void *dx)
{
    return run_pass(c, CT_BACKWARD, form, dy, inside, NULL, dx);
}
