/* schedule.c - predicts what is sent when. */
#include "dist/model/schedule.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "dist/bsp/bucket.h"
#include "dist/bsp/factors.h"
#include "dist/model/simulate.h"

/* A job of the comm thread. */
struct send {
    int              after; /* the layer whose backward completes it */
    struct dist_cost cost;
    double           floats;
    int              first_layer; /* the first layer that waits for it */
    bool             in_slices;
};

struct sends {
    struct send *send;
    int          n, n_factors;
};

struct dist_load dist_model_load(const struct dist_model *m, int param)
{
    const struct ct_net_param *p = ct_net_param(m->net, param);
    struct dist_load load = { .floats = (double)p->blob->count, .n = 1,
                              .m = (double)p->blob->count };
    struct ct_factors f;

    if (p->blob->shape.n_axes > 1) {
        load.n = (double)p->blob->shape.dim[0];
        load.m = load.floats / load.n;
    }
    if (dist_factors_of(m->net, param, &f) == CT_OK) {
        load.n = (double)f.u_cols;
        load.m = (double)f.v_cols;
        load.k = fmax(1, (double)f.rows * m->share);
    }
    return load;
}

/* The cost of values without a codec. */
static struct dist_cost dense_cost(const struct dist_options *o,
                                   enum dist_road road, int size,
                                   double floats)
{
    const struct dist_machine *w = &o->machine;

    if (road == DIST_ROAD_PS)
        return dist_cost_ps(w, size, floats);
    if (road == DIST_ROAD_SHARDED)
        return dist_cost_sharded(w, size, floats);
    return dist_cost_sum(w, size,
                         o->reduce ? o->reduce
                                   : dist_usual_sum(w, size, floats), floats);
}

static double scaled(double seconds, double scale)
{
    return scale > 0 ? seconds * scale : seconds;
}

struct dist_cost dist_factors_cost(const struct dist_options *o, int size,
                                   const struct dist_load *load)
{
    struct dist_cost c = dist_cost_factors(&o->machine, size, load);

    if (o->codec.type && o->codec.type->for_factors) { /* in 16 bits */
        c.seconds -= c.bytes / 2 * o->machine.beta;
        c.bytes /= 2;
    }
    c.seconds = scaled(c.seconds, o->scales.factors);
    c.compute = scaled(c.compute, o->scales.products);
    return c;
}

static void add_factors(const struct dist_model *m,
                        const struct dist_options *o, int size,
                        const int *apart, int layer, struct sends *s)
{
    for (int i = 0; i < ct_net_n_params(m->net); i++) {
        struct dist_load load;

        if (apart[i] < 0 || ct_net_param(m->net, i)->layer != layer)
            continue;
        load = dist_model_load(m, i);
        s->send[s->n++] = (struct send){
            layer, dist_factors_cost(o, size, &load), load.floats, layer, false
        };
        s->n_factors++;
    }
}

/* The first layer whose parameters are in bucket b. */
static int first_layer(const struct dist_model *m,
                       const struct ct_cut *buckets, int b)
{
    int least = ct_net_n_layers(m->net) - 1;

    for (int i = 0; i < ct_net_n_params(m->net); i++)
        if (buckets->of_param[i] == b &&
            ct_net_param(m->net, i)->layer < least)
            least = ct_net_param(m->net, i)->layer;
    return least;
}

/* The codec encodes the parameters that it accepts; the others are sent as
 * floats. */
struct dist_cost dist_bucket_cost(const struct dist_model *m,
                                  const struct dist_options *o,
                                  enum dist_road road, int size,
                                  const struct ct_cut *buckets, int b)
{
    double rest          = (double)buckets->run[b].n;
    struct dist_cost sum = { 0 }, c;

    for (int i = 0; o->codec.type && i < ct_net_n_params(m->net); i++) {
        struct dist_load load = dist_model_load(m, i);

        if (buckets->of_param[i] != b ||
            !o->codec.type->takes(&o->codec, (int64_t)load.n,
                                  (int64_t)load.m))
            continue;
        c = dist_cost_coded(&o->machine, size, &o->codec, &load);
        sum.bytes += c.bytes;
        sum.seconds += c.seconds;
        rest -= load.floats;
    }
    c = dense_cost(o, road, size, rest);
    return (struct dist_cost){
        .bytes   = sum.bytes + c.bytes,
        .seconds = scaled(sum.seconds + c.seconds, o->scales.dense),
        .back    = scaled(c.back, o->scales.dense),
    };
}

/* Jobs in the order in which bsp.c submits them to the comm thread. */
static enum ct_status sends_init(const struct dist_model *m,
                                 const struct dist_options *o,
                                 enum dist_road road, int size,
                                 const int *apart, struct sends *s)
{
    const int top = ct_net_n_layers(m->net) - 1;
    const struct ct_cut_policy policy =
        dist_bucket_policy(o->first_bytes, o->bucket_bytes, apart);
    struct ct_cut b = { 0 };
    enum ct_status st;
    int next = 0;

    *s = (struct sends){ 0 };
    CT_TRY(ct_cut_init(&b, m->net, &policy));
    CT_TRY_GOTO(ct_alloc((size_t)(b.n + ct_net_n_params(m->net)) + 1,
                         sizeof(*s->send), "sends", &s->send), st, out);
    for (int l = top; l >= 0; l--) {
        add_factors(m, o, size, apart, l, s);
        if (!o->overlap && l > 0)
            continue;
        for (; next < b.n && (l == 0 || b.run[next].layer >= l);
             next++) {
            s->send[s->n++] = (struct send){
                l, dist_bucket_cost(m, o, road, size, &b, next),
                (double)b.run[next].n, first_layer(m, &b, next),
                road != DIST_ROAD_PS && !o->codec.type
            };
        }
    }
out:
    ct_cut_fini(&b);
    return st;
}

static void totals(const struct dist_model *m, const struct sends *s,
                   struct dist_step *out)
{
    *out = (struct dist_step){ .compute = m->update,
                               .n_factors = s->n_factors };
    for (int l = 0; l < ct_net_n_layers(m->net); l++)
        out->compute += (m->forward[l] + m->backward[l]) * m->share;
    for (int i = 0; i < s->n; i++) {
        out->bytes += s->send[i].cost.bytes;
        out->comm += s->send[i].cost.seconds;
    }
}

/* The time when the last sum has arrived.  With servers there are two queues:
 * while a sum is sent back, the next bucket is received.  Other roads have
 * one. */
static double last_in(const struct dist_model *m, const struct sends *s,
                      double *products)
{
    double now = 0, in = 0, out = 0;
    int next = 0;

    *products = 0;
    for (int l = 0; l < ct_net_n_layers(m->net); l++)
        now += m->forward[l] * m->share;
    for (int l = ct_net_n_layers(m->net) - 1; l >= 0; l--) {
        now += m->backward[l] * m->share;
        for (; next < s->n && s->send[next].after >= l; next++) {
            const struct dist_cost *c = &s->send[next].cost;

            in  = fmax(in, now) + c->seconds - c->back;
            out = fmax(out, in) + c->back;
            *products += c->compute;
        }
    }
    return fmax(now, out);
}

static enum ct_status formula(const struct dist_model *m,
                              const struct dist_options *o,
                              enum dist_road road, int size,
                              const int *apart, struct dist_step *out)
{
    struct sends s;
    double products;
    enum ct_status st = sends_init(m, o, road, size, apart, &s);

    if (st == CT_OK) {
        totals(m, &s, out);
        out->seconds = last_in(m, &s, &products);
        out->seconds += products + m->update;
    }
    ct_free(s.send);
    return st;
}

/* Starts with the road that is fastest for each matrix by itself.  Then changes
 * the road of one matrix after the other if that makes the step shorter:
 * messages that overlap with backward cost no time on either road. */
enum ct_status dist_model_choose(const struct dist_model *m,
                                 const struct dist_options *o, int size,
                                 int *apart)
{
    struct dist_step best, other;

    for (int i = 0; i < ct_net_n_params(m->net); i++) {
        struct dist_load load = dist_model_load(m, i);
        struct dist_cost f, d;

        apart[i] = -1;
        if (load.k == 0)
            continue;
        f = dist_factors_cost(o, size, &load);
        d = dense_cost(o, DIST_ROAD_AUTO, size, load.floats);
        if (o->codec.type)
            d = dist_cost_coded(&o->machine, size, &o->codec, &load);
        apart[i] = f.seconds + f.compute < scaled(d.seconds, o->scales.dense)
                       ? 0
                       : -1;
    }
    CT_TRY(formula(m, o, DIST_ROAD_AUTO, size, apart, &best));
    for (int i = 0; i < ct_net_n_params(m->net); i++) {
        if (dist_model_load(m, i).k == 0)
            continue;
        apart[i] = -1 - apart[i];
        CT_TRY(formula(m, o, DIST_ROAD_AUTO, size, apart, &other));
        if (other.seconds < best.seconds)
            best = other;
        else
            apart[i] = -1 - apart[i];
    }
    return CT_OK;
}

/* Makes apart[] for a road; the caller ct_free's it. */
static enum ct_status choose(const struct dist_model *m,
                             const struct dist_options *o,
                             enum dist_road road, int size, int **apart)
{
    const int n = ct_net_n_params(m->net);

    CT_TRY(ct_alloc((size_t)n + 1, sizeof(**apart), "roads", apart));
    for (int i = 0; i < n; i++)
        (*apart)[i] = road == DIST_ROAD_FACTORS &&
                              dist_model_load(m, i).k > 0
                          ? 0
                          : -1;
    return road == DIST_ROAD_AUTO ? dist_model_choose(m, o, size, *apart)
                                  : CT_OK;
}

enum ct_status dist_step_of(const struct dist_model *m,
                            const struct dist_options *o, int size,
                            const int *apart, struct dist_step *out)
{
    return formula(m, o, DIST_ROAD_AUTO, size, apart, out);
}

enum ct_status dist_step_formula(const struct dist_model *m,
                                 const struct dist_options *o,
                                 enum dist_road road, int size,
                                 struct dist_step *out)
{
    int *apart        = NULL;
    enum ct_status st = choose(m, o, road, size, &apart);

    if (st == CT_OK)
        st = formula(m, o, road, size, apart, out);
    ct_free(apart);
    return st;
}

/* ---- Simulation. */

struct stage {
    struct sim *sim;
    const struct dist_model   *m;
    const struct dist_options *o;
    const struct sends        *s;
    enum dist_road road;
    int  size;
    int  compute, wire;       /* resources */
    int  server, link_in, link_out; /* resources of rank 0 */
    int *worker_in, *worker_out; /* resources per worker; owned */
    int *done;  /* per send: the task that ends it; owned */
    int  last;  /* latest task of the compute thread */
    int  first; /* first task of this iteration */
};

/* A task of the compute thread, after the one before. */
static int compute_task(struct stage *g, double seconds)
{
    int t = sim_task(g->sim, seconds, 0, g->compute, -1);

    if (g->last >= 0)
        sim_after(g->sim, t, g->last);
    return g->last = t;
}

/* Tasks of a server: the messages of all workers arrive, the sum is made, and
 * copies are sent.  If workers forward the sum, slices are small, so a hop
 * takes only latency. */
static int server_tasks(struct stage *g, int after, const struct send *x)
{
    const struct dist_machine *w = &g->o->machine;
    const int hops = dist_ps_hops(g->size);
    double bytes = 4 * x->floats;
    int sum = sim_task(g->sim, (g->size - 1) * bytes * w->gamma, 0,
                       g->server, -1);
    int all = sim_task(g->sim, 0, 0, -1, -1);

    for (int i = 0; i < g->size - 1; i++) {
        int give = sim_task(g->sim, bytes * w->beta, w->alpha, g->link_in,
                            g->worker_out[i]), take;

        sim_after(g->sim, give, after);
        sim_after(g->sim, sum, give);
        if (i >= dist_ps_copies(g->size))
            continue;
        take = sim_task(g->sim, bytes * w->beta, hops * w->alpha, g->link_out,
                        g->worker_in[i]);
        sim_after(g->sim, take, sum);
        sim_after(g->sim, all, take);
    }
    return all;
}

/* Slices and urgency as in flight.c; the first send has the riders. */
static int send_task(struct stage *g, int after, const struct send *x)
{
    const double slice = (double)g->o->slice_bytes;
    int n = 1, all;

    if (g->road == DIST_ROAD_PS)
        return server_tasks(g, after, x);
    if (slice > 0 && x->in_slices)
        n = (int)fmax(1, ceil(4 * x->floats / slice));
    all = sim_task(g->sim, 0, 0, -1, -1);
    for (int i = 0; i < n; i++) {
        int t = sim_task(g->sim, x->cost.seconds / n, 0, g->wire, -1);

        if (slice > 0 && x != g->s->send)
            sim_urgency(g->sim, t, 1 + x->first_layer);
        sim_after(g->sim, t, after);
        sim_after(g->sim, all, t);
    }
    return all;
}

/* The compute thread waits for the sends that layer `layer` needs; -1: all. */
static void wait_for(struct stage *g, int layer)
{
    double products = 0;
    int n = 0, t;

    for (int i = 0; i < g->s->n; i++)
        n += layer < 0 || g->s->send[i].first_layer == layer;
    if (n == 0)
        return;
    for (int i = 0; i < g->s->n; i++)
        if (layer < 0 || g->s->send[i].first_layer == layer)
            products += g->s->send[i].cost.compute;
    t = sim_task(g->sim, products, 0, g->compute, -1);
    sim_after(g->sim, t, g->last);
    for (int i = 0; i < g->s->n; i++)
        if (layer < 0 || g->s->send[i].first_layer == layer)
            sim_after(g->sim, t, g->done[i]);
    g->last = t;
}

static void iteration(struct stage *g, bool first)
{
    const int n = ct_net_n_layers(g->m->net);
    int next    = 0;

    for (int l = 0; l < n; l++) {
        if (!first && g->o->next_forward)
            wait_for(g, l);
        compute_task(g, g->m->forward[l] * g->m->share);
        if (l == 0)
            g->first = g->last;
    }
    for (int l = n - 1; l >= 0; l--) {
        compute_task(g, g->m->backward[l] * g->m->share);
        for (; next < g->s->n && g->s->send[next].after >= l; next++)
            g->done[next] = send_task(g, g->last, &g->s->send[next]);
    }
    if (!g->o->next_forward)
        wait_for(g, -1);
    /* With overlap the update is done in parts, each before its layer.  The
     * compute thread needs the same time for all of them. */
    compute_task(g, g->m->update);
}

static enum ct_status stage_init(struct stage *g)
{
    const size_t n = (size_t)g->size;

    CT_TRY(sim_create(&g->sim));
    CT_TRY(ct_alloc(n, sizeof(int), "workers", &g->worker_in));
    CT_TRY(ct_alloc(n, sizeof(int), "workers", &g->worker_out));
    CT_TRY(ct_alloc((size_t)g->s->n + 1, sizeof(int), "sends", &g->done));
    g->compute  = sim_resource(g->sim);
    g->wire     = sim_resource(g->sim);
    g->server   = sim_resource(g->sim);
    g->link_in  = sim_resource(g->sim);
    g->link_out = sim_resource(g->sim);
    for (size_t i = 0; i < n && g->road == DIST_ROAD_PS; i++) {
        g->worker_in[i]  = sim_resource(g->sim);
        g->worker_out[i] = sim_resource(g->sim);
    }
    g->last = -1;
    return CT_OK;
}

static void stage_fini(struct stage *g)
{
    sim_destroy(g->sim);
    ct_free(g->worker_in);
    ct_free(g->worker_out);
    ct_free(g->done);
}

/* Measures from the second iteration to the third, because the first one has
 * nothing to wait for. */
static enum ct_status simulate(struct stage *g, double *seconds)
{
    int begin;

    CT_TRY(stage_init(g));
    iteration(g, true);
    iteration(g, false);
    begin = g->first;
    iteration(g, false);
    CT_TRY(sim_run(g->sim));
    *seconds = sim_start(g->sim, g->first) - sim_start(g->sim, begin);
    return CT_OK;
}

enum ct_status dist_step_simulate(const struct dist_model *m,
                                  const struct dist_options *o,
                                  enum dist_road road, int size,
                                  int most_tasks, struct dist_step *out)
{
    struct sends s = { 0 };
    struct stage g = { .m = m, .o = o, .s = &s, .road = road, .size = size };
    int *apart     = NULL;
    enum ct_status st;

    CT_TRY_GOTO(choose(m, o, road, size, &apart), st, out);
    CT_TRY_GOTO(sends_init(m, o, road, size, apart, &s), st, out);
    totals(m, &s, out);
    if (road == DIST_ROAD_PS && 3.0 * 2 * size * s.n > most_tasks) {
        st = CT_ENOTSUP;
        goto out;
    }
    st = simulate(&g, &out->seconds);
out:
    stage_fini(&g);
    ct_free(s.send);
    ct_free(apart);
    return st;
}
