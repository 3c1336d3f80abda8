/* silence.c - a reader for blobs that nobody wants, Caffe type "Silence": it
 * keeps them out of a net's outputs.  Bottoms of any shapes, no tops; the
 * gradient is zero. */
#include "cortado/layer.h"

static enum ct_status silence_nothing(struct ct_layer *l,
                                      const struct ct_io *io)
{
    (void)l, (void)io;
    return CT_OK;
}

static enum ct_status silence_backward(struct ct_layer *l,
                                       const struct ct_io *io)
{
    for (int i = 0; i < io->n_bottom; i++)
        if (io->want_grad[i])
            CT_TRY(ct_fill(l->dev, io->bottom[i]->count, 0,
                           ct_diff(io->bottom[i])));
    return CT_OK;
}

const struct ct_layer_type ct_layer_silence = {
    .name     = "Silence",
    .bottoms  = CT_AT_LEAST(1),
    .tops     = CT_EXACTLY(0),
    .flags    = CT_LAYER_NO_BOTTOM | CT_LAYER_NO_TOP,
    .reshape  = silence_nothing,
    .forward  = CT_EVERY_DEVICE(silence_nothing),
    .backward = CT_EVERY_DEVICE(silence_backward),
};
