/* local.c - local SGD: every rank trains by itself, and every H iterations
 * weights and histories become their means over ranks.
 *
 *     w = (1 / P) sum of w_r       history likewise
 *
 * H = 1 is lock-step training for rules that are linear in the gradient.
 * Requests to stop or snapshot wait for the next mean, where all hear them. */
#include "base/clock.h"
#include "dist/dist.h"

static struct ct_dist *dist_of(struct ct_exchange *x)
{
    return x->state;
}

static enum ct_status local_attach(struct ct_exchange *x, struct ct_net *net)
{
    struct ct_dist *d = dist_of(x);

    d->mean_at = x->iter; /* where a snapshot may have taken all ranks */
    if (d->net == net)
        return CT_OK;
    d->net = net;
    dist_mode_say(&d->mode, d->options);
    CT_TRY(dist_devices_meet(d, net));
    CT_TRY(dist_spread_values(d, net));
    dist_stats_begin(d);
    return CT_OK;
}

static void local_detach(struct ct_exchange *x, const struct ct_net *net)
{
    struct ct_dist *d = dist_of(x);

    if (d->net == net)
        d->net = NULL;
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

    CT_TRY(ct_job_run(d->thread, sum_job, &f));
    return ct_scale(ct_device_cpu(), n, 1 / (float)d->size, x);
}

/* Once an iteration, however often it is asked for. */
static enum ct_status mean(struct ct_dist *d, int iter)
{
    const struct ct_updater *u = &d->exchange.updater;
    double start               = ct_now();

    if (d->mean_at == iter)
        return CT_OK;
    d->mean_at = iter;
    CT_TRY(ct_mirror_get(d->exchange.mirror));
    CT_TRY(ct_mirror_get_history(d->exchange.mirror));
    CT_TRY(mean_of(d, dist_data(d, d->net)));
    for (int h = 0; h < u->n_history; h++)
        CT_TRY(mean_of(d, u->history[h]));
    CT_TRY(ct_mirror_put(d->exchange.mirror));
    CT_TRY(ct_mirror_put_history(d->exchange.mirror));
    d->wait_seconds += ct_now() - start;
    return CT_OK;
}

/* Steps to the mean that follows iteration `iter`. */
static int steps_at(const struct ct_dist *d, int iter)
{
    return dist_local_steps(d->mode.local_steps, d->exchange.max_iter, iter);
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

static enum ct_status local_begin(struct ct_exchange *x)
{
    struct ct_dist *d = dist_of(x);
    float *rider      = dist_diff(d, d->net);

    dist_begun(d);
    for (int i = CT_RIDER_SNAPSHOT; i <= CT_RIDER_STOP; i++)
        if (rider[i] > 0)
            d->asked[i] = true;
    return CT_OK;
}

static enum ct_status local_nothing(struct ct_exchange *x, int i)
{
    (void)x, (void)i;
    return CT_OK;
}

static enum ct_status local_finish(struct ct_exchange *x)
{
    struct ct_dist *d = dist_of(x);
    float *rider      = dist_diff(d, d->net);
    bool meet         = (x->iter + 1) % steps_at(d, x->iter) == 0;

    for (int i = CT_RIDER_SNAPSHOT; i <= CT_RIDER_STOP; i++) {
        rider[i]    = meet && d->asked[i];
        d->asked[i] = d->asked[i] && !meet;
    }
    if (meet)
        return ct_dist_sum(d, rider, CT_ARENA_RIDERS);
    rider[CT_RIDER_LOSS] *= (float)d->size;
    return CT_OK;
}

static enum ct_status local_updated(struct ct_exchange *x, int iter)
{
    struct ct_dist *d = dist_of(x);

    return iter % steps_at(d, iter - 1) ? CT_OK : mean(d, iter);
}

static enum ct_status local_settle(struct ct_exchange *x, int iter,
                                   bool history)
{
    (void)history;
    return mean(dist_of(x), iter);
}

static enum ct_status local_end(struct ct_exchange *x, int iter)
{
    return mean(dist_of(x), iter);
}

static enum ct_status local_check(struct ct_exchange *x, int iter)
{
    CT_TRY(mean(dist_of(x), iter));
    return dist_guard_check(dist_of(x), iter);
}

void dist_local_init(struct ct_dist *d)
{
    struct ct_exchange *x = &d->exchange;

    x->scale      = 1;
    x->keeps_history = true;
    x->attach     = local_attach;
    x->detach     = local_detach;
    x->begin      = local_begin;
    x->queued     = NULL;
    x->layer_done = local_nothing;
    x->wait       = local_nothing;
    x->finish     = local_finish;
    x->updated    = local_updated;
    x->settle     = local_settle;
    x->summed     = NULL;
    x->lazy       = false;
    x->check      = local_check;
    x->end        = local_end;
}
