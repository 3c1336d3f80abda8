/* cut.c - the arena of parameters, cut into runs. */
#include "net/cut.h"

#include <stdlib.h>

#include "base/mem.h"

/* A cut that is being made. */
struct cutter {
    const struct ct_net        *net;
    const struct ct_cut_policy *policy;
    struct ct_cut              *to;
    size_t start; /* first float of the open run */
    int    begin; /* place of its first parameter */
    int    layer; /* the layer that completes it so far */
};

static int by_offset(const void *a, const void *b, void *arg)
{
    const struct ct_net *net = arg;
    size_t x = ct_net_param(net, *(const int *)a)->offset;
    size_t y = ct_net_param(net, *(const int *)b)->offset;

    return x < y ? -1 : x > y;
}

size_t ct_cut_end(const struct ct_cut *c, const struct ct_net *net, int k)
{
    return k + 1 < ct_net_n_params(net)
               ? ct_net_param(net, c->order[k + 1])->offset
               : ct_net_arena_count(net);
}

/* Ends the open run before `end`, and starts the next one there, with the
 * parameter at place k. */
static void close_run(struct cutter *c, size_t end, int k)
{
    if (end > c->start)
        c->to->run[c->to->n++] = (struct ct_cut_run){
            c->start, end - c->start, c->begin, k, c->layer };
    c->start = end;
    c->begin = k;
    c->layer = ct_net_n_layers(c->net) - 1;
}

static void cut_long(struct cutter *c, size_t end, int k)
{
    const size_t most = c->policy->most, first = c->start, n = end - first;
    const size_t parts = (n + most - 1) / most;

    for (size_t i = 1; i <= parts; i++) {
        c->begin = k;
        c->layer = ct_net_param(c->net, c->to->order[k])->layer;
        close_run(c, first + n * i / parts, i < parts ? k : k + 1);
    }
}

/* Whether the floats after `end` fit into the last run, and did not without the
 * present parameter. */
static bool is_tail(const struct cutter *c, size_t first, size_t end)
{
    const size_t all = ct_net_arena_count(c->net), last = c->policy->last;

    return last && all - first > last && all - end <= last;
}

static bool ends_layer(const struct cutter *c, int k)
{
    const int *order = c->to->order;

    return k + 1 == ct_net_n_params(c->net) ||
           ct_net_param(c->net, order[k + 1])->layer !=
               ct_net_param(c->net, order[k])->layer;
}

static void take(struct cutter *c, int k)
{
    const struct ct_cut_policy *y = c->policy;
    const int i                   = c->to->order[k];
    const struct ct_net_param *p  = ct_net_param(c->net, i);
    const size_t from = k == 0 ? c->start : p->offset;
    const size_t end  = ct_cut_end(c->to, c->net, k);
    size_t least;

    if (y->most && end - c->start > y->most)
        close_run(c, from, k);
    c->to->of_param[i] = c->to->n;
    if (y->most && end - c->start > y->most) {
        cut_long(c, end, k);
        return;
    }
    c->layer = p->layer < c->layer ? p->layer : c->layer;
    least    = c->to->n == 0 ? y->first : y->least;
    if ((end - c->start >= least || is_tail(c, p->offset, end)) &&
        (!y->whole_layers || ends_layer(c, k)))
        close_run(c, end, k + 1);
}

static void cut(struct cutter *c)
{
    const int n = ct_net_n_params(c->net);

    for (int k = 0; k < n; k++) {
        const int i = c->to->order[k];

        if (!c->policy->apart || c->policy->apart[i] < 0) {
            take(c, k);
            continue;
        }
        close_run(c, ct_net_param(c->net, i)->offset, k);
        c->to->of_param[i] = -1;
        c->start           = ct_cut_end(c->to, c->net, k);
        c->begin           = k + 1;
    }
    close_run(c, ct_net_arena_count(c->net), n);
}

static size_t most_runs(const struct ct_net *net,
                        const struct ct_cut_policy *policy)
{
    const size_t n = 2 * (size_t)ct_net_n_params(net) + 2;

    return policy->most ? n + ct_net_arena_count(net) / policy->most : n;
}

enum ct_status ct_cut_init(struct ct_cut *c, const struct ct_net *net,
                           const struct ct_cut_policy *policy)
{
    const size_t n  = (size_t)ct_net_n_params(net);
    struct cutter x = { net, policy, c, policy->begin, 0,
                        ct_net_n_layers(net) - 1 };
    enum ct_status st;

    *c = (struct ct_cut){ 0 };
    CT_TRY_GOTO(ct_alloc(most_runs(net, policy), sizeof(*c->run), "runs",
                         &c->run), st, out);
    CT_TRY_GOTO(ct_alloc(n + 1, sizeof(*c->of_param), "runs", &c->of_param),
                st, out);
    CT_TRY_GOTO(ct_alloc(n + 1, sizeof(*c->order), "runs", &c->order), st,
                out);
    for (size_t i = 0; i < n; i++)
        c->order[i] = (int)i;
    qsort_r(c->order, n, sizeof(*c->order), by_offset,
            (void *)(uintptr_t)net);
    cut(&x);
out:
    if (st != CT_OK)
        ct_cut_fini(c);
    return st;
}

void ct_cut_fini(struct ct_cut *c)
{
    ct_free(c->run);
    ct_free(c->of_param);
    ct_free(c->order);
    *c = (struct ct_cut){ 0 };
}
