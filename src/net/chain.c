/* chain.c - which layers images go through a few at a time, and how many.
 *
 * A group is as large as its largest blob fits into GROUP bytes, which stay in
 * or near to a core's second-level cache.  Chains gain where that is true of
 * many images at once, and where bringing weights into the layout of their
 * convolution and gradients out of it, once a group, costs little:
 *
 *     a group could be, and in each lane is, of 8 images or more
 *     the weights of a chain fit into half of the cache
 *     each weight meets 128 positions and more in a group
 *     chains do more than half of the net's multiply-adds
 *     the largest blob of the batch does not fit into the cache; on one
 *     thread, which waits for nobody, it would fill two groups and more
 *
 * A layer for which this is not true is left out and ends the chain.  So small
 * images run in chains, and nets like AlexNet and GoogLeNet, where measured
 * chains gain nothing and lose 4 to 10 %, do not.
 *
 * First of all a chain is tried that has everything from the first layer with a
 * gradient to the losses, and turns (chain.h).  Inner products and losses can
 * be parts of that one alone:
 *
 *     all weights fit into the cache
 *     on average each weight meets 128 positions and more in a group
 *
 * CORTADO_IMPL=turn:never leaves that out.
 *
 * Nothing of this happens on a GPU, when blobs are to be kept, for those who
 * look at layers one by one (debug_info, hooks, passes over a part of the net),
 * in canonical training, whose bits do not depend on threads, or with
 * CORTADO_IMPL=chain:none.  CORTADO_IMPL=chain:8 takes all layers that can be
 * taken, 8 images a group. */
#include "net/chain.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "device/impl.h"
#include "layers/in_parts.h"

enum {
    CACHE = 1 << 20,  /* bytes, where the system does not say */
    GROUP = 11 << 18, /* bytes of the largest blob of a group */
    FEW   = 8,        /* images: fewer in a group are no gain */
    LEAST = 128,      /* positions a weight meets in a group */
    SMALL = 4,        /* images: no lane is cut to fewer */
    UNITS = 2         /* layers, or groups that run as one */
};

/* The second-level cache of a core in bytes. */
static int64_t cache_bytes(void)
{
#ifdef _SC_LEVEL2_CACHE_SIZE
    const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);

    return bytes > 0 ? bytes : CACHE;
#else
    return CACHE;
#endif
}

/* What a chain in the making looks like. */
struct draft {
    const struct ct_net *net;
    int64_t batch, largest; /* images, and bytes of an image's largest blob */
    int64_t weights;        /* so far */
    int64_t least;          /* images that keep every weight busy */
    double  macs, all_macs; /* of all chains, and of the net */
    int64_t cache;          /* bytes */
    int64_t forced;         /* images a group; 0: find out */
    int     lanes;
    int     n_layer;        /* layers from here on may see other batches */
    bool    whole;          /* it is to be all of the pass, and turn */
};

static int64_t image_bytes(const struct ct_blob *b)
{
    const int64_t bytes = (int64_t)ct_tensor_bytes(&b->shape, &b->data);

    return b->shape.n_axes > 0 ? bytes / b->shape.dim[0] : bytes;
}

/* Images of a group, as even as they can be. */
static int64_t group_size(const struct draft *d, int64_t largest)
{
    const int64_t lane = (d->batch + d->lanes - 1) / d->lanes;
    int64_t most = d->forced ? d->forced : GROUP / (largest + 1);
    int64_t groups;

    most   = most < 1 ? 1 : most > lane ? lane : most;
    groups = (lane + most - 1) / most;
    return (lane + groups - 1) / groups;
}

static bool has_batch(const struct ct_blob *b, int64_t batch)
{
    return b->shape.n_axes > 0 && b->shape.dim[0] == batch && b->count > 0;
}

/* A matrix product in a lane would still wake the threads of its library. */
static bool wakes_threads(const struct ct_layer *l)
{
    const char *why, *name =
        l->type->describe ? l->type->describe(l, &why) : NULL;

    return name && (strcmp(name, "gemm") == 0 || strcmp(name, "ref") == 0 ||
                    strcmp(name, "float32") == 0);
}

/* What a layer that is no chain's by itself needs to be in one that turns. */
static const struct ct_parts *parts_of(const struct draft *d,
                                       const struct ct_layer *l)
{
    return d->whole && !(l->flags & CT_LAYER_BY_ITEM) ? ct_layer_parts(l)
                                                      : NULL;
}

/* A loss that is the sum of its parts, or a top that has the batch. */
static bool top_fits(const struct draft *d, const struct net_layer *end, int t,
                     const struct ct_parts *parts)
{
    if (parts && parts->end)
        return end->top[t]->shape.n_axes == 0;
    return end->loss_weight[t] == 0 && has_batch(end->top[t], d->batch);
}

/* Whether the layers that run as one with layer i take images one by one. */
static bool by_item(const struct draft *d, int i)
{
    const struct net_layer *head = &d->net->layer[i];
    const struct net_layer *end  = &d->net->layer[head->last];
    const struct ct_parts *parts = parts_of(d, head->layer);

    if (i >= d->n_layer ||
        !((head->layer->flags & CT_LAYER_BY_ITEM) || parts) || head->joins ||
        head->host_top || head->n_bottom == 0 || wakes_threads(head->layer))
        return false;
    for (int b = 0; b < head->n_bottom; b++)
        if ((head->shadow && head->shadow[b] && !d->whole) ||
            !has_batch(head->bottom[b], d->batch))
            return false;
    for (int t = 0; t < end->n_top; t++)
        if (!top_fits(d, end, t, parts))
            return false;
    return true;
}

static int64_t larger(int64_t a, const struct ct_blob *b)
{
    return image_bytes(b) > a ? image_bytes(b) : a;
}

static double macs_of(const struct ct_net *net, int i)
{
    const struct net_layer *l = &net->layer[i];
    struct ct_io io           = net_io(l);

    return l->layer->type->macs ? l->layer->type->macs(l->layer, &io) : 0;
}

/* Whether groups of layer i's images fit the caches, and its weights have
 * enough to do in them. */
static bool pays(const struct draft *d, int i, int64_t largest,
                 int64_t weights)
{
    const double each = macs_of(d->net, i) / (double)d->batch;
    const int64_t own = weights - d->weights;
    const bool serves = parts_of(d, d->net->layer[i].layer);

    return d->forced ||
           (largest * FEW <= GROUP && group_size(d, largest) >= FEW &&
            weights * (int64_t)sizeof(float) <=
                (d->whole ? d->cache : d->cache / 2) &&
            (serves ||
             each * (double)group_size(d, largest) >= LEAST * (double)own));
}

/* Images that a lane has at least for layer i's `own` weights to meet enough
 * positions in it: their gradients are written and read once a lane. */
static int64_t busy(const struct draft *d, int i, int64_t own)
{
    const double macs   = macs_of(d->net, i) / (double)d->batch;
    const int64_t least = own > 0 && macs > 0
                              ? (int64_t)(LEAST * (double)own / macs) + 1
                              : 1;

    return least > d->least ? least : d->least;
}

/* Layer i and those with it as a part of the chain; false: they cannot be. */
static bool extend(struct draft *d, int i)
{
    const struct net_layer *head = &d->net->layer[i];
    const struct net_layer *end  = &d->net->layer[head->last];
    int64_t largest = d->largest, weights = d->weights;

    if (!by_item(d, i))
        return false;
    for (int b = 0; b < head->n_bottom; b++)
        largest = larger(largest, head->bottom[b]);
    for (int t = 0; t < end->n_top; t++)
        largest = larger(largest, end->top[t]);
    for (int b = 0; b < head->layer->n_blob; b++)
        weights += head->layer->blob[b]->count;
    if (!pays(d, i, largest, weights))
        return false;
    if (!d->forced && !parts_of(d, head->layer))
        d->least = busy(d, i, weights - d->weights);
    d->largest = largest;
    d->weights = weights;
    return true;
}

static enum ct_status add_chain(struct ct_net *net, const struct draft *d,
                                int first, int last)
{
    struct net_chain **more = ct_realloc(
        net->chain, ((size_t)net->n_chain + 1) * sizeof(*more), "chains");
    struct net_chain *c;

    if (!more)
        return CT_ENOMEM;
    net->chain = more;
    CT_TRY(ct_alloc(1, sizeof(*c), "chain", &c));
    more[net->n_chain++] = c;
    c->first             = first;
    c->last              = last;
    c->batch             = d->batch;
    c->size              = group_size(d, d->largest);
    c->least             = d->least;
    for (int i = first; i <= last; i++)
        net->layer[i].chain = c;
    return CT_OK;
}

/* What fits into the cache as it is gains nothing. */
static bool is_chain(const struct draft *d, int n_units)
{
    if (n_units < UNITS ||
        (d->lanes == 1 && d->batch == group_size(d, d->largest)))
        return false;
    return d->forced || d->batch * d->largest >
                            (d->lanes > 1 ? d->cache : 2 * (int64_t)GROUP);
}

void net_chains_drop(struct ct_net *net)
{
    for (int i = 0; i < net->n_chain; i++) {
        net_lanes_drop(net->chain[i]);
        ct_free(net->chain[i]);
    }
    for (int i = 0; i < net->n_layer; i++)
        net->layer[i].chain = NULL;
    ct_free(net->chain);
    net->chain   = NULL;
    net->n_chain = 0;
}

int net_chain_first(const struct net_chain *c)
{
    return c->first;
}

int net_chain_last(const struct net_chain *c)
{
    return c->last;
}

enum ct_status net_unchain(struct ct_net *net)
{
    if (net->n_chain == 0)
        return CT_OK;
    net->no_chain = true;
    net->hooked   = net_has_hooks(net);
    return net_memory(net);
}

enum ct_status net_chain_again(struct ct_net *net)
{
    net->no_chain = net->hooked = false;
    return net_memory(net);
}

bool net_chain_turns(const struct net_chain *c)
{
    return c->turns;
}

static bool any_turns(const struct ct_net *net)
{
    for (int i = 0; i < net->n_chain; i++)
        if (net->chain[i]->turns)
            return true;
    return false;
}

enum ct_status ct_net_keep_factors(struct ct_net *net)
{
    net->no_turn = true;
    return any_turns(net) ? net_memory(net) : CT_OK;
}

static bool allowed(const struct ct_net *net)
{
    return net->dev->kind == CT_CPU && !net->options.keep_blobs &&
           !net->training.trial && !net->debug_info && !net->no_chain &&
           net->run.share == 0 && !ct_impl_allowed("chain", "none");
}

/* The chain that begins with layer i, if there is one; *end: after it. */
static enum ct_status chain_at(struct ct_net *net, struct draft *d, int i,
                               int *end)
{
    const struct net_layer *l = &net->layer[i];
    const int threads         = ct_device_cpu_threads();
    int n                     = 1;

    *end       = l->last + 1;
    d->largest = d->weights = 0;
    d->least   = d->forced ? 1 : SMALL;
    d->batch   = l->n_bottom && l->bottom[0]->shape.n_axes
                     ? l->bottom[0]->shape.dim[0]
                     : 0;
    d->lanes   = threads > d->batch ? (int)d->batch : threads;
    if (d->batch == 0 || !extend(d, i))
        return CT_OK;
    for (; *end < net->n_layer && extend(d, *end); n++)
        *end = net->layer[*end].last + 1;
    if (!is_chain(d, n))
        return CT_OK;
    for (int j = i; j < *end; j++)
        d->macs += macs_of(net, j);
    return add_chain(net, d, i, *end - 1);
}

/* The first layer that may change the number of its images from pass to pass,
 * as Filter does: behind it images of one chain need not be as many. */
static int first_dynamic(const struct ct_net *net)
{
    int i = 0;

    while (i < net->n_layer &&
           (net->layer[i].n_bottom == 0 ||
            !(net->layer[i].layer->type->flags & CT_LAYER_DYNAMIC)))
        i++;
    return i;
}

static enum ct_status find_chains(struct ct_net *net, struct draft *d)
{
    net_chains_drop(net);
    d->macs = 0;
    for (int i = 0; i < net->n_layer;)
        CT_TRY(chain_at(net, d, i, &i));
    return CT_OK;
}

/* Whether a layer that is not in chain c writes blob `id`. */
static bool comes_from_outside(const struct ct_net *net,
                               const struct net_chain *c, int id)
{
    for (int i = 0; i < net->n_layer; i++)
        for (int t = 0; t < net->layer[i].n_top; t++)
            if (net->layer[i].chain != c && net->layer[i].top_id[t] == id)
                return true;
    return false;
}

/* Whether blob `id` is there before chain c runs: layers of the chain write
 * none of it, they look at it at most. */
static bool is_there_before(const struct ct_net *net,
                            const struct net_chain *c, int id)
{
    for (int i = c->last; i >= c->first; i--) {
        const struct net_layer *l = &net->layer[i];
        bool writes               = false;

        for (int t = 0; t < l->n_top; t++)
            writes |= l->top_id[t] == id;
        if (writes && !(l->layer->flags & CT_LAYER_ALIAS_DATA))
            return false;
        if (writes)
            id = l->bottom_id[0];
    }
    return true;
}

/* What the whole of a layer reads before its parts do, as labels. */
static bool has_labels(const struct ct_net *net, const struct net_chain *c,
                       const struct net_layer *l)
{
    const struct ct_parts *parts = ct_layer_parts(l->layer);

    for (int b = 1; parts && parts->begin && b < l->n_bottom; b++)
        if ((l->shadow && l->shadow[b]) ||
            !is_there_before(net, c, l->bottom_id[b]))
            return false;
    return true;
}

/* Whether layer i, in the chain or not, lets the chain turn: it reads no blob
 * from outside whose gradient is asked for, writes to none, and has what it
 * reads before the chain runs. */
static bool lets_turn(const struct ct_net *net, const struct net_chain *c,
                      int i)
{
    const struct net_layer *l = &net->layer[i];

    if (l->chain != c)
        return !l->needs_backward;
    for (int b = 0; b < l->n_bottom; b++)
        if (l->want_grad[b] && comes_from_outside(net, c, l->bottom_id[b]))
            return false;
    for (int t = 0; t < l->n_top; t++)
        if (comes_from_outside(net, c, l->top_id[t]))
            return false;
    return has_labels(net, c, l);
}

/* Whether the chain that was found is all there is to a pass, and its weights
 * have enough to do. */
static bool turns(const struct ct_net *net, const struct draft *d)
{
    const struct net_chain *c = net->n_chain == 1 ? net->chain[0] : NULL;
    double weights            = 0;

    for (int i = 0; c && i < net->n_layer; i++) {
        if (!lets_turn(net, c, i))
            return false;
        for (int b = 0; b < net->layer[i].layer->n_blob; b++)
            weights += (double)net->layer[i].layer->blob[b]->count;
    }
    return c && (d->forced || d->macs / (double)c->batch * (double)c->size >=
                                  LEAST * weights);
}

static bool may_turn(const struct ct_net *net)
{
    return net->training.pairs && !net->no_turn &&
           !net->options.forward_only &&
           ct_device_dtype(net->dev) == CT_F32 &&
           ct_impl_allowed("turn", "groups");
}

enum ct_status net_chains(struct ct_net *net)
{
    struct draft d = { .net = net, .cache = cache_bytes(),
                       .forced  = ct_impl_number("chain"),
                       .n_layer = first_dynamic(net) };

    net_chains_drop(net);
    if (!allowed(net))
        return CT_OK;
    d.whole = may_turn(net);
    if (d.whole) {
        CT_TRY(find_chains(net, &d));
        if (turns(net, &d)) {
            net->chain[0]->turns = true;
            return CT_OK;
        }
    }
    d.whole = false;
    CT_TRY(find_chains(net, &d));
    for (int i = 0; i < net->n_layer; i++)
        d.all_macs += macs_of(net, i);
    if (!d.forced && d.macs <= d.all_macs / 2)
        net_chains_drop(net);
    return CT_OK;
}

void net_chain_lines(struct ct_text *t, const struct ct_net *net)
{
    ct_text_add(t, "\nchains:\n");
    for (int i = 0; i < net->n_chain; i++) {
        const struct net_chain *c = net->chain[i];

        ct_text_addf(t, "%s .. %s: %" PRId64 " images in %d groups on %d "
                     "lane%s, for %d thread%s with %.2f MB of their own%s\n",
                     net->layer[c->first].layer->name,
                     net->layer[c->last].layer->name, c->batch, c->n_group,
                     c->n_lane, c->n_lane == 1 ? "" : "s", c->n_hand,
                     c->n_hand == 1 ? "" : "s",
                     ((double)c->value_bytes * c->n_hand +
                      (double)c->sum_bytes * (c->n_lane - 1)) / 1e6,
                     c->turns ? "; each forward and right away backward"
                              : "");
    }
    if (net->n_chain == 0)
        ct_text_add(t, "none\n");
}
