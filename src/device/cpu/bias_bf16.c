/* bias_bf16.c - masks and sums of channels, 32 values at a time.
 *
 * Positions fall into parts, which are shared by the threads, and a part into
 * runs that stay in the nearest cache.  A run adds up in floats, parts in
 * doubles. */
#include "device/cpu/bias_bf16.h"

#include "device/cpu/wino_bf16.h"

#if defined(CT_HAVE_ONEDNN) && defined(__x86_64__)
#include "device/cpu/loop.h"
#include "device/cpu/short.h"

enum {
    CHUNK = 32, LANES = 16,
    MOST_PARTS = 16, MOST_CHANNELS = 1024,
    RUN_VALUES = 8192, LEAST_RUN = 8,
    LEAST_PART = 256 /* positions */
};

bool ct_bias_short_takes(int64_t channels)
{
    return channels <= MOST_CHANNELS && ct_short_runs();
}

/* Which of 32 values from `first` on there are. */
CT_SHORT_PART __mmask32 there(int64_t n, int64_t first)
{
    return n - first >= CHUNK ? UINT32_MAX : (1u << (n - first)) - 1;
}

/* What is added up: values of dy from `channel` of a position on. */
struct sum_of {
    int64_t         channels;
    const uint16_t *dy, *y;
    uint16_t       *to;
};

static struct sum_of from_on(const struct sum_of *s, int64_t position)
{
    const int64_t at = position * s->channels;

    return (struct sum_of){ s->channels, s->dy + at, s->y ? s->y + at : NULL,
                            s->to ? s->to + at : NULL };
}

/* 32 values; masked ones where there is a mask. */
CT_SHORT_PART __m512i values(const struct sum_of *s, __mmask32 some,
                             int64_t at)
{
    const __m512i infinity = _mm512_set1_epi16(0x7f80);
    __m512i v              = _mm512_maskz_loadu_epi16(some, s->dy + at);

    if (s->y) {
        const __m512i y      = _mm512_maskz_loadu_epi16(some, s->y + at);
        const __mmask32 over = _mm512_cmpgt_epi16_mask(
            y, _mm512_setzero_si512());

        v = _mm512_maskz_mov_epi16(
            _mm512_mask_cmple_epi16_mask(over, y, infinity), v);
        _mm512_mask_storeu_epi16(s->to + at, some, v);
    }
    return v;
}

/* Sums of even and odd channels, in order, added to doubles. */
CT_SHORT_PART void add_up(__m512 even, __m512 odd, double *sum)
{
    float part[2][LANES];

    _mm512_storeu_ps(part[0], even);
    _mm512_storeu_ps(part[1], odd);
    for (int i = 0; i < CHUNK; i++)
        sum[i] += (double)part[i % 2][i / 2];
}

CT_SHORT static void sum_run(const struct sum_of *s, int64_t n, double *sum)
{
    const __m512i upper = _mm512_set1_epi32(-65536);

    for (int64_t c = 0; c < s->channels; c += CHUNK) {
        const __mmask32 some = there(s->channels, c);
        __m512 even = _mm512_setzero_ps(), odd = even;

        for (int64_t i = 0; i < n; i++) {
            const __m512i v = values(s, some, i * s->channels + c);

            even += (__m512)_mm512_slli_epi32(v, 16);
            odd += (__m512)_mm512_and_si512(v, upper);
        }
        add_up(even, odd, sum + c);
    }
}

static void sum_part(const struct sum_of *s, int64_t n, float *to)
{
    const int64_t most = RUN_VALUES / s->channels;
    const int64_t run  = most < LEAST_RUN ? LEAST_RUN : most;
    double sum[MOST_CHANNELS] = { 0 };

    for (int64_t i = 0; i < n; i += run) {
        const struct sum_of part = from_on(s, i);

        sum_run(&part, n - i < run ? n - i : run, sum);
    }
    for (int64_t c = 0; c < s->channels; c++)
        to[c] = (float)sum[c];
}

void ct_bias_short(int64_t positions, int64_t channels, const uint16_t *dy,
                   const uint16_t *y, uint16_t *to, float *db)
{
    const struct sum_of all = { channels, dy, y, to };
    const int64_t whole     = positions / LEAST_PART;
    const int64_t parts     = whole < 1            ? 1
                              : whole < MOST_PARTS ? whole
                                                   : MOST_PARTS;
    float sums[MOST_PARTS][MOST_CHANNELS];

    CT_FOR_ROWS (i, parts, positions / parts * channels) {
        const int64_t first      = positions * i / parts;
        const struct sum_of part = from_on(&all, first);

        sum_part(&part, positions * (i + 1) / parts - first, sums[i]);
    }
    for (int64_t c = 0; c < channels; c++) {
        double sum = 0;

        for (int64_t i = 0; i < parts; i++)
            sum += (double)sums[i][c];
        db[c] += (float)sum;
    }
}
#else
bool ct_bias_short_takes(int64_t channels)
{
    (void)channels;
    return false;
}

void ct_bias_short(int64_t positions, int64_t channels, const uint16_t *dy,
                   const uint16_t *y, uint16_t *to, float *db)
{
    (void)positions, (void)channels, (void)dy, (void)y, (void)to, (void)db;
}
#endif
