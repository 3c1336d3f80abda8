/* deconvolution.c - transposed convolution, Caffe type "Deconvolution".
 *
 *     y[n, o, s p + d k - pad] += w[i,o,k] x[n,i,p]   for all i, p, k;  + b[o]
 *
 *     x: N x C x in...   w: C x num_output/group x kernel...   b: num_output
 *     y: N x num_output x out...     out = s (in - 1) + e - 2 pad
 *
 * e = d (kernel - 1) + 1 is what the kernel spans.  Forward is the gradient of
 * a convolution from y to x, so that convolution runs here with its passes
 * swapped.  Backward ADDS to dw and db and OVERWRITES dx. */
#include "layers/conv_base.h"

static enum ct_status deconv_setup(struct ct_layer *l, const struct ct_io *io)
{
    return ct_conv_layer_setup(l, io, CT_CONV_TRANSPOSED);
}

static struct ct_bias_desc deconv_bias(const struct ct_conv_layer *s,
                                       const struct ct_blob *top)
{
    return (struct ct_bias_desc){ s->desc.batch, s->num_output,
                                  ct_count(top, s->axis + 1, CT_END),
                                  top->data.layout, top->data.dtype };
}

static enum ct_status deconv_forward(struct ct_layer *l,
                                     const struct ct_io *io)
{
    const struct ct_conv_layer *s = l->state;

    for (int i = 0; i < io->n_top; i++) {
        const struct ct_bias_desc bias = deconv_bias(s, io->top[i]);
        float *y                       = ct_data(io->top[i]);

        CT_TRY(ct_conv_backward_data(s->conv[i],
                                     ct_data(l->blob[CT_CONV_WEIGHT]),
                                     ct_data(io->bottom[i]), y));
        if (s->has_bias)
            CT_TRY(ct_bias_forward(l->dev, &bias,
                                   ct_data(l->blob[CT_CONV_BIAS]), y));
    }
    return CT_OK;
}

static enum ct_status deconv_backward(struct ct_layer *l,
                                      const struct ct_io *io)
{
    const struct ct_conv_layer *s = l->state;
    float *dw = ct_conv_layer_diff(l, CT_CONV_WEIGHT);
    float *db = ct_conv_layer_diff(l, CT_CONV_BIAS);

    for (int i = 0; i < io->n_top; i++) {
        const struct ct_bias_desc bias = deconv_bias(s, io->top[i]);
        const float *dy                = ct_diff(io->top[i]);

        if (db)
            CT_TRY(ct_bias_backward(l->dev, &bias, dy, db));
        CT_TRY(ct_conv_backward_weights(s->conv[i], dy, ct_data(io->bottom[i]),
                                        dw, NULL));
        if (io->want_grad[i])
            CT_TRY(ct_conv_forward(s->conv[i], dy,
                                   ct_data(l->blob[CT_CONV_WEIGHT]), NULL,
                                   ct_diff(io->bottom[i])));
    }
    return CT_OK;
}

const struct ct_layer_type ct_layer_deconvolution = {
    .name       = "Deconvolution",
    .bottoms    = CT_AT_LEAST(1),
    .tops       = CT_AT_LEAST(1),
    .flags      = CT_LAYER_EQUAL_NUM | CT_LAYER_NO_TOP | CT_LAYER_OWN_LAYOUT,
    .state_size = sizeof(struct ct_conv_layer),
    .setup      = deconv_setup,
    .reshape    = ct_conv_layer_reshape,
    .forward    = CT_EVERY_DEVICE(deconv_forward),
    .backward   = CT_EVERY_DEVICE(deconv_backward),
    .accepts    = ct_conv_layer_accepts,
    .tune       = ct_conv_layer_tune,
    .describe   = ct_conv_layer_describe,
    .macs       = ct_conv_layer_macs,
    .teardown   = ct_conv_layer_teardown,
};
