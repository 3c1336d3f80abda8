/* qsgd.c - 8 bits per value, rounded at random so that the mean is right.
 *
 *     v = |x|_2 of the chunk,  s = 127
 *     q = floor(s |x_i| / v + u),  u uniform in [0, 1)
 *     sent: v sign(x_i) q / s,  whose expectation is x_i
 *
 *     code: | v: float | ... one per chunk ... | sign and q: 8 bits | ... |
 *           4 chunks + n bytes, rounded up to 4
 *
 * The rounding is unbiased, so no residual is kept.  Random numbers are
 * functions of the seed, the iteration, the rank and the element, so a run
 * repeats bit for bit.
 * Alistarh et al., "QSGD", 2017. */
#include "base/rng.h"
#include "device/cpu/simd.h"
#include "dist/codec/codec.h"

enum { LEAST = 1024, LEVELS = 127, EIGHTH = DIST_CHUNK / 8 };

static bool qsgd_takes(const struct dist_codec *codec, int64_t rows,
                       int64_t cols)
{
    (void)codec;
    return rows > 1 && rows * cols >= LEAST;
}

static size_t qsgd_bytes(int64_t n)
{
    return dist_round4(4 * dist_chunks(n) + n);
}

/* One call of the generator serves eight elements, because 16 bits are enough
 * for a rounding.  They are an eighth of a chunk apart. */
CT_SIMD static void draw_chunk(const struct dist_draw *draw,
                               uint16_t *restrict u)
{
    const uint64_t key = draw->key, hi = draw->hi, lo = draw->at / 8;

    CT_SIMD_EACH (i, EIGHTH) {
        struct ct_philox p = ct_philox(key, hi, lo + (uint64_t)i);

        for (int k = 0; k < 4; k++) {
            u[i + 2 * k * EIGHTH]       = (uint16_t)p.v[k];
            u[i + (2 * k + 1) * EIGHTH] = (uint16_t)(p.v[k] >> 16);
        }
    }
}

CT_SIMD static float encode_chunk(int64_t n, const float *restrict x,
                                  const uint16_t *restrict u,
                                  int8_t *restrict code)
{
    double squares = 0;
    float norm, scale;

    CT_SIMD_SUM (i, n, squares)
        squares += (double)x[i] * (double)x[i];
    norm  = (float)sqrt(squares);
    scale = norm > 0 && isfinite(norm) ? LEVELS / norm : 0;
    /* The scale of tiny norms is infinite: such a chunk counts as zero. */
    scale = isfinite(scale) ? scale : 0;
    norm  = scale > 0 || !isfinite(norm) ? norm : 0;
    CT_SIMD_EACH (i, n) {
        float q = fabsf(x[i]) * scale + ((float)u[i] + 0.5f) * 0x1p-16f;
        int k   = scale > 0 ? (int)q : 0;

        k       = k > LEVELS ? LEVELS : k;
        code[i] = (int8_t)(x[i] < 0 ? -k : k);
    }
    return isfinite(norm) ? norm : NAN;
}

static void qsgd_encode(const struct dist_draw *draw, int64_t n,
                        const float *x, float *residual, void *code)
{
    struct dist_draw d = *draw;
    uint16_t u[DIST_CHUNK];
    float *norm = code;
    int8_t *v   = (int8_t *)(norm + dist_chunks(n));

    (void)residual;
    for (int64_t i = 0; i < n; i += DIST_CHUNK, d.at += DIST_CHUNK) {
        draw_chunk(&d, u);
        norm[i / DIST_CHUNK] = encode_chunk(
            n - i < DIST_CHUNK ? n - i : DIST_CHUNK, x + i, u, v + i);
    }
    for (int64_t i = n; i % 4; i++)
        v[i] = 0;
}

CT_SIMD static void set_chunk(int64_t n, const int8_t *restrict code,
                              float scale, float *restrict y)
{
    CT_SIMD_EACH (i, n)
        y[i] = (float)code[i] * scale;
}

CT_SIMD static void add_chunk(int64_t n, const int8_t *restrict code,
                              float scale, float *restrict y)
{
    CT_SIMD_EACH (i, n)
        y[i] += (float)code[i] * scale;
}

static void qsgd_decode(int64_t n, const void *code, bool add, float *y)
{
    const float *norm = code;
    const int8_t *v   = (const int8_t *)(norm + dist_chunks(n));

    for (int64_t i = 0; i < n; i += DIST_CHUNK)
        (add ? add_chunk : set_chunk)(n - i < DIST_CHUNK ? n - i : DIST_CHUNK,
                                      v + i, norm[i / DIST_CHUNK] / LEVELS,
                                      y + i);
}

const struct dist_codec_type dist_codec_qsgd = {
    .name         = "qsgd",
    .takes        = qsgd_takes,
    .bytes        = qsgd_bytes,
    .encode       = qsgd_encode,
    .decode       = qsgd_decode,
    .ns_per_float = 0.7,
};
