/* fp16.c - half precision with a scale for each chunk.
 *
 *     code: | 1 / scale: float | ... one per chunk .. | value: 16 bits | ... |
 *           4 chunks + 2n bytes, rounded up to 4
 *
 * The scale of a chunk is the power of two that brings its largest value into
 * [2^14, 2^15), so nothing overflows and small gradients keep their bits,
 * without ranks having to agree on a loss scale: sums are made from decoded
 * floats.  The error is at most 1/2048 of a value, or 2^-39 of the chunk's
 * largest.  A chunk with a value that is not finite has scale 1. */
#include "device/cpu/simd.h"
#include "dist/codec/codec.h"

static bool fp16_takes(const struct dist_codec *codec, int64_t rows,
                       int64_t cols)
{
    (void)codec, (void)rows, (void)cols;
    return true;
}

static size_t fp16_bytes(int64_t n)
{
    return dist_round4(4 * dist_chunks(n) + 2 * n);
}

CT_INLINE uint32_t bits_of(float x)
{
    uint32_t u;

    memcpy(&u, &x, sizeof(u));
    return u;
}

CT_INLINE float float_of(uint32_t u)
{
    float x;

    memcpy(&x, &u, sizeof(x));
    return x;
}

/* 2^e as a float. */
CT_INLINE float power(int e)
{
    return float_of((uint32_t)(e + 127) << 23);
}

CT_INLINE uint16_t half_of(float x)
{
    uint32_t u = bits_of(x), sign = u >> 16 & 0x8000, normal, small, huge;

    u &= 0x7fffffff;
    normal = (u - (112u << 23) + 0xfff + (u >> 13 & 1)) >> 13;
    /* After 0.5 is added to a value below 2^-14, the last bits of the sum are
     * the value, rounded to the precision of a half. */
    small = bits_of(float_of(u) + 0.5f) - bits_of(0.5f);
    huge  = u > 0x7f800000 ? 0x7e00 : 0x7c00;
    u     = u < 0x38800000 ? small : normal;
    u     = (bits_of(x) & 0x7fffffff) >= 0x47800000 ? huge : u;
    return (uint16_t)(u | sign);
}

CT_INLINE float half_value(uint16_t code)
{
    uint32_t u = (uint32_t)(code & 0x7fff) << 13, sign;
    float x    = float_of(u) * power(112);

    sign = (uint32_t)(code & 0x8000) << 16;
    u    = (code & 0x7c00) == 0x7c00 ? u | 0x7f800000 : bits_of(x);
    return float_of(u | sign);
}

CT_SIMD static float encode_chunk(int64_t n, const float *restrict x,
                                  uint16_t *restrict code)
{
    uint32_t most = 0;
    int e;
    float scale;

    CT_SIMD_MAX (i, n, most) {
        uint32_t u = bits_of(x[i]) & 0x7fffffff;

        most = u > most ? u : most;
    }
    e     = 14 + 127 - (int)(most >> 23);
    e     = most >= 0x7f800000 ? 0 : e > 126 ? 126 : e;
    scale = power(e);
    CT_SIMD_EACH (i, n)
        code[i] = half_of(x[i] * scale);
    return power(-e);
}

static void fp16_encode(const struct dist_draw *draw, int64_t n,
                        const float *x, float *residual, void *code)
{
    float *scale = code;
    uint16_t *v  = (uint16_t *)(scale + dist_chunks(n));

    (void)draw, (void)residual;
    for (int64_t i = 0; i < n; i += DIST_CHUNK)
        scale[i / DIST_CHUNK] = encode_chunk(
            n - i < DIST_CHUNK ? n - i : DIST_CHUNK, x + i, v + i);
    if (n & 1)
        v[n] = 0;
}

CT_SIMD static void set_chunk(int64_t n, const uint16_t *restrict code,
                              float scale, float *restrict y)
{
    CT_SIMD_EACH (i, n)
        y[i] = half_value(code[i]) * scale;
}

CT_SIMD static void add_chunk(int64_t n, const uint16_t *restrict code,
                              float scale, float *restrict y)
{
    CT_SIMD_EACH (i, n)
        y[i] += half_value(code[i]) * scale;
}

static void fp16_decode(int64_t n, const void *code, bool add, float *y)
{
    const float *scale = code;
    const uint16_t *v  = (const uint16_t *)(scale + dist_chunks(n));

    for (int64_t i = 0; i < n; i += DIST_CHUNK)
        (add ? add_chunk : set_chunk)(n - i < DIST_CHUNK ? n - i : DIST_CHUNK,
                                      v + i, scale[i / DIST_CHUNK], y + i);
}

const struct dist_codec_type dist_codec_fp16 = {
    .name         = "fp16",
    .takes        = fp16_takes,
    .bytes        = fp16_bytes,
    .encode       = fp16_encode,
    .decode       = fp16_decode,
    .both_ways    = true,
    .for_factors  = true,
    .ns_per_float = 0.4,
};
