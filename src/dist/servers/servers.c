/* servers.c - the solver's exchange over parameter servers: what servers that
 * add up (sums.c) and those that keep parameters (values.c) have in common. */
#include "dist/servers/servers.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/pulse.h"
#include "cortado/log.h"
#include "dist/engine.h"
#include "dist/servers/farewell.h"
#include "dist/servers/rounds.h"

static struct ct_dist *dist_of(struct ct_exchange *x)
{
    return x->state;
}

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
    CT_TRY(ct_comm_tick(c, ct_now()));
    return dist_ps_progress(dist);
}

/* The comm thread learns of servers, and forgets them, by itself. */
static enum ct_status begin_serving(struct ct_comm *c, void *arg)
{
    struct ct_dist *d = arg;

    (void)c;
    d->served = d->ps.ps;
    return CT_OK;
}

/* What is still posted is taken back here: MPI has one caller at a time. */
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

static enum ct_status meet_all(struct ct_comm *c, void *arg)
{
    (void)c;
    return ct_barrier(((struct ct_dist *)arg)->view.all);
}

/* Before servers stop. */
static enum ct_status meet_at_end(struct ct_comm *c, void *arg)
{
    return ((struct ct_dist *)arg)->ps.round ? dist_farewell(c, arg)
                                             : meet_all(c, arg);
}

static enum ct_status reset_job(struct ct_comm *c, void *arg)
{
    struct ct_dist *d = arg;

    (void)c;
    if (d->view.serves && d->ps.started) /* its net has not trained */
        ct_ps_values(d->ps.ps, dist_data(d, d->net));
    ct_ps_reset(d->ps.ps, dist_data(d, d->net), d->trainer.iter);
    d->ps.started = true;
    d->ps.updater = d->trainer.updater;
    d->ps.updater.begin(d->ps.updater.arg);
    d->ps.stop_at = d->ps.snapshot_at = 0;
    d->ps.most_clock = d->trainer.iter;
    return CT_OK;
}

/* Servers start from what the nets hold, which a program may have changed. */
static enum ct_status restart(struct ct_dist *d)
{
    CT_TRY(ct_mirror_get(d->trainer.mirror));
    CT_TRY(ct_job_run(d->view.thread, meet_all, d));
    CT_TRY(ct_job_run(d->view.thread, reset_job, d));
    return ct_job_run(d->view.thread, meet_all, d);
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
        dist_plan_say(&d->plan, d->options);
        CT_TRY(dist_devices_meet(d, net));
        CT_TRY(dist_spread_values(d, net));
        if (d->plan.parts && !d->view.serves)
            CT_TRY(dist_canonical_attach(&d->canonical, net,
                                         dist_diff(d, net)));
        CT_TRY(dist_ps_build(d, net));
        CT_TRY(ct_job_run(d->view.thread, begin_serving, d));
        d->ps.clock = t->iter;
        dist_stats_begin(d);
    }
    CT_TRY(dist_find_held(d));
    *out = (struct ct_attached){ .held = d->held };
    if (!d->plan.values)
        return CT_OK;
    d->ps.clock = t->iter;
    CT_TRY(restart(d));
    dist_stats_begin(d);
    return CT_OK;
}

/* Nobody leaves while others may still ask; after a failure nobody waits. */
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

/* On the comm thread: the group's sum, which its first rank pushes. */
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
    if (d->plan.parts)
        dist_canonical_unfold(&d->canonical, diff + t->first, (int64_t)t->n);
    if (i == 0) /* a loss by itself, whatever it weighs */
        dist_words_write(diff, p->weight / p->times, words);
    return ct_ps_push(p->ps, i, p->clock, &weight, diff, words);
}

enum ct_status dist_ps_layer_done(struct ct_exchange *x, int layer)
{
    struct ct_dist *d = dist_of(x);
    struct dist_ps *p = &d->ps;

    if (!d->plan.overlap && layer > 0)
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

/* The comm thread does all there is to do, from now until all ranks have
 * ended; dist_ps_fini waits for that. */
enum ct_status dist_ps_serve(struct ct_exchange *x, int end, int *iter)
{
    ct_pulse_set(x->facts.pulse, CT_PULSE_SERVING, NULL);
    dist_of(x)->ps.ended = true;
    *iter                = end;
    return CT_OK;
}
