/* softmax_with_loss.h - what a SoftmaxWithLoss layer keeps; see its .c file.
 */
#ifndef CT_LAYERS_SOFTMAX_WITH_LOSS_H
#define CT_LAYERS_SOFTMAX_WITH_LOSS_H

#include "cortado/layer.h"
#include "device/softmax_ops.h"
#include "layers/loss.h"

struct softmax_with_loss {
    struct ct_loss  loss;
    struct ct_softmax softmax;
    int64_t         outer, classes, inner;
    int             axis;  /* of the classes */
    float           normalizer;
    struct ct_blob *weights; /* of classes; NULL: all are 1 */
    struct ct_blob *prob;  /* p, where there is no second top */
    struct ct_blob *terms; /* one a position, so that the sum's order is
                            * fixed; on a GPU then the normaliser */
};

/* The slots, for SoftmaxWithLossOHEM too. */
CT_MUST_CHECK enum ct_status softmax_with_loss_setup(struct ct_layer *l,
                                                     const struct ct_io *io);
CT_MUST_CHECK enum ct_status softmax_with_loss_reshape(struct ct_layer *l,
                                                       const struct ct_io *io);
CT_MUST_CHECK enum ct_status softmax_with_loss_forward(struct ct_layer *l,
                                                       const struct ct_io *io);
CT_MUST_CHECK enum ct_status softmax_with_loss_backward(
    struct ct_layer *l, const struct ct_io *io);
void softmax_with_loss_teardown(struct ct_layer *l);

#endif
