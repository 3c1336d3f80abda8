/* conv_scale.h - float32 images as 16-bit ones that lose no digit of tf32.
 *
 * float16 has tf32's ten digits behind the point, but a short range.  So every
 * channel is multiplied by a power of two of its own, by which its largest
 * value comes to lie between 2^14 and 2^15: values down to 2^-28 of that keep
 * all their digits.  A sum over positions, which is what a gradient of weights
 * is, is then multiplied back.  A channel with an infinity or a NaN is taken
 * as it is, so that they show. */
#ifndef CT_DEVICE_CUDA_CONV_SCALE_H
#define CT_DEVICE_CUDA_CONV_SCALE_H

#include "device/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rows of `channels` values, scaled into float16 at `to`; largest[channel]
 * becomes the bits of the largest magnitude. */
CT_MUST_CHECK enum ct_status ct_cuda_scale_in(const struct ct_device *d,
                                              int64_t rows, int64_t channels,
                                              const float *x,
                                              uint32_t *largest, void *to);

#ifdef __cplusplus
}
#endif

#ifdef __CUDACC__
enum { CT_SCALED_TO = 14 }; /* the exponent of a channel's largest value */

/* That exponent before; what is 0 or not finite stays as it is. */
__device__ inline int ct_exponent_of(uint32_t largest)
{
    const int e = (int)(largest >> 23) - 127;

    if (largest == 0 || e > 127)
        return CT_SCALED_TO;
    return e < -100 ? -100 : e; /* 2^(14 - e) is a float */
}

__device__ inline float ct_scale_of(uint32_t largest)
{
    return exp2f((float)(CT_SCALED_TO - ct_exponent_of(largest)));
}

__device__ inline float ct_unscale_of(uint32_t largest)
{
    return exp2f((float)(ct_exponent_of(largest) - CT_SCALED_TO));
}
#endif
#endif
