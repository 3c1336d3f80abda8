/* squash.h - sigmoid and tanh for vectorised loops (device/cpu/simd.h). */
#ifndef CT_LAYERS_SQUASH_H
#define CT_LAYERS_SQUASH_H

#include "device/cpu/simd.h"

/* Both take exponents of numbers at most 0, so nothing overflows. */
CT_INLINE float ct_sigmoid_row(float x)
{
    float e = ct_exp_row(-fabsf(x));

    return (x >= 0 ? 1 : e) / (1 + e);
}

/* tanh |x| = (1 - e) / (1 + e) with e = exp(-2 |x|); near 0, where 1 - e
 * loses digits, the series x - x^3/3 + 2 x^5/15 is exact to a rounding. */
CT_INLINE float ct_tanh_row(float x)
{
    float a = fabsf(x), x2 = x * x;
    float e = ct_exp_row(-2 * a);
    float t = (1 - e) / (1 + e);
    float s = x - x * x2 * (1.0f / 3 - x2 * (2.0f / 15));

    return a < 0.1f ? s : x < 0 ? -t : t;
}

#endif
