/* roads.c - chooses the road of each gradient. */
#include "dist/bsp/roads.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "comm/probe.h"
#include "cortado/log.h"
#include "dist/bsp/carrier.h"
#include "dist/engine.h"

enum { FIRST_LOOK = 10 };

/* The weight of a new measurement, so that a busy moment does not change the
 * choice; the ratio of step times that is worth a change; the least part of all
 * bytes for which a measurement counts. */
static const double newest = .2, worth_it = .9, telling_share = .1;

static void learn(double *x, double now)
{
    *x = *x > 0 ? (1 - newest) * *x + newest * now : now;
}

static enum ct_status probe_job(struct ct_comm *c, void *arg)
{
    struct ct_dist *d      = arg;
    struct dist_auto *a    = &d->roads;
    struct dist_machine *w = &a->options.machine;
    struct ct_probe p      = { 0 };

    CT_TRY(d->elastic.members ? ct_comm_probe_briefly(c, &p)
                              : ct_comm_probe(c, &p));
    w->alpha    = p.alpha;
    w->beta     = p.beta;
    w->gamma    = p.gamma;
    w->per_host = c->place.even ? c->place.n_local : 1;
    a->slow_rank = p.slow_rank;
    a->slow_peer = p.slow_peer;
    ct_probe_fini(&p);
    return CT_OK;
}

/* In an elastic job ranks do not measure in every view: they use the numbers
 * that rank 0 has from an earlier view, if there are any. */
static enum ct_status recall(struct ct_dist *d, bool *known)
{
    const struct ct_place *place = &d->view.comm->place;

    *known = d->elastic.machine.alpha > 0;
    CT_TRY(ct_dist_broadcast(d, known, sizeof(*known)));
    if (!*known)
        return CT_OK;
    CT_TRY(ct_dist_broadcast(d, &d->elastic.machine,
                             sizeof(d->elastic.machine)));
    d->roads.options.machine = d->elastic.machine;
    d->roads.options.machine.per_host = place->even ? place->n_local : 1;
    d->roads.slow_rank = d->roads.slow_peer = -1;
    d->roads.measured  = true;
    return CT_OK;
}

void dist_auto_ahead(struct ct_dist *d)
{
    double x = 0;

    if (atomic_load(&d->elastic.adding) == 0 &&
        ct_probe_adding(&x) == CT_OK) /* or else when it is needed */
        atomic_store(&d->elastic.adding, x);
    if (atomic_load(&d->elastic.multiplying) == 0 &&
        dist_measure_flops(ct_device_cpu(), false, &x) == CT_OK)
        atomic_store(&d->elastic.multiplying, x);
}

/* With shared parameters the choice depends only on how much memory is moved,
 * so the links need no measurement.  Other ranks wait while ranks join, so only
 * rank 0 measures, and only the speed of additions: before they wait, if it
 * can. */
static enum ct_status measure_memory(struct ct_dist *d)
{
    double *gamma = &d->elastic.machine.gamma;

    if (*gamma == 0)
        *gamma = atomic_load(&d->elastic.adding);
    if (*gamma == 0 && d->view.rank == 0)
        CT_TRY(ct_probe_adding(gamma));
    CT_TRY(ct_dist_broadcast(d, gamma, sizeof(*gamma)));
    d->roads.options.machine.gamma = *gamma;
    d->roads.slow_rank = d->roads.slow_peer = -1;
    d->roads.measured  = true;
    return CT_OK;
}

/* How fast rank 0 computes, while the others compute, too.  In an elastic job
 * the links are measured without it, and the thread that prepares may have
 * found out on the CPU. */
static enum ct_status measure_rank(struct ct_dist *d)
{
    const struct ct_device *dev = ct_mirror_device(d->trainer.mirror);
    struct dist_machine *w      = &d->roads.options.machine;
    const bool brief            = d->elastic.members;

    if (brief && d->view.rank > 0)
        return CT_OK;
    if (brief)
        w->gamma = atomic_load(&d->elastic.adding);
    if (brief && dev->kind == CT_CPU)
        w->flops = atomic_load(&d->elastic.multiplying);
    if (w->gamma == 0)
        CT_TRY(ct_probe_adding(&w->gamma));
    return w->flops == 0 ? dist_measure_flops(dev, brief, &w->flops) : CT_OK;
}

/* Every rank uses the numbers of rank 0.  In an elastic job the measurement is
 * brief, and later iterations correct it. */
static enum ct_status measure(struct ct_dist *d)
{
    struct dist_machine *w = &d->roads.options.machine;
    bool known             = false;

    if (d->elastic.members && d->plan->carrier == &dist_by_shared_params)
        return measure_memory(d);
    if (d->elastic.members)
        CT_TRY(recall(d, &known));
    if (known)
        return CT_OK;
    CT_TRY(ct_job_run(d->view.thread, probe_job, d));
    CT_TRY(measure_rank(d));
    /* The probe gives the worst link; inside a host memory is copied. */
    w->local_alpha = fmin(w->alpha, 2e-6);
    w->local_beta  = fmin(w->beta, 2 * w->gamma);
    CT_TRY(ct_dist_broadcast(d, w, sizeof(*w)));
    d->elastic.machine        = *w;
    d->roads.measured = true;
    return CT_OK;
}

static struct dist_model model_of(const struct ct_dist *d,
                                  const struct ct_net *net)
{
    return (struct dist_model){ net, d->roads.forward, d->roads.backward, 0,
                                1 };
}

enum ct_status dist_roads_choose(struct ct_dist *d, const struct dist_model *m)
{
    return dist_model_choose(m, &d->roads.options, d->view.size,
                             d->roads.apart);
}

enum ct_status dist_auto_init(struct ct_dist *d, const struct ct_net *net)
{
    struct dist_auto *a = &d->roads;
    const size_t layers = (size_t)ct_net_n_layers(net) + 1;
    const int n         = ct_net_n_params(net);
    struct dist_model m;

    CT_TRY(ct_alloc((size_t)n + 1, sizeof(*a->apart), "roads", &a->apart));
    CT_TRY(ct_alloc((size_t)n + 1, sizeof(*a->may), "roads", &a->may));
    CT_TRY(ct_alloc(layers, sizeof(double), "roads", &a->forward));
    CT_TRY(ct_alloc(layers, sizeof(double), "roads", &a->backward));
    a->options.first_bytes  = DIST_FIRST_BUCKET;
    a->options.bucket_bytes = (size_t)d->options->bucket_bytes;
    a->options.overlap      = d->plan->overlap;
    a->options.codec        = d->plan->codec;
    a->options.reduce       = d->plan->reduce;
    m = model_of(d, net);
    for (int i = 0; i < n; i++) {
        a->may[i]   = d->plan->factors && dist_model_load(&m, i).k > 0;
        a->apart[i] = a->may[i] && d->plan->road == DIST_ROAD_FACTORS ? 0 : -1;
        a->n_choices += a->may[i];
    }
    if (d->plan->road != DIST_ROAD_AUTO || a->n_choices == 0)
        return CT_OK;
    CT_TRY(measure(d));
    CT_TRY(d->plan->carrier->choose(d, &m));
    /* Ranks may have different numbers of samples: the choice of rank 0
     * counts. */
    CT_TRY(ct_dist_broadcast(d, a->apart, (size_t)n * sizeof(*a->apart)));
    a->learning = d->plan->learns;
    a->due      = d->options->redecide < FIRST_LOOK ? d->options->redecide
                                                    : FIRST_LOOK;
    return CT_OK;
}

void dist_auto_fini(struct ct_dist *d)
{
    ct_free(d->roads.apart);
    ct_free(d->roads.may);
    ct_free(d->roads.forward);
    ct_free(d->roads.backward);
    d->roads = (struct dist_auto){ 0 };
}

/* ---- Learning from measured iterations. */

/* Predicted and observed seconds of buckets, of factors, and of products; bytes
 * of buckets and of factors. */
struct sums {
    double predicted[3], observed[3], bytes[2];
};

static struct sums compare(const struct ct_dist *d)
{
    const struct dist_model m    = model_of(d, d->net);
    struct dist_options plain    = d->roads.options;
    struct sums s = { { 0 }, { 0 }, { 0 } };

    plain.scales = (struct dist_scales){ 0 };
    for (int i = 0; i < d->buckets.cut.n; i++) {
        struct dist_cost c = dist_bucket_cost(&m, &plain, DIST_ROAD_AUTO,
                                              d->view.size, &d->buckets.cut, i);

        s.bytes[0] += c.bytes;
        s.predicted[0] += c.seconds;
        s.observed[0] += dist_flight_seconds(&d->buckets.flight[i]);
    }
    for (int i = 0; i < d->factors.n; i++) {
        const struct dist_factor *x = &d->factors.factor[i];
        struct dist_load load       = dist_model_load(&m, x->param);
        struct dist_cost c = dist_factors_cost(&plain, d->view.size, &load);

        s.bytes[1] += c.bytes;
        s.predicted[1] += c.seconds;
        s.observed[1] += x->job.seconds;
        s.predicted[2] += c.compute;
        s.observed[2] += x->product_seconds * (d->view.size - 1) / d->view.size;
    }
    return s;
}

/* Updates the scales, observed over predicted time, which multiply the next
 * predictions.  If sums, or factors, are only a small part of all bytes, their
 * time does not count: a sum of a few biases takes as long as ranks wait for
 * each other.  Then both get the scale of the other, because a slow link is
 * slow for both. */
static void learn_scales(struct ct_dist *d)
{
    struct dist_scales *k = &d->roads.options.scales;
    const struct sums s   = compare(d);
    double *scale[]       = { &k->dense, &k->factors, &k->products };
    const double all      = s.bytes[0] + s.bytes[1];
    bool telling[3];

    for (int i = 0; i < 3; i++) {
        telling[i] = s.predicted[i] > 0 && s.observed[i] > 0 &&
                     (i == 2 || s.bytes[i] >= telling_share * all);
        if (telling[i])
            learn(scale[i], s.observed[i] / s.predicted[i]);
    }
    if (telling[0] != telling[1])
        *scale[telling[0]] = *scale[!telling[0]];
}

/* The name of a parameter: layer[blob]. */
static const char *name_of(const struct ct_net *net, int param, char *text,
                           size_t bytes)
{
    const struct ct_net_param *p = ct_net_param(net, param);

    snprintf(text, bytes, "%s[%d]", ct_net_layer(net, p->layer)->name,
             p->index);
    return text;
}

const char *dist_roads_name(const struct ct_dist *d, int param,
                            struct dist_cost *cost, double *observed)
{
    const struct dist_model m     = model_of(d, d->net);
    const struct dist_options *o  = &d->roads.options;
    const struct dist_load load   = dist_model_load(&m, param);
    const struct dist_flight *f;
    const struct ct_allreduce_type *type;
    const char *coded;
    double all, share;

    if (d->factors.of_param[param] >= 0) {
        const struct dist_factor *x =
            &d->factors.factor[d->factors.of_param[param]];

        *cost = dist_cost_factors(&o->machine, d->view.size, &load);
        cost->seconds += cost->compute;
        *observed = x->job.seconds + x->product_seconds;
        return "factors";
    }
    f    = &d->buckets.flight[d->buckets.cut.of_param[param]];
    all  = (double)f->n;
    type = o->reduce ? o->reduce
                     : dist_usual_sum(&o->machine, d->view.size, all);
    coded = dist_wires_codec(d, param);
    if (coded) {
        *cost     = dist_cost_coded(&o->machine, d->view.size, &o->codec,
                                    &load);
        *observed = dist_flight_seconds(f) * load.floats / all;
        return coded;
    }
    *cost = dist_cost_sum(&o->machine, d->view.size, type, all);
    share = load.floats / all;
    cost->bytes *= share;
    cost->seconds *= share;
    *observed = dist_flight_seconds(f) * share;
    return type->name;
}

bool dist_travel_of(const struct ct_dist *d, int param, struct dist_travel *out)
{
    struct dist_cost c = { 0 };

    *out = (struct dist_travel){ .floats = 0 };
    if (!d->net || !d->plan->roads)
        return false;
    name_of(d->net, param, out->param, sizeof(out->param));
    out->floats     = (double)ct_net_param(d->net, param)->blob->count;
    out->name       = d->plan->carrier->road(d, param, &c, &out->measured);
    out->bytes      = c.bytes;
    out->may_choose = d->roads.may[param];
    if (d->roads.measured)
        out->predicted = c.seconds;
    return true;
}

/* Logs a line per large parameter, and one for the others. */
static void say_table(const struct ct_dist *d, bool with_observed)
{
    const struct ct_net *net = d->net;
    double rest = 0, all = (double)ct_net_arena_count(net);
    int n_rest  = 0;
    char name[64], seen[32] = "";

    CT_INFO("%-24s %11s  %-12s %10s %12s%s", "parameter", "floats", "road",
            "MB sent", "predicted ms", with_observed ? "  measured ms" : "");
    for (int i = 0; i < ct_net_n_params(net); i++) {
        double floats = (double)ct_net_param(net, i)->blob->count, observed;
        struct dist_cost c;
        const char *road;

        if (floats < all / 100) {
            rest += floats;
            n_rest++;
            continue;
        }
        road = d->plan->carrier->road(d, i, &c, &observed);
        if (with_observed)
            snprintf(seen, sizeof(seen), " %12.3g", 1e3 * observed);
        CT_INFO("%-24s %11.0f  %-12s %10.4g %12.3g%s",
                name_of(net, i, name, sizeof(name)), floats, road,
                c.bytes / 1e6, 1e3 * c.seconds, seen);
    }
    if (n_rest)
        CT_INFO("%-24s %11.0f  in buckets with others", "smaller ones", rest);
}

/* FNV-1a of the names, with the zero at the end of each. */
static uint64_t hash_roads(const struct ct_dist *d)
{
    uint64_t hash = 0xcbf29ce484222325u;

    for (int i = 0; i < ct_net_n_params(d->net); i++) {
        struct dist_cost c;
        double observed;
        const char *road = d->plan->carrier->road(d, i, &c, &observed);

        do
            hash = (hash ^ (unsigned char)*road) * 0x100000001b3u;
        while (*road++);
    }
    return hash;
}

/* The next rank 0 knows, too, what the log has. */
static bool differs(struct ct_dist *d)
{
    const uint64_t before = d->elastic.roads;

    if (!d->elastic.members)
        return true;
    d->elastic.roads = hash_roads(d);
    return d->elastic.roads != before;
}

void dist_auto_say(struct ct_dist *d)
{
    const struct dist_machine *w = &d->roads.options.machine;

    if (!d->roads.measured || !differs(d) || d->view.rank != 0)
        return;
    if (w->alpha == 0) /* only memory was measured; there are no messages */
        CT_INFO("Roads: adding takes %.3g ns per byte", 1e9 * w->gamma);
    else
        CT_INFO("Roads: a message takes %.3g us and %.3g ns per byte, adding "
                "%.3g ns per byte, products run at %.4g GFLOP/s",
                1e6 * w->alpha, 1e9 * w->beta, 1e9 * w->gamma,
                w->flops / 1e9);
    if (d->facts->n_hosts > 1 && d->roads.slow_rank >= 0)
        CT_INFO("The slowest link is that of ranks %d and %d: %.4g MB/s",
                d->roads.slow_rank, d->roads.slow_peer, 1e-6 / w->beta);
    say_table(d, false);
}

/* Rank 0 chooses roads again, with the scales that it has learned. */
static enum ct_status reconsider(struct ct_dist *d, int *apart)
{
    const struct dist_model m = model_of(d, d->net);
    struct dist_auto *a       = &d->roads;
    struct dist_step now, then;
    size_t bytes = (size_t)ct_net_n_params(d->net) * sizeof(*apart);

    CT_TRY(dist_step_of(&m, &a->options, d->view.size, a->apart, &now));
    CT_TRY(dist_model_choose(&m, &a->options, d->view.size, apart));
    CT_TRY(dist_step_of(&m, &a->options, d->view.size, apart, &then));
    CT_INFO("Roads after %d iterations: a step took %.4g ms; exchanges took "
            "%.3g (sums), %.3g (factors) times what was predicted",
            a->n_seen, 1e3 * a->step, a->options.scales.dense,
            a->options.scales.factors);
    if (memcmp(apart, a->apart, bytes) != 0 &&
        then.seconds > worth_it * now.seconds) {
        CT_INFO("Another choice would save %.1f %%: too little",
                100 * (1 - then.seconds / now.seconds));
        memcpy(apart, a->apart, bytes);
    }
    say_table(d, true);
    return CT_OK;
}

static enum ct_status decide(struct ct_dist *d, bool *changed)
{
    struct dist_auto *a = &d->roads;
    const int n         = ct_net_n_params(d->net);
    size_t bytes        = (size_t)n * sizeof(int);
    int *apart          = NULL;
    enum ct_status st;

    CT_TRY(ct_alloc((size_t)n + 1, sizeof(*apart), "roads", &apart));
    memcpy(apart, a->apart, bytes);
    if (d->view.rank == 0)
        CT_TRY_GOTO(reconsider(d, apart), st, out);
    CT_TRY_GOTO(ct_dist_broadcast(d, apart, bytes), st, out);
    *changed = memcmp(apart, a->apart, bytes) != 0;
    memcpy(a->apart, apart, bytes);
    a->n_seen = 0;
    a->due    = d->options->redecide;
out:
    ct_free(apart);
    return st;
}

enum ct_status dist_auto_begin(struct ct_dist *d, bool *changed)
{
    struct dist_auto *a = &d->roads;
    double now          = ct_now();

    *changed = false;
    a->mark  = now;
    if (!a->learning)
        return CT_OK;
    if (a->n_seen++ > 1) { /* the first one warms up */
        learn(&a->step, now - a->begun);
        learn_scales(d);
    }
    a->begun = now;
    if (a->n_seen <= a->due)
        return CT_OK;
    CT_TRY(decide(d, changed));
    a->mark = ct_now();
    return CT_OK;
}

void dist_auto_layer_done(struct ct_dist *d, int layer)
{
    struct dist_auto *a = &d->roads;
    double now;

    if (!a->learning)
        return;
    now = ct_now();
    learn(&a->backward[layer], now - a->mark);
    a->mark = now;
}
