/* softmax.h - softmax over the middle axis of an outer x c x inner array.
 *
 *     y[o,j,i] = exp(x[o,j,i] - m) / sum over k of exp(x[o,k,i] - m),
 *     m = max over k of x[o,k,i]
 *
 * Arrays are plain, on the CPU.  Nothing is allocated. */
#ifndef CT_DEVICE_SOFTMAX_H
#define CT_DEVICE_SOFTMAX_H

#include <stdint.h>

/* y may be x. */
void ct_softmax(int64_t outer, int64_t c, int64_t inner, const float *x,
                float *y);

/* dx = y (dy - sum over k of dy y); dx may be dy. */
void ct_softmax_backward(int64_t outer, int64_t c, int64_t inner,
                         const float *y, const float *dy, float *dx);

#endif
