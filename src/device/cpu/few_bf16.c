/* few_bf16.c - eight rows of two vectors of sums in registers, as product.c,
 * for rows that overlap. */
#include "device/cpu/few_bf16.h"

#include <string.h>

#include "device/cpu/short.h"

#if defined(__x86_64__)
#define SHORT CT_SHORT
#define PART  CT_SHORT_PART

enum { ROWS = CT_FEW_ROWS, COLUMNS = CT_FEW_COLUMNS, LANES = 16 };

SHORT void ct_few_pair(int64_t n, int64_t shift, const uint16_t *x,
                       uint32_t *pairs)
{
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        _mm512_storeu_si512(
            pairs + i,
            ct_short_weave(_mm256_loadu_si256((const void *)(x + i)),
                           _mm256_loadu_si256((const void *)(x + i + shift))));
    for (; i < n; i++)
        pairs[i] = (uint32_t)x[i] | (uint32_t)x[i + shift] << 16;
}

/* Which of sixteen channels from `first` on there are. */
PART __mmask16 there(int64_t channels, int64_t first)
{
    const int64_t left = channels - first;

    return (__mmask16)(left >= LANES ? 0xffff
                       : left <= 0   ? 0
                                     : (1 << left) - 1);
}

SHORT void ct_few_weave(int64_t n, int64_t channels, const uint16_t *dy,
                        int64_t step, uint16_t *pairs)
{
    for (int64_t i = 0; i < n; i += 2, pairs += 2 * COLUMNS)
        for (int64_t c = 0; c < COLUMNS; c += LANES) {
            const __mmask16 some = there(channels, c);
            const __mmask16 other = i + 1 < n ? some : 0;
            const uint16_t *from = dy + i * step + c;

            _mm512_storeu_si512(
                pairs + 2 * c,
                ct_short_weave(_mm256_maskz_loadu_epi16(some, from),
                               _mm256_maskz_loadu_epi16(other, from + step)));
        }
}

/* Two values at any address. */
PART __m512bh pair_at(const void *at)
{
    int32_t pair;

    memcpy(&pair, at, sizeof(pair));
    return (__m512bh)_mm512_set1_epi32(pair);
}

#define EACH_ROW(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)
#define SUMS(r) __m512 left##r = { 0 }, right##r = { 0 };
#define MULTIPLY(r, at)                                                      \
    {                                                                        \
        const __m512bh x = pair_at(at);                                      \
                                                                             \
        left##r  = _mm512_dpbf16_ps(left##r, b0, x);                         \
        right##r = _mm512_dpbf16_ps(right##r, b1, x);                        \
    }
#define OLD(r)                                                               \
    __m512 left##r  = _mm512_loadu_ps(c + (r) * COLUMNS);                    \
    __m512 right##r = _mm512_loadu_ps(c + (r) * COLUMNS + LANES);
#define STORE(r)                                                             \
    _mm512_storeu_ps(c + (r) * COLUMNS, left##r);                            \
    _mm512_storeu_ps(c + (r) * COLUMNS + LANES, right##r);
#define TAKE_B                                                               \
    const __m512bh b0 = (__m512bh)_mm512_loadu_si512(b);                     \
    const __m512bh b1 = (__m512bh)_mm512_loadu_si512(b + COLUMNS);

SHORT void ct_few_forward(int64_t n, const int32_t *offset, const uint16_t *a,
                          int64_t row, const uint16_t *b, float *c)
{
    EACH_ROW(SUMS)
    for (int64_t k = 0; k < n; k++, b += 2 * COLUMNS) {
        const uint16_t *at = a + offset[k];

        TAKE_B
#define OF_POSITION(r) MULTIPLY(r, at + (r) * row)
        EACH_ROW(OF_POSITION)
#undef OF_POSITION
    }
    EACH_ROW(STORE)
}

SHORT void ct_few_finish(int64_t n, int64_t channels, const float *c,
                         const float *bias, bool sum, bool relu, int64_t step,
                         uint16_t *y)
{
    for (int64_t i = 0; i < n; i++, c += COLUMNS, y += step)
        for (int64_t k = 0; k < COLUMNS && k < channels; k += LANES) {
            const __mmask16 some = there(channels, k);
            __m512 v = _mm512_loadu_ps(c + k) + _mm512_loadu_ps(bias + k);

            if (sum)
                v += ct_short_widen_some(some, y + k);
            ct_short_narrow_some(some, relu ? ct_short_clamp(v) : v, y + k);
        }
}

SHORT void ct_few_gradient(const struct ct_few_area *area,
                           const int32_t *offset, const uint32_t *a,
                           const uint16_t *b, float *c)
{
    const uint32_t *line = a;

    EACH_ROW(OLD)
    for (int64_t l = 0; l < area->lines; l++, line += area->line) {
        const uint32_t *at = line;

        for (int64_t k = 0; k < area->n; k++, at += area->next) {
            TAKE_B
#define OF_TAP(r) MULTIPLY(r, at + offset[r])
            EACH_ROW(OF_TAP)
#undef OF_TAP
            b += 2 * COLUMNS;
        }
    }
    EACH_ROW(STORE)
}
#endif
