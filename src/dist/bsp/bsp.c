/* bsp.c - bulk synchronous training with wait-free backpropagation.
 *
 * A bucket leaves as soon as the backward pass has completed it, while the
 * layers below are still at work; the comm thread sums it over ranks, slice by
 * slice and the most urgent first (flight.c), or, inside one host, the compute
 * thread does (direct.c).  The solver updates a parameter when its bucket is
 * in.  Weights that travel as factors (factors.c) leave the buckets out.
 * Every rank then applies the same mean gradient to the same parameters, and
 * they stay equal bit for bit; or, where a host's ranks have them once, to a
 * part of them.
 *
 *     mean gradient = (1 / P) sum over ranks of each rank's mean gradient
 *
 * which is the gradient of the global batch when ranks have equal batches. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "core/buffer.h"
#include "dist/codec/residuals.h"
#include "dist/dist.h"
#include "dist/feed/root.h"

static struct ct_dist *dist_of(struct ct_exchange *x)
{
    return x->state;
}

/* Factors, buckets and flights, as d->roads has chosen. */
static enum ct_status make_ways(struct ct_dist *d, struct ct_net *net)
{
    struct ct_cut_policy policy;

    CT_TRY(dist_factors_init(d, net, d->roads.apart));
    policy = dist_bucket_policy(DIST_FIRST_BUCKET,
                                (size_t)d->options->bucket_bytes,
                                d->factors.of_param);
    CT_TRY(ct_cut_init(&d->buckets, net, &policy));
    CT_TRY(dist_wires_init(d, net));
    return dist_flights_init(d, net);
}

static void drop_ways(struct ct_dist *d)
{
    dist_factors_fini(d);
    dist_wires_fini(d);
    dist_flights_fini(d);
    ct_cut_fini(&d->buckets);
}

/* Between two iterations: everything sent is in, nothing is under way. */
static enum ct_status change_ways(struct ct_dist *d)
{
    for (int i = 0; i < d->buckets.n; i++)
        CT_TRY(dist_flight_wait(&d->flight[i]));
    for (int i = 0; i < d->factors.n; i++)
        CT_TRY(ct_job_wait(&d->factors.factor[i].job));
    drop_ways(d);
    CT_TRY(make_ways(d, d->net));
    dist_auto_say(d);
    return CT_OK;
}

/* Rank 0's parameters to all; in a house, those that ranks have apart. */
static enum ct_status send_values(struct ct_dist *d, struct ct_net *net)
{
    if (!d->housed)
        return dist_spread_values(d, net);
    for (int i = 0; i < ct_net_n_params(net); i++) {
        const struct ct_net_param *p = ct_net_param(net, i);

        if (p->lr_mult == 0)
            CT_TRY(ct_dist_broadcast(d, ct_data(p->blob),
                                     (size_t)p->blob->count * sizeof(float)));
    }
    return CT_OK;
}

static enum ct_status bsp_attach(struct ct_exchange *x, struct ct_net *net)
{
    struct ct_dist *d = dist_of(x);

    if (d->net == net)
        return CT_OK;
    if (d->net || d->housed != net)
        dist_bsp_fini(d);
    CT_TRY(ct_dist_broadcast(d, &x->seed, sizeof(x->seed)));
    CT_TRY(dist_devices_meet(d, net));
    CT_TRY(dist_direct_init(d, net));
    CT_TRY(dist_auto_init(d, net));
    CT_TRY(make_ways(d, net));
    CT_TRY(dist_sweep(d));
    if (d->size > 1 && !d->direct && d->options->slice_bytes > 0)
        CT_TRY(ct_comm_thread_agree(d->thread));
    if (d->canonical.parts) {
        CT_TRY(ct_dist_same(d, "number of threads, which changes the last "
                            "bits",
                            (uint64_t)ct_device_cpu_threads()));
        CT_TRY(dist_canonical_attach(&d->canonical, net, dist_diff(d, net)));
    }
    d->net = net;
    dist_auto_say(d);
    CT_TRY(send_values(d, net));
    dist_stats_begin(d);
    return CT_OK;
}

static void bsp_detach(struct ct_exchange *x, const struct ct_net *net)
{
    struct ct_dist *d = dist_of(x);

    if (net && (d->net == net || d->housed == net))
        dist_bsp_fini(d);
}

static enum ct_status meet_job(struct ct_comm *c, void *arg)
{
    (void)arg;
    return ct_barrier(c);
}

static enum ct_status bsp_meet(struct ct_exchange *x)
{
    return ct_job_run(dist_of(x)->thread, meet_job, NULL);
}

static enum ct_status bsp_begin(struct ct_exchange *x)
{
    struct ct_dist *d = dist_of(x);
    bool changed;

    d->n_sent = 0;
    dist_begun(d);
    CT_TRY(dist_auto_begin(d, &changed));
    return changed ? change_ways(d) : CT_OK;
}

static enum ct_status bsp_queued(struct ct_exchange *x, int layer)
{
    struct ct_dist *d = dist_of(x);

    return d->device_sum.nccl ? dist_device_sum_queued(d, layer)
                              : dist_factors_queued(d, layer);
}

static enum ct_status bsp_layer_done(struct ct_exchange *x, int layer)
{
    struct ct_dist *d = dist_of(x);
    int n             = d->n_sent;

    if (d->device_sum.way && layer == ct_net_n_layers(d->net) - 1)
        dist_device_sum_riders(d);
    if (d->device_sum.nccl)
        return CT_OK;
    dist_auto_layer_done(d, layer);
    CT_TRY(dist_factors_layer_done(d, layer));
    if (!d->options->overlap && layer > 0)
        return CT_OK;
    while (n < d->buckets.n &&
           (layer == 0 || d->buckets.run[n].layer >= layer))
        n++;
    if (d->direct)
        return dist_direct_layer_done(d, n);
    while (d->n_sent < n)
        dist_flight_start(&d->flight[d->n_sent++]);
    return CT_OK;
}

static enum ct_status wait_bucket(struct ct_dist *d, int i)
{
    struct dist_flight *f = &d->flight[i];
    double start;
    enum ct_status st;

    if (d->direct)
        return dist_direct_wait(d, f->ticket);
    if (dist_flight_done(f))
        return dist_flight_wait(f);
    start = ct_now();
    st    = dist_flight_wait(f);
    d->wait_seconds += ct_now() - start;
    return st;
}

static enum ct_status bsp_fold(struct ct_exchange *x, int k)
{
    return dist_canonical_fold(&dist_of(x)->canonical, k);
}

static enum ct_status bsp_wait(struct ct_exchange *x, int param)
{
    struct ct_dist *d = dist_of(x);

    if (d->device_sum.nccl)
        return CT_OK; /* the update is queued behind the sums */
    if (d->factors.of_param[param] >= 0)
        return dist_factors_wait(d, d->factors.of_param[param]);
    return wait_bucket(d, d->buckets.of_param[param]);
}

static bool bsp_holds_back(struct ct_exchange *x, int param)
{
    return dist_wires_code(dist_of(x), param);
}

static bool bsp_ready(struct ct_exchange *x, int param)
{
    struct ct_dist *d   = dist_of(x);
    const int factor    = d->factors.of_param[param];
    struct dist_flight *f;

    if (factor >= 0 && d->housed)
        return ct_shared_done(d->direct, d->factors.factor[factor].ticket);
    if (factor >= 0)
        return ct_job_done(&d->factors.factor[factor].job);
    f = &d->flight[d->buckets.of_param[param]];
    return d->direct ? ct_shared_done(d->direct, f->ticket)
                     : dist_flight_done(f);
}

static enum ct_status bsp_finish(struct ct_exchange *x)
{
    struct ct_dist *d = dist_of(x);

    return d->device_sum.way ? dist_device_sum_finish(d)
                             : wait_bucket(d, 0); /* riders sit in front */
}

static const float *bsp_summed(struct ct_exchange *x, int param)
{
    const struct ct_dist *d      = dist_of(x);
    const struct ct_net_param *p = param < 0 ? NULL
                                             : ct_net_param(d->net, param);

    if (p && (!d->direct || d->factors.of_param[param] >= 0))
        return ct_diff(p->blob);
    return (d->direct ? ct_shared_sums(d->direct)
                      : dist_diff(d, d->net)) + (p ? p->offset : 0);
}

/* b = (1 / P) sum over ranks of b. */
static enum ct_status settle_blob(struct ct_dist *d, struct ct_blob *b)
{
    float *x = NULL;
    enum ct_status st;

    CT_TRY(ct_alloc((size_t)b->count, sizeof(*x), "statistics", &x));
    CT_TRY_GOTO(ct_blob_get(b, false, x), st, out);
    CT_TRY_GOTO(ct_dist_sum(d, x, b->count), st, out);
    CT_TRY_GOTO(ct_scale(ct_device_cpu(), b->count, 1.0f / (float)d->size, x),
                st, out);
    st = ct_blob_put(b, false, x);
out:
    ct_free(x);
    return st;
}

/* Statistics, added up over ranks and divided by P.  For BatchNorm's sums and
 * their weight that means: their quotient is the mean over all samples that any
 * rank has seen.  Ranks go on from these: a running sum is linear in what it
 * takes in, so merging now and then gives what merging once in the end would,
 * and needs no copies. */
enum ct_status dist_settle_statistics(struct ct_dist *d)
{
    for (int l = 0; d->net && l < ct_net_n_layers(d->net); l++) {
        struct ct_layer *layer = ct_net_layer(d->net, l);

        for (int i = 0; i < layer->n_blob; i++)
            if (ct_layer_is_statistic(layer, i))
                CT_TRY(settle_blob(d, layer->blob[i]));
    }
    return CT_OK;
}

static enum ct_status bsp_settle(struct ct_exchange *x, int iter, bool history)
{
    (void)iter, (void)history; /* every rank has all of it */
    return dist_settle_statistics(dist_of(x));
}

static enum ct_status bsp_save(struct ct_exchange *x,
                               const struct ct_keep *keep)
{
    return dist_wires_save(dist_of(x), keep);
}

static enum ct_status bsp_restore(struct ct_exchange *x,
                                  const struct ct_keep *keep)
{
    return dist_wires_restore(dist_of(x), keep);
}

static enum ct_status bsp_check(struct ct_exchange *x, int iter)
{
    return dist_guard_check(dist_of(x), iter);
}

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

static enum ct_status bsp_gather(struct ct_exchange *x, const void *mine,
                                 const size_t *bytes, void *out)
{
    return dist_gather(dist_of(x), mine, bytes, out);
}

void dist_bsp_init(struct ct_dist *d)
{
    const int n = d->canonical.parts ? d->canonical.parts : d->size;
    const bool root = strcmp(d->options->data, "root") == 0 && d->size > 1;

    d->peers    = (struct ct_peers){
        .sum       = d->options->sync_bn ? peers_sum : NULL,
        .open_feed = root ? dist_root_open : NULL,
        .arg       = d,
    };
    d->exchange = (struct ct_exchange){
        .rank           = d->rank,
        .size           = d->size,
        .bucket_bytes   = (size_t)d->options->bucket_bytes,
        .scale          = 1.0f / (float)n,
        .loss_scale     = 1.0 / n,
        .global_batch   = strcmp(d->options->batch, "global") == 0,
        .shares         = d->serves ? NULL : d->options->shares,
        .micro          = d->canonical.micro,
        .fold           = bsp_fold,
        .state          = d,
        .attach         = bsp_attach,
        .detach         = bsp_detach,
        .house          = dist_direct_house,
        .meet           = bsp_meet,
        .begin          = bsp_begin,
        .queued         = bsp_queued,
        .layer_done     = bsp_layer_done,
        .wait           = bsp_wait,
        .finish         = bsp_finish,
        .summed         = bsp_summed,
        .lazy           = d->options->overlap && !d->canonical.parts,
        .ready          = bsp_ready,
        .settle         = bsp_settle,
        .save           = bsp_save,
        .restore        = bsp_restore,
        .check          = bsp_check,
        .guard_interval = d->options->guard_interval,
        .gather         = bsp_gather,
        .collect        = dist_collect,
        .deal_tests     = !root, /* the others may have no data */
        .peers          = &d->peers,
        .own_data       = strcmp(d->options->data, "local") == 0,
        .root_data      = root,
    };
    if (d->wires.codec.type && d->wires.codec.type->momentum &&
        d->mode.n_workers > 1) /* and where this rank serves them */
        d->exchange.holds_back = bsp_holds_back;
}

void dist_bsp_fini(struct ct_dist *d)
{
    dist_canonical_fini(&d->canonical);
    dist_device_sum_fini(d);
    dist_direct_fini(d);
    drop_ways(d);
    dist_auto_fini(d);
    d->net = NULL;
}
