/* part.c - separates in-place layers from bottoms that others still need.
 *
 * A layer that works in place overwrites its bottom.  Two kinds of layers may
 * need the old values in the backward pass: an earlier layer that reads its top
 * (Sigmoid), or its own result if it works in place (ReLU); and the layer
 * itself, if it keeps no copy (Power).  If the bottom is a view of another
 * blob, as the top of Flatten is, layers that read that blob later would read
 * changed values.  So would this layer if its second bottom is in the same
 * memory (Scale).  Gradients share memory, too: those that propagate_down:
 * false should stop are passed on, and one may overwrite a loss weight.  Caffe
 * reads the changed values.  Here such a layer gets a separate bottom, and all
 * layers before it use that new blob:
 *
 *     conv -> c, sigmoid c -> c, bias c -> c
 *     conv -> c', sigmoid c' -> c', bias c' -> c
 *
 * The memory of c' is planned by lifetime.  c has the values that the prototxt
 * calls c: those at the end.  A caller may fill the top of a source, so a
 * source still writes c, and c' gets a copy after the source has run.
 *
 * No separation is needed if all layers in the chain read only signs, and do
 * not change signs where gradients pass (CT_LAYER_KEEPS_SIGN): ReLU, then
 * Dropout. */
#include <stdio.h>

#include "base/mem.h"
#include "net/net_inner.h"

static bool has(const int *id, int n, int b)
{
    for (int i = 0; i < n; i++)
        if (id[i] == b)
            return true;
    return false;
}

static bool writes(const struct net_layer *l, int b)
{
    return has(l->top_id, l->n_top, b);
}

static bool in_place(const struct net_layer *l, int b)
{
    return writes(l, b) && has(l->bottom_id, l->n_bottom, b);
}

static bool is_source(const struct net_layer *l)
{
    return l->layer->flags & CT_LAYER_SOURCE;
}

/* Only tops that the source itself writes have a copy; later in-place layers
 * write the top and not the copy. */
enum ct_status net_copies_shape(struct ct_net *net, const struct net_layer *l)
{
    for (int t = 0; t < l->n_top && is_source(l); t++) {
        const struct net_blob *from = &net->blob[l->top_id[t]];
        struct ct_blob *to = net->blob[from->copy].blob;

        if (from->copy && !ct_shape_equal(&from->blob->shape, &to->shape))
            CT_TRY(ct_reshape(to, from->blob->shape));
    }
    return CT_OK;
}

/* Copies are plain; a top on a GPU may have another layout and type. */
static enum ct_status copy_tensor(const struct ct_blob *b,
                                  const struct ct_tensor *from,
                                  const struct ct_tensor *to)
{
    if (from->layout == to->layout && from->dtype == to->dtype)
        return ct_copy(b->dev, b->count, from->ptr, to->ptr);
    return net_convert(b, from, to);
}

enum ct_status net_copies_fill(struct ct_net *net, const struct net_layer *l)
{
    CT_TRY(net_copies_shape(net, l));
    for (int t = 0; t < l->n_top && is_source(l); t++) {
        const struct net_blob *from = &net->blob[l->top_id[t]];

        if (from->copy)
            CT_TRY(copy_tensor(from->blob, &from->blob->data,
                               &net->blob[from->copy].blob->data));
    }
    return CT_OK;
}

enum ct_status net_copies_back(struct ct_net *net, const struct net_layer *l)
{
    for (int t = 0; t < l->n_top && is_source(l); t++) {
        const struct net_blob *to   = &net->blob[l->top_id[t]];
        const struct net_blob *from = &net->blob[to->copy];

        /* Not if the diff has a loss weight, which the next pass needs. */
        if (to->copy && from->needs_grad && ct_diff(to->blob) &&
            to->loss_weight == 0)
            CT_TRY(copy_tensor(to->blob, &from->blob->diff, &to->blob->diff));
    }
    return CT_OK;
}

/* The first separation of a source's top makes its copy, which is an input like
 * the top itself; later ones change neither. */
static enum ct_status copy_top(struct ct_net *net, const struct net_layer *l,
                               int b, int id)
{
    if (net->blob[b].copy)
        return CT_OK;
    net->blob[b].copy    = id;
    net->blob[id].pinned = true;
    return net_copies_shape(net, l);
}

enum ct_status net_part(struct ct_net *net, int i, int b)
{
    struct net_layer *l = &net->layer[i];
    char name[512];
    int id;

    snprintf(name, sizeof(name), "%s before %s", net->blob[b].name,
             l->layer->name);
    CT_TRY(net_add_blob(net, name, &id));
    net->blob[id].needs_grad = net->blob[b].needs_grad;
    net->blob[id].stands_for = net->blob[b].stands_for;
    net->blob[id].blob->name = net->blob[b].name; /* for messages */
    for (int j = 0; j <= i; j++) {
        struct net_layer *w = &net->layer[j];
        bool changed        = false;

        for (int k = 0; k < w->n_bottom; k++)
            if (w->bottom_id[k] == b) {
                w->bottom_id[k] = id;
                w->bottom[k]    = net->blob[id].blob;
                changed         = true;
            }
        for (int t = 0; j < i && t < w->n_top; t++)
            if (w->top_id[t] == b && is_source(w)) {
                CT_TRY(copy_top(net, w, b, id));
            } else if (w->top_id[t] == b) {
                w->top_id[t] = id;
                w->top[t]    = net->blob[id].blob;
                changed      = true;
            }
        if (changed)
            CT_TRY(net_layer_reshape(net, w));
    }
    return CT_OK;
}

/* The blob that has the memory of b before layer `at`: b itself, or the blob of
 * which it is a view. */
static int root_of(const struct ct_net *net, int b, int at)
{
    for (int j = at - 1; j >= 0; j--) {
        const struct net_layer *l = &net->layer[j];

        if (!writes(l, b) || in_place(l, b))
            continue;
        if (!(l->layer->flags & CT_LAYER_ALIAS_DATA) || l->n_bottom == 0)
            return b;
        b = l->bottom_id[0];
    }
    return b;
}

bool net_overwritten(const struct ct_net *net, int b, int i)
{
    const int root = root_of(net, b, i + 1);

    for (int j = i + 1; j < net->n_layer; j++) {
        const struct net_layer *l = &net->layer[j];

        for (int k = 0; k < l->n_bottom; k++)
            if (in_place(l, l->bottom_id[k]) &&
                root_of(net, l->bottom_id[k], j) == root)
                return true;
    }
    return false;
}

/* Whether blob `id`, which layer j reads, is a view of b after layer i. */
static bool comes_after(const struct ct_net *net, int id, int j, int i, int b)
{
    for (; j > i && id != b; j--)
        if (writes(&net->layer[j], id) && !in_place(&net->layer[j], id) &&
            net->layer[j].n_bottom)
            id = net->layer[j].bottom_id[0];
    return id == b;
}

static bool runs_back(const struct ct_net *net, const struct net_layer *l)
{
    return l->needs_backward && !net->options.forward_only;
}

/* Whether a layer reads the values of blob b in the backward pass. */
static bool reads_back(const struct ct_net *net, const struct net_layer *l,
                       int b)
{
    const unsigned flags = l->layer->flags;
    const unsigned keeps = CT_LAYER_NO_BOTTOM | CT_LAYER_COPIES |
                           CT_LAYER_KEEPS;

    if (!runs_back(net, l))
        return false;
    if (in_place(l, b))
        return !(flags & CT_LAYER_NO_TOP) || !(flags & keeps);
    return (writes(l, b) && !(flags & CT_LAYER_NO_TOP)) ||
           (has(l->bottom_id, l->n_bottom, b) &&
            !(flags & CT_LAYER_NO_BOTTOM));
}

/* Whether layers j to i, in place on b, need only the signs of b. */
static bool keep_signs(const struct ct_net *net, int j, int i, int b)
{
    for (; j <= i; j++)
        if (writes(&net->layer[j], b) &&
            !(in_place(&net->layer[j], b) &&
              (net->layer[j].layer->flags & CT_LAYER_KEEPS_SIGN)))
            return false;
    return true;
}

/* Whether layer i, in place on b, overwrites values that an earlier layer
 * needs. */
static bool harms_before(const struct ct_net *net, int i, int b)
{
    for (int j = 0; j < i; j++)
        if (reads_back(net, &net->layer[j], b) && !keep_signs(net, j, i, b))
            return true;
    return false;
}

/* Whether no layer reads blob `id`, so that it is an output for the caller. */
static bool is_output(const struct ct_net *net, int id)
{
    for (int j = 0; j < net->n_layer; j++)
        if (has(net->layer[j].bottom_id, net->layer[j].n_bottom, id))
            return false;
    return true;
}

/* Whether layer i, in place on b, overwrites values that another layer or the
 * caller needs.  b is a view of blob `root`; others may be views of it, too. */
static bool harms_root(const struct ct_net *net, int i, int b, int root)
{
    for (int j = 0; j < net->n_layer; j++) {
        const struct net_layer *l = &net->layer[j];

        for (int k = 0; k < l->n_bottom + l->n_top; k++) {
            const bool bottom = k < l->n_bottom;
            const int id = bottom ? l->bottom_id[k]
                                  : l->top_id[k - l->n_bottom];

            if (id == b || root_of(net, id, j + 1) != root)
                continue;
            if (j == i) /* the layer overwrites its other bottom */
                return true;
            if (j < i ? reads_back(net, l, id) ||
                            (!bottom && is_output(net, id))
                      : (bottom ? !(l->layer->flags & CT_LAYER_ALIAS_DATA)
                                : is_output(net, id)) &&
                            !comes_after(net, id, bottom ? j - 1 : j, i, b))
                return true;
        }
    }
    return false;
}

/* Whether gradients stop at layer i.  Then the gradient of its top must not
 * reach earlier layers, which it would in shared memory. */
static bool stops_gradient(const struct ct_net *net, int i, int b)
{
    const struct net_layer *l = &net->layer[i];
    bool before               = false;

    for (int j = 0; j < i; j++)
        before |= writes(&net->layer[j], b) && runs_back(net, &net->layer[j]);
    for (int k = 0; k < l->n_bottom && before; k++)
        if (l->bottom_id[k] == b && !l->want_grad[k])
            return true;
    return false;
}

/* Whether layer i would overwrite its loss weight with its gradient. */
static bool loses_weight(const struct ct_net *net, int i, int b)
{
    const struct net_layer *l = &net->layer[i];

    for (int t = 0; t < l->n_top && runs_back(net, l); t++)
        if (l->top_id[t] == b && l->loss_weight[t] != 0)
            return true;
    return false;
}

static bool needs_parting(const struct ct_net *net, int i, int b)
{
    const struct net_layer *l = &net->layer[i];
    const int root            = root_of(net, b, i);

    return stops_gradient(net, i, b) || loses_weight(net, i, b) ||
           (runs_back(net, l) && (l->layer->flags & CT_LAYER_APART)) ||
           harms_before(net, i, b) ||
           (root != b && harms_root(net, i, b, root));
}

/* Whether all earlier layers that use blob b can use another blob.  A layer on
 * the CPU beside a GPU's net has its own blobs.  A Python layer in place may
 * expect its bottom in its top. */
static bool can_part(const struct ct_net *net, int i, int b)
{
    if (net->layer[i].layer->flags & CT_LAYER_DYNAMIC)
        return false;
    for (int j = 0; j <= i; j++) {
        const struct net_layer *l = &net->layer[j];

        if ((writes(l, b) || has(l->bottom_id, l->n_bottom, b)) &&
            l->host_top && !is_source(l))
            return false;
    }
    return true;
}

enum ct_status net_part_all(struct ct_net *net)
{
    for (int i = 0; i < net->n_layer; i++)
        for (int k = 0; k < net->layer[i].n_bottom; k++) {
            const int b = net->layer[i].bottom_id[k];

            if (in_place(&net->layer[i], b) && needs_parting(net, i, b) &&
                can_part(net, i, b))
                CT_TRY(net_part(net, i, b));
        }
    return CT_OK;
}
