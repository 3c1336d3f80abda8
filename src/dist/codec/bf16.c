/* bf16.c - the upper half of a float: 8 bits of exponent, 7 of mantissa.
 *
 *     code: | value: 16 bits | ... |      2n bytes, rounded up to 4
 *
 * Rounds to nearest, ties to even.  It has a float's range, so nothing
 * overflows or needs a scale; the error is at most 1/256 of a value. */
#include "device/cpu/simd.h"
#include "dist/codec/codec.h"

static bool bf16_takes(const struct dist_codec *codec, int64_t rows,
                       int64_t cols)
{
    (void)codec, (void)rows, (void)cols;
    return true;
}

static size_t bf16_bytes(int64_t n)
{
    return dist_round4(2 * n);
}

CT_INLINE uint16_t bf16_of(float x)
{
    uint32_t u, nearest;

    memcpy(&u, &x, sizeof(u));
    nearest = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    /* A NaN must not lose its last bits and become an infinity. */
    return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? u >> 16 | 0x40
                                                    : nearest);
}

CT_SIMD static void bf16_encode_run(int64_t n, const float *restrict x,
                                    uint16_t *restrict code)
{
    CT_SIMD_EACH (i, n)
        code[i] = bf16_of(x[i]);
}

static void bf16_encode(const struct dist_draw *draw, int64_t n,
                        const float *x, float *residual, void *code)
{
    (void)draw, (void)residual;
    bf16_encode_run(n, x, code);
    if (n & 1)
        ((uint16_t *)code)[n] = 0;
}

CT_INLINE float bf16_value(uint16_t code)
{
    uint32_t u = (uint32_t)code << 16;
    float v;

    memcpy(&v, &u, sizeof(v));
    return v;
}

CT_SIMD static void bf16_set(int64_t n, const uint16_t *restrict code,
                             float *restrict y)
{
    CT_SIMD_EACH (i, n)
        y[i] = bf16_value(code[i]);
}

CT_SIMD static void bf16_add(int64_t n, const uint16_t *restrict code,
                             float *restrict y)
{
    CT_SIMD_EACH (i, n)
        y[i] += bf16_value(code[i]);
}

static void bf16_decode(int64_t n, const void *code, bool add, float *y)
{
    (add ? bf16_add : bf16_set)(n, code, y);
}

const struct dist_codec_type dist_codec_bf16 = {
    .name         = "bf16",
    .takes        = bf16_takes,
    .bytes        = bf16_bytes,
    .encode       = bf16_encode,
    .decode       = bf16_decode,
    .both_ways    = true,
    .for_factors  = true,
    .ns_per_float = 0.2,
};
