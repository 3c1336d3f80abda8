/* values.c - servers keep parameters and update them. */
#include <string.h>

#include "base/clock.h"
#include "dist/codec/residuals.h"
#include "dist/engine.h"
#include "dist/nothing.h"
#include "dist/servers/rounds.h"

static struct ct_dist *dist_of(struct ct_exchange *x)
{
    return x->state;
}

static enum ct_status meet_workers(struct ct_comm *c, void *arg)
{
    (void)c;
    return ct_barrier(((struct ct_dist *)arg)->view.comm);
}

struct preview {
    const struct ct_dist *dist;
    float                *to; /* the slice */
};

/* What this rank has pushed and the values lack: it reads its own writes.  They
 * stand for those of all ranks, which are missing too and are about the same,
 * and momentum carries them on until the iteration that begins.  What it
 * carries on of earlier updates, servers have looked ahead for.  So a rank
 * trains on what lock-step would give it, but for the noise of its samples. */
static void preview_push(void *arg, int64_t clock, size_t first, size_t n,
                         const float *g)
{
    const struct preview *v   = arg;
    const struct ct_dist *d   = v->dist;
    const struct dist_slice *s = NULL;
    float step = d->ps.rate[clock % DIST_RATES] * dist_ps_step(d, clock);

    (void)n;
    for (int i = 0; i < d->ps.table.n && !s; i++)
        if (d->ps.table.slice[i].first == first)
            s = &d->ps.slice[i];
    for (int r = 0; s && r < s->n_runs; r++) {
        size_t at = s->run[r].first - first;

        for (size_t i = 0; i < s->run[r].n; i++)
            v->to[at + i] -= step * s->run[r].lr_mult * g[at + i];
    }
}

/* The newest values of slice i as this rank is to see them, in scratch. */
static enum ct_status materialise(struct ct_dist *d, int i)
{
    struct preview v = { d, d->ps.scratch };

    ct_ps_take(d->ps.ps, i, d->ps.scratch);
    return d->plan.staleness != 0
               ? ct_ps_own(d->ps.ps, i, preview_push, &v)
               : CT_OK;
}

/* Learned parameters alone: what ranks keep apart stays. */
static void adopt(struct ct_dist *d, int i)
{
    const struct dist_slice *s = &d->ps.slice[i];
    size_t first               = d->ps.table.slice[i].first;
    float *data                = dist_data(d, d->net);

    for (int r = 0; r < s->n_runs; r++)
        memcpy(data + s->run[r].first, d->ps.scratch + s->run[r].first - first,
               s->run[r].n * sizeof(*data));
}

/* What was adopted goes on to the GPU. */
static enum ct_status put_adopted(struct ct_dist *d)
{
    struct ct_mirror *m = d->trainer.mirror;

    for (int i = 0; m && i < d->ps.table.n; i++)
        for (int r = 0; r < d->ps.slice[i].n_runs; r++)
            CT_TRY(ct_mirror_put_run(m, d->ps.slice[i].run[r].first,
                                     d->ps.slice[i].run[r].n));
    return CT_OK;
}

/* On the comm thread: the group's first rank passes on what it has. */
static enum ct_status spread(struct ct_dist *d, int64_t need)
{
    struct dist_ps *p = &d->ps;

    for (int i = 0; i < p->table.n; i++) {
        if (p->root) {
            CT_TRY(ct_ps_await_here(p->ps, i, need));
            CT_TRY(materialise(d, i));
        }
        CT_TRY(ct_broadcast(d->view.group, 0, p->scratch,
                            p->table.slice[i].n * sizeof(float)));
        adopt(d, i);
    }
    if (p->root)
        p->latest = ct_ps_latest(p->ps);
    return ct_broadcast(d->view.group, 0, &p->latest, sizeof(p->latest));
}

static enum ct_status spread_job(struct ct_comm *c, void *arg)
{
    struct ct_dist *d = arg;

    (void)c;
    return spread(d, d->ps.clock - d->plan.staleness);
}

/* How long iterations take, the newest counting for a fifth. */
static void note_fetch(struct dist_ps *p, double now)
{
    const double took = now - p->fetched;

    if (p->fetched > 0)
        p->usual += (p->usual > 0 ? .2 : 1) * (took - p->usual);
    p->fetched = now;
}

/* What must be in; and what is on its way is worth a moment. */
static enum ct_status await_fresh(struct ct_dist *d, int i, double until)
{
    double start;

    if (d->plan.staleness != CT_PS_ASYNC)
        CT_TRY(dist_ps_await(d, i, d->ps.clock - d->plan.staleness));
    start = ct_now();
    if (d->plan.staleness != 0)
        ct_ps_hope(d->ps.ps, i, d->ps.clock, until);
    d->counts.wait_seconds += ct_now() - start;
    return CT_OK;
}

static enum ct_status value_fetch(struct ct_exchange *x, int iter)
{
    struct ct_dist *d = dist_of(x);
    struct dist_ps *p = &d->ps;
    double start      = ct_now();
    enum ct_status st;

    p->clock = iter;
    if (d->view.group) {
        st = ct_job_run(d->view.thread, spread_job, d);
        d->counts.wait_seconds += ct_now() - start;
        return st == CT_OK ? put_adopted(d) : st;
    }
    note_fetch(p, start);
    for (int i = 0; i < p->table.n; i++) {
        CT_TRY(await_fresh(d, i, start + CT_PS_FRESH * p->usual));
        CT_TRY(materialise(d, i));
        adopt(d, i);
    }
    p->latest = ct_ps_latest(p->ps);
    return put_adopted(d);
}

static enum ct_status value_wait(struct ct_exchange *x, int param,
                                 const float **sum)
{
    *sum = ct_diff(ct_net_param(dist_of(x)->net, param)->blob);
    return CT_OK; /* servers update */
}

/* On the comm thread: what came with slice 0, for all of the group. */
static enum ct_status latest_job(struct ct_comm *c, void *arg)
{
    struct ct_dist *d = arg;
    struct dist_ps *p = &d->ps;

    (void)c;
    if (p->root) {
        CT_TRY(ct_ps_await_here(p->ps, 0, p->clock + 1));
        p->latest = ct_ps_latest(p->ps);
    }
    return ct_broadcast(d->view.group, 0, &p->latest, sizeof(p->latest));
}

static enum ct_status read_latest(struct ct_dist *d)
{
    if (d->view.group)
        return ct_job_run(d->view.thread, latest_job, d);
    CT_TRY(dist_ps_await(d, 0, d->ps.clock + 1));
    d->ps.latest = ct_ps_latest(d->ps.ps);
    return CT_OK;
}

/* In step the losses of this iteration are waited for; else the latest do. */
static enum ct_status value_finish(struct ct_exchange *x,
                                   struct ct_answer *out)
{
    struct ct_dist *d = dist_of(x);
    struct dist_ps *p = &d->ps;
    float *rider      = dist_diff(d, d->net);
    int ahead         = 0;
    bool again        = false;

    d->under_way = false;
    if (d->view.group) /* the sum of the group, as if all were like it */
        CT_TRY(ct_job_wait(&p->slice[0].job));
    rider[CT_RIDER_LOSS] *= (float)d->view.size /
                            (float)(d->view.group ? p->group_size : 1);
    if (d->plan.staleness == 0)
        CT_TRY(read_latest(d));
    if (p->round)
        CT_TRY(dist_round_finish(p->round, &p->latest, &ahead, &again));
    dist_words_read(&p->latest, p->clock, ahead > 0 ? ahead : p->clock + 1,
                    (float)d->view.size, rider, &p->traced);
    *out       = ct_answer_of(x, rider);
    out->ahead = ahead;
    out->again = again;
    return CT_OK;
}

static enum ct_status value_updated(struct ct_exchange *x, int iter,
                                    float rate)
{
    struct ct_dist *d = dist_of(x);

    d->ps.rate[(iter - 1) % DIST_RATES] = rate;
    d->ps.clock                         = iter;
    return CT_OK;
}

/* Parameters with all updates before `iter`; with `history` rank 0 gets that,
 * too. */
static enum ct_status drain(struct ct_dist *d, int iter, bool history)
{
    struct dist_ps *p          = &d->ps;
    const struct ct_updater *u = &p->updater;

    /* What the comm thread has still to push comes before the pull. */
    for (int i = 0; d->view.group && i < p->table.n; i++)
        CT_TRY(ct_job_wait(&p->slice[i].job));
    if (p->root)
        CT_TRY(ct_ps_pull(p->ps, iter, -1, NULL));
    for (int h = 0; history && d->view.all->rank == 0 && h < u->n_history; h++)
        CT_TRY(ct_ps_pull(p->ps, iter, h, u->history[h]));
    if (history)
        CT_TRY(ct_mirror_put_history(d->trainer.mirror));
    p->clock = iter;
    if (d->view.group) {
        CT_TRY(ct_job_run(d->view.thread, spread_job, d));
        return put_adopted(d);
    }
    for (int i = 0; i < p->table.n; i++) { /* all pushes are in */
        ct_ps_take(p->ps, i, p->scratch);
        adopt(d, i);
    }
    CT_TRY(put_adopted(d));
    /* In step, and with bounded staleness, no server moves on before all have
     * what they came for; here it would. */
    return d->plan.staleness == CT_PS_ASYNC
               ? ct_job_run(d->view.thread, meet_workers, d)
               : CT_OK;
}

/* After a snapshot; else no server moves on without rank 0. */
static enum ct_status go_on(struct ct_dist *d)
{
    return d->plan.staleness == CT_PS_ASYNC && !d->view.serves
               ? ct_job_run(d->view.thread, meet_workers, d)
               : CT_OK;
}

static enum ct_status value_settle(struct ct_exchange *x, int iter,
                                   enum ct_settle why)
{
    struct ct_dist *d = dist_of(x);

    if (why == CT_SETTLE_WRITTEN)
        return go_on(d);
    if (d->view.serves)
        return CT_OK;
    CT_TRY(drain(d, iter, why == CT_SETTLE_SNAPSHOT));
    d->ps.ended |= why == CT_SETTLE_END;
    if (why == CT_SETTLE_CHECK)
        return dist_guard_check(d, iter);
    /* With a deadline not all may come: rank 0's statistics stand for all. */
    return why == CT_SETTLE_END || d->plan.rounds ? CT_OK
                                                  : dist_settle_statistics(d);
}

/* Which batches ranks that were left out are behind by. */
static enum ct_status value_keep(struct ct_exchange *x,
                                 const struct ct_keep *keep)
{
    struct ct_dist *d = dist_of(x);

    if (!d->ps.round)
        return keep->put ? dist_wires_save(d, keep)
                         : dist_wires_restore(d, keep);
    return keep->put ? dist_round_save(d->ps.round, keep)
                     : dist_round_restore(d->ps.round, keep);
}

const struct ct_exchange_ops dist_servers_values = {
    .name       = "servers that keep parameters",
    .attach     = dist_ps_attach,
    .detach     = dist_ps_detach,
    .fetch      = value_fetch,
    .begin      = dist_ps_begin,
    .fold       = dist_ps_fold,
    .queued     = dist_none,
    .layer_done = dist_ps_layer_done,
    .finish     = value_finish,
    .ready      = dist_always_ready,
    .wait       = value_wait,
    .updated    = value_updated,
    .settle     = value_settle,
    .keep       = value_keep,
    .serve      = dist_ps_serve,
};
