/* hinge_loss.h - what a HingeLoss layer keeps; see hinge_loss.c. */
#ifndef CT_LAYERS_HINGE_LOSS_H
#define CT_LAYERS_HINGE_LOSS_H

#include "cortado/layer.h"
#include "layers/loss.h"

struct hinge_loss {
    int64_t         n, classes;
    bool            squared;
    struct ct_blob *terms; /* one a row: the sum's order is fixed */
};

#endif
