/* slice.h - what a Slice layer keeps; see slice.c. */
#ifndef CT_LAYERS_SLICE_H
#define CT_LAYERS_SLICE_H

#include "cortado/layer.h"

struct slice {
    int     axis;
    int64_t outer, inner; /* elements before and behind the axis */
};

#endif
