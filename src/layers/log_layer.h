/* log_layer.h - what a Log layer keeps; see log.c. */
#ifndef CT_LAYERS_LOG_LAYER_H
#define CT_LAYERS_LOG_LAYER_H

#include "cortado/layer.h"

struct log_layer {
    float scale, shift, log_base;
};

#endif
