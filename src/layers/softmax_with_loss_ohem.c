/* softmax_with_loss_ohem.c - SoftmaxWithLoss for mining of hard examples,
 * R-FCN's type "SoftmaxWithLossOHEM".
 *
 *     top 0: loss        top 1: p        top 2: -log p of each label
 *
 * Formulas, shapes and parameters are those of SoftmaxWithLoss; top 2 has the
 * shape of the labels, is 0 where they are ignored, and passes no gradient.
 * R-FCN runs it on a GPU alone. */
#include "layers/cuda/slots.h"
#include "layers/softmax_with_loss.h"

const struct ct_layer_type ct_layer_softmax_with_loss_ohem = {
    .name       = "SoftmaxWithLossOHEM",
    .bottoms    = CT_EXACTLY(2),
    .tops       = CT_BETWEEN(1, 3),
    .flags      = CT_LAYER_LOSS | CT_LAYER_GRAD_FIRST,
    .state_size = sizeof(struct softmax_with_loss),
    .setup      = softmax_with_loss_setup,
    .reshape    = softmax_with_loss_reshape,
    .forward    = { softmax_with_loss_forward,
                    CT_CUDA_FN(softmax_with_loss_forward) },
    .backward   = { softmax_with_loss_backward,
                    CT_CUDA_FN(softmax_with_loss_backward) },
    .teardown   = softmax_with_loss_teardown,
};
