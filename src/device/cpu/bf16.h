/* bf16.h - bfloat16 on the CPU: the upper half of a float32.
 *
 * A value is rounded to the nearest one that has 8 bits of mantissa, ties to
 * the even one, as all hardware does; NaN stays NaN.  Operations read rows of
 * such values into floats, compute, and round what they write.  Pointers to
 * floats in the interfaces of this folder point to uint16_t where a
 * description says CT_BF16; ct_bf16() makes them so. */
#ifndef CT_DEVICE_CPU_BF16_H
#define CT_DEVICE_CPU_BF16_H

#include <stdint.h>
#include <string.h>

#include "cortado/device.h"
#include "device/cpu/simd.h"

/* The CPU whose nets hand bfloat16 from layer to layer. */
const struct ct_device *ct_device_cpu_bf16(void);

CT_INLINE float ct_widen(uint16_t v)
{
    const uint32_t bits = (uint32_t)v << 16;
    float f;

    memcpy(&f, &bits, sizeof(f));
    return f;
}

CT_INLINE uint16_t ct_narrow(float f)
{
    uint32_t bits, near;

    memcpy(&bits, &f, sizeof(bits));
    near = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
    return (uint16_t)(f != f ? bits >> 16 | 0x40 : near);
}

static inline const uint16_t *ct_bf16(const float *p)
{
    return (const uint16_t *)(const void *)p;
}

static inline uint16_t *ct_bf16_out(float *p)
{
    return (uint16_t *)(void *)p;
}

/* layout.c: rows of n values. */
void ct_widen_row(int64_t n, const uint16_t *x, float *y);
void ct_narrow_row(int64_t n, const float *x, uint16_t *y);

#endif
