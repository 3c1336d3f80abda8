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

const struct ct_layer_type ct_layer_convolution = {
    .name       = "Convolution",
    .bottoms    = CT_AT_LEAST(1),
    .tops       = CT_AT_LEAST(1),
    .flags      = CT_LAYER_EQUAL_NUM | CT_LAYER_NO_TOP | CT_LAYER_OWN_LAYOUT |
                  CT_LAYER_ASIDE | CT_LAYER_OVERWRITES |
                  CT_LAYER_LEAVES_DIFF | CT_LAYER_BY_ITEM,
    .state_size = sizeof(struct ct_conv_layer),
    .setup      = conv_setup,
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
