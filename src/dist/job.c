/* job.c - what all kinds of synchronisation have: the solver's facts, and
 * services between its ranks. */
#include <string.h>

#include "base/mem.h"
#include "dist/dist.h"
#include "dist/feed/root.h"

static struct ct_dist *dist_of(struct ct_exchange *x)
{
    return x->state;
}

static enum ct_status meet_job(struct ct_comm *c, void *arg)
{
    (void)arg;
    return ct_barrier(c);
}

static enum ct_status meet(struct ct_exchange *x)
{
    return ct_job_run(dist_of(x)->thread, meet_job, NULL);
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

static bool next_mark(struct ct_exchange *x, uint64_t *seen,
                      struct ct_mark *out)
{
    return ct_dist_next_mark(x->state, seen, out);
}

static const struct ct_job_ops job_ops = {
    .meet      = meet,
    .share     = dist_share_params,
    .gather    = gather,
    .broadcast = broadcast,
    .collect   = dist_collect,
    .next_mark = next_mark,
};

/* For layers, in the middle of a pass: it takes its turn behind the buckets
 * that are under way.  Everyone adds in the order of ranks. */
static enum ct_status peers_sum(const struct ct_peers *p, double *x, int64_t n)
{
    struct ct_dist *d  = p->arg;
    const size_t bytes = (size_t)n * sizeof(*x);
    double *all;

    if (d->sums_bytes < bytes) {
        ct_free(d->sums);
        d->sums_bytes = 0;
        CT_TRY(ct_alloc((size_t)d->size, bytes, "sums",
                        &d->sums));
        d->sums_bytes = bytes;
    }
    all = d->sums;
    for (int r = 0; r < d->size; r++)
        d->part_bytes[r] = bytes;
    CT_TRY(dist_gather(d, x, d->part_bytes, all));
    for (int64_t i = 0; i < n; i++) {
        x[i] = 0;
        for (int r = 0; r < d->size; r++)
            x[i] += all[r * n + i];
    }
    return CT_OK;
}

static const struct ct_exchange_ops *kind_of(const struct dist_mode *m)
{
    return m->local_steps ? &dist_local
           : m->values    ? &dist_servers_values
           : m->ps        ? &dist_servers_sum
                          : &dist_bsp;
}

/* Some codec keeps momentum, and this job codes. */
static bool holds_back(const struct ct_dist *d)
{
    return d->wires.codec.type && d->wires.codec.type->momentum &&
           d->mode.n_workers > 1; /* and where this rank serves them */
}

void dist_fill_exchange(struct ct_dist *d)
{
    const Caffe__DistributedParameter *o = d->options;
    const struct dist_mode *m            = &d->mode;
    const int n     = d->canonical.parts ? d->canonical.parts : d->size;
    const bool root = strcmp(o->data, "root") == 0 && d->size > 1;

    d->peers    = (struct ct_peers){
        .sum       = o->sync_bn ? peers_sum : NULL,
        .open_feed = root ? dist_root_open : NULL,
        .arg       = d,
    };
    d->exchange = (struct ct_exchange){
        .facts = {
            .rank           = d->all->rank,
            .size           = m->n_workers,
            .serves         = d->serves,
            .scale          = m->local_steps ? 1 : 1.0f / (float)n,
            .loss_scale     = 1.0 / n,
            .own_data       = strcmp(o->data, "local") == 0,
            .root_data      = root,
            .global_batch   = strcmp(o->batch, "global") == 0,
            .shares         = d->serves ? NULL : o->shares,
            .micro          = d->canonical.micro,
            .remote         = m->values,
            .lazy           = o->overlap && !d->canonical.parts && !m->ps &&
                              !m->local_steps,
            .keeps_history  = m->values || m->local_steps,
            .holds_back     = holds_back(d),
            /* Others may have no data, or one may stand still. */
            .deal_tests     = !root && !m->rounds,
            .bucket_bytes   = (size_t)o->bucket_bytes,
            .guard_interval = m->rounds ? 0 : o->guard_interval,
            .peers          = &d->peers,
        },
        .ops   = kind_of(m),
        .job   = &job_ops,
        .state = d,
    };
}

enum ct_status dist_find_held(struct ct_dist *d)
{
    const int n = ct_net_n_params(d->net);

    ct_free(d->held);
    d->held = NULL;
    if (!d->exchange.facts.holds_back)
        return CT_OK;
    CT_TRY(ct_alloc((size_t)n + 1, sizeof(*d->held), "held gradients",
                    &d->held));
    for (int i = 0; i < n; i++)
        d->held[i] = dist_wires_code(d, i);
    return CT_OK;
}
