/* shuffle_channel.h - what a ShuffleChannel layer keeps. */
#ifndef CT_LAYERS_SHUFFLE_CHANNEL_H
#define CT_LAYERS_SHUFFLE_CHANNEL_H

#include "cortado/layer.h"

struct shuffle_channel {
    int64_t n, channels, group, inner;
};

#endif
