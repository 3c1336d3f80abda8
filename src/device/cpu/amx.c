/* amx.c - a block of products in tiles, by AMX, by vectors of AVX512_BF16 or in
 * plain C. */
#include "device/cpu/amx.h"

#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "device/cpu/bf16.h"
#include "device/cpu/short.h"
#include "device/kernels.h"

static bool emulated;

void ct_amx_emulate(bool on)
{
    emulated = on;
}

/* One step after the other; a tile is loaded just before its first use, so
 * that loads and products overlap.  The first steps fetch the sums to add to
 * in the next block. */
#define BLOCK(ZERO, LOAD, MULTIPLY, STORE)                                   \
    const uint16_t *b = s->b;                                                \
    const int64_t a_step = s->a_step * 2, c_step = s->c_step * 4;            \
                                                                             \
    if (add) {                                                               \
        LOAD(0, s->c[0], c_step);                                            \
        LOAD(1, s->c[1], c_step);                                            \
        LOAD(2, s->c[2], c_step);                                            \
        LOAD(3, s->c[3], c_step);                                            \
    } else {                                                                 \
        ZERO(0);                                                             \
        ZERO(1);                                                             \
        ZERO(2);                                                             \
        ZERO(3);                                                             \
    }                                                                        \
    for (int64_t i = 0; i < s->n; i++, b += CT_AMX_STEP) {                   \
        const uint16_t *a = s->a + s->at[i];                                 \
                                                                             \
        if (i < 4 && s->next[i])                                             \
            for (int row = 0; row < 16; row++)                               \
                __builtin_prefetch(s->next[i] + row * s->c_step);            \
        LOAD(6, b, 64);                                                      \
        LOAD(4, a, a_step);                                                  \
        MULTIPLY(0, 4, 6);                                                   \
        LOAD(7, b + CT_AMX_TILE, 64);                                        \
        MULTIPLY(1, 4, 7);                                                   \
        LOAD(5, a + 16 * s->a_step, a_step);                                 \
        MULTIPLY(2, 5, 6);                                                   \
        MULTIPLY(3, 5, 7);                                                   \
    }                                                                        \
    STORE(0, s->c[0], c_step);                                               \
    STORE(1, s->c[1], c_step);                                               \
    STORE(2, s->c[2], c_step);                                               \
    STORE(3, s->c[3], c_step)

/* The same registers in memory. */
struct tile {
    uint8_t row[16][64];
};

static void tile_load(struct tile *t, const void *from, int64_t step)
{
    for (int i = 0; i < 16; i++)
        memcpy(t->row[i], (const uint8_t *)from + i * step, 64);
}

static void tile_store(const struct tile *t, void *to, int64_t step)
{
    for (int i = 0; i < 16; i++)
        memcpy((uint8_t *)to + i * step, t->row[i], 64);
}

/* Pairs are added one after the other, as the instruction does. */
static void tile_multiply(struct tile *c, const struct tile *a,
                          const struct tile *b)
{
    for (int m = 0; m < 16; m++) {
        float sum[16];
        uint16_t left[32], right[32];

        memcpy(sum, c->row[m], sizeof(sum));
        memcpy(left, a->row[m], sizeof(left));
        for (int k = 0; k < 16; k++) {
            memcpy(right, b->row[k], sizeof(right));
            for (int j = 0; j < 16; j++)
                sum[j] += ct_widen(left[2 * k]) * ct_widen(right[2 * j]) +
                          ct_widen(left[2 * k + 1]) *
                              ct_widen(right[2 * j + 1]);
        }
        memcpy(c->row[m], sum, sizeof(sum));
    }
}

#define PLAIN_ZERO(t) memset(&r[t], 0, sizeof(r[t]))
#define PLAIN_LOAD(t, from, step) tile_load(&r[t], from, step)
#define PLAIN_MULTIPLY(c, a, b) tile_multiply(&r[c], &r[a], &r[b])
#define PLAIN_STORE(t, to, step) tile_store(&r[t], to, step)

static void block_plain(const struct ct_amx_sum *s, bool add)
{
    struct tile r[8];

    BLOCK(PLAIN_ZERO, PLAIN_LOAD, PLAIN_MULTIPLY, PLAIN_STORE);
}

#ifdef __x86_64__
#define EACH_ROW(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)
#define SUMS(r) __m512 left##r = _mm512_setzero_ps(), right##r = left##r;
#define OLD_SUMS(r)                                                          \
    left##r  = _mm512_loadu_ps(c0 + (r) * s->c_step);                        \
    right##r = _mm512_loadu_ps(c1 + (r) * s->c_step);
#define MULTIPLY_ROW(r)                                                      \
    {                                                                        \
        const __m512bh x = (__m512bh)_mm512_set1_epi32(p[(r) * row]);        \
                                                                             \
        left##r  = _mm512_dpbf16_ps(left##r, b0, x);                         \
        right##r = _mm512_dpbf16_ps(right##r, b1, x);                        \
    }
#define NEW_SUMS(r)                                                          \
    _mm512_storeu_ps(c0 + (r) * s->c_step, left##r);                         \
    _mm512_storeu_ps(c1 + (r) * s->c_step, right##r);

/* Eight rows of a block, from `first` on, in sixteen vectors of sums. */
CT_SHORT static void rows_short(const struct ct_amx_sum *s, int first,
                                bool add)
{
    typedef int32_t pair __attribute__((may_alias));
    const int64_t row = s->a_step / 2;
    float *c0 = s->c[first / 16 * 2] + first % 16 * s->c_step;
    float *c1 = s->c[first / 16 * 2 + 1] + first % 16 * s->c_step;

    EACH_ROW(SUMS)
    if (add) {
        EACH_ROW(OLD_SUMS)
    }
    for (int64_t i = 0; i < s->n; i++) {
        const uint16_t *b = s->b + i * CT_AMX_STEP;
        const pair *p =
            (const pair *)(const void *)(s->a + s->at[i] + first * s->a_step);

        for (int k = 0; k < 16; k++, p++, b += 32) {
            const __m512bh b0 = (__m512bh)_mm512_loadu_si512(b);
            const __m512bh b1 = (__m512bh)_mm512_loadu_si512(b + CT_AMX_TILE);

            EACH_ROW(MULTIPLY_ROW)
        }
    }
    EACH_ROW(NEW_SUMS)
}

static void block_short(const struct ct_amx_sum *s, bool add)
{
    const int64_t rows = s->rows ? s->rows : CT_AMX_SIDE;

    for (int first = 0; first < CT_AMX_SIDE && first < rows; first += 8)
        rows_short(s, first, add);
}

static bool has_short(void)
{
    return __builtin_cpu_supports("avx512bf16") &&
           __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq");
}
#else
static void block_short(const struct ct_amx_sum *s, bool add)
{
    block_plain(s, add);
}

static bool has_short(void)
{
    return false;
}
#endif

bool ct_amx_vectors(void)
{
    return has_short();
}

#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__)
#define AMX __attribute__((target("amx-tile,amx-bf16"), noinline))

enum { ASK_FOR_STATE = 0x1023, TILE_DATA = 18 }; /* arch_prctl() */

bool ct_amx_runs(void)
{
    static int permitted; /* 1: yes, -1: no; asking twice does no harm */
    int is = __atomic_load_n(&permitted, __ATOMIC_RELAXED);

    if (emulated)
        return true;
    if (!is) {
        is = ct_cpu_has_amx() &&
                     syscall(SYS_arch_prctl, ASK_FOR_STATE, TILE_DATA) == 0
                 ? 1
                 : -1;
        __atomic_store_n(&permitted, is, __ATOMIC_RELAXED);
    }
    return is > 0;
}

/* All eight are as large as they can be.  Constant: to the compiler, loading
 * it reads its first bytes alone, so it would drop stores to the others. */
static const struct {
    uint8_t  palette, start, zero[14];
    uint16_t row_bytes[16];
    uint8_t  rows[16];
} config __attribute__((aligned(64))) = {
    .palette   = 1,
    .row_bytes = { 64, 64, 64, 64, 64, 64, 64, 64 },
    .rows      = { 16, 16, 16, 16, 16, 16, 16, 16 },
};

AMX static void begin(void)
{
    _tile_loadconfig(&config);
}

AMX static void end(void)
{
    _tile_release();
}

/* Not inlined: to the compiler a tile load reads no memory, so what it reads
 * must be written before the call. */
AMX static void block_amx(const struct ct_amx_sum *s, bool add)
{
    BLOCK(_tile_zero, _tile_loadd, _tile_dpbf16ps, _tile_stored);
}

static bool in_tiles(void)
{
    return !emulated && ct_amx_runs();
}

void ct_amx_begin(void)
{
    if (in_tiles())
        begin();
}

void ct_amx_end(void)
{
    if (in_tiles())
        end();
}

void ct_amx_block(const struct ct_amx_sum *s, bool add)
{
    if (in_tiles())
        block_amx(s, add);
    else if (!emulated && has_short())
        block_short(s, add);
    else
        block_plain(s, add);
}
#else
bool ct_amx_runs(void)
{
    return emulated;
}

void ct_amx_begin(void)
{
}

void ct_amx_end(void)
{
}

void ct_amx_block(const struct ct_amx_sum *s, bool add)
{
    if (!emulated && has_short())
        block_short(s, add);
    else
        block_plain(s, add);
}
#endif
