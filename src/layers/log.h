/* log.h - what a Log layer keeps; see log.c. */
#ifndef CT_LAYERS_LOG_H
#define CT_LAYERS_LOG_H

#include "cortado/layer.h"

struct log_layer {
    float scale, shift, log_base;
};

#endif
