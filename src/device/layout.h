/* layout.h - where a channel's values lie in each layout.
 *
 * Every layout is n x blocks x positions x b: the block b counts the channels
 * that lie together, padded to full blocks.  Value (n, c, s) stands at
 *
 *     ((n blocks + c / b) positions + s) b + c mod b                        */
#ifndef CT_DEVICE_LAYOUT_H
#define CT_DEVICE_LAYOUT_H

#include "cortado/device.h"

/* Channels that lie together: 1 in plain, 8, 16, or all of them in NHWC. */
static inline int64_t ct_layout_block(enum ct_layout layout, int64_t channels)
{
    switch (layout) {
    case CT_BLOCKED8:
        return 8;
    case CT_BLOCKED16:
        return 16;
    case CT_NHWC:
        return channels > 0 ? channels : 1;
    default:
        return 1;
    }
}

/* How many blocks hold `channels`. */
static inline int64_t ct_layout_blocks(enum ct_layout layout, int64_t channels)
{
    int64_t b = ct_layout_block(layout, channels);

    return (channels + b - 1) / b;
}

static inline int64_t ct_layout_at(int64_t blocks, int64_t positions,
                                   int64_t b, int64_t n, int64_t c, int64_t s)
{
    return ((n * blocks + c / b) * positions + s) * b + c % b;
}

/* y = x, from one layout to another; n x c x positions values.  Padded
 * channels of y become zero. */
CT_MUST_CHECK static inline enum ct_status ct_layout_convert(
    const struct ct_device *dev, int64_t n, int64_t c, int64_t positions,
    enum ct_layout from, const float *x, enum ct_layout to, float *y)
{
    return dev->ops->convert(dev, n, c, positions, from, CT_F32, x, to, CT_F32,
                             y);
}

/* cpu/layout.c: the CPU's, for float32 and bfloat16. */
CT_MUST_CHECK enum ct_status ct_cpu_convert(
    const struct ct_device *dev, int64_t n, int64_t c, int64_t positions,
    enum ct_layout from, enum ct_dtype from_type, const void *x,
    enum ct_layout to, enum ct_dtype to_type, void *y);

/* The blocked layout that suits the vector unit of this CPU. */
enum ct_layout ct_layout_blocked(void);

#endif
