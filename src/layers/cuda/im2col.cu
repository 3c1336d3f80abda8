/* im2col.cu - Im2col on a GPU; formulas and shapes as in im2col.c.  A thread
 * makes one value: of y, or of dx, which gathers from the windows it is in. */
#include "device/cuda/kernel.h"
#include "layers/cuda/slots.h"

extern "C" {
#include "layers/im2col.h"
}

/* The images, their windows, and how many values each has. */
struct windows {
    int     axes;
    int64_t planes, taps, in_spatial, out_spatial; /* plane: image, channel */
    int64_t in[CT_CONV_MAX], out[CT_CONV_MAX], kernel[CT_CONV_MAX];
    int64_t stride[CT_CONV_MAX], pad[CT_CONV_MAX], dilation[CT_CONV_MAX];
};

static struct windows windows_of(const struct im2col *s)
{
    struct windows w = {};

    w.axes        = s->desc.n_spatial;
    w.planes      = s->n * s->map.channels;
    w.taps        = s->map.taps;
    w.in_spatial  = s->map.in_spatial;
    w.out_spatial = s->map.out_spatial;
    for (int i = 0; i < w.axes; i++) {
        w.in[i]       = s->desc.in[i];
        w.out[i]      = s->map.out[i];
        w.kernel[i]   = s->desc.kernel[i];
        w.stride[i]   = s->desc.stride[i];
        w.pad[i]      = s->desc.pad[i];
        w.dilation[i] = s->desc.dilation[i];
    }
    return w;
}

/* y is planes x taps x out_spatial. */
__global__ static void gather(struct windows w, const float *x, float *y)
{
    CT_TURN();
    CT_KERNEL_EACH (i, w.planes * w.taps * w.out_spatial) {
        const int64_t plane = i / (w.taps * w.out_spatial);
        int64_t p = i % w.out_spatial, k = i / w.out_spatial % w.taps;
        int64_t at = 0, step = 1;

        for (int a = w.axes - 1; a >= 0; a--) {
            const int64_t from = p % w.out[a] * w.stride[a] - w.pad[a] +
                                 k % w.kernel[a] * w.dilation[a];

            if (from < 0 || from >= w.in[a])
                at = -1;
            if (at >= 0)
                at += from * step;
            step *= w.in[a];
            p /= w.out[a];
            k /= w.kernel[a];
        }
        y[i] = at < 0 ? 0 : x[plane * w.in_spatial + at];
    }
}

/* The window that has place `x` at tap k; -1: none. */
__device__ static inline int64_t holder(const struct windows &w, int64_t x,
                                        int64_t k)
{
    int64_t at = 0, step = 1;

    for (int a = w.axes - 1; a >= 0; a--) {
        const int64_t p = x % w.in[a] + w.pad[a] -
                          k % w.kernel[a] * w.dilation[a];

        if (p < 0 || p % w.stride[a] || p / w.stride[a] >= w.out[a])
            return -1;
        at += p / w.stride[a] * step;
        step *= w.out[a];
        x /= w.in[a];
        k /= w.kernel[a];
    }
    return at;
}

__global__ static void gather_back(struct windows w, const float *dy,
                                   float *dx)
{
    CT_TURN();
    CT_KERNEL_EACH (i, w.planes * w.in_spatial) {
        const int64_t plane = i / w.in_spatial;
        float sum           = 0;

        for (int64_t k = 0; k < w.taps; k++) {
            const int64_t p = holder(w, i % w.in_spatial, k);

            if (p >= 0)
                sum += dy[(plane * w.taps + k) * w.out_spatial + p];
        }
        dx[i] = sum;
    }
}

extern "C" enum ct_status ct_cuda_im2col_forward(struct ct_layer *l,
                                                 const struct ct_io *io)
{
    if (io->top[0]->count == 0)
        return CT_OK;
    return CT_LAUNCH(l->dev, io->top[0]->count, gather,
                     windows_of((const struct im2col *)l->state),
                     (const float *)ct_data(io->bottom[0]),
                     ct_data(io->top[0]));
}

extern "C" enum ct_status ct_cuda_im2col_backward(struct ct_layer *l,
                                                  const struct ct_io *io)
{
    if (!io->want_grad[0] || io->bottom[0]->count == 0)
        return CT_OK;
    return CT_LAUNCH(l->dev, io->bottom[0]->count, gather_back,
                     windows_of((const struct im2col *)l->state),
                     (const float *)ct_diff(io->top[0]),
                     ct_diff(io->bottom[0]));
}
