/* convolution.c - N-D convolution, Caffe type "Convolution".
 *
 *     y[n,o,p] = b[o] + sum over i, k of  w[o,i,k] x[n, i, s p + d k - pad]
 *
 *     x: N x C x in...   w: num_output x C/group x kernel...   b: num_output
 *     y: N x num_output x out...     out = floor((in + 2 pad - e) / s) + 1
 *
 * e = d (kernel - 1) + 1 is what the kernel spans.  Several bottoms of one
 * shape share the weights.  Backward ADDS to dw and db and OVERWRITES dx. */
#include "layers/conv_base.h"

static enum ct_status conv_setup(struct ct_layer *l, const struct ct_io *io)
{
    return ct_conv_layer_setup(l, io, CT_CONV_PLAIN);
}

const struct ct_layer_type ct_layer_convolution =
    CT_CONV_TYPE("Convolution", conv_setup);
