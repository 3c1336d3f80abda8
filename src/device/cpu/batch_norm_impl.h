/* batch_norm_impl.h - what an implementation of batch normalisation provides.
 * The contracts are batch_norm.h's. */
#ifndef CT_DEVICE_CPU_BATCH_NORM_IMPL_H
#define CT_DEVICE_CPU_BATCH_NORM_IMPL_H

#include "device/batch_norm_ops.h"

struct ct_batch_norm_impl {
    struct ct_impl head; /* first; the description is a struct ct_batch_norm */
    enum ct_status (*forward)(const struct ct_batch_norm *p, const float *x,
                              float *scratch, float *mean, float *var,
                              float *y, float *kept);
    enum ct_status (*backward)(const struct ct_batch_norm *p, const float *x,
                               const float *dy, const float *mean,
                               const float *var, float *scratch, float *dx);
};

extern const struct ct_batch_norm_impl ct_batch_norm_ref;
#ifdef CT_HAVE_ONEDNN
extern const struct ct_batch_norm_impl ct_batch_norm_onednn;
#endif

#endif
