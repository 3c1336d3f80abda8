/* softmax_impl.h - what an implementation of softmax provides.  The contracts
 * are those of softmax_ops.h. */
#ifndef CT_DEVICE_CPU_SOFTMAX_IMPL_H
#define CT_DEVICE_CPU_SOFTMAX_IMPL_H

#include "device/softmax_ops.h"

struct ct_softmax_impl {
    struct ct_impl head; /* first; the description is a struct ct_softmax */
    enum ct_status (*forward)(const struct ct_softmax *p, const float *x,
                              float *y);
    enum ct_status (*backward)(const struct ct_softmax *p, const float *y,
                               const float *dy, float *dx);
};

extern const struct ct_softmax_impl ct_softmax_ref;
#ifdef CT_HAVE_ONEDNN
extern const struct ct_softmax_impl ct_softmax_onednn;
#endif

#endif
