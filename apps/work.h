/* work.h - the arithmetic a layer does, to set against the time it takes. */
#ifndef CT_APPS_WORK_H
#define CT_APPS_WORK_H

#include "cortado/cortado.h"

struct work {
    double forward, backward; /* operations; a multiply-add counts as two */
};

/* Of products with learned weights alone: convolutions, inner products,
 * recurrent steps.  Backward forms the gradient of the weights, and that of
 * the bottom where somebody wants it, each as much work as forward. */
static inline struct work work_of(const struct ct_net *net, int layer)
{
    struct ct_layer *l = ct_net_layer(net, layer);
    struct ct_io io    = ct_net_io(net, layer);
    struct work w      = { 0, 0 };

    if (!l->type->macs)
        return w;
    w.forward = 2 * l->type->macs(l, &io);
    if (ct_net_layer_needs_backward(net, layer)) {
        w.backward += l->n_blob && l->blob_wants_grad[0] ? w.forward : 0;
        w.backward += io.want_grad[0] ? w.forward : 0;
    }
    return w;
}

#endif
