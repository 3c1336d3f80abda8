/* reduction.h - what a Reduction layer keeps; see reduction.c. */
#ifndef CT_LAYERS_REDUCTION_H
#define CT_LAYERS_REDUCTION_H

#include "cortado/layer.h"

struct reduction {
    int     op;
    int64_t rows, n;
    float   coeff; /* for MEAN divided by n */
};

#endif
