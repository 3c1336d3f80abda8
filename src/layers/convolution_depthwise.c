/* convolution_depthwise.c - one kernel per channel, type
 * "ConvolutionDepthwise".
 *
 *     y[n,o,p] = b[o] + sum over k of  w[o,k] x[n, o/m, s p + d k - pad]
 *
 *     x: N x C x in...    w: num_output x 1 x kernel...    b: num_output
 *
 * A name that forks of Caffe use for a Convolution with group C.  num_output
 * is m C, and C where it is left out; group may be left out, too. */
#include "layers/conv_base.h"

static enum ct_status cd_setup(struct ct_layer *l, const struct ct_io *io)
{
    return ct_conv_layer_setup(l, io, CT_CONV_DEPTHWISE);
}

const struct ct_layer_type ct_layer_convolution_depthwise =
    CT_CONV_TYPE("ConvolutionDepthwise", cd_setup);
