/* in_parts.h - layers that take a batch in parts and must know a little more
 * than the part.
 *
 * Where each item is computed by itself (CT_LAYER_BY_ITEM), twins of the layer
 * need to know nothing (twin.h).  These need
 *
 *     Dropout          which samples of the training run the items are
 *     InnerProduct     nothing, but its weights are as much work as its items
 *     SoftmaxWithLoss  what all terms of the batch are divided by
 *
 * A batch in parts has the values that it has as a whole, the loss included. */
#ifndef CT_LAYERS_IN_PARTS_H
#define CT_LAYERS_IN_PARTS_H

#include "cortado/layer.h"

struct ct_parts {
    /* Of the layer whose twins take the parts: before all of them, when
     * bottoms that no layer computes are there; and behind all of them.  NULL:
     * nothing to do. */
    ct_layer_fn begin, end;
    /* Of a twin, in place of forward: the batch's items from `first` on.
     * NULL: forward. */
    enum ct_status (*forward)(struct ct_layer *l, const struct ct_io *io,
                              int64_t first);
};

/* NULL: this layer does not, with the bottoms and tops that it has. */
const struct ct_parts *ct_layer_parts(const struct ct_layer *l);

/* One a type; what this layer has of it, or NULL. */
const struct ct_parts *dropout_parts(const struct ct_layer *l);
const struct ct_parts *inner_product_parts(const struct ct_layer *l);
const struct ct_parts *softmax_with_loss_parts(const struct ct_layer *l);

#endif
