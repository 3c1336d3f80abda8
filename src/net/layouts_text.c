/* layouts_text.c - prints layouts, memory and fused layers as a table.
 *
 *     blob   shape        layout     data            diff
 *     conv1  64 20 24 24  blocked16  0.00..4.72 MB   4.72..9.44 MB
 *
 * data and diff are byte ranges in the memory of activations.  Blobs with
 * lifetimes that do not overlap, and views of each other, share a range.  Then
 * follow conversions between layouts, which take time in every pass, layers
 * that run as one, and the implementations of layers that have several. */
#include <stdio.h>

#include "base/text.h"
#include "net/net_inner.h"

enum { CELL = 80 };

static const char *layout_name(enum ct_layout layout)
{
    switch (layout) {
    case CT_BLOCKED8:
        return "blocked8";
    case CT_BLOCKED16:
        return "blocked16";
    case CT_NHWC:
        return "nhwc";
    default:
        return "plain";
    }
}

static double megabytes(size_t bytes)
{
    return (double)bytes / 1e6;
}

static void range_cell(const struct ct_net *net, const struct ct_blob *b,
                       const struct ct_tensor *t, char *out)
{
    const char *base = (const char *)(net->activations ? net->activations->ptr
                                                       : NULL);
    const char *at   = (const char *)t->ptr;
    size_t bytes     = ct_tensor_bytes(&b->shape, t);

    if (!at)
        snprintf(out, CELL, "-");
    else if (!base || at < base || at >= base + net->activation_bytes)
        snprintf(out, CELL, "its own, %.2f MB", megabytes(bytes));
    else
        snprintf(out, CELL, "%.2f..%.2f MB", megabytes((size_t)(at - base)),
                 megabytes((size_t)(at - base) + bytes));
}

static void blob_line(struct ct_text *t, const struct ct_net *net, int i)
{
    const struct ct_blob *b = net->blob[i].blob;
    char shape[CELL], data[CELL], diff[CELL];

    range_cell(net, b, &b->data, data);
    range_cell(net, b, &b->diff, diff);
    ct_text_addf(t, "%-28s %-20s %-10s %-22s %s\n", net->blob[i].name,
                 ct_shape_text(&b->shape, shape, sizeof(shape)),
                 layout_name(b->data.layout), data, diff);
}

/* A layer that needs plain blobs has a converted copy of its bottom. */
static size_t shadow_lines(struct ct_text *t, const struct ct_net *net)
{
    size_t all = 0;

    for (int i = 0; i < net->n_layer; i++) {
        const struct net_layer *l = &net->layer[i];

        for (int b = 0; l->shadow && b < l->n_bottom; b++) {
            const struct ct_blob *from = net->blob[l->bottom_id[b]].blob;
            size_t bytes;

            if (!l->shadow[b])
                continue;
            bytes = ct_tensor_bytes(&from->shape, &from->data);
            all += bytes * (l->want_grad[b] ? 2 : 1);
            ct_text_addf(t, "layer %s (%s) reads %s as %s: %.2f MB forward%s\n",
                         l->layer->name, l->layer->type->name, from->name,
                         layout_name(l->shadow[b]->data.layout),
                         megabytes(bytes),
                         l->want_grad[b] ? ", as much backward" : "");
        }
    }
    return all;
}

/* A convolution with different layouts of bottom and top converts inside. */
static void own_lines(struct ct_text *t, const struct ct_net *net)
{
    for (int i = 0; i < net->n_layer; i++) {
        const struct net_layer *l = &net->layer[i];

        if (!(l->layer->type->flags & CT_LAYER_OWN_LAYOUT))
            continue;
        for (int k = 0; k < l->n_top && k < l->n_bottom; k++)
            if (l->bottom[k]->data.layout != l->top[k]->data.layout)
                ct_text_addf(t, "layer %s (%s) goes from %s to %s by itself\n",
                             l->layer->name, l->layer->type->name,
                             layout_name(l->bottom[k]->data.layout),
                             layout_name(l->top[k]->data.layout));
    }
}

/* Weights that a solver packs for convolutions, and weights that are converted
 * in every pass. */
static void param_lines(struct ct_text *t, const struct ct_net *net)
{
    size_t bytes[2] = { 0, 0 };
    int n[2]        = { 0, 0 };

    for (int i = 0; i < net->n_params; i++) {
        const struct ct_net_param *p = &net->params[i];
        const bool packs             = net_param_packs(net, i);

        if (p->index > 0 || !net->layer[p->layer].layer->type->packs)
            continue;
        n[packs]++;
        bytes[packs] += (size_t)p->blob->count * sizeof(float);
    }
    if (n[1])
        ct_text_addf(t, "weights of %d layers, %.2f MB, rest in tiles of 16 x "
                     "16 channels in long runs of a solver alone\n", n[1],
                     megabytes(bytes[1]));
    if (n[0])
        ct_text_addf(t, "weights of %d layers, %.2f MB, stay in Caffe's "
                     "layout\n", n[0], megabytes(bytes[0]));
}

static void group_lines(struct ct_text *t, const struct ct_net *net)
{
    ct_text_add(t, "\nlayers that run as one:\n");
    for (int i = 0; i < net->n_layer; i++) {
        const struct net_layer *l = &net->layer[i];

        if (l->first == l->last)
            continue;
        ct_text_addf(t, "%s%s (%s)%s", l->first == i ? "" : " + ",
                     l->layer->name, l->layer->type->name,
                     l->last == i ? "\n" : "");
    }
    if (!net->fused)
        ct_text_add(t, "none\n");
}

/* Layers with several implementations. */
static void impl_lines(struct ct_text *t, const struct ct_net *net)
{
    ct_text_add(t, "\nimplementations:\n");
    for (int i = 0; i < net->n_layer; i++) {
        const struct ct_layer *l = net_chain_twin(&net->layer[i]);
        const char *why = "";
        const char *name =
            l->type->describe ? l->type->describe(l, &why) : NULL;

        if (name)
            ct_text_addf(t, "%-28s %-10s %s\n", l->name, name, why);
    }
}

enum ct_status ct_net_plan_text(const struct ct_net *net, char **out)
{
    struct ct_text t = { 0 };
    size_t converted;

    ct_text_addf(&t, "%-28s %-20s %-10s %-22s %s\n", "blob", "shape",
                 "layout", "data", "diff");
    for (int i = 0; i < net->n_blob; i++)
        blob_line(&t, net, i);
    ct_text_add(&t, "\nconversions:\n");
    converted = shadow_lines(&t, net);
    own_lines(&t, net);
    param_lines(&t, net);
    ct_text_addf(&t, "%.2f MB are converted in a pass.\n",
                 megabytes(converted));
    group_lines(&t, net);
    net_chain_lines(&t, net);
    impl_lines(&t, net);
    ct_text_addf(&t, "\nmemory: activations %.2f MB by lifetime, %.2f MB "
                 "without; parameters %.2f MB and as much for gradients; "
                 "workspace %.2f MB\n",
                 megabytes(net->activation_bytes),
                 megabytes(net->unshared_bytes),
                 megabytes(net->arena_count * sizeof(float)),
                 megabytes(net->work.bytes));
    *out = t.s;
    return t.failed ? CT_ENOMEM : CT_OK;
}
