/* chain_make.c - what a chain runs with: its groups and their twins; see
 * chain.h. */
#include "base/mem.h"
#include "device/cpu/loop.h"
#include "layers/in_parts.h"
#include "layers/twin.h"
#include "net/chain.h"

static void group_fini(const struct net_chain *c, struct chain_group *g)
{
    for (int u = 0; u < c->n_unit; u++) {
        if (g->twin)
            ct_layer_destroy(g->twin[u]);
        if (g->bottom)
            ct_free(g->bottom[u]);
        if (g->top)
            ct_free(g->top[u]);
    }
    for (int b = 0; g->view && b < c->n_blob; b++)
        ct_blob_destroy(g->view[b]);
    for (int i = 0; g->shadow && i < c->n_shadow; i++)
        ct_blob_destroy(g->shadow[i]);
    ct_free(g->twin);
    ct_free(g->bottom);
    ct_free(g->top);
    ct_free(g->view);
    ct_free(g->shadow);
}

void net_lanes_drop(struct net_chain *c)
{
    for (int g = 0; c->group && g < c->n_group; g++)
        group_fini(c, &c->group[g]);
    for (int i = 0; c->lane && i < c->n_lane; i++)
        ct_buffer_drop(c->lane[i].sums);
    for (int i = 0; c->hand && i < c->n_hand; i++) {
        ct_workspace_fini(&c->hand[i].work);
        ct_buffer_drop(c->hand[i].values);
    }
    for (int u = 0; c->unit && u < c->n_unit; u++) {
        ct_free(c->unit[u].bottom);
        ct_free(c->unit[u].top);
    }
    ct_free(c->group);
    ct_free(c->lane);
    ct_free(c->hand);
    ct_free(c->unit);
    ct_free(c->shadow);
    ct_free(c->blob);
    ct_free(c->seen);
    ct_free(c->place);
    *c = (struct net_chain){ .first = c->first, .last = c->last,
                             .turns = c->turns,
                             .batch = c->batch, .size = c->size,
                             .least = c->least };
}

/* The place of a blob among those of the chain, at the end if it is new. */
static int blob_index(struct net_chain *c, int id)
{
    for (int i = 0; i < c->n_blob; i++)
        if (c->blob[i] == id)
            return i;
    c->blob[c->n_blob] = id;
    return c->n_blob++;
}

static enum ct_status unit_make(const struct ct_net *net, struct net_chain *c,
                                int head)
{
    const struct net_layer *l   = &net->layer[head];
    const struct net_layer *end = &net->layer[l->last];
    struct chain_unit *u        = &c->unit[c->n_unit++];

    u->head     = head;
    u->last     = l->last;
    u->n_bottom = l->n_bottom;
    u->n_top    = end->n_top;
    u->parts    = c->turns ? ct_layer_parts(l->layer) : NULL;
    CT_TRY(ct_alloc((size_t)u->n_bottom + 1, sizeof(*u->bottom), "chain",
                    &u->bottom));
    CT_TRY(ct_alloc((size_t)u->n_top + 1, sizeof(*u->top), "chain", &u->top));
    for (int i = 0; i < u->n_bottom; i++) {
        u->bottom[i] = blob_index(c, l->bottom_id[i]);
        if (l->shadow && l->shadow[i])
            c->shadow[c->n_shadow++] =
                (struct chain_shadow){ c->n_unit - 1, i };
    }
    for (int i = 0; i < u->n_top; i++)
        u->top[i] = blob_index(c, end->top_id[i]);
    return CT_OK;
}

static enum ct_status units_make(struct ct_net *net, struct net_chain *c)
{
    size_t n = (size_t)(c->last - c->first) + 1, n_blobs = 0;

    for (int i = c->first; i <= c->last; i++)
        n_blobs += (size_t)(net->layer[i].n_bottom + net->layer[i].n_top);
    CT_TRY(ct_alloc(n, sizeof(*c->unit), "chain", &c->unit));
    CT_TRY(ct_alloc(n_blobs, sizeof(*c->blob), "chain", &c->blob));
    CT_TRY(ct_alloc(n_blobs, sizeof(*c->seen), "chain", &c->seen));
    CT_TRY(ct_alloc(n_blobs, sizeof(*c->shadow), "chain", &c->shadow));
    CT_TRY(ct_alloc(2 * n_blobs, sizeof(*c->place), "chain", &c->place));
    for (int i = c->first; i <= c->last; i = net->layer[i].last + 1)
        CT_TRY(unit_make(net, c, i));
    for (int b = 0; b < c->n_blob; b++)
        c->seen[b] = net->blob[c->blob[b]].blob->version;
    return CT_OK;
}

static enum ct_status places_make(struct ct_net *net, struct net_chain *c)
{
    size_t *at;
    enum ct_status st;

    CT_TRY(ct_alloc(2 * (size_t)net->n_blob + 1, sizeof(*at), "chain", &at));
    st = net_lane_places(net, c, at, &c->value_bytes);
    for (int b = 0; b < c->n_blob; b++) {
        c->place[2 * b]     = at[2 * c->blob[b]];
        c->place[2 * b + 1] = at[2 * c->blob[b] + 1];
    }
    ct_free(at);
    return st;
}

size_t net_chain_floats(const struct ct_blob *b)
{
    const size_t line = CT_ALIGN / sizeof(float);

    return ((size_t)b->count + line - 1) / line * line;
}

/* The group's items of `all`; of a loss, which has none, all of it. */
static enum ct_status view_make(const struct ct_net *net,
                                const struct ct_blob *all, int64_t n,
                                struct ct_blob **out)
{
    struct ct_shape shape = all->shape;
    struct ct_blob *view;

    CT_TRY(ct_blob_create(net->dev, out));
    view              = *out;
    view->name        = all->name;
    view->planned     = true;
    view->data.layout = all->data.layout;
    view->diff.layout = all->diff.layout;
    view->data.dtype  = all->data.dtype;
    view->diff.dtype  = all->diff.dtype;
    if (shape.n_axes > 0)
        shape.dim[0] = n;
    return ct_reshape(view, shape);
}

static enum ct_status views_make(struct ct_net *net, struct net_chain *c,
                                 struct chain_group *g)
{
    CT_TRY(ct_alloc((size_t)c->n_blob + 1, sizeof(*g->view), "chain",
                    &g->view));
    CT_TRY(ct_alloc((size_t)c->n_shadow + 1, sizeof(*g->shadow), "chain",
                    &g->shadow));
    for (int b = 0; b < c->n_blob; b++)
        CT_TRY(view_make(net, net->blob[c->blob[b]].blob, g->n, &g->view[b]));
    for (int i = 0; i < c->n_shadow; i++) {
        const struct net_layer *l =
            &net->layer[c->unit[c->shadow[i].unit].head];

        CT_TRY(view_make(net, l->shadow[c->shadow[i].bottom], g->n,
                         &g->shadow[i]));
    }
    return CT_OK;
}

static enum ct_status list_make(struct ct_blob *const *view, const int *index,
                                int n, struct ct_blob ***out)
{
    CT_TRY(ct_alloc((size_t)n + 1, sizeof(**out), "chain", out));
    for (int i = 0; i < n; i++)
        (*out)[i] = view[index[i]];
    return CT_OK;
}

struct ct_io net_chain_io(const struct ct_net *net, const struct net_chain *c,
                          const struct chain_group *g, int u)
{
    const struct chain_unit *unit = &c->unit[u];

    return (struct ct_io){ g->bottom[u], g->top[u], unit->n_bottom,
                           unit->n_top, net->layer[unit->head].want_grad };
}

static enum ct_status twin_make(struct ct_net *net, struct net_chain *c,
                                struct chain_lane *lane, struct chain_group *g,
                                int u)
{
    const struct chain_unit *unit = &c->unit[u];
    const int n                   = unit->last - unit->head;
    const struct ct_layer **then  = NULL;
    struct ct_io io;
    enum ct_status st;

    CT_TRY(list_make(g->view, unit->bottom, unit->n_bottom, &g->bottom[u]));
    CT_TRY(list_make(g->view, unit->top, unit->n_top, &g->top[u]));
    for (int i = 0; i < c->n_shadow; i++)
        if (c->shadow[i].unit == u)
            g->bottom[u][c->shadow[i].bottom] = g->shadow[i];
    CT_TRY(ct_alloc((size_t)n + 1, sizeof(*then), "chain", &then));
    for (int i = 0; i < n; i++)
        then[i] = net->layer[unit->head + 1 + i].layer;
    io           = net_chain_io(net, c, g, u);
    io.want_grad = NULL;
    st = ct_layer_twin(net->layer[unit->head].layer, then, n, &lane->run, &io,
                       &g->twin[u]);
    ct_free(then);
    return st;
}

static enum ct_status group_make(struct ct_net *net, struct net_chain *c,
                                 struct chain_lane *lane,
                                 struct chain_group *g)
{
    const size_t n = (size_t)c->n_unit;

    CT_TRY(views_make(net, c, g));
    CT_TRY(ct_alloc(n, sizeof(*g->twin), "chain", &g->twin));
    CT_TRY(ct_alloc(n, sizeof(*g->bottom), "chain", &g->bottom));
    CT_TRY(ct_alloc(n, sizeof(*g->top), "chain", &g->top));
    for (int u = 0; u < c->n_unit; u++)
        CT_TRY(twin_make(net, c, lane, g, u));
    return CT_OK;
}

static enum ct_status groups_make(struct ct_net *net, struct net_chain *c)
{
    enum ct_status st = CT_OK;

    for (int i = 0; i < c->n_lane && st == CT_OK; i++) {
        struct chain_lane *lane = &c->lane[i];

        net_chain_lend(&c->hand[0], lane);
        for (int k = lane->first; k < lane->end && st == CT_OK; k++)
            st = group_make(net, c, lane, &c->group[k]);
        net_chain_return(&c->hand[0], lane);
    }
    return st == CT_OK ? net_chain_level(c) : st;
}

enum ct_status net_lanes_make(struct ct_net *net, struct net_chain *c)
{
    int threads;
    enum ct_status st;

    net_lanes_drop(c);
    c->batch = net->layer[c->first].bottom[0]->shape.dim[0];
    CT_TRY(units_make(net, c));
    for (int u = 0; u < c->n_unit; u++) {
        const struct ct_layer *l = net->layer[c->unit[u].head].layer;

        for (int b = 0; b < l->n_blob && !net->options.forward_only; b++)
            c->sum_bytes += net_chain_floats(l->blob[b]) * sizeof(float);
    }
    CT_TRY(places_make(net, c));
    CT_TRY(net_chain_cut(net, c));
    threads = ct_cpu_team(1); /* a twin runs on its lane's thread alone */
    st      = groups_make(net, c);
    ct_cpu_team(threads);
    return st == CT_OK ? CT_OK
                       : ct_fail_in(st, "cannot take layers %s to %s in groups "
                                    "of images",
                                    net->layer[c->first].layer->name,
                                    net->layer[c->last].layer->name);
}

const struct ct_layer *net_chain_twin(const struct net_layer *l)
{
    const struct net_chain *c = l->chain;

    for (int u = 0; c && c->n_group > 0 && u < c->n_unit; u++)
        if (c->group[0].twin[u]->twin == l->layer)
            return c->group[0].twin[u];
    return l->layer;
}

static enum ct_status tune_group(const struct net_chain *c,
                                 const struct chain_group *g)
{
    for (int u = 0; u < c->n_unit; u++)
        if (g->twin[u]->type->tune)
            CT_TRY(g->twin[u]->type->tune(g->twin[u]));
    return CT_OK;
}

enum ct_status net_chain_tune(struct net_chain *c)
{
    const int threads = ct_cpu_team(1);
    enum ct_status st = CT_OK;

    for (int i = 0; i < c->n_lane && st == CT_OK; i++) {
        struct chain_lane *lane = &c->lane[i];

        net_chain_lend(&c->hand[0], lane);
        for (int k = lane->first; k < lane->end && st == CT_OK; k++)
            st = tune_group(c, &c->group[k]);
        net_chain_return(&c->hand[0], lane);
    }
    ct_cpu_team(threads);
    return st == CT_OK ? net_chain_level(c) : st;
}
