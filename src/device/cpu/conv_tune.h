/* conv_tune.h - which implementations of a convolution measuring prefers.
 *
 * `impls` are in the order in which they are tried, and end with NULL; the
 * last is the reference. */
#ifndef CT_DEVICE_CPU_CONV_TUNE_H
#define CT_DEVICE_CPU_CONV_TUNE_H

#include "device/conv_impl.h"

/* Those that are known to be the fastest for c->desc on this machine; false:
 * their order decides.  c->why says how it came to that. */
bool ct_conv_known(struct ct_conv *c, const struct ct_conv_impl *const *impls,
                   struct ct_conv_choice *out);

/* Measures c, as it is, against those behind it, if c->work->tuning has it so
 * and nothing is known.  True: then something is, and `why` says the times. */
bool ct_conv_measure(struct ct_conv *c,
                     const struct ct_conv_impl *const *impls, char why[128]);

#endif
