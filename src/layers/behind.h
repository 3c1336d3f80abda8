/* behind.h - what a layer does for the one behind it, beside its own work.
 *
 * A convolution on a GPU adds up the channels of its top on its way, for a
 * BatchNorm that makes its statistics of them.  Where it does not, because
 * another way is faster or the batch is empty, BatchNorm reads its bottom. */
#ifndef CT_LAYERS_BEHIND_H
#define CT_LAYERS_BEHIND_H

#include "cortado/layer.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ct_moments;

/* `before` writes bottom 0 of l, and nobody touches it until l has read it.
 * NULL: that is no longer so.  True: one of them asks the other for something,
 * and `before` has to be reshaped. */
bool ct_layer_stand_behind(struct ct_layer *l, struct ct_layer *before);

/* The sums over channels of x, bottom 0 of a BatchNorm; false: there are none,
 * or they were asked for already. */
bool ct_layer_moments(const struct ct_layer *l, const float *x,
                      struct ct_moments *out);

#ifdef __cplusplus
}
#endif
#endif
