/* norm_gate.h - the operations of norm.h with a rectifier behind them, so that
 * BatchNorm, Scale and ReLU are one pass over memory.
 *
 *     z = (x - shift_c) scale_c + bias_c        y = max(z, 0)
 *
 * Backward a gradient passes where z > 0.  z is computed again from x: y is
 * neither kept nor read. */
#ifndef CT_DEVICE_NORM_GATE_H
#define CT_DEVICE_NORM_GATE_H

#include "device/norm.h"

struct ct_channel_gate {
    const float *shift, *scale, *bias; /* NULL: 0, 1, 0 */
};

/* y = max(z, 0); y may be x. */
void ct_gate_map(const struct ct_channels *v, const float *x,
                 const struct ct_channel_gate *gate, float *y);

/* With e = dy where z > 0, else 0:
 * sum_c = sum of e, dot_c = sum of e (x - shift_c). */
void ct_gate_sums(const struct ct_channels *v, const float *dy,
                  const float *x, const struct ct_channel_gate *gate,
                  float *scratch, float *sum, float *dot);

/* dx = a_c e + b_c (x - shift_c) + d_c; dx may be dy or x.  The line's shift
 * is not read: it is the gate's. */
void ct_gate_join(const struct ct_channels *v, const float *dy,
                  const float *x, const struct ct_channel_gate *gate,
                  const struct ct_channel_line *line, float *dx);

#endif
