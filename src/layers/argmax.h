/* argmax.h - what a ArgMax layer keeps; see argmax.c. */
#ifndef CT_LAYERS_ARGMAX_H
#define CT_LAYERS_ARGMAX_H

#include "cortado/layer.h"

struct argmax {
    int64_t         k, outer, dim, inner; /* choose k of dim */
    struct ct_blob *best;                 /* int32_t, k for each line */
};

#endif
