/* bias.h - what a Bias layer keeps; see bias.c. */
#ifndef CT_LAYERS_BIAS_H
#define CT_LAYERS_BIAS_H

#include "cortado/layer.h"
#include "device/norm.h"

struct bias {
    struct ct_repeat repeat;
    struct ct_blob  *sums; /* one value per b, then scratch */
};

#endif
