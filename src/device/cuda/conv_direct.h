/* conv_direct.h - convolution of few input channels, without a library. */
#ifndef CT_DEVICE_CUDA_CONV_DIRECT_H
#define CT_DEVICE_CUDA_CONV_DIRECT_H

#include "device/conv_impl.h"
#include "device/impl.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether forward, or the weights' gradient, of this convolution can run here;
 * *bytes: the scratch that it needs. */
bool ct_cuda_direct_takes(const struct ct_conv *c, enum ct_pass pass,
                          size_t *bytes);

/* Arrays lie as the description says, the weights as plain float32.  y = ...
 * with bias, where b is not NULL, and ReLU. */
CT_MUST_CHECK enum ct_status ct_cuda_direct_forward(const struct ct_conv *c,
                                                    const void *x,
                                                    const float *w,
                                                    const float *b, void *y);
/* dw += ...; `part` is the scratch. */
CT_MUST_CHECK enum ct_status ct_cuda_direct_gradient(const struct ct_conv *c,
                                                     const void *x,
                                                     const void *dy,
                                                     float *part, float *dw);

#ifdef __cplusplus
}
#endif
#endif
