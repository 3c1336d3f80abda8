/* center_loss.h - what a CenterLoss layer keeps; see center_loss.c. */
#ifndef CT_LAYERS_CENTER_LOSS_H
#define CT_LAYERS_CENTER_LOSS_H

#include "cortado/layer.h"

struct center_loss {
    int64_t         rows, width, classes;
    bool            absolute; /* distance_type: "L1" */
    struct ct_blob *counts;   /* of each class in the batch */
};

#endif
