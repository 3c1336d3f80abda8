/* softmax_ops.h - softmax over the middle axis of an outer x c x inner array.
 *
 *     y[o,j,i] = exp(x[o,j,i] - m) / sum over k of exp(x[o,k,i] - m),
 *     m = max over k of x[o,k,i]
 *
 * Arrays are plain, on the CPU.  Nothing is allocated after
 * ct_softmax_choose(). */
#ifndef CT_DEVICE_SOFTMAX_OPS_H
#define CT_DEVICE_SOFTMAX_OPS_H

#include <stdint.h>

#include "device/impl.h"

/* Zero it first.  It owns what its implementations keep: end with fini. */
struct ct_softmax {
    int64_t             outer, c, inner;
    struct ct_impl_pass pass[CT_PASSES]; /* ct_softmax_choose()'s */
};

/* Choose implementations for these sizes. */
CT_MUST_CHECK enum ct_status ct_softmax_choose(struct ct_softmax *p,
                                               int64_t outer, int64_t c,
                                               int64_t inner);
void ct_softmax_fini(struct ct_softmax *p);

/* y may be x. */
CT_MUST_CHECK enum ct_status ct_softmax_forward(const struct ct_softmax *p,
                                                const float *x, float *y);

/* dx = y (dy - sum over k of dy y); dx may be dy. */
CT_MUST_CHECK enum ct_status ct_softmax_backward(const struct ct_softmax *p,
                                                 const float *y,
                                                 const float *dy, float *dx);

#endif
