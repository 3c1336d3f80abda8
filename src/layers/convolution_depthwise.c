/* convolution_depthwise.c - one kernel a channel, type "ConvolutionDepthwise".
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

const struct ct_layer_type ct_layer_convolution_depthwise = {
    .name       = "ConvolutionDepthwise",
    .bottoms    = CT_AT_LEAST(1),
    .tops       = CT_AT_LEAST(1),
    .flags      = CT_LAYER_EQUAL_NUM | CT_LAYER_NO_TOP | CT_LAYER_OWN_LAYOUT |
                  CT_LAYER_ASIDE | CT_LAYER_OVERWRITES |
                  CT_LAYER_LEAVES_DIFF | CT_LAYER_BY_ITEM,
    .state_size = sizeof(struct ct_conv_layer),
    .setup      = cd_setup,
    .reshape    = ct_conv_layer_reshape,
    .forward    = CT_EVERY_DEVICE(ct_conv_layer_forward),
    .backward   = CT_EVERY_DEVICE(ct_conv_layer_backward),
    .accepts    = ct_conv_layer_accepts,
    .absorb     = ct_conv_layer_absorb,
    .rests      = ct_conv_layer_rests,
    .describe   = ct_conv_layer_describe,
    .macs       = ct_conv_layer_macs,
    .teardown   = ct_conv_layer_teardown,
};
