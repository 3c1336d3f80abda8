/* bsp.c - bulk synchronous training with wait-free backpropagation.
 *
 * A bucket is sent as soon as the backward pass has completed it, while the
 * pass continues.  The comm thread sums it over ranks, slice by slice, the most
 * urgent first (flight.c); inside one host the compute threads do (direct.c).
 * The solver updates a parameter when its bucket has arrived.  Weights that
 * travel as factors (factors.c) are in no bucket.  Every rank applies the same
 * mean gradient to the same parameters, so they stay equal bit for bit; with
 * shared parameters every rank updates a part of them.
 *
 *     mean gradient = (1 / P) sum over ranks of each rank's mean gradient
 *
 * which is the gradient of the global batch when ranks have equal batches. */
#include <string.h>

#include "base/mem.h"
#include "base/pace.h"
#include "core/buffer.h"
#include "dist/bsp/carrier.h"
#include "dist/codec/residuals.h"
#include "dist/engine.h"
#include "dist/nothing.h"
#include "net/training.h"

/* Makes factors, buckets and flights for the roads that d->roads has chosen. */
static enum ct_status make_ways(struct ct_dist *d, struct ct_net *net)
{
    struct ct_cut_policy policy;

    CT_TRY(dist_factors_init(d, net, d->roads.apart));
    policy = dist_bucket_policy(DIST_FIRST_BUCKET,
                                (size_t)d->options->bucket_bytes,
                                d->factors.of_param);
    CT_TRY(ct_cut_init(&d->buckets.cut, net, &policy));
    CT_TRY(dist_wires_init(d, net));
    return dist_flights_init(d, net);
}

static void drop_ways(struct ct_dist *d)
{
    dist_factors_fini(d);
    dist_wires_fini(d);
    dist_flights_fini(d);
    ct_cut_fini(&d->buckets.cut);
}

/* Changes roads between two iterations, when no message is in flight. */
static enum ct_status change_ways(struct ct_dist *d)
{
    for (int i = 0; i < d->buckets.cut.n; i++)
        CT_TRY(dist_flight_wait(&d->buckets.flight[i]));
    for (int i = 0; i < d->factors.n; i++)
        CT_TRY(ct_job_wait(&d->factors.factor[i].job));
    drop_ways(d);
    CT_TRY(make_ways(d, d->net));
    dist_auto_say(d);
    return CT_OK;
}

static enum ct_status attach_net(struct ct_dist *d, struct ct_net *net)
{
    CT_TRY(ct_dist_broadcast(d, &d->trainer.seed, sizeof(d->trainer.seed)));
    CT_TRY(dist_devices_meet(d, net));
    CT_TRY(dist_direct_init(d, net));
    CT_TRY(dist_auto_init(d, net));
    CT_TRY(make_ways(d, net));
    /* Roads may change later, and factors are needed before that. */
    if (d->roads.learning)
        CT_TRY(ct_net_keep_factors(net));
    CT_TRY(dist_sweep(d));
    if (d->plan->agrees)
        CT_TRY(ct_comm_thread_agree(d->view.thread));
    if (d->plan->parts && !d->elastic.members) /* there misfits.c does */
        CT_TRY(ct_dist_same(d, "number of threads, which changes the last "
                            "bits",
                            (uint64_t)ct_device_cpu_threads()));
    if (d->plan->parts)
        CT_TRY(dist_canonical_attach(&d->canonical, net, dist_diff(d, net)));
    d->net = net;
    dist_plan_say(d->plan, d->options);
    dist_auto_say(d);
    CT_TRY(d->plan->carrier->spread(d, net));
    dist_stats_begin(d);
    if (d->elastic.members) /* ranks woke each other, maybe on one core */
        ct_pace_spread();
    return CT_OK;
}

static enum ct_status bsp_attach(struct ct_exchange *x, struct ct_net *net,
                                 const struct ct_trainer *t,
                                 struct ct_attached *out)
{
    struct ct_dist *d   = dist_of(x);
    const uint64_t seed = d->trainer.seed; /* rank 0's, if attached before */
    const bool again    = d->net == net;

    if (!again && (d->net || !dist_shares_params_of(d, net)))
        dist_bsp_fini(d);
    d->trainer = *t;
    if (again)
        d->trainer.seed = seed;
    else
        CT_TRY(attach_net(d, net));
    CT_TRY(dist_find_held(d));
    *out = (struct ct_attached){
        .lazy        = d->plan->lazy,
        .queues_sums = d->plan->carrier->queues_sums,
        .sums_apart  = d->plan->carrier->sums_apart,
        .held        = d->held };
    return CT_OK;
}

static void bsp_detach(struct ct_exchange *x, const struct ct_net *net)
{
    struct ct_dist *d = dist_of(x);

    /* If d->net is NULL, an attach may have failed halfway. */
    if (!net || (d->net && d->net != net && !dist_shares_params_of(d, net)))
        return;
    dist_bsp_fini(d);
    d->trainer = (struct ct_trainer){ 0 };
}

static enum ct_status bsp_begin(struct ct_exchange *x, int iter)
{
    struct ct_dist *d = dist_of(x);
    bool changed;

    d->trainer.iter = iter;
    d->buckets.n_sent       = 0;
    d->under_way    = true;
    dist_begun(d);
    CT_TRY(dist_auto_begin(d, &changed));
    return changed ? change_ways(d) : CT_OK;
}

static enum ct_status bsp_queued(struct ct_exchange *x, int layer)
{
    struct ct_dist *d = dist_of(x);

    CT_TRY(dist_factors_queued(d, layer));
    return d->plan->carrier->queued(d, layer);
}

static enum ct_status bsp_layer_done(struct ct_exchange *x, int layer)
{
    struct ct_dist *d = dist_of(x);
    int n             = d->buckets.n_sent;

    if (layer == ct_net_n_layers(d->net) - 1)
        d->plan->carrier->loss_done(d);
    dist_auto_layer_done(d, layer);
    CT_TRY(dist_factors_layer_done(d, layer));
    if (!d->plan->overlap && layer > 0)
        return CT_OK;
    while (n < d->buckets.cut.n &&
           (layer == 0 || d->buckets.cut.run[n].layer >= layer))
        n++;
    return d->plan->carrier->send(d, n);
}

static enum ct_status bsp_fold(struct ct_exchange *x, int k)
{
    return dist_canonical_fold(&dist_of(x)->canonical, k);
}

static enum ct_status bsp_wait(struct ct_exchange *x, int param,
                               const float **sum)
{
    struct ct_dist *d = dist_of(x);
    const int factor  = d->factors.of_param[param];

    if (factor >= 0) {
        *sum = dist_carrier_own_sum(d, param);
        return dist_factors_wait(d, factor);
    }
    *sum = d->plan->carrier->sum(d, param);
    return d->plan->carrier->wait(d, d->buckets.cut.of_param[param]);
}

static bool bsp_ready(struct ct_exchange *x, int param)
{
    struct ct_dist *d = dist_of(x);
    const int factor  = d->factors.of_param[param];

    return factor >= 0
               ? dist_factors_arrived(d, factor)
               : d->plan->carrier->arrived(d, d->buckets.cut.of_param[param]);
}

static enum ct_status bsp_finish(struct ct_exchange *x, struct ct_answer *out)
{
    struct ct_dist *d = dist_of(x);
    const float *riders;

    d->under_way = false;
    CT_TRY(d->plan->carrier->finish(d, &riders));
    *out = ct_answer_of(x, riders);
    return CT_OK;
}

/* b = (1 / P) sum over ranks of b. */
static enum ct_status settle_blob(struct ct_dist *d, struct ct_blob *b)
{
    float *x = NULL;
    enum ct_status st;

    CT_TRY(ct_alloc((size_t)b->count, sizeof(*x), "statistics", &x));
    CT_TRY_GOTO(ct_blob_get(b, false, x), st, out);
    CT_TRY_GOTO(ct_dist_sum(d, x, b->count), st, out);
    CT_TRY_GOTO(ct_scale(ct_device_cpu(), b->count,
                         1.0f / (float)d->view.size, x), st, out);
    st = ct_blob_put(b, false, x);
out:
    ct_free(x);
    return st;
}

/* Replaces statistics by their mean over ranks.  BatchNorm has sums and their
 * weight, so their quotient becomes the mean over the samples of all ranks.
 * Ranks continue from these values.  A running sum is linear in its inputs, so
 * several merges give the same result as one merge at the end, and no copies
 * are needed. */
enum ct_status dist_settle_statistics(struct ct_dist *d)
{
    if (d->canonical.parts) /* equal on all ranks already, bit for bit */
        return CT_OK;
    for (int l = 0; d->net && l < ct_net_n_layers(d->net); l++) {
        struct ct_layer *layer = ct_net_layer(d->net, l);

        for (int i = 0; i < layer->n_blob; i++)
            if (ct_layer_is_statistic(layer, i))
                CT_TRY(settle_blob(d, layer->blob[i]));
    }
    return CT_OK;
}

static enum ct_status bsp_settle(struct ct_exchange *x, int iter,
                                 enum ct_settle why)
{
    struct ct_dist *d = dist_of(x);

    if (why == CT_SETTLE_CHECK)
        return dist_guard_check(d, iter);
    return why == CT_SETTLE_TEST || why == CT_SETTLE_SNAPSHOT
               ? dist_settle_statistics(d)
               : CT_OK; /* every rank has all parameters and histories */
}

static enum ct_status bsp_keep(struct ct_exchange *x,
                               const struct ct_keep *keep)
{
    return keep->put ? dist_wires_save(dist_of(x), keep)
                     : dist_wires_restore(dist_of(x), keep);
}

const struct ct_exchange_ops dist_bsp = {
    .name       = "bsp",
    .attach     = bsp_attach,
    .detach     = bsp_detach,
    .fetch      = dist_none,
    .begin      = bsp_begin,
    .fold       = bsp_fold,
    .queued     = bsp_queued,
    .layer_done = bsp_layer_done,
    .finish     = bsp_finish,
    .ready      = bsp_ready,
    .wait       = bsp_wait,
    .updated    = dist_none_updated,
    .settle     = bsp_settle,
    .keep       = bsp_keep,
    .serve      = dist_none_serve,
};

/* Waits for jobs that use the net, or ends them: if a step has failed, some may
 * still be in flight. */
static void land(struct ct_dist *d)
{
    for (int i = 0; d->buckets.flight && i < d->buckets.cut.n; i++) {
        struct dist_flight *f = &d->buckets.flight[i];

        for (int k = 0; f->slice && k < f->n_slices; k++)
            dist_await_or_call_off(d, &f->slice[k].job);
    }
    for (int i = 0; d->factors.factor && i < d->factors.n; i++)
        dist_await_or_call_off(d, &d->factors.factor[i].job);
    dist_await_or_call_off(d, &d->device_sum.riders);
}

void dist_bsp_fini(struct ct_dist *d)
{
    if (d->view.thread)
        land(d);
    dist_canonical_detach(&d->canonical);
    dist_device_sum_fini(d);
    dist_direct_fini(d);
    drop_ways(d);
    dist_auto_fini(d);
    ct_free(d->held);
    d->held = NULL;
    d->net  = NULL;
}
