/* layouts.c - chooses which blobs have the blocked layout of convolutions.
 *
 * Layers with CT_LAYER_SAME_LAYOUT join their four-axis blobs to groups of one
 * layout.  Convolutions (CT_LAYER_OWN_LAYOUT) read and write both layouts and
 * separate groups.  CT_LAYER_PLAIN_TOPS read both and write plain blobs; all
 * other layers use plain blobs only.  A group becomes blocked if a convolution
 * uses it and every producer in it can write the layout.  A layer that needs
 * plain blobs reads a converted copy (shadow), and its gradient is converted
 * back.
 *
 * On a GPU the layout is NHWC, with 16-bit values in those precisions; on a CPU
 * that computes in bfloat16 it is NHWC with bfloat16, and layers without
 * CT_LAYER_BF16 take plain blobs only.
 *
 * Inputs, outputs and losses stay plain: users see them.  So does everything
 * when blobs are to be kept, or with CORTADO_IMPL=layout:plain. */
#include "base/mem.h"
#include "cortado/log.h"
#include "device/impl.h"
#include "device/layout.h"
#include "net/net_inner.h"

struct layouts {
    struct ct_net *net;
    enum ct_layout blocked; /* NHWC on a GPU */
    enum ct_dtype  dtype;   /* of the blobs with this layout */
    int           *group; /* per blob: union-find parent */
    bool          *plain; /* per root: a member must be plain */
    bool          *gains; /* per root: a convolution uses a member */
};

static int root_of(const struct layouts *p, int blob)
{
    while (p->group[blob] != blob)
        blob = p->group[blob];
    return blob;
}

static bool four_axes(const struct layouts *p, int blob)
{
    return p->net->blob[blob].blob->shape.n_axes == 4;
}

static bool takes_blocked(const struct layouts *p, const struct net_layer *l)
{
    const struct ct_layer_type *t = l->layer->type;
    struct ct_io io               = net_io(l);

    if (l->host_top ||
        !(t->flags & (CT_LAYER_SAME_LAYOUT | CT_LAYER_OWN_LAYOUT |
                      CT_LAYER_PLAIN_TOPS)))
        return false;
    if (p->net->dev->kind == CT_CPU && p->dtype != CT_F32 &&
        !(t->flags & CT_LAYER_BF16))
        return false;
    for (int i = 0; i < l->n_bottom; i++)
        if (!four_axes(p, l->bottom_id[i]))
            return false;
    return !t->accepts || t->accepts(l->layer, &io, p->blocked);
}

static void join(struct layouts *p, int a, int b)
{
    p->group[root_of(p, a)] = root_of(p, b);
}

static bool stays_exact(const struct net_layer *l, int top)
{
    return top > 0 && (l->layer->type->flags & CT_LAYER_EXACT);
}

static void join_groups(struct layouts *p)
{
    for (int i = 0; i < p->net->n_layer; i++) {
        const struct net_layer *l = &p->net->layer[i];

        if (!(l->layer->type->flags & CT_LAYER_SAME_LAYOUT) ||
            !takes_blocked(p, l))
            continue;
        for (int b = 1; b < l->n_bottom; b++)
            join(p, l->bottom_id[b], l->bottom_id[0]);
        for (int t = 0; t < l->n_top && l->n_bottom; t++)
            if (!stays_exact(l, t))
                join(p, l->top_id[t], l->bottom_id[0]);
    }
}

static void judge_groups(struct layouts *p)
{
    const int64_t half = ct_layout_block(p->blocked, 0) / 2;

    for (int i = 0; i < p->net->n_blob; i++) {
        const struct net_blob *b = &p->net->blob[i];

        /* Few channels would be mostly padding. */
        if (!four_axes(p, i) || b->pinned || !b->blob->planned ||
            b->blob->shape.dim[1] < half)
            p->plain[root_of(p, i)] = true;
    }
    for (int i = 0; i < p->net->n_layer; i++) {
        const struct net_layer *l = &p->net->layer[i];
        /* Blobs of a layer on the CPU are converted while they are copied. */
        bool blocked = l->host_top || takes_blocked(p, l);
        bool own = l->layer->type->flags & CT_LAYER_OWN_LAYOUT;
        bool plain = !blocked ||
                     (l->layer->type->flags & CT_LAYER_PLAIN_TOPS);

        for (int t = 0; t < l->n_top; t++) {
            if (plain || stays_exact(l, t))
                p->plain[root_of(p, l->top_id[t])] = true;
            if (own)
                p->gains[root_of(p, l->top_id[t])] = true;
        }
        for (int b = 0; b < l->n_bottom && own; b++)
            p->gains[root_of(p, l->bottom_id[b])] = true;
    }
}

static bool is_blocked(const struct layouts *p, int blob)
{
    int root = root_of(p, blob);

    return p->gains[root] && !p->plain[root];
}

static enum ct_status add_shadow(struct ct_net *net, struct net_layer *l,
                                 int i)
{
    const struct ct_blob *from = net->blob[l->bottom_id[i]].blob;

    if (!l->shadow)
        CT_TRY(ct_alloc((size_t)l->n_bottom, sizeof(*l->shadow), "shadows",
                        &l->shadow));
    CT_TRY(ct_blob_create(net->dev, &l->shadow[i]));
    l->shadow[i]->name    = from->name;
    l->shadow[i]->no_diff = !l->want_grad[i] || net->options.forward_only;
    l->bottom[i]          = l->shadow[i];
    return ct_reshape(l->shadow[i], from->shape);
}

static enum ct_status add_shadows(struct layouts *p)
{
    for (int i = 0; i < p->net->n_layer; i++) {
        struct net_layer *l = &p->net->layer[i];

        if (l->host_top || takes_blocked(p, l))
            continue;
        for (int b = 0; b < l->n_bottom; b++)
            if (is_blocked(p, l->bottom_id[b]))
                CT_TRY(add_shadow(p->net, l, b));
    }
    return CT_OK;
}

static void drop_shadows(struct ct_net *net)
{
    for (int i = 0; i < net->n_layer; i++) {
        struct net_layer *l = &net->layer[i];

        for (int b = 0; l->shadow && b < l->n_bottom; b++)
            if (l->shadow[b]) {
                ct_blob_destroy(l->shadow[b]);
                l->shadow[b] = NULL;
                l->bottom[b] = net->blob[l->bottom_id[b]].blob;
            }
    }
}

static int set_layouts(struct layouts *p, enum ct_layout layout,
                       enum ct_dtype dtype)
{
    int n = 0;

    for (int i = 0; i < p->net->n_blob; i++)
        if (is_blocked(p, i)) {
            struct ct_blob *b = p->net->blob[i].blob;

            b->data.layout = b->diff.layout = layout;
            b->data.dtype = b->diff.dtype = dtype;
            n++;
        }
    return n;
}

static enum ct_status reshape_all(struct ct_net *net)
{
    for (int i = 0; i < net->n_layer; i++)
        CT_TRY(net_layer_reshape(net, &net->layer[i]));
    return CT_OK;
}

static enum ct_status apply(struct layouts *p)
{
    enum ct_status st;

    join_groups(p);
    judge_groups(p);
    if (set_layouts(p, p->blocked, p->dtype) == 0)
        return CT_OK;
    st = add_shadows(p);
    if (st == CT_OK)
        st = reshape_all(p->net);
    if (st == CT_OK)
        return CT_OK;
    /* No implementation supports these layouts; plain ones always work. */
    drop_shadows(p->net);
    set_layouts(p, CT_PLAIN, CT_F32);
    return reshape_all(p->net);
}

/* The layout and type of convolutions on this device; false: plain float32. */
static bool favourite(const struct ct_device *dev, struct layouts *p)
{
    if (dev->kind == CT_CPU && ct_device_dtype(dev) == CT_F32) {
        p->blocked = ct_layout_blocked();
        return ct_impl_allowed("layout", "blocked");
    }
    p->blocked = CT_NHWC;
    p->dtype   = ct_device_dtype(dev);
    return ct_device_prefers_nhwc(dev) && ct_impl_allowed("layout", "nhwc");
}

enum ct_status net_layouts(struct ct_net *net)
{
    struct layouts p = { .net = net };
    size_t n         = (size_t)net->n_blob + 1;
    enum ct_status st;

    if (net->options.keep_blobs || !favourite(net->dev, &p))
        return CT_OK;
    CT_TRY_GOTO(ct_alloc(n, sizeof(*p.group), "layouts", &p.group), st, out);
    CT_TRY_GOTO(ct_alloc(n, sizeof(*p.plain), "layouts", &p.plain), st, out);
    CT_TRY_GOTO(ct_alloc(n, sizeof(*p.gains), "layouts", &p.gains), st, out);
    for (int i = 0; i < net->n_blob; i++)
        p.group[i] = i;
    st = apply(&p);
out:
    ct_free(p.group);
    ct_free(p.plain);
    ct_free(p.gains);
    return st;
}
