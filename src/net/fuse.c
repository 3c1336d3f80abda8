/* fuse.c - neighbours whose work can be done in one pass over memory run as
 * one.
 *
 * A layer whose type has absorb() is offered the next layer, then the one after
 * that: BatchNorm absorbs a Scale and a ReLU.  Such a group
 *
 *     first .. last      consecutive layers; each is the only reader of the
 *                        layer before, in place or not
 *
 * runs in its first layer, at the turn of its last one, forward and backward.
 * One layer of the group may read a second blob, of an earlier layer (a sum).
 * All hooks are called as usual.  So parameters that arrive layer by layer are
 * there when the group runs, and its gradients are complete when its first
 * layers are reported done.  Blobs between the layers of a group are not
 * written and have no memory.
 *
 * A layer that works in place but needs its bottom in the backward pass
 * (CT_LAYER_KEEPS) gets a separate bottom (part.c), with memory by lifetime, so
 * that it need not keep a copy.
 *
 * A Split may be the last layer of a group: its tops are those of the group,
 * and the first layer adds up their gradients.
 *
 * A sum passes its gradient to its first bottom (CT_LAYER_PASSES_DIFF): both
 * diffs share memory, unless it has a loss weight.  Diffs of its other bottoms
 * share it, too, if they are equal (CT_LAYER_ONE_DIFF) and only the layer that
 * reads them last changes them.
 *
 * At the end a layer may meet the layers that write its bottoms: a Concat masks
 * the diffs of convolutions that have absorbed a ReLU; a convolution computes
 * the sums from which BatchNorm makes its statistics, or ends the gradient of a
 * BatchNorm with a sum whose top it reads as the last one backward, or leaves
 * out of its own what is 0.
 *
 * All of this is off if blobs are kept, as for pycaffe, or with
 * CORTADO_IMPL=fuse:none. */
#include "base/mem.h"
#include "device/impl.h"
#include "net/net_inner.h"

/* The layer that last wrote blob b before layer i, if no layer in between reads
 * b; -1: there is none, or it cannot write to another blob. */
static int writer_of(const struct ct_net *net, int b, int i)
{
    const unsigned fixed = CT_LAYER_SOURCE | CT_LAYER_ALIAS_DATA |
                           CT_LAYER_ALIAS_DIFF | CT_LAYER_DYNAMIC;

    for (int j = i - 1; j >= 0; j--) {
        const struct net_layer *l = &net->layer[j];

        for (int k = 0; k < l->n_bottom; k++)
            if (l->bottom_id[k] == b)
                return -1;
        for (int t = 0; t < l->n_top; t++)
            if (l->top_id[t] == b)
                return l->layer->flags & fixed ? -1 : j;
    }
    return -1;
}

/* Whether a later layer overwrites a top of layer i in place.  A layer that was
 * absorbed finds the sign of its bottom in its top, so the top must not change,
 * unless Caffe would read the changed one, too. */
static bool rewritten(const struct ct_net *net, int i)
{
    const struct net_layer *l = &net->layer[i];

    if (net->options.forward_only || l->top_id[0] == l->bottom_id[0])
        return false;
    for (int t = 0; t < l->n_top; t++)
        if (net_overwritten(net, l->top_id[t], i))
            return true;
    return false;
}

/* Whether a layer has one top, or, like a Split, tops that are views of its
 * bottom and whose diffs are added.  No top may have a loss weight: it is kept
 * in the diff, which a group may change in place. */
static bool ends_in_one(const struct net_layer *l)
{
    const unsigned views = CT_LAYER_ALIAS_DATA | CT_LAYER_ALIAS_DIFF;

    for (int t = 0; t < l->n_top; t++)
        if (l->loss_weight[t] != 0)
            return false;
    return l->n_top == 1 ||
           (l->n_top > 1 &&
            (l->layer->type->flags & views) == CT_LAYER_ALIAS_DATA);
}

/* Whether layer i + 1 may become a part of layer i, whose top it reads.  That
 * top has no loss weight, because add_splits.c would have added a Split. */
static bool adjoins(const struct ct_net *net, int i)
{
    const struct net_layer *l = &net->layer[i], *next = l + 1;

    return i + 1 < net->n_layer && l->n_top == 1 && ends_in_one(next) &&
           (!net->blob[l->top_id[0]].pinned ||
            next->top_id[0] == l->top_id[0]);
}

/* Whether layer i + 1 reads only layer i's top, and has no propagate_down of
 * its own. */
static bool follows(const struct ct_net *net, int i)
{
    const struct net_layer *l = &net->layer[i], *next = l + 1;

    return adjoins(net, i) && next->n_bottom == 1 &&
           next->bottom_id[0] == l->top_id[0] &&
           next->layer->param->n_propagate_down == 0 &&
           next->want_grad[0] == l->needs_backward &&
           (next->needs_backward || !l->needs_backward) &&
           !rewritten(net, i + 1);
}

/* If layer i + 1 reads the top of layer i and one other blob: the index of the
 * other bottom; -1 otherwise.  In training both bottoms must need gradients,
 * because one pass computes both. */
static int joins(const struct ct_net *net, int i)
{
    const struct net_layer *l = &net->layer[i], *next = l + 1;
    int other;

    if (!adjoins(net, i) || next->n_bottom != 2)
        return -1;
    if (!net->options.forward_only &&
        (!l->needs_backward || !next->needs_backward || !next->want_grad[0] ||
         !next->want_grad[1] || next->layer->param->n_propagate_down > 0))
        return -1;
    other = next->bottom_id[0] == l->top_id[0] ? 1 : 0;
    return next->bottom_id[1 - other] == l->top_id[0] &&
                   next->bottom_id[other] != l->top_id[0] &&
                   next->top_id[0] != next->bottom_id[other]
               ? other
               : -1;
}

/* Whether a layer writes a gradient to blob b. */
static bool has_gradient(const struct ct_net *net, int b)
{
    for (int i = 0; i < net->n_layer; i++)
        for (int k = 0; k < net->layer[i].n_bottom; k++)
            if (net->layer[i].bottom_id[k] == b)
                return net->layer[i].want_grad[k];
    return false;
}

/* The group that reads the diff of bottom b of layer i; NULL: none. */
static const struct net_layer *reader_of(const struct ct_net *net, int i,
                                         int b)
{
    const int id = net->layer[i].bottom_id[b];

    for (int j = i - 1; j >= 0; j--)
        for (int t = 0; t < net->layer[j].n_top; t++)
            if (net->layer[j].top_id[t] == id)
                return &net->layer[net->layer[j].first];
    return NULL;
}

static bool leaves_diff(const struct ct_net *net, const struct net_layer *l)
{
    return (l->layer->flags & CT_LAYER_LEAVES_DIFF) &&
           !(l->layer->flags & CT_LAYER_ALIAS_DIFF) && l->n_bottom &&
           l->bottom_id[0] != net->layer[l->last].top_id[0];
}

/* Whether the side lane of a GPU reads diffs of this layer, which must then
 * remain until the end of the pass. */
static bool reads_aside(const struct ct_net *net, const struct net_layer *l)
{
    return net->dev->kind != CT_CPU && (l->layer->flags & CT_LAYER_ASIDE);
}

/* Whether the diffs of all bottoms of layer i can be one array: of the layers
 * that read them only the last one may change it. */
static bool may_be_one(const struct ct_net *net, int i)
{
    const struct net_layer *l    = &net->layer[i];
    const struct net_layer *last = NULL;
    int n_writers                = 0;

    if (!(l->layer->flags & CT_LAYER_ONE_DIFF))
        return false;
    for (int b = 0; b < l->n_bottom; b++) {
        const struct net_layer *r = reader_of(net, i, b);

        if (!r || !l->want_grad[b] || reads_aside(net, r))
            return false;
        for (int k = 0; k < b; k++)
            if (l->bottom_id[k] == l->bottom_id[b])
                return false;
        last = !last || r < last ? r : last;
    }
    for (int b = 0; b < l->n_bottom; b++) {
        const struct net_layer *r = reader_of(net, i, b);

        if (!leaves_diff(net, r) && (r != last || n_writers++))
            return false;
    }
    return true;
}

/* Lets layer i pass the diff of its top on as the diff of its bottom.  Not if
 * no layer writes that diff: it must stay zero, and a layer that gets it may
 * change it. */
static void pass_diff(struct ct_net *net, int i)
{
    struct net_layer *l         = &net->layer[i];
    const struct net_layer *end = &net->layer[l->last];
    int top                     = 0;

    if (!(l->layer->flags & CT_LAYER_PASSES_DIFF) || !l->want_grad[0])
        return;
    while (net->blob[end->top_id[top]].pinned ||
           !has_gradient(net, end->top_id[top]))
        if (++top == end->n_top)
            return;
    if (net->blob[end->top_id[top]].loss_weight != 0)
        return;
    l->layer->flags |= CT_LAYER_ALIAS_DIFF;
    l->diff_top = top;
    l->one_diff = may_be_one(net, i);
}

static int absorb(struct ct_net *net, int i)
{
    struct net_layer *l   = &net->layer[i];
    struct ct_layer *head = l->layer;
    int last              = i;

    for (;; last++) {
        const int other = l->joins ? -1 : joins(net, last);
        struct net_layer *next = &net->layer[last + 1];

        if ((other < 0 && !follows(net, last)) ||
            !head->type->absorb(head, next->layer))
            break;
        next->layer->absorbed = true;
        if (other >= 0) {
            l->joins        = next;
            l->joins_bottom = other;
        }
    }
    for (int j = i; j <= last; j++) {
        net->layer[j].first = i;
        net->layer[j].last  = last;
    }
    return last;
}

/* Whether no layer that reads a top of layer j runs backward after layer i. */
static bool reads_last(const struct ct_net *net, int j, int i)
{
    for (int k = j + 1; k < net->n_layer; k++)
        for (int b = 0; b < net->layer[k].n_bottom; b++)
            for (int t = 0; t < net->layer[j].n_top; t++)
                if (net->layer[k].bottom_id[b] == net->layer[j].top_id[t] &&
                    net->layer[k].last < net->layer[i].last)
                    return false;
    return true;
}

/* Bottoms of a group: the one that it joins is the last. */
static int n_bottoms(const struct net_layer *l)
{
    return l->n_bottom + (l->joins ? 1 : 0);
}

static int bottom_of(const struct net_layer *l, int b)
{
    return b < l->n_bottom ? l->bottom_id[b]
                           : l->joins->bottom_id[l->joins_bottom];
}

/* The first layer of the group whose top is bottom b of layer i; NULL: none.
 * It is the only top or one of a Split's, for others would read a Split. */
static struct net_layer *group_before(struct ct_net *net, int i, int b)
{
    const struct net_layer *l = &net->layer[i];
    const int id              = bottom_of(l, b);
    const struct net_layer *reader = b < l->n_bottom ? l : l->joins;

    for (int j = (int)(reader - net->layer) - 1; j >= 0; j--)
        for (int t = 0; t < net->layer[j].n_top; t++)
            if (net->layer[j].top_id[t] == id) {
                struct net_layer *head = &net->layer[net->layer[j].first];

                return net->layer[j].last == j && head->n_top == 1 &&
                               head->n_bottom == 1
                           ? head
                           : NULL;
            }
    return NULL;
}

/* Calls `meet` of each layer with the layers before it. */
static enum ct_status introduce(struct ct_net *net)
{
    for (int i = 0; i < net->n_layer; i++) {
        struct net_layer *l              = &net->layer[i];
        const struct ct_layer_type *type = l->layer->type;

        for (int b = 0; type->meet && l->first == i && b < n_bottoms(l); b++) {
            struct net_layer *head = group_before(net, i, b);

            if (!head || !type->meet(l->layer, b, head->layer,
                                     net->blob[bottom_of(l, b)].blob,
                                     reads_last(net, head->last, i)))
                continue;
            net->met = true;
            if (head->joins && reads_last(net, head->last, i))
                l->ends = head;
            for (int j = head->first; j <= head->last; j++)
                CT_TRY(net_layer_reshape(net, &net->layer[j]));
            for (int j = l->first; j <= l->last; j++)
                CT_TRY(net_layer_reshape(net, &net->layer[j]));
        }
    }
    return CT_OK;
}

static void part_again(const struct net_layer *l)
{
    for (int b = 0; l->layer->type->meet && b < n_bottoms(l); b++)
        (void)l->layer->type->meet(l->layer, b, NULL, NULL, false);
}

enum ct_status net_fuse(struct ct_net *net)
{
    if (net->options.keep_blobs || net->debug_info ||
        !ct_impl_allowed("fuse", "layers"))
        return CT_OK;
    for (int i = 0; i < net->n_layer; i++) {
        const struct net_layer *l = &net->layer[i];
        const bool in_place       = l->n_bottom && l->n_top &&
                              l->bottom_id[0] == l->top_id[0];
        const bool parts = in_place && !net->options.forward_only;
        const int writer = parts ? writer_of(net, l->bottom_id[0], i) : -1;
        int last         = i;

        if (parts && writer < 0)
            continue;
        if (l->layer->type->absorb)
            last = absorb(net, i);
        pass_diff(net, i);
        if (parts && (l->layer->flags & CT_LAYER_KEEPS))
            CT_TRY(net_part(net, i, l->bottom_id[0]));
        else if (last == i)
            continue;
        net->fused |= last > i;
        for (int j = i; j <= last; j++)
            CT_TRY(net_layer_reshape(net, &net->layer[j]));
        i = last;
    }
    return introduce(net);
}

enum ct_status net_unfuse(struct ct_net *net)
{
    if (!net->fused && !net->met && net->n_chain == 0)
        return CT_OK;
    net->fused = net->met = false;
    for (int i = 0; i < net->n_layer; i++) {
        struct net_layer *l = &net->layer[i];

        if (l->last > i && l->first == i)
            (void)l->layer->type->absorb(l->layer, NULL);
        part_again(l);
        l->layer->absorbed = false;
        l->joins           = NULL;
        l->ends            = NULL;
        l->diff_top        = 0;
        l->one_diff        = false;
        l->first = l->last = i;
    }
    return ct_net_reshape(net);
}
