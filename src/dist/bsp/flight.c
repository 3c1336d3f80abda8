/* flight.c - buckets that are being summed. */
#include "dist/bsp/flight.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "comm/coll/transfer.h"
#include "dist/bsp/carrier.h"
#include "dist/engine.h"
#include "dist/gpu/device_tree.h"
#include "net/arena.h"

enum ct_status dist_dense_sum(const struct ct_dist *d, struct ct_comm *c,
                              float *x, int64_t n)
{
    const struct ct_allreduce_type *type = d->plan->reduce;

    return type && ct_allreduce_available(c, type) ? type->run(c, x, n)
                                                   : ct_allreduce(c, x, n);
}

double dist_dense_sends(const struct ct_dist *d, const struct ct_comm *c,
                        int64_t n)
{
    const struct ct_allreduce_type *type = d->plan->reduce;

    type = type ? type : ct_allreduce_choose(c, n);
    return n ? type->bytes(&c->place, n) : 0;
}

static enum ct_status sum_slice(struct ct_comm *c, void *arg)
{
    const struct dist_bucket_slice *s = arg;
    const struct dist_flight *f       = s->flight;

    if (f->dist->plan->parts)
        return dist_canonical_sum(&f->dist->canonical, c, s->x, s->n);
    if (f->wire)
        return dist_wire_sum(c, f->wire, s->x);
    return f->dist->device_sum.tree
               ? dist_device_tree_sum(f->dist->device_sum.tree, c, s->x, s->n)
               : dist_dense_sum(f->dist, c, s->x, s->n);
}

/* The urgency of a bucket is 1 + the first layer that needs it.  0 is for the
 * riders, for which the end of an iteration waits, and for encoded buckets. */
static int urgency(const struct ct_dist *d, const struct ct_net *net,
                   int bucket)
{
    int least = ct_net_n_layers(net);

    if (bucket == 0 || d->wires.wire) /* codecs need a fixed order */
        return 0;
    for (int i = 0; i < ct_net_n_params(net); i++)
        if (d->buckets.cut.of_param[i] == bucket &&
            ct_net_param(net, i)->layer < least)
            least = ct_net_param(net, i)->layer;
    return 1 + least;
}

static int count_slices(const struct ct_dist *d, const struct dist_flight *f)
{
    const int64_t most = d->plan->slice_floats;

    return most == 0 || f->n <= most ? 1 : (int)((f->n + most - 1) / most);
}

static enum ct_status cut(struct dist_flight *f, int priority)
{
    f->n_slices = count_slices(f->dist, f);
    CT_TRY(ct_alloc((size_t)f->n_slices, sizeof(*f->slice), "slices",
                    &f->slice));
    for (int i = 0; i < f->n_slices; i++) {
        struct dist_bucket_slice *s = &f->slice[i];
        struct ct_part part         = ct_part(f->n, f->n_slices, i);

        *s = (struct dist_bucket_slice){
            .job    = { .run = sum_slice, .arg = s, .priority = priority,
                        .name = f->name },
            .flight = f,
            .x      = f->x + part.first,
            .n      = part.n,
        };
    }
    return CT_OK;
}

/* Buckets hold gradients of later layers before those of earlier ones. */
static void name_flight(const struct ct_dist *d, const struct ct_net *net,
                        int bucket, struct dist_flight *f)
{
    int least = ct_net_n_layers(net), most = -1;

    for (int i = 0; i < ct_net_n_params(net); i++) {
        const int layer = ct_net_param(net, i)->layer;

        if (d->buckets.cut.of_param[i] != bucket)
            continue;
        least = layer < least ? layer : least;
        most  = layer > most ? layer : most;
    }
    if (most < 0)
        snprintf(f->name, sizeof(f->name), "loss");
    else
        snprintf(f->name, sizeof(f->name), "%s%s%s",
                 ct_net_layer(net, most)->name, least < most ? " .. " : "",
                 least < most ? ct_net_layer(net, least)->name : "");
}

enum ct_status dist_flights_init(struct ct_dist *d, const struct ct_net *net)
{
    const struct dist_carrier *carrier = d->plan->carrier;
    float *diff                        = carrier->diffs(d, net);

    CT_TRY(ct_alloc((size_t)d->buckets.cut.n + 1, sizeof(*d->buckets.flight),
                    "flights", &d->buckets.flight));
    for (int i = 0; i < d->buckets.cut.n; i++) {
        const struct ct_cut_run *b = &d->buckets.cut.run[i];
        struct dist_flight *f       = &d->buckets.flight[i];

        f->dist  = d;
        f->x     = diff + b->first;
        f->n     = (int64_t)b->n;
        f->first = (int64_t)b->first;
        if (i == 0 && carrier->riders_apart) {
            f->x += CT_ARENA_RIDERS;
            f->n -= CT_ARENA_RIDERS;
        }
        f->wire  = d->wires.wire ? &d->wires.wire[i] : NULL;
        name_flight(d, net, i, f);
        CT_TRY(cut(f, urgency(d, net, i)));
    }
    return CT_OK;
}

void dist_flights_fini(struct ct_dist *d)
{
    for (int i = 0; d->buckets.flight && i < d->buckets.cut.n; i++)
        ct_free(d->buckets.flight[i].slice);
    ct_free(d->buckets.flight);
    d->buckets.flight = NULL;
}

void dist_flight_start(struct dist_flight *f)
{
    for (int i = 0; i < f->n_slices; i++)
        ct_job_submit(f->dist->view.thread, &f->slice[i].job);
}

static bool is_done(struct dist_flight *f)
{
    for (int i = 0; i < f->n_slices; i++)
        if (!ct_job_done(&f->slice[i].job))
            return false;
    return true;
}

enum ct_status dist_flight_wait(struct dist_flight *f)
{
    for (int i = 0; i < f->n_slices; i++)
        CT_TRY(ct_job_wait(&f->slice[i].job));
    return CT_OK;
}

double dist_flight_seconds(const struct dist_flight *f)
{
    double sum = 0;

    for (int i = 0; i < f->n_slices; i++)
        sum += f->slice[i].job.seconds;
    return sum;
}

/* ---- The comm thread as a carrier. */

float *dist_carrier_diffs(const struct ct_dist *d, const struct ct_net *net)
{
    return dist_diff(d, net);
}

const float *dist_carrier_own_sum(const struct ct_dist *d, int param)
{
    return ct_diff(ct_net_param(d->net, param)->blob);
}

enum ct_status dist_carrier_not_queued(struct ct_dist *d, int layer)
{
    (void)d, (void)layer;
    return CT_OK;
}

void dist_carrier_riders_in_bucket(struct ct_dist *d)
{
    (void)d;
}

enum ct_status dist_flights_send(struct ct_dist *d, int n_ready)
{
    while (d->buckets.n_sent < n_ready)
        dist_flight_start(&d->buckets.flight[d->buckets.n_sent++]);
    return CT_OK;
}

bool dist_flights_arrived(struct ct_dist *d, int bucket)
{
    return is_done(&d->buckets.flight[bucket]);
}

enum ct_status dist_flights_wait(struct ct_dist *d, int bucket)
{
    struct dist_flight *f = &d->buckets.flight[bucket];
    double start;
    enum ct_status st;

    if (is_done(f))
        return dist_flight_wait(f);
    start = ct_now();
    st    = dist_flight_wait(f);
    d->counts.wait_seconds += ct_now() - start;
    return st;
}

static enum ct_status finish(struct ct_dist *d, const float **riders)
{
    *riders = dist_diff(d, d->net);
    return dist_flights_wait(d, 0);
}

const struct dist_carrier dist_by_thread = {
    .name      = "sums by messages",
    .diffs     = dist_carrier_diffs,
    .queued    = dist_carrier_not_queued,
    .loss_done = dist_carrier_riders_in_bucket,
    .send      = dist_flights_send,
    .arrived   = dist_flights_arrived,
    .wait      = dist_flights_wait,
    .finish    = finish,
    .sum       = dist_carrier_own_sum,
    .spread    = dist_spread_values,
    .choose    = dist_roads_choose,
    .road      = dist_roads_name,
};
