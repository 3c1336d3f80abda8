/* swish.h - what a Swish layer keeps; see swish.c. */
#ifndef CT_LAYERS_SWISH_H
#define CT_LAYERS_SWISH_H

#include "cortado/layer.h"

struct swish {
    struct ct_blob *s;
};

#endif
