/* conv_scale.h - float32 images as 16-bit ones that lose no digit of tf32.
 *
 * float16 has tf32's ten digits behind the point, but a short range.  So every
 * channel is multiplied by a power of two of its own, by which its largest
 * value comes to lie between 2^7 and 2^15: values down to 2^-21 of that keep
 * all their digits.  A sum over positions, which is what a gradient of weights
 * is, is then multiplied back.  A channel with an infinity or a NaN is taken
 * as it is, so that they show.
 *
 * The power follows from the largest value alone: magnitudes fall into classes
 * of eight powers of two, and all of a class are scaled alike.  So it is rarely
 * another than in the pass before, and one pass over memory is enough:
 *
 *     scale by the class of the pass before, and find the largest values
 *     scale once more the channels whose class is another, most often none
 *
 * What comes out depends on the images alone, and not on earlier passes: a
 * channel that is not scaled again was scaled by the class that it has.  A
 * channel of zeros is zero by any scale, and counts as having the class of
 * before.  Whatever `largest` and `before` hold at first is right, but slow. */
#ifndef CT_DEVICE_CUDA_CONV_SCALE_H
#define CT_DEVICE_CUDA_CONV_SCALE_H

#include "device/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A pass begins, for n channels: before[i] = largest[i] where that is not 0,
 * and largest[i] = 0. */
CT_MUST_CHECK enum ct_status ct_cuda_scale_begin(const struct ct_device *d,
                                                 int64_t n, uint32_t *largest,
                                                 uint32_t *before);

/* Rows of `channels` values, scaled into float16 at `to`; largest[channel]
 * becomes the bits of the largest magnitude.  With `before`, largest is 0 when
 * this begins; without (NULL), x is read twice, and the result is the same. */
CT_MUST_CHECK enum ct_status ct_cuda_scale_in(const struct ct_device *d,
                                              int64_t rows, int64_t channels,
                                              const float *x,
                                              uint32_t *largest,
                                              const uint32_t *before,
                                              void *to);

#ifdef __cplusplus
}
#endif

#ifdef __CUDACC__
enum {
    CT_SCALED_TO   = 14, /* the exponent of the largest value of a class */
    CT_SCALE_CLASS = 8   /* exponents of a class */
};

/* That exponent before; what is 0 or not finite stays as it is. */
__device__ inline int ct_exponent_of(uint32_t largest)
{
    const int e = (int)(largest >> 23); /* with 127 added */

    if (largest == 0 || e > 254)
        return CT_SCALED_TO;
    /* 2^(14 - e) is a float */
    return (e < 24 ? 24 : e) / CT_SCALE_CLASS * CT_SCALE_CLASS +
           CT_SCALE_CLASS - 1 - 127;
}

/* 2^n; n is between -126 and 127. */
__device__ inline float ct_power_of_two(int n)
{
    return __uint_as_float((unsigned)(127 + n) << 23);
}

__device__ inline float ct_scale_of(uint32_t largest)
{
    return ct_power_of_two(CT_SCALED_TO - ct_exponent_of(largest));
}

__device__ inline float ct_unscale_of(uint32_t largest)
{
    return ct_power_of_two(ct_exponent_of(largest) - CT_SCALED_TO);
}
#endif
#endif
