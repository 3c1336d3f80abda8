/* contrastive_loss.h - what a ContrastiveLoss layer keeps. */
#ifndef CT_LAYERS_CONTRASTIVE_LOSS_H
#define CT_LAYERS_CONTRASTIVE_LOSS_H

#include "cortado/layer.h"
#include "layers/loss.h"

struct contrastive_loss {
    int64_t         n, width;
    float           margin;
    bool            legacy;
    struct ct_blob *square; /* d_i^2 */
};

#endif
