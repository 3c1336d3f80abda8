/* divide.h - quotients by a number that is known at the launch; for .cu files
 * alone.  A kernel that finds its place in an array divides several times. */
#ifndef CT_DEVICE_CUDA_DIVIDE_H
#define CT_DEVICE_CUDA_DIVIDE_H

#include <stdbool.h>
#include <stdint.h>

/* n / d for n below 2^31, by a multiplication; where numbers may be larger
 * (`wide`), by a division. */
struct ct_divider {
    int64_t  d;
    uint32_t mul;
    int      shift;
    bool     wide;
};

/* For numbers up to `most`; d is at least 1. */
static inline struct ct_divider ct_divider_of(int64_t d, int64_t most)
{
    struct ct_divider v = { d, 0, 0, most > INT32_MAX || d > INT32_MAX };

    while (((int64_t)1 << v.shift) < d)
        v.shift++;
    if (!v.wide)
        v.mul = (uint32_t)((((uint64_t)1 << 32) *
                            (((uint64_t)1 << v.shift) - (uint64_t)d)) /
                               (uint64_t)d + 1);
    return v;
}

/* The quotient alone, for a divider that is not wide. */
__device__ inline int ct_quotient(const struct ct_divider &v, int n)
{
    return (int)((__umulhi((uint32_t)n, v.mul) + (uint32_t)n) >> v.shift);
}

/* The quotient; *rest gets what is left. */
__device__ inline int64_t ct_divide(const struct ct_divider &v, int64_t n,
                                    int64_t *rest)
{
    int64_t q;

    if (v.wide) {
        q = n / v.d;
    } else {
        const uint32_t low = (uint32_t)n;

        q = (__umulhi(low, v.mul) + low) >> v.shift;
    }
    *rest = n - q * v.d;
    return q;
}

#endif
