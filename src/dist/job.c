/* job.c - what all kinds of synchronisation share: the facts for the solver,
 * and services between its ranks. */
#include "base/mem.h"
#include "dist/engine.h"
#include "dist/feed/root.h"

static enum ct_status meet_job(struct ct_comm *c, void *arg)
{
    (void)arg;
    return ct_barrier(c);
}

static enum ct_status meet(struct ct_exchange *x)
{
    struct ct_dist *d = dist_of(x);

    return d->host.shared ? dist_direct_meet(d)
                          : ct_job_run(d->view.thread, meet_job, NULL);
}

static enum ct_status gather(struct ct_exchange *x, const void *mine,
                             const size_t *bytes, void *out)
{
    return dist_gather(dist_of(x), mine, bytes, out);
}

static enum ct_status broadcast(struct ct_exchange *x, void *data,
                                size_t bytes)
{
    return ct_dist_broadcast(dist_of(x), data, bytes);
}

static enum ct_status spread(struct ct_exchange *x, void *data, size_t bytes)
{
    return dist_broadcast(dist_of(x), data, bytes);
}

struct supplies {
    int    n_have;
    void  *data;
    size_t bytes;
};

static enum ct_status supply_job(struct ct_comm *c, void *arg)
{
    const struct supplies *s = arg;

    return ct_supply(c, s->n_have, s->data, s->bytes);
}

static enum ct_status supply(struct ct_exchange *x, void *data, size_t bytes)
{
    struct supplies s = { x->facts.n_have, data, bytes };

    return ct_job_run(dist_of(x)->view.thread, supply_job, &s);
}

static bool next_mark(struct ct_exchange *x, uint64_t *seen,
                      struct ct_mark *out)
{
    return dist_next_mark(x->state, seen, out);
}

static int counts(struct ct_exchange *x)
{
    const struct dist_sync_type *t = dist_of(x)->plan->sync;

    return t && t->counts ? t->counts(x) : 0;
}

static const struct ct_job_ops job_ops = {
    .meet      = meet,
    .share     = dist_share_params,
    .keep_alone = dist_store_keep,
    .gather    = gather,
    .spread    = spread,
    .broadcast = broadcast,
    .supply    = supply,
    .collect   = dist_collect,
    .next_mark = next_mark,
    .mark       = dist_mark,
    .hold       = dist_hold,
    .commit     = dist_commit,
    .counts     = counts,
    .last       = dist_last,
    .next_view  = dist_next_view,
    .enter_view = dist_enter_view,
    .check      = dist_check_view,
    .fit        = dist_fit,
    .goes_on    = dist_goes_on,
    .expects    = dist_expects,
};

/* A sum for layers in the middle of a pass, after the buckets that are already
 * being summed.  All ranks add in the order of ranks. */
static enum ct_status peers_sum(const struct ct_peers *p, double *x, int64_t n)
{
    struct ct_dist *d  = p->arg;
    const size_t bytes = (size_t)n * sizeof(*x);
    double *all;

    if (d->services.sums_bytes < bytes) {
        ct_free(d->services.sums);
        d->services.sums_bytes = 0;
        CT_TRY(ct_alloc((size_t)d->view.size, bytes, "sums",
                        &d->services.sums));
        d->services.sums_bytes = bytes;
    }
    all = d->services.sums;
    CT_TRY(dist_gather_each(d, x, bytes, all));
    for (int64_t i = 0; i < n; i++) {
        x[i] = 0;
        for (int r = 0; r < d->view.size; r++)
            x[i] += all[r * n + i];
    }
    return CT_OK;
}

struct ct_exchange_facts dist_facts_of(const Caffe__DistributedParameter *o,
                                       const struct dist_plan *p, int rank,
                                       int n_alike)
{
    const bool serves = rank >= p->n_workers;
    const int first   = dist_part_first(p->parts, p->n_workers, rank);
    const int n       = p->parts ? p->parts : n_alike;

    return (struct ct_exchange_facts){
        .rank           = rank,
        .size           = p->n_workers,
        .serves         = serves,
        .scale          = p->sync ? 1 : 1.0f / (float)n,
        .loss_scale     = 1.0 / n,
        .own_data       = p->own_data,
        .root_data      = p->root_data,
        .global_batch   = p->global_batch,
        .shares         = serves ? CT_SHARES_EVEN : p->shares,
        .weights        = o->shares,
        .parts          = p->parts,
        .micro          = dist_part_first(p->parts, p->n_workers, rank + 1) -
                 first,
        .first_part     = first,
        .remote         = p->values,
        .commits        = p->commits,
        .apart          = p->apart,
        .keeps_history  = p->keeps_history,
        .holds_back     = p->holds_back,
        .whole          = p->whole,
        .sums_in_layers = p->sync_bn,
        .deal_tests     = p->deals_tests,
        .bucket_bytes   = (size_t)o->bucket_bytes,
        .guard_interval = p->guards ? o->guard_interval : 0,
    };
}

void dist_fill_exchange(struct ct_dist *d)
{
    const struct dist_plan *p = d->plan;

    d->services.peers = (struct ct_peers){
        .sum = p->sync_bn ? peers_sum : NULL, .arg = d };
    d->services.feeds = (struct ct_feeds){ .open = dist_root_open, .arg = d };
    d->exchange = (struct ct_exchange){
        .facts = dist_facts_of(d->options, p, d->view.all->rank,
                               d->view.size),
        .ops   = p->kind,
        .job   = &job_ops,
        .state = d,
    };
    d->exchange.facts.n_full = d->elastic.place.n_full;
    d->exchange.facts.n_have = d->elastic.place.n_full > 0
                                   ? d->elastic.place.n_full
                                   : 1;
    d->exchange.facts.job    = d->elastic.place.job;
    d->exchange.facts.peers  = &d->services.peers;
    d->exchange.facts.feeds  = p->root_data ? &d->services.feeds : NULL;
}

/* Set once per net, because servers in this process read it while the solver
 * trains. */
enum ct_status dist_find_held(struct ct_dist *d)
{
    const int n = ct_net_n_params(d->net);

    if (!d->exchange.facts.holds_back || d->held)
        return CT_OK;
    CT_TRY(ct_alloc((size_t)n + 1, sizeof(*d->held), "held gradients",
                    &d->held));
    for (int i = 0; i < n; i++)
        d->held[i] = dist_wires_codec(d, i);
    return CT_OK;
}
