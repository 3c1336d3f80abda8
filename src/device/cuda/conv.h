/* conv.h - kernels around convolution. */
#ifndef CT_DEVICE_CUDA_CONV_H
#define CT_DEVICE_CUDA_CONV_H

#include "device/conv.h"
#include "device/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* dw += g, where g is out x in x taps in `layout` and `dtype`, dw plain. */
CT_MUST_CHECK enum ct_status ct_cuda_weights_add(
    const struct ct_device *d, int64_t out, int64_t in, int64_t taps,
    enum ct_layout layout, enum ct_dtype dtype, const void *g, float *dw);

/* As ct_bias_forward() and ct_bias_backward(). */
CT_MUST_CHECK enum ct_status ct_cuda_conv_bias_forward(
    const struct ct_device *d, const struct ct_bias_desc *desc, const float *b,
    void *y);
CT_MUST_CHECK enum ct_status ct_cuda_conv_bias_backward(
    const struct ct_device *d, const struct ct_bias_desc *desc, const void *dy,
    float *db);

#ifdef __cplusplus
}
#endif
#endif
