/* conv_direct.cu - convolution of few input channels, without a library.
 *
 * A block takes a strip: some output rows of one image.  The strip's part of x
 * lies in shared memory as float32, padding included, and the sums in
 * registers:
 *
 *     forward    4 neighbouring positions x 8 output channels a thread, with
 *                the bias and ReLU on them before they are stored
 *     gradient   the taps of one kernel row x 8 output channels a thread;
 *                groups of threads share out a strip's positions, and blocks
 *                the strips.  The shares are added up in the same order each
 *                time.
 *
 * A channel of x is read in its plain place or with channels innermost, in any
 * type; so is y.  Weights and sums are float32. */
extern "C" {
#include "device/conv_impl.h"
#include "device/cuda/conv_direct.h"
#include "device/cuda/conv_kernels.h"
}
#include "device/cuda/conv_strips.h"
#include "device/cuda/elementwise.h"

/* A NaN stays one. */
__device__ static inline float finish(float v, bool relu)
{
    return relu && v < 0 ? 0 : v;
}

/* The lines of x that output rows from `row` on see; 32 columns a warp. */
template <typename T>
__device__ static void load_patch(const struct ct_strips &s, int image, int row,
                                  const T *x, float *to)
{
    const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
    const int wide = (int)s.by_wide.d, n = s.channels * s.lines * wide;
    const int top  = row * s.s_h - s.pad_h;
    const T *from  = x + (int64_t)image * s.x_image;

    for (int i = threadIdx.x / 32; i < n; i += AHEAD * warps) {
        float v[AHEAD];

#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            const int line = ct_quotient(s.by_wide, i + a * warps);
            const int c    = ct_quotient(s.by_lines, line);
            const int h    = top + line - c * s.lines;
            const int w    = (i + a * warps - line * wide) * 32 + lane -
                          s.pad_w;
            const bool in = i + a * warps < n &&
                            (unsigned)h < (unsigned)s.height &&
                            (unsigned)w < (unsigned)s.width;

            v[a] = in ? ct_load(from + c * s.x_channel + h * s.x_row +
                                w * s.x_column)
                      : 0.0f;
        }
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            const int line   = ct_quotient(s.by_wide, i + a * warps);
            const int column = (i + a * warps - line * wide) * 32 + lane;

            if (i + a * warps < n && column < s.pitch)
                to[line * s.pitch + column] = v[a];
        }
    }
}

/* Weights of channels from `first` on, those of one tap together. */
__device__ static void load_weights(const struct ct_strips &s, int first,
                                    const float *w, float *to)
{
    const int n    = s.octets * OCTET * s.taps;
    const int last = (s.outputs - first) * s.taps;

    for (int i = threadIdx.x; i < n; i += AHEAD * blockDim.x) {
        float v[AHEAD];

#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            const int j = i + a * blockDim.x;

            v[a] = j < n && j < last ? w[first * s.taps + j] : 0.0f;
        }
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            const int j = i + a * blockDim.x, o = ct_quotient(s.by_taps, j);

            if (j < n)
                to[(j - o * s.taps) * s.o_pitch + o] = v[a];
        }
    }
}

/* One thread's results; `column` is the first of its positions, `o` that of
 * its channels. */
template <typename T>
__device__ static void store_tile(const struct ct_strips &s, int image, int row,
                                  int column, int o,
                                  const float (&v)[OCTET][ACROSS], T *y)
{
    T *to = y + (int64_t)image * s.y_image + row * s.y_row +
            column * s.y_column + o * s.y_channel;

    if (s.packed && s.y_channel == 1) {
#pragma unroll
        for (int j = 0; j < ACROSS; j++) {
            ct_pack<OCTET, T> p;

#pragma unroll
            for (int i = 0; i < OCTET; i++)
                ct_store(p.v + i, v[i][j]);
            if (column + j < s.out_w)
                ct_store_pack<OCTET>(to + j * s.y_column, p);
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < OCTET; i++) {
        ct_pack<ACROSS, T> p;

        if (o + i >= s.outputs)
            return;
#pragma unroll
        for (int j = 0; j < ACROSS; j++)
            ct_store(p.v + j, v[i][j]);
        if (s.packed) {
            ct_store_pack<ACROSS>(to + i * s.y_channel, p);
            continue;
        }
#pragma unroll
        for (int j = 0; j < ACROSS; j++)
            if (column + j < s.out_w)
                to[i * s.y_channel + j * s.y_column] = p.v[j];
    }
}

/* N floats from a multiple of 16 bytes on; up to 3 more are read. */
template <int N>
__device__ static inline void load_line(const float *p, float *v)
{
#pragma unroll
    for (int i = 0; i < (N + 3) / 4; i++) {
        const float4 four = ((const float4 *)p)[i];
        const float got[] = { four.x, four.y, four.z, four.w };

#pragma unroll
        for (int j = 0; j < 4; j++)
            if (4 * i + j < N)
                v[4 * i + j] = got[j];
    }
}

/* Kernels of KW columns with a stride of S along them; 0 and 0: any. */
template <int KW, int S>
__global__ static void __launch_bounds__(CT_BLOCK)
    direct_forward(struct ct_strips s, const void *x, const float *w,
                   const float *b, bool relu, void *y)
{
    CT_TURN();
    extern __shared__ float4 shared[];
    float *ws        = (float *)shared, *xs = ws + s.taps * s.o_pitch;
    const int image  = blockIdx.x / s.each;
    const int top    = blockIdx.x % s.each * s.rows;
    const int first  = blockIdx.y * s.octets * OCTET;
    const int places = s.rows * s.quads;
    const int octet  = threadIdx.x / places;
    const int place  = threadIdx.x - octet * places;
    const int row    = ct_quotient(s.by_quads, place);
    const int quad   = place - row * s.quads;
    const float *at = xs + row * s.s_h * s.pitch + quad * ACROSS * s.s_w;
    const float *to = ws + octet * OCTET;
    float sum[OCTET][ACROSS] = {};

    load_weights(s, first, w, ws);
    CT_BY_TYPE(s.x_type, T, load_patch(s, image, top, (const T *)x, xs));
    __syncthreads();
    if (octet >= s.octets || first + octet * OCTET >= s.outputs ||
        top + row >= s.out_h)
        return;
    for (int c = 0; c < s.channels; c++)
        for (int k = 0; k < s.k_h; k++) {
            const float *line = at + (c * s.lines + k) * s.pitch;
            float v[KW ? (ACROSS - 1) * S + KW : 1];

            if (KW)
                load_line<(ACROSS - 1) * S + KW>(line, v);
#pragma unroll
            for (int i = 0; i < (KW ? KW : s.k_w); i++, to += s.o_pitch) {
                float a[OCTET];

                load_line<OCTET>(to, a);
#pragma unroll
                for (int j = 0; j < ACROSS; j++) {
                    const float z = KW ? v[KW ? j * S + i : 0]
                                       : line[j * s.s_w + i];

#pragma unroll
                    for (int o = 0; o < OCTET; o++)
                        sum[o][j] = fmaf(a[o], z, sum[o][j]);
                }
            }
        }
#pragma unroll
    for (int o = 0; o < OCTET; o++) {
        const int channel = first + octet * OCTET + o;
        const float bias  = b && channel < s.outputs ? b[channel] : 0.0f;

#pragma unroll
        for (int j = 0; j < ACROSS; j++)
            sum[o][j] = finish(sum[o][j] + bias, relu);
    }
    CT_BY_TYPE(s.y_type, T,
               store_tile(s, image, top + row, quad * ACROSS,
                          first + octet * OCTET, sum, (T *)y));
}

/* dy of a strip, K neighbours a time, channels of a position together; zeros
 * fill it up. */
template <int K, typename T>
__device__ static void load_dy(const struct ct_strips &s, int image, int row,
                               int first, const T *dy, float *to)
{
    const bool nhwc = s.y_channel == 1;
    const int wide = s.octets * OCTET, columns = s.quads * ACROSS;
    const int n    = s.rows * columns * wide / K;
    const T *from  = dy + (int64_t)image * s.y_image +
                    (int64_t)first * s.y_channel;

    for (int i = threadIdx.x; i < n; i += AHEAD * blockDim.x) {
        ct_pack<K, T> v[AHEAD];
        int at[AHEAD];

#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            const int e = (i + a * (int)blockDim.x) * K;
            int o, h, w;

            if (nhwc) {
                const int p = e / wide;

                o = e - p * wide;
                h = ct_quotient(s.by_quads, p / ACROSS);
                w = p - h * columns;
            } else {
                const int q = ct_quotient(s.by_quads, e / ACROSS);

                w = e - q * columns;
                o = q / s.rows;
                h = q - o * s.rows;
            }
            at[a] = e < n * K ? (h * columns + w) * s.o_pitch + o : -1;
#pragma unroll
            for (int k = 0; k < K; k++)
                ct_store(v[a].v + k, 0.0f);
            if (e < n * K && first + o < s.outputs && w < s.out_w &&
                row + h < s.out_h)
                v[a] = ct_load_pack<K>(from + o * s.y_channel +
                                       (row + h) * s.y_row + w * s.y_column);
        }
#pragma unroll
        for (int a = 0; a < AHEAD; a++)
#pragma unroll
            for (int k = 0; k < K; k++)
                if (at[a] >= 0)
                    to[at[a] + k * (nhwc ? 1 : s.o_pitch)] =
                        ct_load(v[a].v + k);
    }
}

/* The sums of all groups of a block, four channels a time, into its share. */
template <int N>
__device__ static void store_share(const struct ct_strips &s, int first,
                                   int per, int groups,
                                   const float (&sum)[OCTET][N], float *room,
                                   float *share)
{
    const int chunks = (s.k_w + N - 1) / N;
    const int lines  = s.channels * s.k_h * chunks;

#pragma unroll
    for (int half = 0; half < 2; half++) {
        __syncthreads();
        if ((int)threadIdx.x < per * groups)
#pragma unroll
            for (int k = 0; k < N; k++)
                ((float4 *)room)[threadIdx.x * N + k] =
                    make_float4(sum[4 * half][k], sum[4 * half + 1][k],
                                sum[4 * half + 2][k], sum[4 * half + 3][k]);
        __syncthreads();
        for (int e = threadIdx.x; e < per * N * 4; e += blockDim.x) {
            const int k = e / 4 % N, unit = e / 4 / N, octet = unit / lines;
            const int line = unit - octet * lines;
            const int column = line % chunks * N + k;
            const int o = first + octet * OCTET + 4 * half + e % 4;
            float all   = 0;

#pragma unroll 8
            for (int g = 0; g < groups; g++)
                all += room[g * per * N * 4 + e];
            if (o < s.outputs && column < s.k_w)
                share[o * s.taps + line / chunks * s.k_w + column] = all;
        }
    }
}

/* As forward; 0: any stride, N taps of a kernel row a time. */
template <int N, int S>
__global__ static void __launch_bounds__(CT_BLOCK)
    direct_gradient(struct ct_strips s, const void *x, const void *dy,
                    float *part)
{
    CT_TURN();
    extern __shared__ float4 shared[];
    float *ys        = (float *)shared;
    float *xs        = ys + s.rows * s.quads * ACROSS * s.o_pitch;
    const int chunks = S ? 1 : (s.k_w + N - 1) / N;
    const int lines  = s.channels * s.k_h * chunks;
    const int per    = s.octets * lines, groups = CT_BLOCK / per;
    const int group  = threadIdx.x / per, unit = threadIdx.x - group * per;
    const int octet  = unit / lines, line = unit - octet * lines;
    const int c = line / chunks / s.k_h, k_row = line / chunks - c * s.k_h;
    const int first  = blockIdx.y * s.octets * OCTET;
    const float *at = xs + (c * s.lines + k_row) * s.pitch + line % chunks * N;
    float sum[OCTET][N] = {};

    for (int strip = blockIdx.x; strip < s.batch * s.each;
         strip += gridDim.x) {
        const int image = strip / s.each, top = strip % s.each * s.rows;

        __syncthreads();
        CT_BY_TYPE(s.x_type, T, load_patch(s, image, top, (const T *)x, xs));
        if (s.packed)
            CT_BY_TYPE(s.y_type, T, load_dy<4>(s, image, top, first,
                                               (const T *)dy, ys));
        else
            CT_BY_TYPE(s.y_type, T, load_dy<1>(s, image, top, first,
                                               (const T *)dy, ys));
        __syncthreads();
        for (int q = group; group < groups && q < s.rows * s.quads;
             q += groups) {
            const int row  = ct_quotient(s.by_quads, q);
            const int quad = q - row * s.quads;
            const float *p = at + row * s.s_h * s.pitch +
                             quad * ACROSS * s.s_w;
            float v[S ? (ACROSS - 1) * S + N : 1];

            if (S)
                load_line<(ACROSS - 1) * S + N>(p, v);
#pragma unroll
            for (int j = 0; j < ACROSS; j++) {
                float a[OCTET];

                load_line<OCTET>(ys + (q * ACROSS + j) * s.o_pitch +
                                     octet * OCTET, a);
#pragma unroll
                for (int k = 0; k < N; k++) {
                    const float z = S ? v[S ? j * S + k : 0]
                                      : p[j * s.s_w + k];

#pragma unroll
                    for (int o = 0; o < OCTET; o++)
                        sum[o][k] = fmaf(a[o], z, sum[o][k]);
                }
            }
        }
    }
    store_share<N>(s, first, per, groups, sum, (float *)shared,
                   part + (int64_t)blockIdx.x * s.outputs * s.taps);
}

#define BY_KERNEL(s, run)                                                    \
    do {                                                                     \
        if (!ct_strips_known(&(s)))                                          \
            run(ANY);                                                        \
        else if ((s).k_w == 3)                                               \
            run(3, 1);                                                       \
        else if ((s).k_w == 5)                                               \
            run(5, 1);                                                       \
        else if ((s).k_w == 7)                                               \
            run(7, 2);                                                       \
        else                                                                 \
            run(11, 4);                                                      \
    } while (0)

/* Whether y comes in whole packs: of a position's channels, or of a row. */
static bool in_packs(const struct ct_conv *c, int channels, const void *y)
{
    return ct_aligned(y) && (c->desc.dst_layout == CT_NHWC
                                 ? c->desc.out_channels % channels == 0
                                 : c->out[1] % ACROSS == 0);
}

/* Blocks that share out the strips of a gradient. */
static int shares_of(const struct ct_conv *c, const struct ct_strips *s)
{
    const int most = 2 * ct_cuda(c->dev)->n_multiprocessors;

    return s->batch * s->each < most ? s->batch * s->each : most;
}

static unsigned parts_of(const struct ct_strips *s)
{
    const int all = OCTET * s->octets;

    return (unsigned)((s->outputs + all - 1) / all);
}

extern "C" bool ct_cuda_direct_takes(const struct ct_conv *c,
                                     enum ct_pass pass, size_t *bytes)
{
    struct ct_strips s;

    if (!ct_strips_cut(c, pass, &s))
        return false;
    *bytes = pass == CT_FORWARD ? 0
                                : (size_t)shares_of(c, &s) *
                                      (size_t)(s.outputs * s.taps) *
                                      sizeof(float);
    return true;
}

extern "C" enum ct_status ct_cuda_direct_forward(const struct ct_conv *c,
                                                 const void *x, const float *w,
                                                 const float *b, void *y)
{
    struct ct_strips s;
    const bool known = ct_strips_cut(c, CT_FORWARD, &s);

    CT_ASSERT(known);
    s.packed = in_packs(c, OCTET, y);
    {
        const dim3 grid((unsigned)(s.batch * s.each), parts_of(&s));
        const unsigned threads =
            (unsigned)(s.rows * s.quads * s.octets + 31) / 32 * 32;
        const size_t bytes = (size_t)ct_strips_forward(&s);

#define ANY 0, 0
#define RUN(...)                                                             \
    return CT_START(c->dev, grid, threads, bytes,                            \
                    (direct_forward<__VA_ARGS__>), s, x, w, b, c->desc.relu, y)
        BY_KERNEL(s, RUN);
#undef RUN
#undef ANY
    }
}

extern "C" enum ct_status ct_cuda_direct_gradient(const struct ct_conv *c,
                                                  const void *x,
                                                  const void *dy, float *part,
                                                  float *dw)
{
    struct ct_strips s;
    const bool known = ct_strips_cut(c, CT_BACKWARD_WEIGHTS, &s);

    CT_ASSERT(known);
    s.packed = in_packs(c, ACROSS, dy);
    {
        const dim3 grid((unsigned)shares_of(c, &s), parts_of(&s));
        const size_t bytes = (size_t)ct_strips_gradient(&s);

#define ANY ANY_TAPS, 0
#define RUN(...)                                                             \
    CT_TRY(CT_START(c->dev, grid, CT_BLOCK, bytes,                           \
                    (direct_gradient<__VA_ARGS__>), s, x, dy, part))
        BY_KERNEL(s, RUN);
#undef RUN
#undef ANY
    }
    return ct_cuda_join(c->dev, s.outputs * s.taps, shares_of(c, &s), part,
                        dw);
}
