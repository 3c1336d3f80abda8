/* work.h - the arithmetic a layer does and the bytes that it cannot but move,
 * to set against the time it takes. */
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

static inline double bytes_of(const struct ct_blob *b)
{
    return (double)b->count * (double)ct_dtype_bytes(b->data.dtype);
}

/* Bytes of layers first .. last, which run as one: what they are given is read
 * once, what they leave is written once.  Tops that are views cost nothing. */
static inline struct work traffic_of(const struct ct_net *net, int first,
                                     int last)
{
    const unsigned flags     = ct_net_layer(net, first)->flags;
    const struct ct_io head  = ct_net_io(net, first);
    const struct ct_io tail  = ct_net_io(net, last);
    const bool back = ct_net_layer_needs_backward(net, last);
    struct work w = { 0, 0 };

    for (int i = 0; i < head.n_bottom && !(flags & CT_LAYER_SOURCE); i++) {
        const double one = bytes_of(head.bottom[i]);

        w.forward += flags & CT_LAYER_ALIAS_DATA ? 0 : one;
        w.backward += back && !(flags & CT_LAYER_NO_BOTTOM) ? one : 0;
        w.backward += back && head.want_grad[i] ? one : 0;
    }
    for (int i = 0; i < tail.n_top && !(flags & CT_LAYER_SOURCE); i++) {
        const double one = bytes_of(tail.top[i]);

        w.forward += flags & CT_LAYER_ALIAS_DATA ? 0 : one;
        w.backward += back ? one : 0;
        w.backward += back && !(flags & CT_LAYER_NO_TOP) ? one : 0;
    }
    for (int i = first; i <= last; i++)
        for (int b = 0; b < ct_net_layer(net, i)->n_blob; b++) {
            const double one = bytes_of(ct_net_layer(net, i)->blob[b]);

            w.forward += one;
            w.backward += back ? 2 * one : 0;
        }
    return w;
}

#endif
