/* crop.h - what a Crop layer keeps; see crop.c. */
#ifndef CT_LAYERS_CROP_H
#define CT_LAYERS_CROP_H

#include "cortado/layer.h"

struct crop {
    int     n_axes;
    int64_t offset[CT_MAX_AXES];
};

#endif
