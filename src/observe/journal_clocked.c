/* journal_clocked.c - the time of layers whose device takes work in a queue.
 *
 * A GPU gets a whole pass at once, so looking at what the rank is at tells
 * nothing about layers.  In the iteration after which parameters are looked at,
 * the pass runs layer by layer instead and is waited for after each of them.
 * The journal's thread counts that time among what looking costs. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "observe/journal_inner.h"

enum ct_status journal_clocked_init(struct ct_journal *j)
{
    struct journal_clocked *c   = &j->clocked;
    const struct ct_device *dev = journal_device(j);
    const size_t n = (size_t)ct_net_n_layers(ct_solver_net(j->solver)) + 1;

    if (dev->kind == CT_CPU && !j->clock_layers)
        return CT_OK;
    CT_TRY(ct_alloc(n, sizeof(double), "times", &c->forward));
    CT_TRY(ct_alloc(n, sizeof(double), "times", &c->backward));
    c->dev = dev;
    return CT_OK;
}

void journal_clocked_fini(struct ct_journal *j)
{
    ct_free(j->clocked.forward);
    ct_free(j->clocked.backward);
}

static enum ct_status begins(struct ct_net *net, int layer, void *arg)
{
    struct journal_clocked *c = arg;

    (void)net, (void)layer;
    CT_TRY(c->dev->ops->sync(c->dev));
    c->mark = ct_now();
    return CT_OK;
}

static enum ct_status ends(struct journal_clocked *c, double *where)
{
    double took;

    CT_TRY(c->dev->ops->sync(c->dev));
    took = ct_now() - c->mark;
    *where += took;
    c->seconds += took;
    return CT_OK;
}

static enum ct_status forward_ends(struct ct_net *net, int layer, void *arg)
{
    struct journal_clocked *c = arg;

    (void)net;
    return ends(c, &c->forward[layer]);
}

static enum ct_status backward_ends(struct ct_net *net, int layer, void *arg)
{
    struct journal_clocked *c = arg;

    (void)net;
    return ends(c, &c->backward[layer]);
}

/* The net of a training run has no other hooks. */
void journal_clocked_begin(struct ct_journal *j)
{
    struct journal_clocked *c = &j->clocked;
    struct ct_net *net        = ct_solver_net(j->solver);
    const size_t bytes        = (size_t)ct_net_n_layers(net) * sizeof(double);
    const struct ct_net_hooks hooks = { begins, forward_ends, begins,
                                        backward_ends, c };

    c->seconds = 0;
    if (!c->dev)
        return;
    memset(c->forward, 0, bytes);
    memset(c->backward, 0, bytes);
    ct_net_set_hooks(net, &hooks);
}

void journal_clocked_end(struct ct_journal *j, struct ct_solver *s)
{
    const struct ct_net_hooks none = { 0 };

    if (j->clocked.dev)
        ct_net_set_hooks(ct_solver_net(s), &none);
}
