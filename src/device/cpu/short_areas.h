/* short_areas.h - the workspace of convolutions that go by Winograd's tiles in
 * bfloat16 (conv_bf16.c, conv_quarters.c), and sizes in it. */
#ifndef CT_DEVICE_CPU_SHORT_AREAS_H
#define CT_DEVICE_CPU_SHORT_AREAS_H

#include "device/conv_impl.h"
#include "device/cpu/bf16.h"

enum { CT_SHORT_LINE = 32 }; /* values of a line of the cache */

static inline int64_t ct_short_up(int64_t n, int64_t step)
{
    return (n + step - 1) / step * step;
}

static inline int64_t ct_short_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t ct_short_most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Floats that so many values take. */
static inline int64_t ct_short_floats(int64_t values)
{
    return ct_short_up(values, CT_SHORT_LINE) / 2;
}

/* Floats of the weights, which come first. */
static inline int64_t ct_short_n_weights(const struct ct_conv *c)
{
    return c->desc.out_channels * c->in_group * c->taps;
}

/* What is behind them. */
struct ct_short_areas {
    float    *bias;
    uint16_t *v, *u; /* u: M in the gradient of the weights */
    float    *own;   /* M, or dU */
};

static inline struct ct_short_areas ct_short_areas_of(const struct ct_conv *c,
                                                      int64_t bias,
                                                      int64_t v_size,
                                                      int64_t u_size)
{
    struct ct_short_areas p;
    float *at = c->work->ptr + ct_short_n_weights(c);

    p.bias = at;
    at += bias;
    p.v = ct_bf16_out(at);
    at += ct_short_floats(v_size);
    p.u   = ct_bf16_out(at);
    p.own = at + ct_short_floats(u_size);
    return p;
}

#endif
