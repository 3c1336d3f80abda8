/* conv_ref.cu - convolution by its definition, for what cuDNN does not take:
 * any number of axes, any size, plain float32.  One thread a result. */
#include "device/cuda/kernel.h"

extern "C" {
#include "device/conv_impl.h"
#include "device/cuda/conv_kernels.h"
}

/* What kernels need, by value. */
struct shape {
    int     n_spatial;
    int64_t batch, in_channels, out_channels, in_group, out_group;
    int64_t in_spatial, out_spatial, taps;
    int64_t in[CT_CONV_MAX], out[CT_CONV_MAX], kernel[CT_CONV_MAX];
    int64_t stride[CT_CONV_MAX], pad[CT_CONV_MAX], dilation[CT_CONV_MAX];
};

/* The place in x that output position p sees through tap k; -1: outside. */
__device__ static int64_t source(const struct shape &s, int64_t p, int64_t k)
{
    int64_t at = 0, step = 1;

    for (int i = s.n_spatial - 1; i >= 0; i--) {
        const int64_t x = p % s.out[i] * s.stride[i] - s.pad[i] +
                          k % s.kernel[i] * s.dilation[i];

        if (x < 0 || x >= s.in[i])
            return -1;
        at += x * step;
        step *= s.in[i];
        p /= s.out[i];
        k /= s.kernel[i];
    }
    return at;
}

/* The output position that sees place x through tap k; -1: none. */
__device__ static int64_t target(const struct shape &s, int64_t x, int64_t k)
{
    int64_t at = 0, step = 1;

    for (int i = s.n_spatial - 1; i >= 0; i--) {
        const int64_t p = x % s.in[i] + s.pad[i] -
                          k % s.kernel[i] * s.dilation[i];

        if (p < 0 || p % s.stride[i] || p / s.stride[i] >= s.out[i])
            return -1;
        at += p / s.stride[i] * step;
        step *= s.out[i];
        x /= s.in[i];
        k /= s.kernel[i];
    }
    return at;
}

__global__ static void forward(struct shape s, const float *x, const float *w,
                               const float *b, float *y)
{
    CT_TURN();
    CT_KERNEL_EACH (i, s.batch * s.out_channels * s.out_spatial) {
        const int64_t p = i % s.out_spatial;
        const int64_t o = i / s.out_spatial % s.out_channels;
        const int64_t n = i / (s.out_spatial * s.out_channels);
        const int64_t first = o / s.out_group * s.in_group;
        float sum           = b ? b[o] : 0;

        for (int64_t k = 0; k < s.taps; k++) {
            const int64_t at = source(s, p, k);

            for (int64_t c = 0; at >= 0 && c < s.in_group; c++)
                sum += w[(o * s.in_group + c) * s.taps + k] *
                       x[(n * s.in_channels + first + c) * s.in_spatial + at];
        }
        y[i] = sum;
    }
}

__global__ static void backward_data(struct shape s, const float *w,
                                     const float *dy, float *dx)
{
    CT_TURN();
    CT_KERNEL_EACH (i, s.batch * s.in_channels * s.in_spatial) {
        const int64_t at = i % s.in_spatial;
        const int64_t c  = i / s.in_spatial % s.in_channels;
        const int64_t n  = i / (s.in_spatial * s.in_channels);
        const int64_t first = c / s.in_group * s.out_group;
        float sum           = 0;

        for (int64_t k = 0; k < s.taps; k++) {
            const int64_t p = target(s, at, k);

            for (int64_t o = first; p >= 0 && o < first + s.out_group; o++)
                sum += w[(o * s.in_group + c % s.in_group) * s.taps + k] *
                       dy[(n * s.out_channels + o) * s.out_spatial + p];
        }
        dx[i] = sum;
    }
}

/* One block a weight. */
__global__ static void backward_weights(struct shape s, const float *x,
                                        const float *dy, float *dw)
{
    CT_TURN();
    const int64_t i = blockIdx.x, k = i % s.taps;
    const int64_t c = i / s.taps % s.in_group, o = i / (s.taps * s.in_group);
    const int64_t channel = o / s.out_group * s.in_group + c;
    float sum             = 0;

    for (int64_t j = threadIdx.x; j < s.batch * s.out_spatial;
         j += blockDim.x) {
        const int64_t p = j % s.out_spatial, n = j / s.out_spatial;
        const int64_t at = source(s, p, k);

        if (at >= 0)
            sum += x[(n * s.in_channels + channel) * s.in_spatial + at] *
                   dy[(n * s.out_channels + o) * s.out_spatial + p];
    }
    sum = ct_block_sum(sum);
    if (threadIdx.x == 0)
        dw[i] += sum;
}

static struct shape shape_of(const struct ct_conv *c)
{
    const struct ct_conv_desc *d = &c->desc;
    struct shape s               = {};

    s.n_spatial    = d->n_spatial;
    s.batch        = d->batch;
    s.in_channels  = d->in_channels;
    s.out_channels = d->out_channels;
    s.in_group     = c->in_group;
    s.out_group    = c->out_group;
    s.in_spatial   = c->in_spatial;
    s.out_spatial  = c->out_spatial;
    s.taps         = c->taps;
    for (int i = 0; i < d->n_spatial; i++) {
        s.in[i]       = d->in[i];
        s.out[i]      = c->out[i];
        s.kernel[i]   = d->kernel[i];
        s.stride[i]   = d->stride[i];
        s.pad[i]      = d->pad[i];
        s.dilation[i] = d->dilation[i];
    }
    return s;
}

static enum ct_status ref_create(struct ct_conv *c)
{
    const struct ct_conv_desc *d = &c->desc;

    return d->src_layout == CT_PLAIN && d->dst_layout == CT_PLAIN &&
                   d->src_type == CT_F32 && d->dst_type == CT_F32 &&
                   d->out_channels * c->in_group * c->taps < INT32_MAX
               ? CT_OK
               : CT_ENOTSUP;
}

static void ref_destroy(struct ct_conv *c)
{
    (void)c;
}

static enum ct_status ref_forward(struct ct_conv *c, const float *x,
                                  const float *w, const float *b, float *y)
{
    const struct ct_bias_desc out = { c->desc.batch, c->desc.out_channels,
                                      c->out_spatial, CT_PLAIN, CT_F32 };

    CT_TRY(CT_LAUNCH(c->dev,
                     c->desc.batch * c->desc.out_channels * c->out_spatial,
                     forward, shape_of(c), x, w, b, y));
    return ct_cuda_conv_finish(c->dev, &out, NULL, c->desc.relu, y);
}

static enum ct_status ref_backward_data(struct ct_conv *c, const float *w,
                                        const float *dy, float *dx)
{
    return CT_LAUNCH(c->dev,
                     c->desc.batch * c->desc.in_channels * c->in_spatial,
                     backward_data, shape_of(c), w, dy, dx);
}

static enum ct_status ref_backward_weights(struct ct_conv *c, const float *x,
                                           const float *dy, float *dw,
                                           float *db)
{
    const int64_t n = c->desc.out_channels * c->in_group * c->taps;

    backward_weights<<<(unsigned)n, CT_BLOCK, 0, ct_cuda_stream(c->dev)>>>(
        shape_of(c), x, dy, dw);
    CT_TRY(CT_CUDA_LAUNCHED(c->dev, "backward_weights"));
    return ct_conv_bias_gradient(c, dy, db);
}

/* By name, as a C file would: slots may be added in any place. */
static constexpr struct ct_conv_impl ref_impl(void)
{
    struct ct_conv_impl impl = {};

    impl.name             = "ref";
    impl.create           = ref_create;
    impl.destroy          = ref_destroy;
    impl.forward          = ref_forward;
    impl.backward_data    = ref_backward_data;
    impl.backward_weights = ref_backward_weights;
    return impl;
}

extern "C" const struct ct_conv_impl ct_conv_cuda_ref = ref_impl();
