/* backward.c - finds the layers, bottoms and tops that need a gradient.
 *
 * Forward sweep: a layer needs backward if one of its parameters learns or one
 * of its bottoms needs a gradient; then its tops need one, too.  Bottoms that a
 * layer type treats as constants (the regions of Proposal) need none.  Backward
 * sweep: layers are removed if no loss depends on them, or if propagate_down
 * blocks all of their tops.  force_backward adds every gradient that a layer
 * type can compute. */
#include "base/mem.h"
#include "net/net_inner.h"

static bool has_backward(const struct net_layer *l)
{
    const struct ct_layer_type *t = l->layer->type;

    return !(t->flags & CT_LAYER_NO_GRAD) && t->backward[CT_CPU];
}

static bool can_have_grad(const struct net_layer *l, int bottom)
{
    const struct ct_layer_type *t = l->layer->type;

    if (t->flags & CT_LAYER_NO_GRAD)
        return false;
    if ((t->flags & CT_LAYER_GRAD_FIRST) && bottom > 0)
        return false;
    return !(bottom < 32 && t->no_grad >> bottom & 1);
}

/* force_backward makes gradients of frozen parameters, too. */
static bool learns(const struct ct_net *net, const struct net_layer *l)
{
    const Caffe__LayerParameter *p = l->layer->param;
    bool any                       = false;

    for (int i = 0; i < l->layer->n_blob; i++) {
        float lr = (size_t)i < p->n_param ? p->param[i]->lr_mult : 1;

        any |= l->layer->blob_wants_grad[i] && lr != 0;
        l->layer->blob_wants_grad[i] &= lr != 0 || net->param->force_backward;
    }
    return any;
}

static void forward_sweep(struct ct_net *net)
{
    for (int i = 0; i < net->n_layer; i++) {
        struct net_layer *l            = &net->layer[i];
        const Caffe__LayerParameter *p = l->layer->param;

        l->needs_backward = learns(net, l);
        for (int b = 0; b < l->n_bottom; b++) {
            bool stops = b < 32 && l->layer->type->stops >> b & 1;
            bool need  = net->blob[l->bottom_id[b]].needs_grad && !stops;

            l->needs_backward |= need;
            l->want_grad[b] =
                p->n_propagate_down ? p->propagate_down[b] && !stops : need;
        }
        if (l->needs_backward)
            for (int t = 0; t < l->n_top; t++)
                net->blob[l->top_id[t]].needs_grad = true;
    }
}

/* under[blob]: leads to a loss.  cut[blob]: no gradient flows into it. */
static void backward_sweep(struct ct_net *net, bool *under, bool *cut)
{
    for (int i = net->n_layer - 1; i >= 0; i--) {
        struct net_layer *l = &net->layer[i];
        bool has_loss = false, all_cut = true;

        for (int t = 0; t < l->n_top; t++) {
            has_loss |= l->loss_weight[t] != 0 || under[l->top_id[t]];
            all_cut &= cut[l->top_id[t]];
        }
        if (l->needs_backward && all_cut) {
            l->needs_backward = false;
            for (int b = 0; b < l->n_bottom; b++)
                l->want_grad[b] = false;
        }
        if (!has_loss)
            l->needs_backward = false;
        for (int b = 0; b < l->n_bottom; b++) {
            if (has_loss)
                under[l->bottom_id[b]] = true;
            else
                l->want_grad[b] = false;
            if (!l->want_grad[b])
                cut[l->bottom_id[b]] = true;
        }
    }
}

static void force(struct ct_net *net)
{
    for (int i = 0; i < net->n_layer; i++) {
        struct net_layer *l = &net->layer[i];

        l->needs_backward = true;
        for (int b = 0; b < l->n_bottom; b++)
            l->want_grad[b] |= can_have_grad(l, b);
        /* Its backward reads them, even if no later layer writes them. */
        for (int t = 0; t < l->n_top && has_backward(l); t++)
            net->blob[l->top_id[t]].needs_grad = true;
    }
}

/* Refuses gradients that a layer cannot compute.  Caffe refuses them when the
 * pass reaches the layer. */
static enum ct_status refuse_impossible(struct ct_net *net)
{
    for (int i = 0; i < net->n_layer; i++) {
        struct net_layer *l           = &net->layer[i];
        const struct ct_layer_type *t = l->layer->type;

        if (!has_backward(l)) {
            for (int b = 0; b < l->n_bottom; b++)
                if (l->needs_backward && l->want_grad[b] &&
                    !net->param->force_backward)
                    return ct_fail(CT_ENOTSUP, "layer %s: %s has no backward "
                                   "pass, but the loss needs one through it; "
                                   "set propagate_down: false",
                                   l->layer->name, t->name);
            l->needs_backward = false;
        }
        for (int b = 0; b < l->n_bottom; b++) {
            if (!l->needs_backward)
                l->want_grad[b] = false;
            else if (l->want_grad[b] && !can_have_grad(l, b))
                return ct_fail(CT_ENOTSUP, "layer %s: %s cannot propagate to "
                               "bottom %d ('%s'), which depends on learned "
                               "parameters; set propagate_down: false for it",
                               l->layer->name, t->name, b,
                               net->blob[l->bottom_id[b]].name);
        }
    }
    return CT_OK;
}

/* propagate_down may ask for a gradient that no earlier layer uses; the layer
 * writes it nevertheless. */
static void mark_written(struct ct_net *net)
{
    for (int i = 0; i < net->n_layer; i++) {
        const struct net_layer *l = &net->layer[i];

        for (int b = 0; b < l->n_bottom; b++)
            net->blob[l->bottom_id[b]].needs_grad |= l->want_grad[b];
    }
}

enum ct_status net_backward_needs(struct ct_net *net)
{
    size_t n    = (size_t)net->n_blob + 1;
    bool *under = ct_calloc(2 * n, sizeof(*under), "net backward");

    if (!under)
        return CT_ENOMEM;
    forward_sweep(net);
    backward_sweep(net, under, under + n);
    ct_free(under);
    if (net->param->force_backward)
        force(net);
    CT_TRY(refuse_impossible(net));
    mark_written(net);
    return CT_OK;
}
