/* channels.h - a blob as the channel-wise operations of norm.h see it. */
#ifndef CT_LAYERS_CHANNELS_H
#define CT_LAYERS_CHANNELS_H

#include "cortado/blob.h"
#include "device/norm.h"

/* Channels are axis 1; a blob of one axis has a single channel. */
static inline struct ct_channels channels_of(const struct ct_blob *b)
{
    bool flat = b->shape.n_axes < 2;

    return (struct ct_channels){
        .n      = flat ? 1 : b->shape.dim[0],
        .c      = flat ? 1 : b->shape.dim[1],
        .inner  = flat ? b->count : ct_count(b, 2, CT_END),
        .layout = b->data.layout,
        .dtype  = b->data.dtype,
    };
}

#endif
