/* conv_tune.h - which implementation of a convolution measuring prefers. */
#ifndef CT_DEVICE_CPU_CONV_TUNE_H
#define CT_DEVICE_CPU_CONV_TUNE_H

#include "device/conv_impl.h"

/* One of `impls`, ended by NULL, that is known to be the fastest for c->desc
 * on this machine, or NULL: their order decides.  Where CORTADO_TUNE=measure
 * asks for it, what is not known is measured and kept; CORTADO_TUNE=off looks
 * nothing up.  c->why says how it came to that. */
const struct ct_conv_impl *ct_conv_tuned(
    struct ct_conv *c, const struct ct_conv_impl *const *impls);

#endif
