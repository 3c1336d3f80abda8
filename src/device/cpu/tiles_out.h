/* tiles_out.h - weight gradients out of oneDNN's tiles of 16 x 16 channels.
 *
 *     tiles: o/16 x i/16 x taps x 16 (i) x 16 (o)      plain: o x i x taps
 *
 * oneDNN's own reorder does this at a fifth of the speed of memory, which was
 * 4 % of a training step of ResNet-50. */
#ifndef CT_DEVICE_CPU_TILES_OUT_H
#define CT_DEVICE_CPU_TILES_OUT_H
#ifdef CT_HAVE_ONEDNN

#include "device/conv_impl.h"
#include "device/cpu/onednn.h"

/* Whether the gradient that `backward_weights` makes lies so, with no tile
 * filled up with zeros. */
bool ct_tiles_are(const struct ct_conv *c,
                  const struct ct_prim *backward_weights);

/* dw += tiles, or = where the convolution writes. */
void ct_tiles_out(const struct ct_conv *c, const float *tiles, float *dw);

#endif
#endif
