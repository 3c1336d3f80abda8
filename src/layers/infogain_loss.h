/* infogain_loss.h - what a InfogainLoss layer keeps; see infogain_loss.c. */
#ifndef CT_LAYERS_INFOGAIN_LOSS_H
#define CT_LAYERS_INFOGAIN_LOSS_H

#include "cortado/layer.h"
#include "device/softmax_ops.h"
#include "layers/loss.h"

struct infogain_loss {
    struct ct_loss  loss;
    struct ct_softmax softmax;
    int64_t         outer, classes, inner;
    float           normalizer;
    struct ct_blob *gain;  /* H, where it comes from a file */
    struct ct_blob *sums;  /* of H's rows */
    struct ct_blob *prob;  /* p, where there is no second top */
    struct ct_blob *terms; /* one a position, so that the sum's order is
                            * fixed; on a GPU then the normaliser */
};

#endif
