/* divide.h - quotients by a number that is known at the launch.  A kernel that
 * finds its place in an array divides several times.  On the host for tests. */
#ifndef CT_DEVICE_CUDA_DIVIDE_H
#define CT_DEVICE_CUDA_DIVIDE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#define CT_DIVIDE_FN __host__ __device__ static inline
#else
#define CT_DIVIDE_FN static inline
#endif

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

/* The upper half of a product. */
CT_DIVIDE_FN uint32_t ct_upper(uint32_t a, uint32_t b)
{
#ifdef __CUDA_ARCH__
    return __umulhi(a, b);
#else
    return (uint32_t)(((uint64_t)a * b) >> 32);
#endif
}

/* The quotient alone, for a divider that is not wide. */
CT_DIVIDE_FN int ct_quotient(struct ct_divider v, int n)
{
    return (int)((ct_upper((uint32_t)n, v.mul) + (uint32_t)n) >> v.shift);
}

/* The quotient; *rest gets what is left. */
CT_DIVIDE_FN int64_t ct_divide(struct ct_divider v, int64_t n, int64_t *rest)
{
    const int64_t q = v.wide ? n / v.d : ct_quotient(v, (int)n);

    *rest = n - q * v.d;
    return q;
}

#endif
