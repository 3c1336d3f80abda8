/* chain_run.c - a chain at work: lanes, and the threads that take them; see
 * chain.h. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>

#include "device/cpu/loop.h"
#include "layers/in_parts.h"
#include "net/chain.h"

enum { BLOCK = 1024 }; /* floats that stay in the first cache */

static void point(struct ct_tensor *t, const struct ct_tensor *all,
                  const struct ct_blob *view, int64_t first, float *values,
                  size_t place)
{
    const size_t bytes = ct_tensor_bytes(&view->shape, t);
    const size_t image =
        view->shape.n_axes > 0 ? bytes / (size_t)view->shape.dim[0] : 0;
    char *base = (char *)all->ptr;

    if (place != CHAIN_NOWHERE)
        ct_tensor_point(t, values + place / sizeof(float), bytes);
    else
        ct_tensor_point(t, base ? (float *)(void *)(base + image *
                                                    (size_t)first)
                                : NULL, bytes);
}

static void point_shadows(const struct ct_net *net, const struct net_chain *c,
                          const struct chain_group *g)
{
    for (int i = 0; i < c->n_shadow; i++) {
        const struct chain_shadow *s = &c->shadow[i];
        const struct ct_blob *all =
            net->layer[c->unit[s->unit].head].shadow[s->bottom];
        struct ct_blob *view = g->shadow[i];

        point(&view->data, &all->data, view, g->first, NULL, CHAIN_NOWHERE);
        point(&view->diff, &all->diff, view, g->first, NULL, CHAIN_NOWHERE);
        view->no_diff = !view->diff.ptr;
    }
}

/* Blobs and parameters may have moved since the last pass, and the seed may be
 * another. */
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
    point_shadows(net, c, g);
    for (int u = 0; u < c->n_unit; u++) {
        const struct ct_layer *l = net->layer[c->unit[u].head].layer;

        g->twin[u]->key = l->key;
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

/* What a pass over all lanes is. */
struct lane_pass {
    lane_fn  fn;
    uint64_t number; /* ct_run.pass */
};

static void run_lane(const struct ct_net *net, const struct net_chain *c,
                     const struct chain_hand *hand, struct chain_lane *l,
                     const struct lane_pass *pass)
{
    l->run       = net->run;
    l->run.pass  = pass->number;
    l->run.work  = &l->work;
    l->run.aside = false;
    net_chain_lend(hand, l);
    for (int g = l->first; g < l->end; g++)
        point_group(net, c, hand, l, &c->group[g]);
    l->status = pass->fn(net, c, l);
    if (l->status != CT_OK)
        snprintf(l->error, sizeof(l->error), "%s", ct_last_error());
}

/* Each thread has a hand, which takes lanes until there are no more. */
static enum ct_status run_lanes(struct ct_net *net, struct net_chain *c,
                                uint64_t number, lane_fn fn)
{
    const struct lane_pass pass = { fn, number };
    atomic_int next             = 0;

    CT_FOR_ROWS (i, c->n_hand, CT_GRAIN) {
        int k;

        while ((k = atomic_fetch_add(&next, 1)) < c->n_lane)
            run_lane(net, c, &c->hand[i], &c->lane[k], &pass);
    }
    for (int i = 0; i < c->n_lane; i++)
        if (c->lane[i].status != CT_OK)
            return ct_fail(c->lane[i].status, "%s", c->lane[i].error);
    return CT_OK;
}

/* Unit u's copies in other layouts: of data, or of gradients and back. */
static enum ct_status convert(const struct ct_net *net,
                              const struct net_chain *c,
                              const struct chain_group *g, int u, bool back)
{
    for (int i = 0; i < c->n_shadow; i++) {
        const struct chain_shadow *s   = &c->shadow[i];
        const struct chain_unit *unit  = &c->unit[s->unit];
        const struct ct_blob *of, *copy = g->shadow[i];

        if (s->unit != u)
            continue;
        of = g->view[unit->bottom[s->bottom]];
        if (!back)
            CT_TRY(net_convert(of, &of->data, &copy->data));
        else if (net->layer[unit->head].want_grad[s->bottom])
            CT_TRY(net_convert(of, &copy->diff, &of->diff));
    }
    return CT_OK;
}

static enum ct_status unit_forward(const struct ct_net *net,
                                   const struct net_chain *c,
                                   const struct chain_group *g, int u)
{
    const struct ct_parts *parts = c->unit[u].parts;
    struct ct_io io              = net_chain_io(net, c, g, u);

    CT_TRY(convert(net, c, g, u, false));
    return parts && parts->forward
               ? parts->forward(g->twin[u], &io, g->first)
               : ct_layer_forward(g->twin[u], &io);
}

static enum ct_status group_forward(const struct ct_net *net,
                                    const struct net_chain *c,
                                    const struct chain_group *g)
{
    for (int u = 0; u < c->n_unit; u++)
        CT_TRY(unit_forward(net, c, g, u));
    return CT_OK;
}

static enum ct_status lane_forward(const struct ct_net *net,
                                   const struct net_chain *c,
                                   struct chain_lane *lane)
{
    for (int k = lane->first; k < lane->end; k++)
        CT_TRY(group_forward(net, c, &c->group[k]));
    return CT_OK;
}

static bool same_shapes(const struct ct_net *net, const struct net_chain *c)
{
    for (int b = 0; b < c->n_blob; b++)
        if (net->blob[c->blob[b]].blob->version != c->seen[b])
            return false;
    return true;
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

static enum ct_status group_backward(const struct ct_net *net,
                                     const struct net_chain *c,
                                     const struct chain_lane *lane, int k)
{
    const struct chain_group *g = &c->group[k];

    for (int u = c->n_unit - 1; u >= 0; u--) {
        struct ct_io io = net_chain_io(net, c, g, u);

        if (!net->layer[c->unit[u].last].needs_backward)
            continue;
        CT_TRY(begin_sums(net->layer[c->unit[u].head].layer, lane,
                          k == lane->end - 1, g->twin[u]));
        CT_TRY(ct_layer_backward(g->twin[u], &io));
        CT_TRY(convert(net, c, g, u, true));
    }
    return CT_OK;
}

/* Last group first: it is the one that forward left in the caches. */
static enum ct_status lane_backward(const struct ct_net *net,
                                    const struct net_chain *c,
                                    struct chain_lane *lane)
{
    for (int k = lane->end - 1; k >= lane->first; k--)
        CT_TRY(group_backward(net, c, lane, k));
    return CT_OK;
}

/* In the order of lane_backward, so that sums have the same bits. */
static enum ct_status lane_turn(const struct ct_net *net,
                                const struct net_chain *c,
                                struct chain_lane *lane)
{
    for (int k = lane->end - 1; k >= lane->first; k--) {
        CT_TRY(group_forward(net, c, &c->group[k]));
        CT_TRY(group_backward(net, c, lane, k));
    }
    return CT_OK;
}

/* Floats [first, first + n) of a blob: the other lanes' gradients come to those
 * of lane 0, one after the other. */
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

/* Whether lanes have sums for blob b of unit u. */
static bool has_sums(const struct ct_net *net, const struct chain_unit *unit,
                     int b)
{
    return net->layer[unit->last].needs_backward &&
           net->layer[unit->head].layer->blob_wants_grad[b];
}

static int64_t n_blocks(const struct ct_blob *b)
{
    return (b->count + BLOCK - 1) / BLOCK;
}

/* Block k of all gradients. */
static void add_block(const struct ct_net *net, const struct net_chain *c,
                      int64_t k)
{
    for (int u = 0; u < c->n_unit; u++) {
        const struct ct_layer *l = net->layer[c->unit[u].head].layer;

        for (int b = 0; b < l->n_blob; b++) {
            const int64_t left = l->blob[b]->count - k * BLOCK;

            if (!has_sums(net, &c->unit[u], b))
                continue;
            if (left > 0) {
                add_part(c, u, b, k * BLOCK, left < BLOCK ? left : BLOCK,
                         ct_diff(l->blob[b]));
                return;
            }
            k -= n_blocks(l->blob[b]);
        }
    }
}

/* Layers that share a parameter have one gradient, to which only one thread
 * may add. */
static int n_adders(const struct ct_net *net, const struct net_chain *c)
{
    for (int i = c->first; i <= c->last; i++)
        for (int b = 0; b < net->layer[i].layer->n_blob; b++)
            if (net->params[net->layer[i].param_id[b]].n_sharers > 1)
                return 1;
    return c->n_hand;
}

/* Threads take blocks as they take lanes. */
static void add_sums(const struct ct_net *net, const struct net_chain *c)
{
    const int n_adder = n_adders(net, c);
    atomic_llong next = 0;
    int64_t n         = 0;

    for (int u = 0; u < c->n_unit; u++) {
        const struct ct_layer *l = net->layer[c->unit[u].head].layer;

        for (int b = 0; b < l->n_blob; b++)
            if (has_sums(net, &c->unit[u], b)) {
                l->blob[b]->stale = false;
                n += n_blocks(l->blob[b]);
            }
    }
    if (c->n_lane == 1)
        return;
    CT_FOR_ROWS (i, n_adder, n * BLOCK * c->n_lane / n_adder) {
        int64_t k;

        (void)i;
        while ((k = atomic_fetch_add(&next, 1)) < n)
            add_block(net, c, k);
    }
}

/* Losses that take parts of the batch, before or behind all of them. */
static enum ct_status for_losses(struct ct_net *net, const struct net_chain *c,
                                 bool end)
{
    for (int u = 0; u < c->n_unit; u++) {
        const struct ct_parts *parts = c->unit[u].parts;
        struct net_layer *l          = &net->layer[c->unit[u].head];
        struct ct_io io              = net_io(l);
        const ct_layer_fn fn = !parts ? NULL : end ? parts->end : parts->begin;

        if (fn)
            CT_TRY(fn(l->layer, &io));
    }
    return CT_OK;
}

enum ct_status net_chain_forward(struct ct_net *net, struct net_chain *c)
{
    const bool turn = c->turns && net->paired && !net->loss_scale;

    if (!same_shapes(net, c))
        CT_TRY(net_lanes_make(net, c));
    CT_TRY(for_losses(net, c, false));
    CT_TRY(run_lanes(net, c, net->run.pass, turn ? lane_turn : lane_forward));
    if (turn) {
        add_sums(net, c);
        net->came_back = true;
    }
    return for_losses(net, c, true);
}

/* The forward pass that went before has counted itself already. */
enum ct_status net_chain_backward(struct ct_net *net, struct net_chain *c)
{
    CT_TRY(run_lanes(net, c, net->run.pass - (c->turns ? 1 : 0),
                     c->turns ? lane_turn : lane_backward));
    add_sums(net, c);
    return CT_OK;
}

static bool all_finite(const struct ct_blob *b)
{
    double sum = 0;

    if (!ct_data(b) || b->data.dtype != CT_F32)
        return true;
    (void)b->dev->ops->asum(b->dev, ct_elements(b), ct_data(b), &sum);
    return isfinite(sum);
}

static enum ct_status lane_look(const struct ct_net *net,
                                const struct net_chain *c,
                                struct chain_lane *lane)
{
    lane->bad = c->n_unit;
    for (int k = lane->first; k < lane->end; k++)
        for (int u = 0; u < lane->bad; u++) {
            const struct chain_group *g = &c->group[k];

            CT_TRY(unit_forward(net, c, g, u));
            for (int t = 0; t < c->unit[u].n_top; t++)
                if (!all_finite(g->top[u][t]))
                    lane->bad = u;
        }
    return CT_OK;
}

enum ct_status net_chain_look(struct ct_net *net, struct net_chain *c,
                              int *layer)
{
    int bad = c->n_unit;

    CT_TRY(run_lanes(net, c, net->run.pass, lane_look));
    for (int i = 0; i < c->n_lane; i++)
        bad = c->lane[i].bad < bad ? c->lane[i].bad : bad;
    *layer = bad < c->n_unit ? c->unit[bad].last : -1;
    return CT_OK;
}
