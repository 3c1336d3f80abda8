/* conv_slabs.h - the gradient of a convolution's weights by Hopper's tensor
 * cores, from float16 images, with sums in float32. */
#ifndef CT_DEVICE_CUDA_CONV_SLABS_H
#define CT_DEVICE_CUDA_CONV_SLABS_H

#include "device/conv_impl.h"
#include "device/impl.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { CT_SLABS_FORMS = 10 }; /* ways to cut the product; see slab_cut.h */

/* Whether this form takes the convolution; *bytes: its scratch. */
bool ct_cuda_slabs_takes(const struct ct_conv *c, int form, size_t *bytes);

/* dw += ..., plain float32, from NHWC arrays of float16.  Where `largest` is
 * not NULL, they were scaled by it (conv_scale.h): channels of x first, then
 * those of dy.  `part` is the scratch. */
CT_MUST_CHECK enum ct_status ct_cuda_slabs_gradient(
    const struct ct_conv *c, int form, const void *x, const void *dy,
    const uint32_t *largest, float *part, float *dw);

#ifdef __cplusplus
}
#endif
#endif
