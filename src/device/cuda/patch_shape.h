/* patch_shape.h - a convolution as patch_cut.h has it; for conv_patch.cu and
 * patch_sums.cu alone. */
#ifndef CT_DEVICE_CUDA_PATCH_SHAPE_H
#define CT_DEVICE_CUDA_PATCH_SHAPE_H

#include "device/cuda/patch_cut.h"
#include "device/cuda/patch_load.h"

/* Whether it is so small that a library's tiles do not pay. */
static inline bool ct_patch_few(const struct ct_conv *c)
{
    const struct ct_conv_desc *d = &c->desc;
    const double most            = 2e9; /* products of a pass */

    return (double)d->batch * (double)(c->out[0] * c->out[1]) *
               (double)(d->kernel[0] * d->kernel[1]) *
               (double)(d->in_channels * d->out_channels) <= most;
}

/* False: not this convolution. */
static inline bool ct_patch_shape_of(const struct ct_conv *c,
                                     struct ct_patch_shape *s)
{
    const struct ct_conv_desc *d = &c->desc;

    if (ct_cuda(c->dev)->major < 8 || d->n_spatial != 2 || d->group != 1 ||
        d->in_channels > 1024 || d->out_channels > 1024 || d->batch > 65535)
        return false;
    for (int i = 0; i < 2; i++) {
        if (d->stride[i] != 1 || d->dilation[i] != 1 || d->pad[i] > 1024 ||
            d->kernel[i] > 1024 || d->in[i] > 1024)
            return false;
        s->in[i]     = (int)d->in[i];
        s->out[i]    = (int)c->out[i];
        s->kernel[i] = (int)d->kernel[i];
        s->pad[i]    = (int)d->pad[i];
    }
    if (!ct_patch_few(c))
        return false;
    s->batch    = (int)d->batch;
    s->channels = (int)d->in_channels;
    s->outputs  = (int)d->out_channels;
    return true;
}

/* What the device's precision makes of factors. */
static inline enum ct_factor ct_factor_of(const struct ct_device *d)
{
    switch (ct_device_dtype(d)) {
    case CT_BF16:
        return CT_FACTOR_BF16;
    case CT_F16:
        return CT_FACTOR_F16;
    default:
        return ct_cuda(d)->precision == CT_FP32 ? CT_FACTOR_F32
                                                : CT_FACTOR_TF32;
    }
}

/* Whether `at_once` channels of a position may be moved together. */
static inline bool ct_images_packed(const struct ct_images &m, int at_once,
                                    const void *p)
{
    return m.channel == 1 && m.channels % at_once == 0 && ct_aligned(p);
}

#endif
