/* short.h - sixteen values of bfloat16 in a register, for functions that are
 * compiled for AVX512_BF16.
 *
 * The loader cannot pick such functions as it does with CT_SIMD: callers ask
 * ct_short_runs() (wino_bf16.h). */
#ifndef CT_DEVICE_CPU_SHORT_H
#define CT_DEVICE_CPU_SHORT_H

#if defined(__x86_64__)
#include <immintrin.h>
#include <stdint.h>

#define CT_SHORT                                                             \
    __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,avx512bf16,"   \
                          "fma")))
#define CT_SHORT_PART                                                        \
    CT_SHORT static inline __attribute__((always_inline))

CT_SHORT_PART __m512 ct_short_widen(const uint16_t *x)
{
    const __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)x);

    return (__m512)_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16);
}

/* As above, and zeros where `there` has none. */
CT_SHORT_PART __m512 ct_short_widen_some(__mmask16 there, const uint16_t *x)
{
    const __m256i v = _mm256_maskz_loadu_epi16(there, x);

    return (__m512)_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16);
}

CT_SHORT_PART void ct_short_narrow(__m512 v, uint16_t *y)
{
    _mm256_storeu_si256((__m256i *)(void *)y, (__m256i)_mm512_cvtneps_pbh(v));
}

CT_SHORT_PART void ct_short_narrow_some(__mmask16 there, __m512 v, uint16_t *y)
{
    _mm256_mask_storeu_epi16(y, there, (__m256i)_mm512_cvtneps_pbh(v));
}

/* Two rows of sixteen, value by value. */
CT_SHORT_PART __m512i ct_short_weave(__m256i first, __m256i second)
{
    return _mm512_or_si512(
        _mm512_cvtepu16_epi32(first),
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(second), 16));
}

CT_SHORT_PART void ct_short_narrow_pair(__m512 first, __m512 second,
                                        uint16_t *y)
{
    _mm512_storeu_si512(y,
                        ct_short_weave((__m256i)_mm512_cvtneps_pbh(first),
                                       (__m256i)_mm512_cvtneps_pbh(second)));
}

/* Below zero becomes zero; NaN stays. */
CT_SHORT_PART __m512 ct_short_clamp(__m512 v)
{
    const __m512 zero = _mm512_setzero_ps();

    return _mm512_mask_mov_ps(v, _mm512_cmp_ps_mask(v, zero, _CMP_LT_OQ),
                              zero);
}
#endif

#endif
