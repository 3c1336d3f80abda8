/* mish.h - what a Mish layer keeps; see mish.c. */
#ifndef CT_LAYERS_MISH_H
#define CT_LAYERS_MISH_H

#include "cortado/layer.h"

struct mish {
    struct ct_blob *slope; /* y', for the backward pass */
};

#endif
