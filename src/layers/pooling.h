/* pooling.h - what a Pooling layer keeps; see pooling.c. */
#ifndef CT_LAYERS_POOLING_H
#define CT_LAYERS_POOLING_H

#include "cortado/layer.h"
#include "device/pool.h"

struct pooling {
    struct ct_pool  pool;
    bool            global, floor;
    bool            strips; /* on a GPU: CORTADO_IMPL allows them */
    struct ct_blob *at;   /* places, 32-bit integers in a float blob */
    struct ct_blob *kept; /* x, for STOCHASTIC in the TEST phase */
};

#endif
