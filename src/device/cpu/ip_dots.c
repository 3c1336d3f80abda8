/* ip_dots.c - y = x W^T for few rows of x, as sums along the rows of W.
 *
 * W is read once, as it lies in memory, and rounded on its way; what a few rows
 * need of x is in the second cache.  So large weights come at the speed of
 * memory.  The order of all sums is the same with any number of threads. */
#include "device/cpu/ip_dots.h"

#if defined(CT_HAVE_ONEDNN) && defined(__x86_64__)
#include "device/cpu/loop.h"
#include "device/cpu/short.h"

enum {
    LANES = 16, STEP = 32,
    ROWS  = 8,  /* of x at a time */
    AHEAD = 512 /* weights that are fetched before they are read */
};

/* Weights [k, k + 32) of a row of n, rounded. */
CT_SHORT_PART __m512bh weights(const float *w, int64_t k, int64_t n)
{
    const int64_t left = n - k;

    __builtin_prefetch(w + k + AHEAD);
    __builtin_prefetch(w + k + AHEAD + LANES);
    if (left >= STEP)
        return _mm512_cvtne2ps_pbh(_mm512_loadu_ps(w + k + LANES),
                                   _mm512_loadu_ps(w + k));

    const uint32_t some = (1u << left) - 1;

    return _mm512_cvtne2ps_pbh(
        _mm512_maskz_loadu_ps((__mmask16)(some >> LANES), w + k + LANES),
        _mm512_maskz_loadu_ps((__mmask16)some, w + k));
}

#define EACH_ROW(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)
#define SUMS(r) __m512 first##r = { 0 }, second##r = { 0 };
#define MULTIPLY(r)                                                          \
    {                                                                        \
        const __m512bh v = (__m512bh)_mm512_loadu_si512(x[r] + k);           \
                                                                             \
        first##r  = _mm512_dpbf16_ps(first##r, w0, v);                       \
        second##r = _mm512_dpbf16_ps(second##r, w1, v);                      \
    }
#define ADD_UP(r)                                                            \
    sum[0][r] = _mm512_reduce_add_ps(first##r);                              \
    sum[1][r] = _mm512_reduce_add_ps(second##r);

/* Two rows of n weights by eight of x. */
CT_SHORT static void dots(int64_t n, const float *const w[2],
                          const uint16_t *const x[ROWS], float sum[2][ROWS])
{
    EACH_ROW(SUMS)
    for (int64_t k = 0; k < n; k += STEP) {
        const __m512bh w0 = weights(w[0], k, n), w1 = weights(w[1], k, n);

        EACH_ROW(MULTIPLY)
    }
    EACH_ROW(ADD_UP)
}

static void put(const struct ct_ip *p, float sum, const float *b, int64_t row,
                int64_t column, float *y)
{
    float *to = y + row * p->n + column;

    sum += b ? b[column] : 0;
    sum += p->add ? *to : 0;
    *to = p->relu && sum < 0 ? 0 : sum; /* NaN stays */
}

/* Columns [column, column + 2) of y; where there is but one, it is made
 * twice, and so are rows that there are not. */
static void two_columns(const struct ct_ip *p, const uint16_t *x, int64_t step,
                        const float *w, const float *b, int64_t column,
                        float *y)
{
    const int64_t n         = p->n - column < 2 ? 1 : 2;
    const float *const of[] = { w + column * p->k,
                                w + (column + n - 1) * p->k };

    for (int64_t m = 0; m < p->m; m += ROWS) {
        const uint16_t *rows[ROWS];
        float sum[2][ROWS];

        for (int64_t r = 0; r < ROWS; r++)
            rows[r] = x + (m + r < p->m ? m + r : p->m - 1) * step;
        dots(p->k, of, rows, sum);
        for (int64_t r = 0; r < ROWS && m + r < p->m; r++)
            for (int64_t c = 0; c < n; c++)
                put(p, sum[c][r], b, m + r, column + c, y);
    }
}

void ct_ip_dots(const struct ct_ip *p, const uint16_t *x, int64_t step,
                const float *w, const float *b, float *y)
{
    CT_FOR_ROWS (i, (p->n + 1) / 2, 2 * p->k)
        two_columns(p, x, step, w, b, 2 * i, y);
}
#endif
