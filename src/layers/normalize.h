/* normalize.h - what a Normalize layer keeps; see normalize.c. */
#ifndef CT_LAYERS_NORMALIZE_H
#define CT_LAYERS_NORMALIZE_H

#include "cortado/layer.h"
#include "device/norm.h"

struct normalize {
    struct ct_unit  unit;
    struct ct_blob *inverse, *parts;
};

#endif
