/* conv_points.h - a convolution whose kernel is one point, by Hopper's tensor
 * cores, that adds up the channels of y on its way: for a BatchNorm behind it,
 * which then has no need to read y for its statistics. */
#ifndef CT_DEVICE_CUDA_CONV_POINTS_H
#define CT_DEVICE_CUDA_CONV_POINTS_H

#include "device/conv_impl.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { CT_POINTS_FORMS = 5 }; /* ways to cut the product; see points_cut.h */

/* Whether a convolution is a product of matrices that this GPU's tensor cores
 * take: one point, no stride, bfloat16 in NHWC. */
bool ct_cuda_points_fit(const struct ct_conv *c);
/* Whether this form takes it: it fits, and has neither bias nor ReLU.  *slots:
 * of the sums (ct_moments). */
bool ct_cuda_points_takes(const struct ct_conv *c, int form, int64_t *slots);

/* y = ..., from weights that are out_channels x in_channels of bfloat16, and
 * the sums of its channels: four floats for each channel and slot. */
CT_MUST_CHECK enum ct_status ct_cuda_points_forward(const struct ct_conv *c,
                                                    int form, const void *x,
                                                    const void *w, void *y,
                                                    float *part);

/* The same sums of a y that is there, as a pass of its own finds them; `part`
 * has room for two doubles a channel.  To measure what they cost. */
CT_MUST_CHECK enum ct_status ct_cuda_points_pass(const struct ct_conv *c,
                                                 const void *y, float *part);

#ifdef __cplusplus
}
#endif
#endif
