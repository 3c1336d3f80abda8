/* bridge.c - layers that stay on the CPU while their net is on a GPU.
 *
 * Sources read files, and a few types have no kernels.  Such a layer has its
 * own blobs in host memory; values are copied before and after it:
 *
 *     forward    bottoms to the host, run, tops to the GPU
 *     backward   top diffs to the host, run, bottom diffs to the GPU
 *
 * The net's blobs may have any layout and type; blobs in host memory are plain.
 * Sources of batches write to the GPU themselves (forward_to). */
#include <string.h>

#include "base/mem.h"
#include "base/trace.h"
#include "cortado/log.h"
#include "net/net_inner.h"

const struct ct_device *net_layer_device(const struct ct_net *net,
                                         const Caffe__LayerParameter *p)
{
    const struct ct_layer_type *type = ct_layer_find(p->type ? p->type : "");

    if (!type || net->dev->kind == CT_CPU || type->forward[net->dev->kind])
        return net->dev;
    if (!(type->flags & CT_LAYER_SOURCE) && !net->options.quiet)
        CT_WARN("layer %s: %s has no GPU implementation and runs on the CPU",
                p->name ? p->name : "", type->name);
    return ct_device_cpu();
}

static enum ct_status host_blob(const struct ct_net *net, int id, bool no_diff,
                                struct ct_blob **out)
{
    CT_TRY(ct_blob_create(ct_device_cpu(), out));
    (*out)->name    = net->blob[id].name;
    (*out)->no_diff = no_diff;
    return CT_OK;
}

static struct ct_blob *same_blob(const struct net_layer *l, int top)
{
    for (int i = 0; i < l->n_bottom; i++)
        if (l->bottom_id[i] == l->top_id[top])
            return l->host_bottom[i];
    return NULL;
}

enum ct_status net_bridge_wire(struct ct_net *net, struct net_layer *l)
{
    bool source = l->layer->type->flags & CT_LAYER_SOURCE;

    if (l->layer->dev == net->dev)
        return CT_OK;
    CT_TRY(ct_alloc((size_t)l->n_bottom + 1, sizeof(*l->host_bottom),
                    "host blobs", &l->host_bottom));
    CT_TRY(ct_alloc((size_t)l->n_top + 1, sizeof(*l->host_top), "host blobs",
                    &l->host_top));
    CT_TRY(ct_alloc((size_t)l->n_top + 1, sizeof(*l->gpu_top), "host blobs",
                    &l->gpu_top));
    CT_TRY(ct_alloc((size_t)l->n_top + 1, sizeof(*l->put), "host blobs",
                    &l->put));
    for (int i = 0; i < l->n_bottom; i++) {
        CT_TRY(host_blob(net, l->bottom_id[i], false, &l->host_bottom[i]));
        l->bottom[i] = l->host_bottom[i];
    }
    for (int i = 0; i < l->n_top; i++) {
        struct ct_blob *b = same_blob(l, i);

        if (!b)
            CT_TRY(host_blob(net, l->top_id[i], source, &b));
        if (l->layer->type->forward_to)
            b->planned = true; /* the net allocates no memory for it */
        l->top[i] = l->host_top[i] = b;
        l->gpu_top[i] = net->blob[l->top_id[i]].blob;
    }
    return net_bridge_bottoms(net, l);
}

void net_bridge_fini(struct net_layer *l)
{
    for (int i = 0; l->host_top && i < l->n_top; i++)
        if (!same_blob(l, i))
            ct_blob_destroy(l->host_top[i]);
    for (int i = 0; l->host_bottom && i < l->n_bottom; i++)
        ct_blob_destroy(l->host_bottom[i]);
    ct_free(l->put);
    ct_free(l->gpu_top);
    ct_free(l->host_top);
    ct_free(l->host_bottom);
}

static enum ct_status follow(struct ct_blob *b, const struct ct_blob *from)
{
    return b->version > 0 && ct_shape_equal(&b->shape, &from->shape)
               ? CT_OK
               : ct_reshape(b, from->shape);
}

enum ct_status net_bridge_bottoms(struct ct_net *net, struct net_layer *l)
{
    for (int i = 0; l->host_bottom && i < l->n_bottom; i++)
        CT_TRY(follow(l->host_bottom[i], net->blob[l->bottom_id[i]].blob));
    return CT_OK;
}

enum ct_status net_bridge_tops(struct ct_net *net, struct net_layer *l)
{
    for (int i = 0; l->host_top && i < l->n_top; i++)
        CT_TRY(follow(net->blob[l->top_id[i]].blob, l->host_top[i]));
    return CT_OK;
}

enum ct_status net_bridge_forward_in(struct ct_net *net, struct net_layer *l)
{
    const uint64_t start = l->host_bottom ? ct_trace_begin() : 0;

    for (int i = 0; l->host_bottom && i < l->n_bottom; i++)
        CT_TRY(ct_blob_get(net->blob[l->bottom_id[i]].blob, false,
                           ct_data(l->host_bottom[i])));
    ct_trace_end(start, CT_TRACE_COPY, "bottoms from the GPU");
    return CT_OK;
}

/* A top whose values do not change is copied only when its address changes. */
static bool is_there(struct net_layer *l, int i, const struct ct_blob *b)
{
    bool there = (l->layer->flags & CT_LAYER_STEADY) &&
                 l->put[i] == ct_data(b);

    l->put[i] = ct_data(b);
    return there;
}

bool net_bridge_is_direct(const struct net_layer *l)
{
    return l->host_top && l->layer->type->forward_to;
}

enum ct_status net_bridge_direct(struct net_layer *l)
{
    const struct ct_io io = net_io(l);

    return l->layer->type->forward_to(l->layer, &io, l->gpu_top);
}

enum ct_status net_bridge_forward_out(struct ct_net *net, struct net_layer *l)
{
    const uint64_t start = l->host_top ? ct_trace_begin() : 0;

    if (net_bridge_is_direct(l))
        return CT_OK;
    CT_TRY(net_bridge_tops(net, l));
    for (int i = 0; l->host_top && i < l->n_top; i++) {
        struct ct_blob *b = net->blob[l->top_id[i]].blob;

        if (!is_there(l, i, b))
            CT_TRY(ct_blob_put(b, false, ct_data(l->host_top[i])));
    }
    ct_trace_end(start, CT_TRACE_COPY, "tops to the GPU");
    return CT_OK;
}

enum ct_status net_bridge_backward_in(struct ct_net *net, struct net_layer *l)
{
    const uint64_t start = l->host_top ? ct_trace_begin() : 0;

    for (int i = 0; l->host_top && i < l->n_top; i++) {
        const struct ct_blob *b = net->blob[l->top_id[i]].blob;

        if (l->loss_weight[i] == 0 && ct_diff(b) && ct_diff(l->host_top[i]))
            CT_TRY(ct_blob_get(b, true, ct_diff(l->host_top[i])));
    }
    ct_trace_end(start, CT_TRACE_COPY, "top diffs from the GPU");
    return CT_OK;
}

enum ct_status net_bridge_backward_out(struct ct_net *net, struct net_layer *l)
{
    const uint64_t start = l->host_bottom ? ct_trace_begin() : 0;

    for (int i = 0; l->host_bottom && i < l->n_bottom; i++)
        if (l->want_grad[i])
            CT_TRY(ct_blob_put(net->blob[l->bottom_id[i]].blob, true,
                               ct_diff(l->host_bottom[i])));
    ct_trace_end(start, CT_TRACE_COPY, "bottom diffs to the GPU");
    return CT_OK;
}
