/* pooling.h - what a Pooling layer keeps; see pooling.c. */
#ifndef CT_LAYERS_POOLING_H
#define CT_LAYERS_POOLING_H

#include "cortado/layer.h"
#include "device/pool.h"

struct pooling {
    struct ct_pool  pool;
    bool            global, floor;
    struct ct_blob *at;   /* places, 32-bit integers in a float blob */
    struct ct_blob *kept; /* x, for STOCHASTIC in the TEST phase */
};

#endif
