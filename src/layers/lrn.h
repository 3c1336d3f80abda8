/* lrn.h - what a LRN layer keeps; see lrn.c. */
#ifndef CT_LAYERS_LRN_H
#define CT_LAYERS_LRN_H

#include "cortado/layer.h"
#include "device/lrn_ops.h"

struct lrn {
    struct ct_lrn   lrn;
    struct ct_blob *scratch;
    bool            near; /* on a GPU: CORTADO_IMPL allows it */
};

#endif
