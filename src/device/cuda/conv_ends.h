/* conv_ends.h - the gradient of a convolution's data where a residual block
 * ends, by Hopper's tensor cores: for kernels of one point in bfloat16.  On its
 * way it does what a BatchNorm before it would do in a pass of its own
 * (struct ct_conv_end). */
#ifndef CT_DEVICE_CUDA_CONV_ENDS_H
#define CT_DEVICE_CUDA_CONV_ENDS_H

#include "device/conv_impl.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { CT_ENDS_FORMS = 3 }; /* ways to cut the product; see ends_cut.h */

/* Whether this form takes the convolution: one point, no stride, bfloat16 in
 * NHWC, whole slabs of input channels.  *slots: of the sums (ct_moments). */
bool ct_cuda_ends_takes(const struct ct_conv *c, int form, int64_t *slots);

/* end->e and its sums, two floats for each channel and slot, from weights that
 * are out_channels x in_channels of bfloat16. */
CT_MUST_CHECK enum ct_status ct_cuda_ends_data(const struct ct_conv *c,
                                               int form, const void *dy,
                                               const void *w,
                                               const struct ct_conv_end *end,
                                               float *part);

/* The same of a gradient dx that is there, as a pass of its own does it; `part`
 * has room for two doubles a channel.  To measure what that costs. */
CT_MUST_CHECK enum ct_status ct_cuda_ends_pass(const struct ct_conv *c,
                                               const void *dx,
                                               const struct ct_conv_end *end,
                                               float *part);

#ifdef __cplusplus
}
#endif
#endif
