/* onebit.c - the sign of each value, and two means for each chunk.
 *
 *     x = g + e;   a = mean of x where x >= 0,   b = mean of x where x < 0
 *     sent: a or b for each x;   e = x - sent
 *
 *     code: | a b: floats | ... one pair per chunk ... | 32 signs | ... |
 *           8 ceil(n / 64) + 4 ceil(n / 32) bytes
 *
 * The rank that owns a part of a sum also sends it in one bit per value, with a
 * residual of its own.  Seide et al., "1-bit stochastic gradient descent",
 * 2014. */
#include "device/cpu/simd.h"
#include "dist/codec/codec.h"

/* Floats that share a pair of means.  The number is small, because values of
 * neighbouring channels differ in size.  DIST_CHUNK is a multiple of it. */
enum { LEAST = 1024, CHUNK = 64 };

static int64_t chunks(int64_t n)
{
    return (n + CHUNK - 1) / CHUNK;
}

/* onebit[:WARMUP] */
static enum ct_status onebit_parse(const char *arg, struct dist_codec *out)
{
    const char *text = arg ? arg - 1 : ""; /* with its colon */

    if (!dist_codec_parse_warmup(text, out))
        return ct_fail(CT_EINVAL, "onebit takes, if you like, iterations of "
                       "warm-up: onebit:400");
    return CT_OK;
}

static bool onebit_takes(const struct dist_codec *codec, int64_t rows,
                         int64_t cols)
{
    (void)codec;
    return rows > 1 && rows * cols >= LEAST;
}

static size_t onebit_bytes(int64_t n)
{
    return (size_t)(8 * chunks(n) + 4 * ((n + 31) / 32));
}

CT_SIMD static void means(int64_t n, const float *restrict x, float *mean)
{
    float plus = 0, minus = 0, n_minus = 0;

    CT_SIMD_PRAGMA(omp simd reduction(+ : plus, minus, n_minus))
    for (int64_t i = 0; i < n; i++) {
        plus += x[i] < 0 ? 0 : x[i];
        minus += x[i] < 0 ? x[i] : 0;
        n_minus += x[i] < 0 ? 1.0f : 0.0f;
    }
    mean[0] = n_minus < (float)n ? plus / ((float)n - n_minus) : 0;
    mean[1] = n_minus > 0 ? minus / n_minus : 0;
}

CT_SIMD static void signs(int64_t n, const float *restrict x,
                          uint32_t *restrict word)
{
    for (int64_t i = 0; i < n / 32; i++) {
        uint32_t bits = 0;

        CT_SIMD_PRAGMA(omp simd reduction(| : bits))
        for (int k = 0; k < 32; k++)
            bits |= (uint32_t)(x[32 * i + k] < 0) << k;
        word[i] = bits;
    }
    if (n % 32 == 0)
        return;
    word[n / 32] = 0;
    for (int64_t i = n / 32 * 32; i < n; i++)
        word[n / 32] |= (uint32_t)(x[i] < 0) << i % 32;
}

CT_SIMD static void add_to(int64_t n, const float *restrict x,
                           float *restrict y)
{
    CT_SIMD_EACH (i, n)
        y[i] += x[i];
}

/* Writes what the code leaves out of x; 0 if the means are not finite. */
CT_SIMD static void leave(int64_t n, const float *mean, float *restrict x)
{
    const float a = mean[0], b = mean[1];
    const bool finite = isfinite(a) && isfinite(b);

    CT_SIMD_EACH (i, n)
        x[i] = finite ? x[i] - (x[i] < 0 ? b : a) : 0;
}

static void onebit_encode(const struct dist_draw *draw, int64_t n,
                          const float *x, float *residual, void *code)
{
    float *mean    = code;
    uint32_t *word = (uint32_t *)(mean + 2 * chunks(n));

    (void)draw;
    for (int64_t i = 0; i < n; i += CHUNK, mean += 2) {
        int64_t k      = n - i < CHUNK ? n - i : CHUNK;
        const float *v = residual ? residual + i : x + i;

        if (residual)
            add_to(k, x + i, residual + i);
        means(k, v, mean);
        signs(k, v, word + i / 32);
        if (residual)
            leave(k, mean, residual + i);
    }
}

CT_INLINE float pick(uint32_t word, int k, float a, float b)
{
    return word >> k & 1 ? b : a;
}

CT_SIMD static void decode_chunk(int64_t n, const float *mean,
                                 const uint32_t *restrict word, bool add,
                                 float *restrict y)
{
    const float a = mean[0], b = mean[1];

    for (int64_t i = 0; i < n; i += 32, y += 32) {
        const uint32_t w = *word++;

        if (n - i < 32)
            for (int k = 0; k < n - i; k++)
                y[k] = (add ? y[k] : 0) + pick(w, k, a, b);
        else if (add)
            CT_SIMD_EACH (k, 32)
                y[k] += pick(w, (int)k, a, b);
        else
            CT_SIMD_EACH (k, 32)
                y[k] = pick(w, (int)k, a, b);
    }
}

static void onebit_decode(int64_t n, const void *code, bool add, float *y)
{
    const float *mean    = code;
    const uint32_t *word = (const uint32_t *)(mean + 2 * chunks(n));

    for (int64_t i = 0; i < n; i += CHUNK, mean += 2)
        decode_chunk(n - i < CHUNK ? n - i : CHUNK, mean,
                     word + i / 32, add, y + i);
}

const struct dist_codec_type dist_codec_onebit = {
    .name         = "onebit",
    .parse        = onebit_parse,
    .takes        = onebit_takes,
    .bytes        = onebit_bytes,
    .encode       = onebit_encode,
    .decode       = onebit_decode,
    .feedback     = true,
    .ns_per_float = 0.4,
};
