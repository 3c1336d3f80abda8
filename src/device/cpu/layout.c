/* layout.c - from one layout of channels to another. */
#include "device/layout.h"

#include <string.h>

#include "device/cpu/loop.h"
#include "device/cpu/tiles.h"

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

enum ct_status ct_cpu_convert(const struct ct_device *dev, int64_t n,
                              int64_t c, int64_t positions,
                              enum ct_layout from, enum ct_dtype from_type,
                              const void *source, enum ct_layout to,
                              enum ct_dtype to_type, void *target)
{
    const float *x       = source;
    float *y             = target;
    bool in              = from == CT_PLAIN;
    enum ct_layout other = in ? to : from;
    int64_t b            = ct_layout_block(other, c);
    int64_t blocks       = ct_layout_blocks(other, c);

    if (from_type != CT_F32 || to_type != CT_F32)
        return ct_fail(CT_ENOTSUP, "the CPU computes in float32 alone");
    if (from == to)
        return ct_copy(dev, n * blocks * b * positions, x, y);
    if (from == CT_PLAIN && to == CT_TILES16) {
        ct_tiles_in(n, c, positions, x, y);
        return CT_OK;
    }
    if (from == CT_TILES16 && to == CT_PLAIN) {
        ct_tiles_out(n, c, positions, x, false, y);
        return CT_OK;
    }
    if (from != CT_PLAIN && to != CT_PLAIN)
        return ct_fail(CT_ENOTSUP, "layouts convert to and from plain only");
    CT_FOR_ROWS (i, n * blocks, b * positions) {
        int64_t first  = i % blocks * b;
        int64_t have   = c - first < b ? c - first : b;
        int64_t plain  = (i / blocks * c + first) * positions;
        int64_t packed = i * b * positions;

        if (in)
            block_in(positions, b, have, x + plain, y + packed);
        else
            block_out(positions, b, have, x + packed, y + plain);
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
