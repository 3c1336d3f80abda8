/* conv_patch.h - small convolutions without a library: stride 1, one group.
 * A patch of the image in shared memory serves all taps (patch_cut.h); tensor
 * cores multiply.  In fp32 every factor is a sum of two numbers of tf32, which
 * leaves out what is below 2^-21 of a product. */
#ifndef CT_DEVICE_CUDA_CONV_PATCH_H
#define CT_DEVICE_CUDA_CONV_PATCH_H

#include "device/conv_impl.h"
#include "device/impl.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { CT_PATCH_FORMS = 6, CT_SUMS_FORMS = 7 };

static inline int ct_patch_forms(enum ct_pass pass)
{
    return pass == CT_BACKWARD_WEIGHTS ? (int)CT_SUMS_FORMS
                                       : (int)CT_PATCH_FORMS;
}

/* Whether this form takes a pass; *words: of weights inside, the same for all
 * forms of forward and data, *bytes: of scratch. */
bool ct_cuda_patch_takes(const struct ct_conv *c, enum ct_pass pass, int form,
                         int64_t *words, size_t *bytes);

/* Plain weights into the order of both passes, forward and data. */
CT_MUST_CHECK enum ct_status ct_cuda_patch_weights(const struct ct_conv *c,
                                                   const float *w,
                                                   void *inside);

/* Arrays lie as the description says.  y = ..., with bias, where b is not NULL,
 * and ReLU. */
CT_MUST_CHECK enum ct_status ct_cuda_patch_forward(const struct ct_conv *c,
                                                   int form, const void *x,
                                                   const void *inside,
                                                   const float *b, void *y);
/* dx = ... */
CT_MUST_CHECK enum ct_status ct_cuda_patch_data(const struct ct_conv *c,
                                                int form, const void *dy,
                                                const void *inside, void *dx);

/* patch_sums.cu: whether this form takes the gradient of weights, and its
 * scratch; dw += ... */
bool ct_cuda_sums_takes(const struct ct_conv *c, int form, size_t *bytes);
CT_MUST_CHECK enum ct_status ct_cuda_sums_gradient(const struct ct_conv *c,
                                                   int form, const void *x,
                                                   const void *dy,
                                                   float *part, float *dw);

#ifdef __cplusplus
}
#endif
#endif
