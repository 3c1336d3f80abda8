/* memory.c - activations share memory by lifetime.
 *
 * Time has 2L steps: layer l runs forward at step l and backward at step
 * 2L-1-l.  Each tensor (a blob's data or diff; views count with what they
 * look into) lives from its first writer to its last reader:
 *
 *     data   producer's forward .. consumers' forward, and the backward of
 *            consumers that read bottom data and producers that read top data
 *     diff   the backward of the layer that writes it, or of the one that ends
 *            it (fuse.c) .. its producer's
 *
 * On a GPU sources run before a recorded pass (replay.c), wherever they stand,
 * so what they bring lives from the start.
 *
 * On a GPU the gradients of parameters may run beside what follows them: then
 * what they read lives on to the end of the pass, if that fits into a small
 * part of the GPU's memory.
 *
 * The layers of a chain (chain.h) all run at the turn of its last one.  What
 * lives in one such step only needs no memory here: lanes have it, a group of
 * images large, placed in the same way but by the layers' own steps.  One that
 * turns has its backward pass in that same step, and what it reads stays for
 * who asks for a backward pass by itself.
 *
 * Two tensors whose lives do not meet may lie in the same place.  Tensors are
 * placed largest first at the lowest offset that is free throughout their
 * life.  Pinned blobs (inputs, outputs, losses) and, with keep_blobs, all
 * live for ever. */
#include <stdlib.h>

#include "base/mem.h"
#include "device/impl.h"
#include "net/chain.h"
#include "net/net_inner.h"

enum { SMALL_PART = 16 }; /* of the memory, for the side lane's sake */

struct tensor_life {
    size_t bytes, offset;
    int    first, last; /* steps; first > last: never touched */
    int    root;        /* the tensor it is a view of; itself if none */
    bool   wanted;      /* has a place, be it of no bytes */
};

struct plan {
    struct ct_net      *net;
    struct tensor_life *life; /* 2 per blob: data, diff */
    int                 n;
    bool                apart; /* layers of chains have their own steps */
};

static int data_of(int blob)
{
    return 2 * blob;
}

static int diff_of(int blob)
{
    return 2 * blob + 1;
}

static int root_of(const struct plan *p, int i)
{
    while (p->life[i].root != i)
        i = p->life[i].root;
    return i;
}

static void touch(struct plan *p, int i, int step)
{
    struct tensor_life *t = &p->life[root_of(p, i)];

    t->first = step < t->first ? step : t->first;
    t->last  = step > t->last ? step : t->last;
}

static void live_for_ever(struct plan *p, int i)
{
    touch(p, i, 0);
    touch(p, i, 2 * p->net->n_layer);
}

/* Equal diffs of bottoms that lie alike. */
static void share_diffs(struct plan *p, const struct net_layer *l)
{
    const int root = root_of(p, diff_of(l->bottom_id[0]));

    for (int b = 1; b < l->n_bottom; b++)
        if (l->shadow ||
            l->bottom[b]->diff.layout != l->bottom[0]->diff.layout)
            return;
    for (int b = 1; b < l->n_bottom; b++)
        p->life[root_of(p, diff_of(l->bottom_id[b]))].root = root;
}

/* When layer i runs forward. */
static int step_of(const struct plan *p, int i)
{
    const struct net_chain *c = p->net->layer[i].chain;

    return c && !p->apart ? c->last : i;
}

static bool turned(const struct plan *p, int i)
{
    const struct net_chain *c = p->net->layer[i].chain;

    return c && !p->apart && c->turns;
}

/* And backward. */
static int back_of(const struct plan *p, int i)
{
    const int step = step_of(p, i);

    return turned(p, i) ? step : 2 * p->net->n_layer - 1 - step;
}

static void find_views(struct plan *p)
{
    for (int i = 0; i < p->net->n_layer; i++) {
        const struct net_layer *l   = &p->net->layer[i];
        const struct net_layer *end = &p->net->layer[l->last];
        unsigned flags              = l->layer->flags;

        if (l->n_bottom == 0 || l->host_top)
            continue;
        for (int t = 0; t < l->n_top && (flags & CT_LAYER_ALIAS_DATA); t++)
            if (l->top_id[t] != l->bottom_id[0])
                p->life[data_of(l->top_id[t])].root = data_of(l->bottom_id[0]);
        if ((flags & CT_LAYER_ALIAS_DIFF) && l->n_top && l->want_grad[0] &&
            end->top_id[l->diff_top] != l->bottom_id[0])
            p->life[diff_of(end->top_id[l->diff_top])].root =
                diff_of(l->bottom_id[0]);
        if (l->one_diff)
            share_diffs(p, l);
    }
}

/* What the side lane may read until the end. */
static void touch_aside(struct plan *p, const struct net_layer *l)
{
    const struct net_layer *head = &p->net->layer[l->first];
    const int end                = 2 * p->net->n_layer;

    if (!p->net->aside || !(head->layer->flags & CT_LAYER_ASIDE))
        return;
    for (int b = 0; b < head->n_bottom; b++)
        touch(p, data_of(head->bottom_id[b]), end);
    for (int t = 0; t < l->n_top; t++) {
        if (!(head->layer->flags & CT_LAYER_NO_TOP))
            touch(p, data_of(l->top_id[t]), end);
        touch(p, diff_of(l->top_id[t]), end);
    }
}

static bool makes(const struct net_chain *c, const struct ct_net *net, int id)
{
    for (int i = c->first; i <= c->last; i++)
        for (int t = 0; t < net->layer[i].n_top; t++)
            if (net->layer[i].top_id[t] == id)
                return true;
    return false;
}

/* What a chain that turns reads and does not make. */
static void touch_read(struct plan *p, int i)
{
    const struct net_layer *head = &p->net->layer[p->net->layer[i].first];
    const int step               = step_of(p, i);

    for (int b = 0; b < head->n_bottom && turned(p, i); b++)
        if (!makes(head->chain, p->net, head->bottom_id[b]))
            touch(p, data_of(head->bottom_id[b]),
                  2 * p->net->n_layer - 1 - step);
}

/* The gradient of the sum before a group that may end it. */
static void touch_ended(struct plan *p, const struct net_layer *ends, int back)
{
    touch(p, diff_of(ends->joins->bottom_id[ends->joins_bottom]), back);
}

/* A group runs at its last layer's turn, by its first layer; what lies between
 * them is never touched. */
static void touch_layer(struct plan *p, int i)
{
    const struct net_layer *l    = &p->net->layer[i];
    const struct net_layer *head = &p->net->layer[l->first];
    unsigned flags               = head->layer->flags;
    int step                     = step_of(p, i);
    int back                     = back_of(p, i);
    bool runs_back = l->needs_backward && !p->net->options.forward_only;

    if (l->last != i)
        return;
    touch_read(p, i);
    if (head->joins) {
        const int other = head->joins->bottom_id[head->joins_bottom];

        touch(p, data_of(other), step);
        if (runs_back)
            touch(p, diff_of(other), back);
    }
    for (int b = 0; b < head->n_bottom; b++) {
        touch(p, data_of(head->bottom_id[b]), step);
        if (runs_back && !(flags & CT_LAYER_NO_BOTTOM))
            touch(p, data_of(head->bottom_id[b]), back);
        if (runs_back && head->want_grad[b])
            touch(p, diff_of(head->bottom_id[b]), back);
    }
    if (flags & CT_LAYER_STEADY)
        for (int t = 0; t < l->n_top; t++)
            live_for_ever(p, data_of(l->top_id[t]));
    if ((flags & CT_LAYER_SOURCE) && p->net->dev->kind != CT_CPU)
        for (int t = 0; t < l->n_top; t++)
            touch(p, data_of(l->top_id[t]), 0);
    for (int t = 0; t < l->n_top; t++) {
        touch(p, data_of(l->top_id[t]), step);
        if (runs_back && !(flags & CT_LAYER_NO_TOP))
            touch(p, data_of(l->top_id[t]), back);
        if (runs_back)
            touch(p, diff_of(l->top_id[t]), back);
    }
    if (runs_back && head->ends)
        touch_ended(p, head->ends, back);
    if (runs_back)
        touch_aside(p, l);
}

/* What a group adds to the blob that it joins may lie in that blob's place,
 * when nobody reads it later and the group reads it as nothing else. */
static void place_sums(struct plan *p)
{
    for (int i = 0; i < p->net->n_layer; i++) {
        const struct net_layer *l = &p->net->layer[i];
        const struct net_layer *head = &p->net->layer[l->first];
        const struct ct_blob *from, *to;
        int at, top;

        if (!head->joins || l->last != i)
            continue;
        top  = root_of(p, data_of(l->top_id[0]));
        at   = root_of(p, data_of(head->joins->bottom_id[head->joins_bottom]));
        from = p->net->blob[at / 2].blob;
        to   = l->top[0];
        if (at == top || at == root_of(p, data_of(head->bottom_id[0])) ||
            p->life[at].last != i || !from->planned ||
            ct_tensor_bytes(&from->shape, &from->data) !=
                ct_tensor_bytes(&to->shape, &to->data) ||
            p->net->blob[l->top_id[0]].pinned)
            continue;
        p->life[top].root = at;
        p->life[at].last  = p->life[top].last;
        if (p->life[at].first > p->life[top].first)
            p->life[at].first = p->life[top].first;
    }
}

/* Diffs that a layer reads but nobody writes must stay zero: they live for
 * ever.  A Split leaves such tops out, so they need no memory at all.  Layers
 * come last to first, as backward runs them: what a layer that works in place
 * writes itself does not count for it. */
static void find_unwritten(struct plan *p, bool *written)
{
    const struct ct_net *net = p->net;

    for (int i = net->n_layer - 1; i >= 0; i--) {
        const struct net_layer *l    = &net->layer[i];
        const struct net_layer *head = &net->layer[l->first];
        unsigned flags               = l->layer->flags;
        bool is_split = (flags & CT_LAYER_ALIAS_DATA) && !l->host_top &&
                        !(flags & CT_LAYER_ALIAS_DIFF);

        if (l->last != i)
            continue;
        for (int t = 0; t < l->n_top; t++) {
            if (written[l->top_id[t]] || net->blob[l->top_id[t]].pinned)
                continue;
            if (is_split)
                p->life[diff_of(l->top_id[t])].wanted = false;
            else if (l->needs_backward)
                live_for_ever(p, diff_of(l->top_id[t]));
        }
        for (int b = 0; b < head->n_bottom; b++)
            if (l->needs_backward && head->want_grad[b])
                written[head->bottom_id[b]] = true;
        if (l->needs_backward && head->joins)
            written[head->joins->bottom_id[head->joins_bottom]] = true;
    }
}

static bool wants_diff(const struct ct_net *net, const struct net_blob *b)
{
    if (b->loss_weight != 0)
        return true; /* its weight rests there */
    if (net->options.forward_only)
        return false;
    return b->needs_grad || b->pinned || net->options.keep_blobs;
}

/* What a view needs, the tensor it looks into must have. */
static void want(struct plan *p, int i, size_t bytes)
{
    struct tensor_life *t = &p->life[i], *root = &p->life[root_of(p, i)];

    t->wanted = root->wanted = true;
    if (root->bytes < bytes)
        root->bytes = bytes;
}

static void measure(struct plan *p)
{
    for (int i = 0; i < p->net->n_blob; i++) {
        const struct net_blob *nb = &p->net->blob[i];
        const struct ct_blob *b   = nb->blob;
        int root                  = root_of(p, data_of(i)) / 2;

        if (p->net->blob[root].blob->planned) /* else a source brings it */
            want(p, data_of(i), ct_tensor_bytes(&b->shape, &b->data));
        if (wants_diff(p->net, nb))
            want(p, diff_of(i), ct_tensor_bytes(&b->shape, &b->diff));
        if (nb->pinned || p->net->options.keep_blobs) {
            live_for_ever(p, data_of(i));
            live_for_ever(p, diff_of(i));
        }
    }
}

static int larger_first(const void *a, const void *b)
{
    const struct tensor_life *x = *(struct tensor_life *const *)a;
    const struct tensor_life *y = *(struct tensor_life *const *)b;

    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* The lowest offset for `t` among those already placed, sorted by offset. */
static size_t lowest_gap(const struct tensor_life *t,
                         struct tensor_life *const *placed, int n)
{
    size_t at = 0;

    for (int i = 0; i < n; i++) {
        const struct tensor_life *o = placed[i];

        if (o->last < t->first || o->first > t->last)
            continue;
        if (at + t->bytes <= o->offset)
            break;
        if (o->offset + o->bytes > at)
            at = o->offset + o->bytes;
    }
    return at;
}

static enum ct_status place_all(struct plan *p, size_t *total, size_t *sum)
{
    struct tensor_life **order = NULL, **placed = NULL;
    int n = 0;
    enum ct_status st;

    *total = *sum = 0;
    CT_TRY_GOTO(ct_alloc((size_t)p->n + 1, sizeof(*order), "memory plan",
                         &order), st, out);
    CT_TRY_GOTO(ct_alloc((size_t)p->n + 1, sizeof(*placed), "memory plan",
                         &placed), st, out);
    for (int i = 0; i < p->n; i++) {
        struct tensor_life *t = &p->life[i];

        t->bytes = (t->bytes + CT_ALIGN - 1) / CT_ALIGN * CT_ALIGN;
        if (t->root == i && t->wanted && t->bytes && t->first <= t->last)
            order[n++] = t;
    }
    qsort(order, (size_t)n, sizeof(*order), larger_first);
    for (int i = 0; i < n; i++) {
        int j = i;

        order[i]->offset = lowest_gap(order[i], placed, i);
        for (; j > 0 && placed[j - 1]->offset > order[i]->offset; j--)
            placed[j] = placed[j - 1];
        placed[j] = order[i];
        *sum += order[i]->bytes;
        if (order[i]->offset + order[i]->bytes > *total)
            *total = order[i]->offset + order[i]->bytes;
    }
out:
    ct_free(order);
    ct_free(placed);
    return st;
}

static void give(struct plan *p, int i, struct ct_tensor *t)
{
    const struct tensor_life *root = &p->life[root_of(p, i)];

    if (!p->life[i].wanted || !root->wanted || root->first > root->last)
        ct_tensor_clear(t);
    else
        ct_tensor_place(t, p->net->activations, root->offset, root->bytes);
}

/* Loss weights rest in the diffs of loss tops, for layers to read. */
static enum ct_status put_loss_weights(struct ct_net *net)
{
    for (int i = 0; i < net->n_layer; i++) {
        const struct net_layer *l = &net->layer[i];

        for (int t = 0; t < l->n_top; t++)
            if (l->loss_weight[t] != 0)
                CT_TRY(ct_fill(l->top[t]->dev, l->top[t]->count,
                               l->loss_weight[t], ct_diff(l->top[t])));
    }
    return CT_OK;
}

/* Whether a tensor lives while a chain runs, once, and no longer. */
static bool in_lanes(const struct plan *p, const struct tensor_life *t)
{
    const int n = p->net->n_layer;
    const struct net_chain *c;

    if (t->first != t->last || t->first >= 2 * n)
        return false;
    c = p->net->layer[t->first < n ? t->first : 2 * n - 1 - t->first].chain;
    return c != NULL;
}

static void give_to_lanes(struct plan *p)
{
    for (int i = 0; i < p->net->n_blob; i++) {
        struct net_blob *b       = &p->net->blob[i];
        struct tensor_life *data = &p->life[root_of(p, data_of(i))];
        struct tensor_life *diff = &p->life[root_of(p, diff_of(i))];

        b->lane_data = p->life[data_of(i)].wanted && in_lanes(p, data);
        b->lane_diff = p->life[diff_of(i)].wanted && in_lanes(p, diff);
    }
    for (int i = 0; i < p->net->n_blob; i++) {
        if (p->net->blob[i].lane_data)
            p->life[data_of(i)].wanted = false;
        if (p->net->blob[i].lane_diff)
            p->life[diff_of(i)].wanted = false;
    }
}

/* Everything but places. */
static enum ct_status make_plan(struct ct_net *net, bool apart, struct plan *p)
{
    bool *written = NULL;

    *p = (struct plan){ .net = net, .n = 2 * net->n_blob, .apart = apart };
    CT_TRY(ct_alloc((size_t)p->n + 1, sizeof(*p->life), "memory plan",
                    &p->life));
    CT_TRY(ct_alloc((size_t)net->n_blob + 1, sizeof(*written), "memory plan",
                    &written));
    for (int i = 0; i < p->n; i++)
        p->life[i] = (struct tensor_life){ 0, 0, 1 << 30, -1, i, false };
    find_views(p);
    for (int i = 0; i < net->n_layer; i++)
        touch_layer(p, i);
    measure(p);
    place_sums(p);
    find_unwritten(p, written);
    ct_free(written);
    if (!apart)
        give_to_lanes(p);
    return CT_OK;
}

/* With the side lane, where that takes little. */
static enum ct_status make_places(struct ct_net *net, struct plan *p)
{
    const size_t most = ct_device_memory(net->dev).all / SMALL_PART;

    net->aside = most > 0 && !net->options.forward_only &&
                 ct_impl_allowed("side", "lane");
    CT_TRY(make_plan(net, false, p));
    CT_TRY(place_all(p, &net->activation_bytes, &net->unshared_bytes));
    if (!net->aside || net->activation_bytes <= most)
        return CT_OK;
    net->aside = false;
    ct_free(p->life);
    CT_TRY(make_plan(net, false, p));
    return place_all(p, &net->activation_bytes, &net->unshared_bytes);
}

static enum ct_status run_plan(struct plan *p)
{
    struct ct_net *net = p->net;

    ct_buffer_drop(net->activations);
    net->activations = NULL;
    CT_TRY(ct_buffer_create(net->dev, net->activation_bytes, "activations",
                            &net->activations));
    for (int i = 0; i < net->n_blob; i++) {
        struct ct_blob *b = net->blob[i].blob;

        if (b->planned)
            give(p, data_of(i), &b->data);
        give(p, diff_of(i), &b->diff);
        b->no_diff = !b->diff.ptr;
    }
    for (int i = 0; i < net->n_layer; i++)
        net_layer_alias(net, &net->layer[i]);
    return put_loss_weights(net);
}

enum ct_status net_memory(struct ct_net *net)
{
    struct plan p = { 0 };
    enum ct_status st;

    CT_TRY(net_chains(net));
    st = make_places(net, &p);
    if (st == CT_OK)
        st = run_plan(&p);
    ct_free(p.life);
    for (int i = 0; i < net->n_chain && st == CT_OK; i++)
        st = net_lanes_make(net, net->chain[i]);
    return st;
}

enum ct_status net_lane_places(struct ct_net *net, const struct net_chain *c,
                               size_t *at, size_t *total)
{
    struct plan p     = { 0 };
    enum ct_status st = make_plan(net, true, &p);
    const int last    = 2 * net->n_layer - 1;
    size_t sum;

    for (int i = 0; st == CT_OK && i < p.n; i++) {
        struct tensor_life *t    = &p.life[i];
        const struct net_blob *b = &net->blob[root_of(&p, i) / 2];
        const int step = t->first < net->n_layer ? t->first : last - t->first;

        if (!(i % 2 ? b->lane_diff : b->lane_data) || t->root != i ||
            step < c->first || step > c->last)
            t->bytes = 0;
        t->bytes = t->bytes / (size_t)c->batch * (size_t)c->size;
    }
    if (st == CT_OK)
        st = place_all(&p, total, &sum);
    for (int i = 0; st == CT_OK && i < p.n; i++) {
        const struct tensor_life *root = &p.life[root_of(&p, i)];

        at[i] = root->bytes && p.life[i].wanted ? root->offset
                                                : CHAIN_NOWHERE;
    }
    ct_free(p.life);
    return st;
}

enum ct_status net_plan_sizes(struct ct_net *net, size_t *bytes)
{
    struct plan p     = { 0 };
    enum ct_status st = make_plan(net, false, &p);

    for (int i = 0; st == CT_OK && i < p.n; i++)
        bytes[i] = p.life[i].bytes;
    ct_free(p.life);
    return st;
}

enum ct_status net_plan_total(struct ct_net *net, const size_t *bytes,
                              size_t *out)
{
    const bool aside = net->aside;
    struct plan p    = { 0 };
    size_t sum;
    enum ct_status st;

    net->aside = false; /* nor would it be, where memory is short */
    st         = make_plan(net, false, &p);
    net->aside = aside;
    for (int i = 0; st == CT_OK && i < p.n; i++)
        p.life[i].bytes = bytes[i];
    if (st == CT_OK)
        st = place_all(&p, out, &sum);
    ct_free(p.life);
    return st;
}
