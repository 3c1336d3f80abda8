/* concat.h - what a Concat layer keeps; see concat.c. */
#ifndef CT_LAYERS_CONCAT_H
#define CT_LAYERS_CONCAT_H

#include "cortado/layer.h"

struct concat {
    int     axis;
    int64_t outer, inner; /* elements before and behind the axis */
};

#endif
