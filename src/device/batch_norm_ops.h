/* batch_norm_ops.h - what the BatchNorm layer does to a batch, on the CPU.
 *
 *     mean_c, var_c of x       y = (x - mean_c) / sqrt(var_c + eps)
 *     dx = (dy - mean(dy) - y mean(dy y)) / sqrt(var_c + eps)
 *
 * x, y, dy, dx lie as `view` says; mean and var are c floats.  Everything is
 * overwritten; nothing is allocated after ct_batch_norm_choose(). */
#ifndef CT_DEVICE_BATCH_NORM_OPS_H
#define CT_DEVICE_BATCH_NORM_OPS_H

#include "device/impl.h"
#include "device/norm.h"

/* Zero it first.  It owns what its implementations keep: end with fini. */
struct ct_batch_norm {
    struct ct_channels  view;
    float               eps;
    bool                in_place; /* y is x, dx is dy, and x is kept */
    struct ct_impl_pass pass[CT_PASSES]; /* ct_batch_norm_choose()'s */
};

/* Choose implementations, once the other fields are set, and again when they
 * change.  The operation's name in CORTADO_IMPL is norm. */
CT_MUST_CHECK enum ct_status ct_batch_norm_choose(struct ct_batch_norm *p);
void ct_batch_norm_fini(struct ct_batch_norm *p);

/* Floats of `scratch`. */
int64_t ct_batch_norm_scratch(const struct ct_batch_norm *p);

/* y may be x; `kept`, where not NULL, gets x as it was. */
CT_MUST_CHECK enum ct_status ct_batch_norm_forward(
    const struct ct_batch_norm *p, const float *x, float *scratch, float *mean,
    float *var, float *y, float *kept);
/* dx may be dy. */
CT_MUST_CHECK enum ct_status ct_batch_norm_backward(
    const struct ct_batch_norm *p, const float *x, const float *dy,
    const float *mean, const float *var, float *scratch, float *dx);

#endif
