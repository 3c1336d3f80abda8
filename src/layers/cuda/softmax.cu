/* softmax.cu - softmax and its gradient on a GPU; formulas as in softmax.c.
 *
 * Classes that lie together are a block's; otherwise neighbouring threads take
 * neighbouring positions and go through the classes. */
#include "layers/cuda/softmax_kernels.h"

#include "device/cuda/kernel.h"
#include "layers/cuda/slots.h"
#include "proto/params.h"

__global__ static void rows_forward(int64_t c, const float *x, float *y)
{
    CT_TURN();
    float top = -INFINITY, sum = 0;

    x += blockIdx.x * c;
    y += blockIdx.x * c;
    for (int64_t j = threadIdx.x; j < c; j += blockDim.x)
        top = x[j] > top ? x[j] : top;
    top = ct_block_max(top);
    for (int64_t j = threadIdx.x; j < c; j += blockDim.x) {
        y[j] = expf(x[j] - top);
        sum += y[j];
    }
    sum = 1 / ct_block_sum(sum);
    for (int64_t j = threadIdx.x; j < c; j += blockDim.x)
        y[j] *= sum;
}

__global__ static void rows_backward(int64_t c, const float *y,
                                     const float *dy, float *dx)
{
    CT_TURN();
    float dot = 0;

    y += blockIdx.x * c;
    dy += blockIdx.x * c;
    dx += blockIdx.x * c;
    for (int64_t j = threadIdx.x; j < c; j += blockDim.x)
        dot += y[j] * dy[j];
    dot = ct_block_sum(dot);
    for (int64_t j = threadIdx.x; j < c; j += blockDim.x)
        dx[j] = y[j] * (dy[j] - dot);
}

__global__ static void lines_forward(int64_t n, int64_t c, int64_t inner,
                                     const float *x, float *y)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n) {
        const int64_t at = i / inner * c * inner + i % inner;
        float top = x[at], sum = 0;

        for (int64_t j = 1; j < c; j++)
            top = x[at + j * inner] > top ? x[at + j * inner] : top;
        for (int64_t j = 0; j < c; j++) {
            const float e = expf(x[at + j * inner] - top);

            y[at + j * inner] = e;
            sum += e;
        }
        sum = 1 / sum;
        for (int64_t j = 0; j < c; j++)
            y[at + j * inner] *= sum;
    }
}

__global__ static void lines_backward(int64_t n, int64_t c, int64_t inner,
                                      const float *y, const float *dy,
                                      float *dx)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n) {
        const int64_t at = i / inner * c * inner + i % inner;
        float dot = 0;

        for (int64_t j = 0; j < c; j++)
            dot += y[at + j * inner] * dy[at + j * inner];
        for (int64_t j = 0; j < c; j++)
            dx[at + j * inner] =
                y[at + j * inner] * (dy[at + j * inner] - dot);
    }
}

static unsigned threads_for(int64_t c)
{
    return c <= 64 ? 32 : c <= 1024 ? 128 : 512;
}

enum ct_status ct_softmax_run(const struct ct_device *d, int64_t outer,
                              int64_t c, int64_t inner, const float *x,
                              float *y)
{
    if (outer * c * inner == 0)
        return CT_OK;
    if (inner > 1)
        return CT_LAUNCH(d, outer * inner, lines_forward, outer * inner, c,
                         inner, x, y);
    rows_forward<<<(unsigned)outer, threads_for(c), 0, ct_cuda_stream(d)>>>(
        c, x, y);
    return CT_CUDA_LAUNCHED(d, "softmax");
}

extern "C" enum ct_status ct_cuda_softmax_forward(struct ct_layer *l,
                                                  const struct ct_io *io)
{
    const struct ct_blob *x = io->bottom[0];
    int axis;

    CT_TRY(ct_axis(x, ct_softmax_param(l->param)->axis, &axis));
    return ct_softmax_run(l->dev, ct_count(x, 0, axis), x->shape.dim[axis],
                          ct_count(x, axis + 1, CT_END), ct_data(x),
                          ct_data(io->top[0]));
}

extern "C" enum ct_status ct_cuda_softmax_backward(struct ct_layer *l,
                                                   const struct ct_io *io)
{
    const struct ct_blob *y = io->top[0];
    int64_t outer, c, inner;
    int axis;

    CT_TRY(ct_axis(y, ct_softmax_param(l->param)->axis, &axis));
    outer = ct_count(y, 0, axis);
    c     = y->shape.dim[axis];
    inner = ct_count(y, axis + 1, CT_END);
    if (!io->want_grad[0] || y->count == 0)
        return CT_OK;
    if (inner > 1)
        return CT_LAUNCH(l->dev, outer * inner, lines_backward, outer * inner,
                         c, inner, (const float *)ct_data(y),
                         (const float *)ct_diff(y), ct_diff(io->bottom[0]));
    rows_backward<<<(unsigned)outer, threads_for(c), 0,
                    ct_cuda_stream(l->dev)>>>(c, ct_data(y), ct_diff(y),
                                              ct_diff(io->bottom[0]));
    return CT_CUDA_LAUNCHED(l->dev, "gradient of softmax");
}
