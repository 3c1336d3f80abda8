/* servers.c - the exchange over parameter servers: code for both kinds, and the
 * kind where servers keep parameters; sums.c is the other kind. */
#include "dist/servers/servers.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/pulse.h"
#include "cortado/log.h"
#include "dist/codec/residuals.h"
#include "dist/engine.h"
#include "dist/nothing.h"
#include "dist/servers/farewell.h"
#include "dist/servers/rounds.h"

enum ct_status dist_ps_progress(void *dist)
{
    struct ct_dist *d = dist;

    if (!d->served)
        return CT_OK;
    CT_TRY(ct_ps_progress(d->served));
    if (d->view.serves)
        ct_pulse_iter(d->exchange.facts.pulse, (int)ct_ps_version(d->served));
    return d->ps.round ? dist_round_progress(d->ps.round) : CT_OK;
}

enum ct_status dist_ps_idle(struct ct_comm *c, void *dist)
{
    const struct ct_dist *d = dist;

    CT_TRY(ct_comm_tick(c, ct_now()));
    if (!d->served) /* otherwise polling for pushes makes progress */
        ct_transport_progress(c->transport);
    return dist_ps_progress(dist);
}

/* d->served belongs to the comm thread, so jobs set and clear it. */
static enum ct_status begin_serving(struct ct_comm *c, void *arg)
{
    struct ct_dist *d = arg;

    (void)c;
    d->served = d->ps.ps;
    return CT_OK;
}

/* Cancels posted requests on the comm thread, because only one thread may call
 * MPI at a time. */
static enum ct_status end_serving(struct ct_comm *c, void *arg)
{
    struct ct_dist *d = arg;

    (void)c;
    d->served = NULL;
    if (d->ps.round)
        dist_round_report(d->ps.round);
    dist_ps_hang_up(d);
    return CT_OK;
}

/* All ranks meet before servers stop; the watch knows that servers wait here.
 * A rank that fails, e.g. without memory, takes part in nothing that follows,
 * and the others see it leave. */
static enum ct_status meet_at_end(struct ct_comm *c, void *arg)
{
    const struct ct_dist *d = arg;
    const enum ct_status st = d->ps.round ? dist_farewell(c, arg)
                                          : ct_barrier(d->view.all);

    return st == CT_OK ? CT_OK : ct_fail_in(CT_ECOMM, "the last meeting");
}

static enum ct_status reset_job(struct ct_comm *c, void *arg)
{
    struct ct_dist *d = arg;

    (void)c;
    if (d->view.serves && d->ps.started) /* a server's net is not trained */
        ct_ps_values(d->ps.ps, dist_data(d, d->net));
    ct_ps_reset(d->ps.ps, dist_data(d, d->net), d->trainer.iter);
    d->ps.started = true;
    d->ps.updater = d->trainer.updater;
    d->ps.updater.begin(d->ps.updater.arg);
    d->ps.stop_at = d->ps.snapshot_at = 0;
    d->ps.most_clock = d->trainer.iter;
    return CT_OK;
}

/* Servers start from the nets' parameters: a program may have changed them. */
static enum ct_status restart(struct ct_dist *d)
{
    CT_TRY(ct_mirror_get(d->trainer.mirror));
    CT_TRY(dist_meet_all(d));
    CT_TRY(ct_job_run(d->view.thread, reset_job, d));
    return dist_meet_all(d);
}

enum ct_status dist_ps_attach(struct ct_exchange *x, struct ct_net *net,
                              const struct ct_trainer *t,
                              struct ct_attached *out)
{
    struct ct_dist *d = dist_of(x);

    d->ps.ended = false;
    if (d->net != net)
        dist_ps_fini(d);
    d->trainer = *t;
    if (d->net != net) {
        d->net = net;
        dist_plan_say(d->plan, d->options);
        CT_TRY(dist_devices_meet(d, net));
        CT_TRY(dist_spread_values(d, net));
        if (d->plan->parts && !d->view.serves)
            CT_TRY(dist_canonical_attach(&d->canonical, net,
                                         dist_diff(d, net)));
        CT_TRY(dist_ps_build(d, net));
        CT_TRY(ct_job_run(d->view.thread, begin_serving, d));
        d->ps.clock = t->iter;
        dist_stats_begin(d);
    }
    CT_TRY(dist_find_held(d));
    *out = (struct ct_attached){ .held = d->held };
    if (!d->plan->values)
        return CT_OK;
    d->ps.clock = t->iter;
    CT_TRY(restart(d));
    dist_stats_begin(d);
    return CT_OK;
}

/* No rank leaves while others may still send requests; after a failure ranks do
 * not wait for each other. */
void dist_ps_fini(struct ct_dist *d)
{
    for (int i = 0; d->ps.slice && i < d->ps.table.n; i++)
        dist_await_or_call_off(d, &d->ps.slice[i].job);
    if (d->ps.ps) {
        if (d->ps.ended && ct_job_run(d->view.thread, meet_at_end, d) != CT_OK)
            CT_WARN("rank %d left before the others: %s", d->view.all->rank,
                    ct_last_error());
        if (ct_job_run(d->view.thread, end_serving, d) != CT_OK)
            d->served = NULL; /* the comm thread has stopped */
    }
    if (d->ps.round)
        dist_round_report(d->ps.round);
    dist_ps_unbuild(d);
    ct_free(d->held);
    d->held = NULL;
    d->net  = NULL;
}

void dist_ps_detach(struct ct_exchange *x, const struct ct_net *net)
{
    struct ct_dist *d = dist_of(x);

    if (d->net != net)
        return;
    dist_ps_fini(d);
    d->trainer = (struct ct_trainer){ 0 };
}

/* ---- Sending ---- */

enum ct_status dist_ps_begin(struct ct_exchange *x, int iter)
{
    struct ct_dist *d = dist_of(x);

    d->trainer.iter = iter;
    d->ps.n_sent    = 0;
    d->under_way    = true;
    dist_begun(d);
    return CT_OK;
}

/* On the comm thread: sums a slice over the group; its first rank pushes it. */
static enum ct_status group_job(struct ct_comm *c, void *arg)
{
    struct dist_slice *s        = arg;
    struct ct_dist *d           = s->dist;
    struct dist_ps *p           = &d->ps;
    const struct ct_ps_slice *t = &p->table.slice[s->id];
    float *diff                 = dist_diff(d, d->net);
    struct ct_ps_weight weight  = { 1, p->group_weight };
    int64_t words[CT_PS_WORDS]  = { 0 };

    (void)c;
    CT_TRY(dist_dense_sum(d, d->view.group, diff + t->first, (int64_t)t->n));
    if (!p->root)
        return CT_OK;
    if (s->id == 0)
        dist_words_write(diff, (float)p->group_size, words);
    return ct_ps_push_here(p->ps, s->id, s->clock, &weight, diff, words);
}

static enum ct_status send_slice(struct ct_dist *d, int i)
{
    struct dist_ps *p           = &d->ps;
    const struct ct_ps_slice *t = &p->table.slice[i];
    float *diff                 = dist_diff(d, d->net);
    struct ct_ps_weight weight  = { p->times, p->weight };
    int64_t words[CT_PS_WORDS]  = { 0 };

    if (d->view.group) {
        if (p->times != 1)
            CT_TRY(ct_scale(ct_device_cpu(), (int64_t)t->n, p->times,
                            diff + t->first));
        p->slice[i].clock   = p->clock;
        p->slice[i].job.run = group_job;
        p->slice[i].job.arg = &p->slice[i];
        ct_job_submit(d->view.thread, &p->slice[i].job);
        return CT_OK;
    }
    if (d->plan->parts)
        dist_canonical_unfold(&d->canonical, diff + t->first, (int64_t)t->n);
    if (i == 0) /* the loss without its weight, which the server applies */
        dist_words_write(diff, p->weight / p->times, words);
    return ct_ps_push(p->ps, i, p->clock, &weight, diff, words);
}

enum ct_status dist_ps_layer_done(struct ct_exchange *x, int layer)
{
    struct ct_dist *d = dist_of(x);
    struct dist_ps *p = &d->ps;

    if (!d->plan->overlap && layer > 0)
        return CT_OK;
    while (p->n_sent < p->table.n &&
           (layer == 0 || p->slice[p->n_sent].ready_after >= layer))
        CT_TRY(send_slice(d, p->n_sent++));
    return CT_OK;
}

enum ct_status dist_ps_await(struct ct_dist *d, int i, int64_t clock)
{
    double start = ct_now();
    enum ct_status st;

    if (ct_ps_has(d->ps.ps, i, clock))
        return CT_OK;
    st = ct_ps_await(d->ps.ps, i, clock);
    d->counts.wait_seconds += ct_now() - start;
    return st;
}

enum ct_status dist_ps_fold(struct ct_exchange *x, int k)
{
    return dist_canonical_fold(&dist_of(x)->canonical, k);
}

/* ---- Ranks that do not train ---- */

/* The comm thread serves until all ranks have ended; dist_ps_fini() waits for
 * that. */
enum ct_status dist_ps_serve(struct ct_exchange *x, int end, int *iter)
{
    ct_pulse_set(x->facts.pulse, CT_PULSE_SERVING, NULL);
    dist_of(x)->ps.ended = true;
    *iter                = end;
    return CT_OK;
}

/* ---- Servers that keep parameters and update them ---- */

/* On the comm thread: updates the values of a slice. */
enum ct_status dist_ps_apply(void *arg, const struct ct_ps_update *u)
{
    const struct ct_updater *to = &((struct ct_dist *)arg)->ps.updater;

    return to->update(to->arg, (int)u->clock, &(struct ct_update_range){
        .first = u->first, .n = u->n, .value = u->value, .sum = u->sum,
        .scale = u->scale, .share = u->share });
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

/* Applies a push of this rank that the values do not contain yet.  Pushes of
 * other ranks are missing, too, and are about the same: this one is applied in
 * place of all, with the momentum until the iteration that begins.  The server
 * has predicted the momentum of earlier updates.  So a rank trains on nearly
 * the values of lock-step; only the noise of its samples differs. */
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

/* Writes the latest values of slice i, with own pushes applied, to scratch. */
static enum ct_status materialise(struct ct_dist *d, int i)
{
    struct preview v = { d, d->ps.scratch };

    ct_ps_take(d->ps.ps, i, d->ps.scratch);
    return d->plan->staleness != 0
               ? ct_ps_own(d->ps.ps, i, preview_push, &v)
               : CT_OK;
}

/* Copies learned parameters from scratch; statistics remain this rank's. */
static void adopt(struct ct_dist *d, int i)
{
    const struct dist_slice *s = &d->ps.slice[i];
    size_t first               = d->ps.table.slice[i].first;
    float *data                = dist_data(d, d->net);

    for (int r = 0; r < s->n_runs; r++)
        memcpy(data + s->run[r].first, d->ps.scratch + s->run[r].first - first,
               s->run[r].n * sizeof(*data));
}

/* Copies adopted parameters to the GPU. */
static enum ct_status put_adopted(struct ct_dist *d)
{
    struct ct_mirror *m = d->trainer.mirror;

    for (int i = 0; m && i < d->ps.table.n; i++)
        for (int r = 0; r < d->ps.slice[i].n_runs; r++)
            CT_TRY(ct_mirror_put_run(m, d->ps.slice[i].run[r].first,
                                     d->ps.slice[i].run[r].n));
    return CT_OK;
}

/* On the comm thread: the group's first rank sends its values to the others. */
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
    return spread(d, d->ps.clock - d->plan->staleness);
}

/* Updates the usual duration of an iteration; the latest one counts a fifth. */
static void note_fetch(struct dist_ps *p, double now)
{
    const double took = now - p->fetched;

    if (p->fetched > 0)
        p->usual += (p->usual > 0 ? .2 : 1) * (took - p->usual);
    p->fetched = now;
}

/* Waits for the values that staleness requires, then briefly for newer ones. */
static enum ct_status await_fresh(struct ct_dist *d, int i, double until)
{
    enum ct_status st = CT_OK;
    double start;

    if (d->plan->staleness != CT_PS_ASYNC)
        CT_TRY(dist_ps_await(d, i, d->ps.clock - d->plan->staleness));
    start = ct_now();
    if (d->plan->staleness != 0)
        st = ct_ps_await_until(d->ps.ps, i, d->ps.clock, until);
    d->counts.wait_seconds += ct_now() - start;
    return st;
}

/* Sets how often the comm thread polls.  A poll takes 20 us from the compute
 * thread, so polling every 50 us takes a quarter of a core.  If values may be
 * stale, it is enough to answer others within a small part of an iteration. */
static void look_often(struct ct_dist *d, bool often)
{
    const double calm = 1e9 * d->ps.usual / 32;

    if (d->plan->staleness != 0)
        ct_comm_thread_pace(d->view.thread,
                            often || calm < DIST_POLL_NS ? DIST_POLL_NS
                            : calm > DIST_CALM_NS        ? DIST_CALM_NS
                                                         : (long)calm);
}

static enum ct_status fetch_slices(struct ct_dist *d, double until)
{
    for (int i = 0; i < d->ps.table.n; i++) {
        CT_TRY(await_fresh(d, i, until));
        CT_TRY(materialise(d, i));
        adopt(d, i);
    }
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
    look_often(d, true);
    st = fetch_slices(d, start + CT_PS_FRESH * p->usual);
    look_often(d, false);
    CT_TRY(st);
    p->latest = ct_ps_latest(p->ps);
    return put_adopted(d);
}

static enum ct_status value_wait(struct ct_exchange *x, int param,
                                 const float **sum)
{
    *sum = ct_diff(ct_net_param(dist_of(x)->net, param)->blob);
    return CT_OK; /* servers update */
}

/* On the comm thread: sends the head of slice 0's answer to the group. */
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

/* In step, waits for this iteration's losses; else uses the latest ones. */
static enum ct_status value_finish(struct ct_exchange *x,
                                   struct ct_answer *out)
{
    struct ct_dist *d = dist_of(x);
    struct dist_ps *p = &d->ps;
    float *rider      = dist_diff(d, d->net);
    int ahead         = 0;
    bool again        = false;

    d->under_way = false;
    if (d->view.group) /* the loss of the group, scaled to all ranks below */
        CT_TRY(ct_job_wait(&p->slice[0].job));
    rider[CT_RIDER_LOSS] *= (float)d->view.size /
                            (float)(d->view.group ? p->group_size : 1);
    if (d->plan->staleness == 0)
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

/* Gets parameters with all updates before `iter`; `history`: rank 0 also gets
 * histories. */
static enum ct_status drain(struct ct_dist *d, int iter, bool history)
{
    struct dist_ps *p          = &d->ps;
    const struct ct_updater *u = &p->updater;

    /* The comm thread must push before the pull. */
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
    for (int i = 0; i < p->table.n; i++) { /* values contain all own pushes */
        ct_ps_take(p->ps, i, p->scratch);
        adopt(d, i);
    }
    CT_TRY(put_adopted(d));
    /* With unbounded staleness a server could update before all ranks have
     * these values, so ranks meet.  Otherwise servers wait for all ranks. */
    return d->plan->staleness == CT_PS_ASYNC
               ? ct_job_run(d->view.thread, meet_workers, d)
               : CT_OK;
}

/* After a snapshot: with unbounded staleness ranks wait for rank 0; otherwise
 * servers do. */
static enum ct_status go_on(struct ct_dist *d)
{
    return d->plan->staleness == CT_PS_ASYNC && !d->view.serves
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
    /* With a deadline ranks may be missing, so rank 0's statistics are used. */
    return why == CT_SETTLE_END || d->plan->rounds ? CT_OK
                                                  : dist_settle_statistics(d);
}

/* With a deadline, keeps how many batches each rank is behind; otherwise what
 * codecs hold back. */
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
