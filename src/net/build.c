/* build.c - creates layers, connects them to blobs by name, and sets them up.
 *
 * If a top has the name of the bottom at the same index, the layer works in
 * place on this blob; any other second producer of a name is refused.  Loss
 * layers that name too few tops get anonymous ones.  A blob that no layer reads
 * is an output. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "net/net_inner.h"
#include "proto/edit.h"

enum ct_status net_add_blob(struct ct_net *net, const char *name, int *out)
{
    struct net_blob *more = ct_realloc(
        net->blob, ((size_t)net->n_blob + 1) * sizeof(*more), "net blobs");
    struct net_blob *b;

    if (!more)
        return CT_ENOMEM;
    net->blob = more;
    b         = &more[net->n_blob];
    *b        = (struct net_blob){ 0 };
    b->name   = ct_strdup(name, "blob name");
    if (!b->name)
        return CT_ENOMEM;
    net->n_blob++;
    CT_TRY(ct_blob_create(net->dev, &b->blob));
    b->blob->name    = b->name;
    b->blob->planned = true;
    *out             = net->n_blob - 1;
    b->stands_for    = *out;
    return CT_OK;
}

/* The last blob of this name; -1: none. */
static int blob_named(const struct ct_net *net, const char *name)
{
    for (int i = net->n_blob - 1; i >= 0; i--)
        if (strcmp(net->blob[i].name, name) == 0)
            return i;
    return -1;
}

static enum ct_status wire_alloc(struct net_layer *l, int n_bottom, int n_top)
{
    size_t b = (size_t)n_bottom + 1, t = (size_t)n_top + 1;

    l->n_bottom = n_bottom;
    l->n_top    = n_top;
    CT_TRY(ct_alloc(b, sizeof(*l->bottom), "net layer", &l->bottom));
    CT_TRY(ct_alloc(b, sizeof(*l->bottom_id), "net layer", &l->bottom_id));
    CT_TRY(ct_alloc(b, sizeof(*l->seen), "net layer", &l->seen));
    CT_TRY(ct_alloc(b, sizeof(*l->want_grad), "net layer", &l->want_grad));
    CT_TRY(ct_alloc(t, sizeof(*l->top), "net layer", &l->top));
    CT_TRY(ct_alloc(t, sizeof(*l->top_id), "net layer", &l->top_id));
    return ct_alloc(t, sizeof(*l->loss_weight), "net layer", &l->loss_weight);
}

static enum ct_status wire_top(struct ct_net *net,
                               const Caffe__LayerParameter *p, size_t i,
                               int *id)
{
    const char *name = i < p->n_top ? p->top[i] : NULL;

    if (!name)
        return net_add_blob(net, "(automatic)", id);
    if (i < p->n_bottom && strcmp(p->bottom[i], name) == 0) {
        *id = blob_named(net, name);
        return CT_OK;
    }
    if (blob_named(net, name) >= 0)
        return ct_fail(CT_EINVAL, "layer %s: top blob '%s' is produced by "
                       "another layer already; give it another name or work "
                       "in place on bottom %zu", p->name ? p->name : "", name,
                       i);
    return net_add_blob(net, name, id);
}

static enum ct_status wire(struct ct_net *net, struct net_layer *l,
                           const Caffe__LayerParameter *p)
{
    const struct ct_layer_type *type = l->layer->type;
    int n_top = (int)p->n_top;

    if ((type->flags & CT_LAYER_LOSS) && n_top < type->tops.min)
        n_top = type->tops.min;
    if ((type->flags & CT_LAYER_LOSS) && n_top == 0)
        n_top = 1;
    CT_TRY(wire_alloc(l, (int)p->n_bottom, n_top));
    for (int i = 0; i < l->n_bottom; i++) {
        l->bottom_id[i] = blob_named(net, p->bottom[i]);
        CT_ASSERT(l->bottom_id[i] >= 0); /* add_splits.c has checked */
        l->bottom[i] = net->blob[l->bottom_id[i]].blob;
    }
    for (int i = 0; i < n_top; i++) {
        CT_TRY(wire_top(net, p, (size_t)i, &l->top_id[i]));
        l->top[i] = net->blob[l->top_id[i]].blob;
    }
    /* A source provides the memory of its tops; it may be prefetched memory. */
    if ((type->flags & CT_LAYER_SOURCE) && l->layer->dev == net->dev)
        for (int i = 0; i < n_top; i++)
            l->top[i]->planned = false;
    return net_bridge_wire(net, l);
}

/* loss_weight is given for every top or not at all; the default is 1 for the
 * first top of a loss layer, otherwise 0. */
static enum ct_status loss_weights(struct ct_net *net, struct net_layer *l,
                                   Caffe__LayerParameter *p)
{
    bool is_loss = l->layer->type->flags & CT_LAYER_LOSS;

    if (p->n_loss_weight && p->n_loss_weight != (size_t)l->n_top)
        return ct_fail(CT_EINVAL, "layer %s: loss_weight stands %zu times; "
                       "give it once for each of the %d tops, or not at all",
                       l->layer->name, p->n_loss_weight, l->n_top);
    if (is_loss && p->n_loss_weight == 0)
        for (int i = 0; i < l->n_top; i++)
            CT_TRY(ct_edit_add_float(&p->loss_weight, &p->n_loss_weight,
                                     i == 0));
    for (int i = 0; i < l->n_top; i++) {
        l->loss_weight[i] = p->n_loss_weight ? p->loss_weight[i] : 0;
        net->blob[l->top_id[i]].loss_weight = l->loss_weight[i];
        if (net->training.loss_scale != 0)
            l->loss_weight[i] *= net->training.loss_scale;
        /* The weight is kept in the top's diff, and earlier layers write to the
         * bottom's diff. */
        if (l->loss_weight[i] != 0)
            l->layer->flags &= ~(unsigned)CT_LAYER_ALIAS_DIFF;
    }
    return CT_OK;
}

static enum ct_status build_layer(struct ct_net *net, int i)
{
    Caffe__LayerParameter *p = net->param->layer[i];
    struct net_layer *l      = &net->layer[i];
    enum ct_status st;
    struct ct_io io;

    if (!p->has_phase) {
        p->has_phase = true;
        p->phase     = net->options.phase;
    }
    if (p->n_propagate_down && p->n_propagate_down != p->n_bottom)
        return ct_fail(CT_EINVAL, "layer %s: propagate_down stands %zu times; "
                       "give it once for each of the %zu bottoms, or not at "
                       "all", p->name ? p->name : "", p->n_propagate_down,
                       p->n_bottom);
    CT_TRY(ct_layer_create(p, net_layer_device(net, p), &net->run, p->phase,
                           &l->layer));
    CT_TRY(wire(net, l, p));
    io           = net_io(l);
    io.want_grad = NULL;
    st           = ct_layer_setup(l->layer, &io);
    if (st != CT_OK)
        return ct_fail_in(net_status(st, CT_EINVAL), "cannot set up %s layer "
                          "%s (number %d)", p->type, l->layer->name, i);
    CT_TRY(net_bridge_tops(net, l));
    if (l->host_top && l->layer->n_blob > 0)
        return ct_fail(CT_ENOTSUP, "layer %s: %s has parameters and no GPU "
                       "implementation; run this net on the CPU",
                       l->layer->name, p->type);
    for (int b = 0; b < l->n_bottom; b++)
        l->seen[b] = l->bottom[b]->version;
    return loss_weights(net, l, p);
}

static int by_name(const void *a, const void *b, void *arg)
{
    const struct ct_net *net = arg;

    return strcmp(net->blob[*(const int *)a].name,
                  net->blob[*(const int *)b].name);
}

/* Inputs are the tops of Input layers, in order.  Outputs are the blobs that no
 * layer reads, in alphabetical order. */
static enum ct_status find_ends(struct ct_net *net)
{
    bool *read = NULL;
    size_t n   = (size_t)net->n_blob + 1;

    CT_TRY(ct_alloc(n, sizeof(*net->input), "net inputs", &net->input));
    CT_TRY(ct_alloc(n, sizeof(*net->output), "net outputs", &net->output));
    CT_TRY(ct_alloc(n, sizeof(*read), "net outputs", &read));
    for (int i = 0; i < net->n_layer; i++) {
        const struct net_layer *l = &net->layer[i];

        for (int j = 0; j < l->n_bottom; j++)
            read[l->bottom_id[j]] = true;
        for (int j = 0; j < l->n_top; j++) {
            read[l->top_id[j]] = false;
            if (strcmp(l->layer->type->name, "Input") == 0)
                net->input[net->n_input++] = l->top_id[j];
        }
    }
    for (int i = 0; i < net->n_blob; i++)
        if (!read[i])
            net->output[net->n_output++] = i;
    ct_free(read);
    qsort_r(net->output, (size_t)net->n_output, sizeof(*net->output), by_name,
            net);
    return CT_OK;
}

enum ct_status net_build(struct ct_net *net)
{
    CT_TRY(ct_alloc(net->param->n_layer + 1, sizeof(*net->layer), "net layers",
                    &net->layer));
    for (size_t i = 0; i < net->param->n_layer; i++) {
        net->n_layer        = (int)i + 1;
        net->layer[i].first = net->layer[i].last = (int)i;
        CT_TRY(build_layer(net, (int)i));
    }
    net->n_named = net->n_blob;
    CT_TRY(find_ends(net));
    for (int i = 0; i < net->n_input; i++)
        net->blob[net->input[i]].pinned = true;
    for (int i = 0; i < net->n_output; i++)
        net->blob[net->output[i]].pinned = true;
    for (int i = 0; i < net->n_blob; i++)
        if (net->blob[i].loss_weight != 0)
            net->blob[i].pinned = true;
    return CT_OK;
}
