/* sigmoid_cross_entropy_loss.h - what a SigmoidCrossEntropyLoss layer keeps. */
#ifndef CT_LAYERS_SIGMOID_CROSS_ENTROPY_LOSS_H
#define CT_LAYERS_SIGMOID_CROSS_ENTROPY_LOSS_H

#include "cortado/layer.h"
#include "layers/loss.h"

struct sigmoid_cross_entropy_loss {
    struct ct_loss  loss;
    float           normalizer;
    struct ct_blob *terms; /* one a chunk, so that the sum's order is fixed;
                            * on a GPU the normaliser alone */
};

#endif
