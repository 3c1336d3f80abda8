/* chain_run.c - a chain at work: lanes, and the threads that take them; see
 * chain.h. */
#include <stdatomic.h>
#include <stdio.h>

#include "device/cpu/loop.h"
#include "net/chain.h"

enum { BLOCK = 1024 }; /* floats that stay in the first cache */

static void point(struct ct_tensor *t, const struct ct_tensor *all,
                  const struct ct_blob *view, int64_t first, float *values,
                  size_t place)
{
    const size_t bytes = ct_tensor_bytes(&view->shape, t);
    const size_t image = bytes / (size_t)view->shape.dim[0];
    char *base         = (char *)all->ptr;

    if (place != CHAIN_NOWHERE)
        ct_tensor_point(t, values + place / sizeof(float), bytes);
    else
        ct_tensor_point(t, base ? (float *)(void *)(base + image *
                                                    (size_t)first)
                                : NULL, bytes);
}

/* Blobs and parameters may have moved since the last pass. */
static void point_group(const struct ct_net *net, const struct net_chain *c,
                        const struct chain_hand *hand,
                        const struct chain_lane *lane,
                        const struct chain_group *g)
{
    float *sums = lane->sums ? lane->sums->ptr : NULL;

    for (int b = 0; b < c->n_blob; b++) {
        const struct ct_blob *all = net->blob[c->blob[b]].blob;
        struct ct_blob *view      = g->view[b];

        point(&view->data, &all->data, view, g->first, hand->values->ptr,
              c->place[2 * b]);
        point(&view->diff, &all->diff, view, g->first, hand->values->ptr,
              c->place[2 * b + 1]);
        view->no_diff = !view->diff.ptr;
    }
    for (int u = 0; u < c->n_unit; u++) {
        const struct ct_layer *l = net->layer[c->unit[u].head].layer;

        for (int b = 0; b < l->n_blob; b++) {
            const struct ct_blob *from = l->blob[b];
            struct ct_blob *to         = g->twin[u]->blob[b];
            const size_t bytes         = (size_t)from->count * sizeof(float);

            ct_tensor_point(&to->data, from->data.ptr, bytes);
            to->data.layout = to->diff.layout = from->data.layout;
            ct_tensor_point(&to->diff, sums ? sums : from->diff.ptr, bytes);
            if (sums)
                sums += net_chain_floats(from);
        }
    }
}

typedef enum ct_status (*lane_fn)(const struct ct_net *net,
                                  const struct net_chain *c,
                                  struct chain_lane *lane);

static void run_lane(const struct ct_net *net, const struct net_chain *c,
                     const struct chain_hand *hand, struct chain_lane *l,
                     lane_fn fn)
{
    l->run       = net->run;
    l->run.work  = &l->work;
    l->run.aside = false;
    net_chain_lend(hand, l);
    for (int g = l->first; g < l->end; g++)
        point_group(net, c, hand, l, &c->group[g]);
    l->status = fn(net, c, l);
    if (l->status != CT_OK)
        snprintf(l->error, sizeof(l->error), "%s", ct_last_error());
}

/* Each thread has a hand, which takes lanes until there are no more. */
static enum ct_status run_lanes(struct ct_net *net, struct net_chain *c,
                                lane_fn fn)
{
    atomic_int next = 0;

    CT_FOR_ROWS (i, c->n_hand, CT_GRAIN) {
        int k;

        while ((k = atomic_fetch_add(&next, 1)) < c->n_lane)
            run_lane(net, c, &c->hand[i], &c->lane[k], fn);
    }
    for (int i = 0; i < c->n_lane; i++)
        if (c->lane[i].status != CT_OK)
            return ct_fail(c->lane[i].status, "%s", c->lane[i].error);
    return CT_OK;
}

static enum ct_status lane_forward(const struct ct_net *net,
                                   const struct net_chain *c,
                                   struct chain_lane *lane)
{
    for (int k = lane->first; k < lane->end; k++) {
        const struct chain_group *g = &c->group[k];

        for (int u = 0; u < c->n_unit; u++) {
            struct ct_io io = net_chain_io(net, c, g, u);

            CT_TRY(ct_layer_forward(g->twin[u], &io));
        }
    }
    return CT_OK;
}

static bool same_shapes(const struct ct_net *net, const struct net_chain *c)
{
    for (int b = 0; b < c->n_blob; b++)
        if (net->blob[c->blob[b]].blob->version != c->seen[b])
            return false;
    return true;
}

enum ct_status net_chain_forward(struct ct_net *net, struct net_chain *c)
{
    if (!same_shapes(net, c))
        CT_TRY(net_lanes_make(net, c));
    return run_lanes(net, c, lane_forward);
}

/* A lane's first group writes what the others add to. */
static enum ct_status begin_sums(const struct ct_layer *l,
                                 const struct chain_lane *lane, bool first,
                                 struct ct_layer *twin)
{
    const bool overwrites = l->flags & CT_LAYER_OVERWRITES;

    for (int b = 0; b < twin->n_blob; b++) {
        struct ct_blob *to = twin->blob[b];

        to->stale = first && overwrites &&
                    (lane->sums || l->blob[b]->stale);
        if (first && !overwrites && lane->sums)
            CT_TRY(ct_fill(to->dev, to->count, 0, ct_diff(to)));
    }
    return CT_OK;
}

/* Last group first: it is the one that forward left in the caches. */
static enum ct_status lane_backward(const struct ct_net *net,
                                    const struct net_chain *c,
                                    struct chain_lane *lane)
{
    for (int k = lane->end - 1; k >= lane->first; k--) {
        const struct chain_group *g = &c->group[k];

        for (int u = c->n_unit - 1; u >= 0; u--) {
            struct ct_io io = net_chain_io(net, c, g, u);

            if (!net->layer[c->unit[u].last].needs_backward)
                continue;
            CT_TRY(begin_sums(net->layer[c->unit[u].head].layer, lane,
                              k == lane->end - 1, g->twin[u]));
            CT_TRY(ct_layer_backward(g->twin[u], &io));
        }
    }
    return CT_OK;
}

/* Floats [first, first + n) of blob b of unit u: the other lanes' gradients
 * come to those of lane 0, one after the other. */
static void add_part(const struct net_chain *c, int u, int b, int64_t first,
                     int64_t n, float *y)
{
    for (int i = 1; i < c->n_lane; i++) {
        const struct chain_group *g = &c->group[c->lane[i].first];
        const float *x              = ct_diff(g->twin[u]->blob[b]) + first;

        for (int64_t k = 0; k < n; k++)
            y[first + k] += x[k];
    }
}

static void add_sums(const struct net_chain *c, int u,
                     const struct ct_layer *l)
{
    for (int b = 0; b < l->n_blob; b++) {
        const int64_t n = l->blob[b]->count;

        if (!l->blob_wants_grad[b])
            continue;
        l->blob[b]->stale = false;
        CT_FOR_ROWS (i, (n + BLOCK - 1) / BLOCK, BLOCK * c->n_lane)
            add_part(c, u, b, i * BLOCK,
                     n - i * BLOCK < BLOCK ? n - i * BLOCK : BLOCK,
                     ct_diff(l->blob[b]));
    }
}

enum ct_status net_chain_backward(struct ct_net *net, struct net_chain *c)
{
    CT_TRY(run_lanes(net, c, lane_backward));
    for (int u = 0; u < c->n_unit; u++)
        if (net->layer[c->unit[u].last].needs_backward)
            add_sums(c, u, net->layer[c->unit[u].head].layer);
    return CT_OK;
}
