/* amx_pack.c - values of bfloat16 into the order that tiles of AMX want.
 *
 * Each function exists for AVX-512, which every CPU with AMX has, and in plain
 * C for tests on other ones. */
#include "device/cpu/amx_pack.h"

#include <string.h>

#include "device/cpu/bf16.h"

#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__)
#include <immintrin.h>
#define HAVE_VECTORS
#define VECTORS                                                              \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))

static bool has_vectors(void)
{
    return __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bf16");
}

/* Row i, column j of 16 x 16 words of 32 bits becomes row j, column i. */
VECTORS static inline __attribute__((always_inline)) void turn16(__m512i r[16])
{
    __m512i t[16];

    for (int i = 0; i < 16; i += 2) {
        t[i]     = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4)
        for (int k = 0; k < 2; k++) {
            r[i + 2 * k]     = _mm512_unpacklo_epi64(t[i + k], t[i + k + 2]);
            r[i + 2 * k + 1] = _mm512_unpackhi_epi64(t[i + k], t[i + k + 2]);
        }
    /* r[i + k] holds columns k, 4 + k, 8 + k, 12 + k of rows i to i + 3. */
    for (int k = 0; k < 4; k++) {
        t[k]      = _mm512_shuffle_i32x4(r[k], r[4 + k], 0x88);
        t[4 + k]  = _mm512_shuffle_i32x4(r[8 + k], r[12 + k], 0x88);
        t[8 + k]  = _mm512_shuffle_i32x4(r[k], r[4 + k], 0xdd);
        t[12 + k] = _mm512_shuffle_i32x4(r[8 + k], r[12 + k], 0xdd);
    }
    for (int k = 0; k < 4; k++) {
        r[k]      = _mm512_shuffle_i32x4(t[k], t[4 + k], 0x88);
        r[8 + k]  = _mm512_shuffle_i32x4(t[k], t[4 + k], 0xdd);
        r[4 + k]  = _mm512_shuffle_i32x4(t[8 + k], t[12 + k], 0x88);
        r[12 + k] = _mm512_shuffle_i32x4(t[8 + k], t[12 + k], 0xdd);
    }
}

/* 32 x 32: pairs of rows are interleaved, and turned as words.  The lower
 * halves of the lanes hold columns 0 to 3 of each 8, the upper ones others. */
VECTORS static void turn_vectors(const uint16_t *x, int64_t step, uint16_t *to,
                                 int64_t pitch)
{
    for (int half = 0; half < 2; half++) {
        __m512i r[16];

        for (int i = 0; i < 16; i++) {
            const __m512i a = _mm512_loadu_si512(x + 2 * i * step);
            const __m512i b = _mm512_loadu_si512(x + (2 * i + 1) * step);

            r[i] = half ? _mm512_unpackhi_epi16(a, b)
                        : _mm512_unpacklo_epi16(a, b);
        }
        turn16(r);
        for (int j = 0; j < 16; j++)
            _mm512_storeu_si512(to + (j / 4 * 8 + j % 4 + 4 * half) * pitch,
                                r[j]);
    }
}

VECTORS static void pair_vectors(int64_t n, const uint16_t *first,
                                 const uint16_t *second, uint16_t *to,
                                 int64_t step)
{
    static const uint16_t order[32] = {
        0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
        8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47
    };
    const __m512i lower = _mm512_loadu_si512(order);
    const __m512i upper = _mm512_add_epi16(lower, _mm512_set1_epi16(16));
    const __m512i none  = _mm512_setzero_si512();

    for (int64_t i = 0; i < n; i += 32, to += step) {
        const __mmask32 mask = n - i >= 32 ? ~0u : (1u << (n - i)) - 1;
        const __m512i a =
            first ? _mm512_maskz_loadu_epi16(mask, first + i) : none;
        const __m512i b =
            second ? _mm512_maskz_loadu_epi16(mask, second + i) : none;

        _mm512_storeu_si512(to, _mm512_permutex2var_epi16(a, lower, b));
        _mm512_storeu_si512(to + 512, _mm512_permutex2var_epi16(a, upper, b));
    }
}

/* 32 values from 16 of each. */
VECTORS static inline __m512i narrow2(const float *low, const float *high)
{
    return (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(high),
                                        _mm512_loadu_ps(low));
}

VECTORS static void weights_vectors(const float *w, int64_t step, uint16_t *to)
{
    static const uint16_t order[32] = {
        0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
        8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
    };
    const __m512i index = _mm512_loadu_si512(order);

    for (int i = 0; i < 8; i++)
        _mm512_storeu_si512(
            to + i * 32,
            _mm512_permutexvar_epi16(index, narrow2(w + 2 * i * step,
                                                    w + (2 * i + 1) * step)));
}

VECTORS static void turned_vectors(const float *w, const float *next,
                                   int64_t step, uint16_t *to)
{
    static const float none[16];
    __m512i r[16];

    for (int i = 0; i < 16; i++)
        r[i] = narrow2(w + i * step, next ? next + i * step : none);
    turn16(r);
    for (int i = 0; i < 16; i++)
        _mm512_storeu_si512(to + i * 32, r[i]);
}

/* Sixteen floats that are `step` apart. */
VECTORS static inline __m256i apart16(const float *x, __m512i index,
                                      __mmask16 mask)
{
    const __m512 none = _mm512_setzero_ps();

    return x ? (__m256i)_mm512_cvtneps_pbh(
                   _mm512_mask_i32gather_ps(none, mask, index, x, 4))
             : _mm256_setzero_si256();
}

VECTORS static void row_vectors(const float *even, const float *odd,
                                int64_t n, int64_t step, uint16_t *to)
{
    const __m512i count = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10,
                                            11, 12, 13, 14, 15);
    const __m512i index = _mm512_mullo_epi32(count,
                                             _mm512_set1_epi32((int)step));
    const __mmask16 mask = (__mmask16)(n >= 16 ? 0xffff
                                       : n <= 0 ? 0
                                                : (1 << n) - 1);
    const __m512i low  = _mm512_cvtepu16_epi32(apart16(even, index, mask));
    const __m512i high = _mm512_cvtepu16_epi32(apart16(odd, index, mask));

    _mm512_storeu_si512(to, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
}

/* Sixteen positions at a time of three channels, or of one. */
VECTORS static void merge_vectors(int64_t n, int64_t channels, const float *x,
                                  int64_t plane, uint16_t *to)
{
    static const uint16_t order[64] = {
        0,  16, 32, 1,  17, 33, 2,  18, 34, 3,  19, 35, 4,  20, 36, 5,
        21, 37, 6,  22, 38, 7,  23, 39, 8,  24, 40, 9,  25, 41, 10, 26,
        42, 11, 27, 43, 12, 28, 44, 13, 29, 45, 14, 30, 46, 15, 31, 47
    };
    const __m512i first = _mm512_loadu_si512(order);
    const __m512i rest  = _mm512_loadu_si512(order + 32);

    for (int64_t i = 0; i < n; i += 16, to += 16 * channels) {
        const int64_t left   = n - i < 16 ? n - i : 16;
        const __mmask16 mask = (__mmask16)((1u << left) - 1);
        const uint64_t all   = ((uint64_t)1 << left * channels) - 1;
        const __m512 a       = _mm512_maskz_loadu_ps(mask, x + i);
        __m512 b, c;
        __m512i ab, last;

        if (channels == 1) {
            _mm256_mask_storeu_epi16(to, mask, (__m256i)_mm512_cvtneps_pbh(a));
            continue;
        }
        b    = _mm512_maskz_loadu_ps(mask, x + plane + i);
        c    = _mm512_maskz_loadu_ps(mask, x + 2 * plane + i);
        ab   = (__m512i)_mm512_cvtne2ps_pbh(b, a);
        last = _mm512_castsi256_si512((__m256i)_mm512_cvtneps_pbh(c));
        _mm512_mask_storeu_epi16(to, (__mmask32)all,
                                 _mm512_permutex2var_epi16(ab, first, last));
        _mm512_mask_storeu_epi16(to + 32, (__mmask32)(all >> 32),
                                 _mm512_permutex2var_epi16(ab, rest, last));
    }
}

VECTORS static void rows_vectors(const uint16_t *x, int64_t step, uint16_t *to)
{
    __m512i r[16];

    for (int i = 0; i < 16; i++)
        r[i] = _mm512_loadu_si512(x + i * step);
    turn16(r);
    for (int i = 0; i < 16; i++)
        _mm512_storeu_si512(to + i * 32, r[i]);
}

/* Sixteen of a row. */
VECTORS static inline __attribute__((always_inline)) __m512 ended(
    const struct ct_amx_end *e, __mmask16 mask, const float *c, __m512 bias,
    const uint16_t *y)
{
    __m512 v = _mm512_add_ps(_mm512_loadu_ps(c), bias);

    if (e->sum)
        v = _mm512_add_ps(v, (__m512)_mm512_slli_epi32(
            _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, y)), 16));
    /* NaN stays: the second one counts if either is one. */
    return e->relu ? _mm512_max_ps(_mm512_setzero_ps(), v) : v;
}

VECTORS static void finish_vectors(const struct ct_amx_end *e, int64_t rows,
                                   const float *c, uint16_t *y)
{
    const uint32_t mask = e->n >= 32 ? ~0u : (1u << e->n) - 1;
    const __m512 low    = _mm512_loadu_ps(e->bias);
    const __m512 high   = _mm512_loadu_ps(e->bias + 16);

    for (int64_t i = 0; i < rows; i++, c += 32, y += e->step) {
        const __m512 a = ended(e, (__mmask16)mask, c, low, y);
        const __m512 b =
            ended(e, (__mmask16)(mask >> 16), c + 16, high, y + 16);

        _mm512_mask_storeu_epi16(y, mask, (__m512i)_mm512_cvtne2ps_pbh(b, a));
    }
}
#endif

static void turn_plain(const uint16_t *x, int64_t step, uint16_t *to,
                       int64_t pitch)
{
    for (int i = 0; i < 32; i++)
        for (int j = 0; j < 32; j++)
            to[j * pitch + i] = x[i * step + j];
}

static void pair_plain(int64_t n, const uint16_t *first,
                       const uint16_t *second, uint16_t *to, int64_t step)
{
    for (int64_t j = 0; j < (n + 31) / 32 * 32; j++) {
        uint16_t *at = to + j / 32 * step + j % 32 / 16 * 512 + j % 16 * 2;

        at[0] = first && j < n ? first[j] : 0;
        at[1] = second && j < n ? second[j] : 0;
    }
}

static void weights_plain(const float *w, int64_t step, uint16_t *to)
{
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++)
            to[i / 2 * 32 + j * 2 + i % 2] = ct_narrow(w[i * step + j]);
}

static void turned_plain(const float *w, const float *next, int64_t step,
                         uint16_t *to)
{
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++) {
            uint16_t *at = to + j / 2 * 32 + i * 2 + j % 2;

            at[0]   = ct_narrow(w[i * step + j]);
            at[256] = next ? ct_narrow(next[i * step + j]) : 0;
        }
}

static void row_plain(const float *even, const float *odd, int64_t n,
                      int64_t step, uint16_t *to)
{
    for (int64_t i = 0; i < 16; i++) {
        to[2 * i]     = even && i < n ? ct_narrow(even[i * step]) : 0;
        to[2 * i + 1] = odd && i < n ? ct_narrow(odd[i * step]) : 0;
    }
}

static void merge_plain(int64_t n, int64_t channels, const float *x,
                        int64_t plane, uint16_t *to)
{
    for (int64_t k = 0; k < channels; k++)
        for (int64_t i = 0; i < n; i++)
            to[i * channels + k] = ct_narrow(x[k * plane + i]);
}

static void rows_plain(const uint16_t *x, int64_t step, uint16_t *to)
{
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 32; j++)
            to[j / 2 * 32 + i * 2 + j % 2] = x[i * step + j];
}

static void finish_plain(const struct ct_amx_end *e, int64_t rows,
                         const float *c, uint16_t *y)
{
    for (int64_t i = 0; i < rows; i++, c += 32, y += e->step)
        for (int64_t j = 0; j < e->n; j++) {
            float v = c[j] + e->bias[j];

            if (e->sum)
                v += ct_widen(y[j]);
            y[j] = ct_narrow(e->relu && v < 0 ? 0 : v);
        }
}

#ifdef HAVE_VECTORS
#define EITHER(name, ...)                                                    \
    do {                                                                     \
        if (has_vectors())                                                   \
            name##_vectors(__VA_ARGS__);                                     \
        else                                                                 \
            name##_plain(__VA_ARGS__);                                       \
    } while (0)
#else
#define EITHER(name, ...) name##_plain(__VA_ARGS__)
#endif

void ct_amx_turn(int64_t n, const uint16_t *x, int64_t step, uint16_t *to,
                 int64_t pitch)
{
    for (int64_t i = 0; i < n; i += 32)
        EITHER(turn, x + i * step, step, to + i, pitch);
}

void ct_amx_pair(int64_t n, const uint16_t *first, const uint16_t *second,
                 uint16_t *to, int64_t step)
{
    EITHER(pair, n, first, second, to, step);
}

void ct_amx_weights(const float *w, int64_t step, uint16_t *to)
{
    EITHER(weights, w, step, to);
}

void ct_amx_weights_turned(const float *w, const float *next, int64_t step,
                           uint16_t *to)
{
    EITHER(turned, w, next, step, to);
}

void ct_amx_weights_row(const float *even, const float *odd, int64_t n,
                        int64_t step, uint16_t *to)
{
    EITHER(row, even, odd, n, step, to);
}

void ct_amx_merge(int64_t n, int64_t channels, const float *x, int64_t plane,
                  uint16_t *to)
{
    if (channels == 1 || channels == 3)
        EITHER(merge, n, channels, x, plane, to);
    else
        merge_plain(n, channels, x, plane, to);
}

void ct_amx_rows_turned(const uint16_t *x, int64_t step, uint16_t *to)
{
    EITHER(rows, x, step, to);
}

void ct_amx_finish(const struct ct_amx_end *e, int64_t rows, const float *c,
                   uint16_t *y)
{
    EITHER(finish, e, rows, c, y);
}
