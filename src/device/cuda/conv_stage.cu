/* conv_stage.cu - arrays on their way into the form that cuDNN takes, and out
 * of it: folded images, groups apart, channels filled up.
 *
 * All of them have fewer than 2^31 values, so that indices are 32 bits. */
#include "device/cuda/conv_kernels.h"
#include "device/cuda/divide.h"
#include "device/cuda/vector.h"

enum { MOST_INSIDE = 256 };

/* One thread writes 16 bytes.  The table says, for each value of a cell, where
 * it lies from the cell's first position on, and which position that is. */
template <typename A, typename B>
__global__ static void fold(struct ct_conv_cells f, int n_vectors, const A *x,
                            B *to)
{
    CT_TURN();
    enum { V = CT_VECTOR(B) };
    __shared__ int offset[MOST_INSIDE];
    __shared__ short2 place[MOST_INSIDE];
    const int channels = (int)f.channels, inside = (int)f.inside;
    const int height = (int)f.height, width = (int)f.width;
    const int s_w = (int)f.s_w, s_h = (int)f.s_h;
    const bool plain = f.layout == CT_PLAIN;
    const int step = plain ? 1 : channels, each = inside / V;

    for (int i = threadIdx.x; i < inside; i += blockDim.x) {
        const int c = i % channels, dx = i / channels % s_w;
        const int dy = i / channels / s_w;

        offset[i] = (dy * width + dx) * step +
                    (plain ? c * height * width : c);
        /* Fill values lie outside of every image. */
        place[i] = make_short2((short)(dy < s_h ? dy : -16384), (short)dx);
    }
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n_vectors;
         i += gridDim.x * blockDim.x) {
        const int v = i % each * V, cell = i / each;
        const int column = cell % (int)f.columns, line = cell / (int)f.columns;
        const int row = line % (int)f.rows, image = line / (int)f.rows;
        const int y0 = row * s_h - (int)f.pad_h;
        const int x0 = column * s_w - (int)f.pad_w;
        const A *from = x + (int64_t)image * channels * height * width +
                        (int64_t)(y0 * width + x0) * step;
        float out[V];

#pragma unroll
        for (int j = 0; j < V; j++) {
            const short2 p = place[v + j];
            const bool in  = (unsigned)(y0 + p.x) < (unsigned)height &&
                            (unsigned)(x0 + p.y) < (unsigned)width;

            out[j] = in ? ct_load(from + offset[v + j]) : 0.0f;
        }
        ct_store16(to + (int64_t)i * V, out);
    }
}

__global__ static void part(int rows, int groups, int each, const uint4 *x,
                            uint4 *to)
{
    CT_TURN();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x;
         i < rows * groups * each; i += gridDim.x * blockDim.x) {
        const int j = i % each, g = i / each % groups, r = i / each / groups;

        to[((int64_t)g * rows + r) * each + j] = x[i];
    }
}

template <typename T>
__global__ static void join(int rows, int groups, int each, const T *x,
                            const float *b, bool relu, T *to)
{
    CT_TURN();
    enum { V = CT_VECTOR(T) };

    for (int i = blockIdx.x * blockDim.x + threadIdx.x;
         i < rows * groups * each; i += gridDim.x * blockDim.x) {
        const int j = i % each, g = i / each % groups, r = i / each / groups;
        float v[V];

        ct_load16(x + (((int64_t)g * rows + r) * each + j) * V, v);
        if (b)
#pragma unroll
            for (int k = 0; k < V; k++)
                v[k] += b[(g * each + j) * V + k];
        if (relu)
#pragma unroll
            for (int k = 0; k < V; k++)
                v[k] = v[k] < 0 ? 0 : v[k]; /* a NaN stays one */
        ct_store16(to + (int64_t)i * V, v);
    }
}

template <typename T>
__global__ static void widen(int n, struct ct_divider by_wide, int channels,
                             const T *x, T *to)
{
    CT_TURN();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += gridDim.x * blockDim.x) {
        const int r = ct_quotient(by_wide, i), c = i - r * (int)by_wide.d;

        ct_store(to + i, c < channels ? ct_load(x + r * channels + c) : 0.0f);
    }
}

template <typename T>
__global__ static void narrow(int n, struct ct_divider by_channels, int wide,
                              const T *x, const float *b, bool relu, T *to)
{
    CT_TURN();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += gridDim.x * blockDim.x) {
        const int r = ct_quotient(by_channels, i);
        const int c = i - r * (int)by_channels.d;
        float v     = ct_load(x + r * wide + c);

        v = b ? v + b[c] : v;
        ct_store(to + i, relu && v < 0 ? 0 : v); /* a NaN stays one */
    }
}

template <typename A>
static enum ct_status fold_from(const struct ct_device *d,
                                const struct ct_conv_cells *f, int64_t n,
                                const A *x, enum ct_dtype type, void *to)
{
    CT_BY_TYPE(type, B, {
        const int vectors = (int)(n / CT_VECTOR(B));

        return CT_LAUNCH(d, vectors, (fold<A, B>), *f, vectors, x, (B *)to);
    });
}

extern "C" enum ct_status ct_cuda_conv_fold(
    const struct ct_device *d, const struct ct_conv_cells *f,
    enum ct_dtype from_type, const void *x, enum ct_dtype to_type, void *to)
{
    const int64_t n = f->batch * f->rows * f->columns * f->inside;

    CT_ASSERT(n <= INT32_MAX && f->inside <= MOST_INSIDE);
    CT_BY_TYPE(from_type, A,
               return fold_from(d, f, n, (const A *)x, to_type, to));
}

extern "C" enum ct_status ct_cuda_conv_part(const struct ct_device *d,
                                            int64_t rows, int64_t groups,
                                            int64_t channels,
                                            enum ct_dtype type, const void *x,
                                            void *to)
{
    const int64_t each = channels * (int64_t)ct_dtype_bytes(type) / 16;

    return CT_LAUNCH(d, rows * groups * each, part, (int)rows, (int)groups,
                     (int)each, (const uint4 *)x, (uint4 *)to);
}

extern "C" enum ct_status ct_cuda_conv_join(const struct ct_device *d,
                                            int64_t rows, int64_t groups,
                                            int64_t channels,
                                            enum ct_dtype type, const void *x,
                                            const float *b, bool relu, void *to)
{
    const int64_t each = channels * (int64_t)ct_dtype_bytes(type) / 16;

    CT_BY_TYPE(type, T,
               return CT_LAUNCH(d, rows * groups * each, join<T>, (int)rows,
                                (int)groups, (int)each, (const T *)x, b, relu,
                                (T *)to));
}

extern "C" enum ct_status ct_cuda_conv_widen(const struct ct_device *d,
                                             int64_t rows, int64_t channels,
                                             int64_t wide, enum ct_dtype type,
                                             const void *x, void *to)
{
    const int64_t n = rows * wide;

    CT_ASSERT(n <= INT32_MAX);
    CT_BY_TYPE(type, T,
               return CT_LAUNCH(d, n, widen<T>, (int)n, ct_divider_of(wide, n),
                                (int)channels, (const T *)x, (T *)to));
}

extern "C" enum ct_status ct_cuda_conv_narrow(const struct ct_device *d,
                                              int64_t rows, int64_t channels,
                                              int64_t wide,
                                              enum ct_dtype type,
                                              const void *x, const float *b,
                                              bool relu, void *to)
{
    const int64_t n = rows * channels;

    CT_ASSERT(rows * wide <= INT32_MAX);
    CT_BY_TYPE(type, T,
               return CT_LAUNCH(d, n, narrow<T>, (int)n,
                                ct_divider_of(channels, n), (int)wide,
                                (const T *)x, b, relu, (T *)to));
}
