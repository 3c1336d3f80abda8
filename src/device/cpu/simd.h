/* simd.h - loops of one thread that use the widest vectors the CPU has.
 *
 * The library is built for any x86-64.  A function marked CT_SIMD is compiled
 * for AVX-512, AVX2 and the baseline, and the loader picks one; CT_INLINE
 * functions become part of the CT_SIMD function that calls them.  Parallel
 * loops (loop.h) call such functions from their bodies: a body itself is
 * outlined by the compiler and would stay at the baseline.
 *
 * The sanitizers' run-time is not ready when the loader picks, so under them
 * only the baseline is built. */
#ifndef CT_DEVICE_CPU_SIMD_H
#define CT_DEVICE_CPU_SIMD_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__) &&  \
    __GNUC__ >= 12 && !defined(__SANITIZE_THREAD__) &&                       \
    !defined(__SANITIZE_ADDRESS__)
#define CT_SIMD                                                              \
    __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3",         \
                                 "default")))
#else
#define CT_SIMD
#endif

#define CT_INLINE static inline __attribute__((always_inline))

/* Sums and maxima of a float over one row; the order of additions is the
 * compiler's, which is what lets it use vectors. */
#define CT_SIMD_PRAGMA(x) _Pragma(#x)
#define CT_SIMD_SUM(i, n, sum)                                               \
    CT_SIMD_PRAGMA(omp simd reduction(+ : sum))                              \
    for (int64_t i = 0; i < (n); i++)
#define CT_SIMD_SUM2(i, n, sum, other)                                       \
    CT_SIMD_PRAGMA(omp simd reduction(+ : sum, other))                       \
    for (int64_t i = 0; i < (n); i++)
#define CT_SIMD_MAX(i, n, top)                                               \
    CT_SIMD_PRAGMA(omp simd reduction(max : top))                            \
    for (int64_t i = 0; i < (n); i++)
/* Iterations that do not depend on each other, whatever the pointers. */
#define CT_SIMD_EACH(i, n)                                                   \
    CT_SIMD_PRAGMA(omp simd)                                                 \
    for (int64_t i = 0; i < (n); i++)

/* CT_SIMD_EACH over [from, to). */
#define CT_SIMD_FROM(i, from, to)                                            \
    CT_SIMD_PRAGMA(omp simd)                                                 \
    for (int64_t i = (from); i < (to); i++)

/* Eight lanes at any address: half of a 16-channel block, or an 8-channel
 * block.  The compiler splits them where vectors are shorter. */
enum { CT_LANES = 8 };
typedef float   ct_v8f __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t ct_v8i __attribute__((vector_size(32), aligned(4), may_alias));
#define CT_LOAD8(x) (*(const ct_v8f *)(x))

/* e^x with the error of a few roundings, for x <= 88; below -87.3, where e^x
 * has no normal float, it is 0.  NaN stays NaN.
 *
 *     e^x = 2^n e^r,   n = round(x / ln 2),   |r| <= ln 2 / 2
 *
 * with the Taylor series of e^r, whose eighth term is below 1e-8. */
CT_INLINE float ct_exp_row(float x)
{
    const float round = 12582912.0f; /* 1.5 * 2^23: drops the fraction */
    float    t = x * 1.44269504f + round, n = t - round;
    float    r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float    e = 1.0f / 5040, power;
    uint32_t bits;

    /* The low bits of t are n; as an exponent they make 2^n. */
    memcpy(&bits, &t, sizeof(bits));
    bits = (bits << 23) + (127u << 23);
    memcpy(&power, &bits, sizeof(power));
    e = e * r + 1.0f / 720;
    e = e * r + 1.0f / 120;
    e = e * r + 1.0f / 24;
    e = e * r + 1.0f / 6;
    e = e * r + 0.5f;
    e = e * r + 1;
    e = e * r + 1;
    return x < -87.3f ? 0 : e * power;
}

#endif
