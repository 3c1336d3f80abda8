/* local.c - local SGD: every rank trains by itself, and every H iterations
 * weights and histories become their means over ranks.
 *
 *     w = (1 / P) sum of w_r       history likewise
 *
 * H = 1 is lock-step training for rules that are linear in the gradient.
 * Requests to stop or snapshot wait for the next mean, which tells them to all
 * ranks. */
#include "dist/sync/local.h"

#include <limits.h>
#include <stdlib.h>

#include "base/clock.h"
#include "dist/engine.h"
#include "dist/nothing.h"
#include "net/arena.h"

struct local {
    int  mean_at; /* iteration of the last mean */
    bool asked[CT_RIDER_STOP + 1]; /* requests since then */
};

static struct local *local_of(const struct ct_dist *d)
{
    return d->sync_state;
}

enum { MOST_STEPS = 1 << 30 };

/* The steps of --sync=local:STEPS or --local_steps; 0: not a valid number. */
static int steps_of(const Caffe__DistributedParameter *o, const char *value)
{
    char *end;
    long n;

    if (!value)
        return o->local_steps > 0 && o->local_steps <= MOST_STEPS
                   ? o->local_steps
                   : 0;
    n = strtol(value, &end, 10);
    return end > value && !*end && n > 0 && n <= MOST_STEPS ? (int)n : 0;
}

static enum ct_status local_check(const Caffe__DistributedParameter *o,
                                  const char *value)
{
    return steps_of(o, value) > 0
               ? CT_OK
               : ct_fail(CT_EINVAL, "--local_steps, or N of --sync=local:N, "
                         "lies between 1 and %d", MOST_STEPS);
}

static void local_describe(const Caffe__DistributedParameter *o,
                           struct ct_text *out)
{
    ct_text_addf(out, "every rank trains by itself, and every %d iterations "
                 "weights and histories become their means",
                 steps_of(o, dist_sync_value(o->sync)));
}

static int local_counts(struct ct_exchange *x)
{
    return local_of(dist_of(x))->mean_at;
}

static enum ct_status local_attach(struct ct_exchange *x, struct ct_net *net,
                                   const struct ct_trainer *t,
                                   struct ct_attached *out)
{
    struct ct_dist *d = dist_of(x);

    *out       = (struct ct_attached){ 0 };
    d->trainer = *t;
    /* All ranks have the same weights here, e.g. after a resume. */
    local_of(d)->mean_at = t->iter;
    if (d->net == net)
        return CT_OK;
    d->net = net;
    dist_plan_say(d->plan, d->options);
    CT_TRY(dist_devices_meet(d, net));
    CT_TRY(dist_spread_values(d, net));
    dist_stats_begin(d);
    return CT_OK;
}

static void local_detach(struct ct_exchange *x, const struct ct_net *net)
{
    struct ct_dist *d = dist_of(x);

    if (d->net != net)
        return;
    d->net     = NULL;
    d->trainer = (struct ct_trainer){ 0 };
}

struct floats {
    const struct ct_dist *dist;
    float                *x;
    int64_t               n;
};

static enum ct_status sum_job(struct ct_comm *c, void *arg)
{
    const struct floats *f = arg;

    return dist_dense_sum(f->dist, c, f->x, f->n);
}

static enum ct_status mean_of(struct ct_dist *d, float *x)
{
    int64_t n       = (int64_t)ct_net_arena_count(d->net);
    struct floats f = { d, x, n };

    CT_TRY(ct_job_run(d->view.thread, sum_job, &f));
    return ct_scale(ct_device_cpu(), n, 1 / (float)d->view.size, x);
}

/* In an elastic job iterations count when all ranks have the mean. */
static enum ct_status agree(struct ct_dist *d, int iter)
{
    if (!d->plan->commits)
        return CT_OK;
    CT_TRY(dist_hold(&d->exchange, iter));
    return d->exchange.job->meet(&d->exchange);
}

/* Takes the mean; only once per iteration. */
static enum ct_status mean(struct ct_dist *d, int iter)
{
    const struct ct_updater *u = &d->trainer.updater;
    double start               = ct_now();

    if (local_of(d)->mean_at == iter)
        return CT_OK;
    CT_TRY(ct_mirror_get(d->trainer.mirror));
    CT_TRY(ct_mirror_get_history(d->trainer.mirror));
    CT_TRY(mean_of(d, dist_data(d, d->net)));
    for (int h = 0; h < u->n_history; h++)
        CT_TRY(mean_of(d, u->history[h]));
    CT_TRY(ct_mirror_put(d->trainer.mirror));
    CT_TRY(ct_mirror_put_history(d->trainer.mirror));
    CT_TRY(agree(d, iter));
    local_of(d)->mean_at = iter;
    d->counts.wait_seconds += ct_now() - start;
    return CT_OK;
}

/* Steps from iteration `iter` to the next mean. */
static int steps_at(const struct ct_dist *d, int iter)
{
    const Caffe__DistributedParameter *o = d->options;

    return dist_local_steps(steps_of(o, dist_sync_value(o->sync)),
                            d->trainer.max_iter, iter);
}

int dist_local_steps(int H, int all, int iter)
{
    const int warm = all / 10;
    int stages = 0, steps = 1;

    while (1 << stages < H)
        stages++;
    if (warm > 1 && iter >= all - warm / 2)
        return 1;
    if (iter >= warm)
        return H;
    for (int64_t k = (int64_t)iter * stages / warm; k > 0; k--)
        steps *= 2;
    return steps;
}

static enum ct_status local_begin(struct ct_exchange *x, int iter)
{
    struct ct_dist *d = dist_of(x);
    float *rider      = dist_diff(d, d->net);

    d->trainer.iter = iter;
    dist_begun(d);
    for (int i = CT_RIDER_SNAPSHOT; i <= CT_RIDER_STOP; i++)
        if (rider[i] > 0)
            local_of(d)->asked[i] = true;
    return CT_OK;
}

static enum ct_status local_wait(struct ct_exchange *x, int param,
                                 const float **sum)
{
    *sum = ct_diff(ct_net_param(dist_of(x)->net, param)->blob);
    return CT_OK;
}

static enum ct_status local_finish(struct ct_exchange *x,
                                   struct ct_answer *out)
{
    struct ct_dist *d = dist_of(x);
    struct local *l   = local_of(d);
    float *rider      = dist_diff(d, d->net);
    int iter          = d->trainer.iter;
    bool meet         = (iter + 1) % steps_at(d, iter) == 0;

    for (int i = CT_RIDER_SNAPSHOT; i <= CT_RIDER_STOP; i++) {
        rider[i]     = meet && l->asked[i];
        l->asked[i] &= !meet;
    }
    if (meet)
        CT_TRY(ct_dist_sum(d, rider, CT_ARENA_RIDERS));
    else
        rider[CT_RIDER_LOSS] *= (float)d->view.size;
    *out = ct_answer_of(x, rider);
    return CT_OK;
}

static enum ct_status local_updated(struct ct_exchange *x, int iter,
                                    float rate)
{
    struct ct_dist *d = dist_of(x);

    (void)rate;
    return iter % steps_at(d, iter - 1) ? CT_OK : mean(d, iter);
}

static enum ct_status local_settle(struct ct_exchange *x, int iter,
                                   enum ct_settle why)
{
    if (why == CT_SETTLE_WRITTEN)
        return CT_OK;
    CT_TRY(mean(dist_of(x), iter));
    return why == CT_SETTLE_CHECK ? dist_guard_check(dist_of(x), iter) : CT_OK;
}

const struct dist_sync_type dist_sync_local = {
    .name          = "local",
    .about         = "average weights every --local_steps iterations, or "
            "every N with local:N",
    .does          = "every rank trains by itself, and weights become their "
            "means now and then",
    .keeps_history = true,
    .state_bytes   = sizeof(struct local),
    .check         = local_check,
    .describe      = local_describe,
    .counts        = local_counts,
    .ops = {
        .name       = "local",
        .attach     = local_attach,
        .detach     = local_detach,
        .fetch      = dist_none,
        .begin      = local_begin,
        .fold       = dist_none,
        .queued     = dist_none,
        .layer_done = dist_none,
        .finish     = local_finish,
        .ready      = dist_always_ready,
        .wait       = local_wait,
        .updated    = local_updated,
        .settle     = local_settle,
        .keep       = dist_none_keep,
        .serve      = dist_none_serve,
    },
};
