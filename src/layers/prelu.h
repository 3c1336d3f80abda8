/* prelu.h - what a PReLU layer keeps; see prelu.c. */
#ifndef CT_LAYERS_PRELU_H
#define CT_LAYERS_PRELU_H

#include "cortado/layer.h"

struct prelu {
    bool            shared;
    int64_t         n, channels, inner;
    struct ct_blob *kept; /* x, when the layer works in place */
};

#endif
