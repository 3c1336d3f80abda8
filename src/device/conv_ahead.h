/* conv_ahead.h - weights of a convolution on a GPU that get the form of its way
 * before their turn, beside what runs before it. */
#ifndef CT_DEVICE_CONV_AHEAD_H
#define CT_DEVICE_CONV_AHEAD_H

#include "device/conv.h"
#include "device/impl.h"

/* The next forward pass, or the next gradient of data, with weights w finds
 * them in its form and does not make it, until NULL comes in place of w.
 * Nothing is done where no form is needed, or none is known yet. */
CT_MUST_CHECK enum ct_status ct_conv_weights_ahead(struct ct_conv *c,
                                                   enum ct_pass pass,
                                                   const float *w);

#endif
