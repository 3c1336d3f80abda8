/* layout.c - from one layout of channels and one type to another.
 *
 * Every pair of layouts of which one is plain is a transposition of blocks: b
 * channels x positions.  Tiles of it go through a buffer of floats, so that
 * both sides are read and written in rows. */
#include "device/layout.h"

#include <string.h>

#include "device/cpu/bf16.h"
#include "device/cpu/loop.h"
#include "device/cpu/tiles16.h"

enum { SIDE = 64, ROW = 16384 }; /* of a tile; values of a row for a thread */

CT_SIMD static void widen_row(int64_t n, const uint16_t *x, float *y)
{
    CT_SIMD_EACH (i, n)
        y[i] = ct_widen(x[i]);
}

CT_SIMD static void narrow_row(int64_t n, const float *x, uint16_t *y)
{
    CT_SIMD_EACH (i, n)
        y[i] = ct_narrow(x[i]);
}

void ct_widen_row(int64_t n, const uint16_t *x, float *y)
{
    widen_row(n, x, y);
}

void ct_narrow_row(int64_t n, const float *x, uint16_t *y)
{
    narrow_row(n, x, y);
}

/* One block: b rows of `positions` values <-> positions rows of b values. */
static void block_in(int64_t positions, int64_t b, int64_t have,
                     const float *x, float *y)
{
    for (int64_t s = 0; s < positions; s++)
        for (int64_t j = 0; j < b; j++)
            y[s * b + j] = j < have ? x[j * positions + s] : 0;
}

static void block_out(int64_t positions, int64_t b, int64_t have,
                      const float *x, float *y)
{
    for (int64_t j = 0; j < have; j++)
        for (int64_t s = 0; s < positions; s++)
            y[j * positions + s] = x[s * b + j];
}

/* An array of either type. */
struct array {
    void         *at;
    enum ct_dtype type;
};

static void read_row(const struct array *a, int64_t at, int64_t n, float *to)
{
    if (a->type == CT_BF16)
        ct_widen_row(n, (const uint16_t *)a->at + at, to);
    else
        memcpy(to, (const float *)a->at + at, (size_t)n * sizeof(*to));
}

static void write_row(const struct array *a, int64_t at, int64_t n,
                      const float *from)
{
    if (a->type == CT_BF16)
        ct_narrow_row(n, from, (uint16_t *)a->at + at);
    else
        memcpy((float *)a->at + at, from, (size_t)n * sizeof(*from));
}

CT_SIMD static void turn(int64_t rows, int64_t columns,
                         float (*x)[SIDE], float (*y)[SIDE])
{
    for (int64_t i = 0; i < columns; i++)
        CT_SIMD_EACH (j, rows)
            y[i][j] = x[j][i];
}

/* SIDE positions from s on of channels [c, c + m) of a block, of which `have`
 * are not padding.  `plain` and `block` are where it begins in the two arrays,
 * which have rows of `positions` and of b values. */
struct part {
    int64_t plain, positions, block, b;
    int64_t s, n, c, m, have;
};

static void part_in(const struct array *x, const struct part *p,
                    const struct array *y)
{
    float in[SIDE][SIDE], out[SIDE][SIDE];

    for (int64_t j = 0; j < p->m; j++)
        if (p->c + j < p->have)
            read_row(x, p->plain + (p->c + j) * p->positions + p->s, p->n,
                     in[j]);
        else
            memset(in[j], 0, sizeof(in[j]));
    turn(p->m, p->n, in, out);
    for (int64_t i = 0; i < p->n; i++)
        write_row(y, p->block + (p->s + i) * p->b + p->c, p->m, out[i]);
}

static void part_out(const struct array *x, const struct part *p,
                     const struct array *y)
{
    float in[SIDE][SIDE], out[SIDE][SIDE];

    for (int64_t i = 0; i < p->n; i++)
        read_row(x, p->block + (p->s + i) * p->b + p->c, p->m, in[i]);
    turn(p->n, p->m, in, out);
    for (int64_t j = 0; j < p->m && p->c + j < p->have; j++)
        write_row(y, p->plain + (p->c + j) * p->positions + p->s, p->n,
                  out[j]);
}

static enum ct_status copy_typed(const struct ct_device *dev, int64_t n,
                                 const struct array *x, const struct array *y)
{
    if (x->type == CT_F32 && y->type == CT_F32)
        return ct_copy(dev, n, x->at, y->at);
    CT_FOR_ROWS (r, (n + ROW - 1) / ROW, ROW) {
        const int64_t from = r * ROW, m = n - from < ROW ? n - from : ROW;

        if (x->type == y->type)
            memmove((uint16_t *)y->at + from, (uint16_t *)x->at + from,
                    (size_t)m * sizeof(uint16_t));
        else if (y->type == CT_BF16)
            ct_narrow_row(m, (const float *)x->at + from,
                          (uint16_t *)y->at + from);
        else
            ct_widen_row(m, (const uint16_t *)x->at + from,
                         (float *)y->at + from);
    }
    return CT_OK;
}

/* Where one of the two is bfloat16 or NHWC. */
static void turn_tiles(int64_t n, int64_t c, int64_t positions, int64_t b,
                       bool in, const struct array *x, const struct array *y)
{
    const int64_t blocks = (c + b - 1) / b;
    const int64_t strips = (positions + SIDE - 1) / SIDE;

    CT_FOR_ROWS (i, n * blocks * strips, b * SIDE) {
        const int64_t s = i % strips * SIDE, k = i / strips;
        const int64_t first = k % blocks * b;
        struct part p = { .plain     = (k / blocks * c + first) * positions,
                          .positions = positions,
                          .block     = k * b * positions,
                          .b         = b,
                          .s         = s,
                          .n = positions - s < SIDE ? positions - s : SIDE,
                          .have = c - first < b ? c - first : b };

        for (; p.c < b; p.c += SIDE) {
            p.m = b - p.c < SIDE ? b - p.c : SIDE;
            if (in)
                part_in(x, &p, y);
            else
                part_out(x, &p, y);
        }
    }
}

enum ct_status ct_cpu_convert(const struct ct_device *dev, int64_t n,
                              int64_t c, int64_t positions,
                              enum ct_layout from, enum ct_dtype from_type,
                              const void *source, enum ct_layout to,
                              enum ct_dtype to_type, void *target)
{
    const struct array x = { (void *)(uintptr_t)source, from_type };
    const struct array y = { target, to_type };
    const bool shorts    = from_type != CT_F32 || to_type != CT_F32;
    bool in              = from == CT_PLAIN;
    enum ct_layout other = in ? to : from;
    int64_t b            = ct_layout_block(other, c);
    int64_t blocks       = ct_layout_blocks(other, c);

    if (from_type == CT_F16 || to_type == CT_F16)
        return ct_fail(CT_ENOTSUP, "the CPU knows float32 and bfloat16");
    if (from == to)
        return copy_typed(dev, n * blocks * b * positions, &x, &y);
    if (!shorts && from == CT_PLAIN && to == CT_TILES16) {
        ct_tiles_in(n, c, positions, x.at, y.at);
        return CT_OK;
    }
    if (!shorts && from == CT_TILES16 && to == CT_PLAIN) {
        ct_tiles_out(n, c, positions, x.at, false, y.at);
        return CT_OK;
    }
    if (from != CT_PLAIN && to != CT_PLAIN)
        return ct_fail(CT_ENOTSUP, "layouts convert to and from plain only");
    if (shorts || other == CT_NHWC) {
        turn_tiles(n, c, positions, b, in, &x, &y);
        return CT_OK;
    }
    CT_FOR_ROWS (i, n * blocks, b * positions) {
        int64_t first  = i % blocks * b;
        int64_t have   = c - first < b ? c - first : b;
        int64_t plain  = (i / blocks * c + first) * positions;
        int64_t packed = i * b * positions;

        if (in)
            block_in(positions, b, have, (const float *)x.at + plain,
                     (float *)y.at + packed);
        else
            block_out(positions, b, have, (const float *)x.at + packed,
                      (float *)y.at + plain);
    }
    return CT_OK;
}

enum ct_layout ct_layout_blocked(void)
{
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("avx512f"))
        return CT_BLOCKED8;
#endif
    return CT_BLOCKED16;
}
