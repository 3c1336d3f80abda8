/* setup.c - cuts a net's parameters into slices and creates their servers. */
#include <math.h>
#include <stdint.h>

#include "base/mem.h"
#include "dist/engine.h"
#include "dist/servers/rounds.h"

enum {
    MOST_FLOATS  = 256 << 10, /* largest slice */
    LEAST_FLOATS = 1024,      /* no smaller limit for slices is used */
    PER_SERVER   = 4 /* least slices per server, so that loads are equal */
};

/* Small neighbours share a slice, large parameters have several.  The first
 * slice has the riders. */
static enum ct_status cut_arena(struct ct_dist *d, const struct ct_net *net)
{
    const size_t total = ct_net_arena_count(net);
    const size_t even  = total / (size_t)(PER_SERVER * d->plan->n_servers) + 1;
    const size_t most  = even < LEAST_FLOATS ? LEAST_FLOATS : even;
    const struct ct_cut_policy policy = {
        .first = SIZE_MAX,
        .least = SIZE_MAX,
        .most  = most < MOST_FLOATS ? most : MOST_FLOATS,
    };
    struct ct_cut cut = { 0 };
    size_t *border    = NULL;
    enum ct_status st;

    CT_TRY(ct_cut_init(&cut, net, &policy));
    CT_TRY_GOTO(ct_alloc((size_t)cut.n + 1, sizeof(*border), "slices",
                         &border), st, out);
    for (int i = 0; i < cut.n; i++)
        border[i] = cut.run[i].first;
    border[cut.n] = total;
    st = ct_ps_table_init(&d->ps.table, border, cut.n + 1, d->plan->n_servers);
out:
    ct_free(border);
    ct_cut_fini(&cut);
    return st;
}

/* Finds the parameters in each slice, and the layer that completes it. */
static enum ct_status describe(struct ct_dist *d, const struct ct_net *net,
                               int id)
{
    const struct ct_ps_slice *t = &d->ps.table.slice[id];
    struct dist_slice *s        = &d->ps.slice[id];
    size_t n                    = (size_t)ct_net_n_params(net);

    s->dist        = d;
    s->id          = id;
    s->ready_after = ct_net_n_layers(net) - 1;
    CT_TRY(ct_alloc(n + 1, sizeof(*s->run), "slice", &s->run));
    for (int i = 0; i < (int)n; i++) {
        const struct ct_net_param *p = ct_net_param(net, i);
        size_t from = p->offset > t->first ? p->offset : t->first;
        size_t end  = p->offset + (size_t)p->blob->count;

        if (end > t->first + t->n)
            end = t->first + t->n;
        if (from >= end)
            continue;
        if (p->layer < s->ready_after)
            s->ready_after = p->layer;
        if (p->lr_mult != 0)
            s->run[s->n_runs++] =
                (struct dist_learned){ from, end - from, p->lr_mult };
    }
    return CT_OK;
}

static enum ct_status name_ranks(struct ct_dist *d)
{
    const struct dist_plan *m = d->plan;
    struct dist_ps *p         = &d->ps;

    CT_TRY(ct_alloc((size_t)m->n_groups, sizeof(*p->worker_rank), "ranks",
                    &p->worker_rank));
    CT_TRY(ct_alloc((size_t)m->n_servers, sizeof(*p->server_rank), "ranks",
                    &p->server_rank));
    CT_TRY(ct_alloc((size_t)m->n_groups, sizeof(*p->loss), "losses",
                    &p->loss));
    CT_TRY(ct_alloc((size_t)m->n_groups, sizeof(*p->weighs), "losses",
                    &p->weighs));
    for (int g = 0; g < m->n_groups; g++)
        p->worker_rank[g] = dist_group_first(m, g);
    for (int s = 0; s < m->n_servers; s++)
        p->server_rank[s] = m->first_server + s;
    p->group      = dist_group_of(m, d->view.all->rank);
    p->group_size = dist_group_first(m, p->group + 1) -
                    p->worker_rank[p->group];
    p->root       = p->worker_rank[p->group] == d->view.all->rank;
    return CT_OK;
}

/* Samples per pass of this rank. */
static float batch_size(const struct ct_net *net)
{
    for (int i = 0; i < ct_net_n_layers(net); i++) {
        struct ct_io io = ct_net_io(net, i);

        if ((ct_net_layer(net, i)->type->flags & CT_LAYER_SOURCE) &&
            io.n_top && io.top[0]->shape.n_axes)
            return (float)io.top[0]->shape.dim[0];
    }
    return 1;
}

/* Sets the weight of this rank's gradient, in proportion to its samples. */
static enum ct_status weigh(struct ct_dist *d, const struct ct_net *net)
{
    float mine = batch_size(net), all = mine;

    if (d->view.serves)
        return CT_OK;
    CT_TRY(ct_dist_sum(d, &all, 1));
    d->ps.weight       = mine * (float)d->view.size / all;
    d->ps.times        = d->trainer.batches ? 1 : d->ps.weight;
    d->ps.group_weight = d->ps.weight;
    if (d->view.group)
        CT_TRY(dist_group_sum(d, &d->ps.group_weight, 1));
    return CT_OK;
}

static enum ct_status read_history(void *arg, int64_t history, size_t first,
                                   size_t n, float *out)
{
    const struct ct_updater *from = &((struct ct_dist *)arg)->ps.updater;

    if (history < 0 || history >= from->n_history)
        return ct_fail(CT_ECOMM, "a rank asks for history %lld of %d: are all "
                       "ranks of one version?", (long long)history,
                       from->n_history);
    for (size_t i = 0; i < n; i++)
        out[i] = from->history[history][first + i];
    return CT_OK;
}

static enum ct_status nothing(struct ct_comm *c, void *arg)
{
    (void)c, (void)arg;
    return CT_OK;
}

/* Fails if the comm thread has failed, because then it runs no job. */
static enum ct_status health(void *arg)
{
    return ct_job_run(((struct ct_dist *)arg)->view.thread, nothing, NULL);
}

float dist_ps_momentum(const struct ct_dist *d)
{
    const float mu = d->plan->holds_back ? 0 : d->trainer.momentum;

    /* Each of P pushes is 1/P of an update (solver/apply.c). */
    return d->plan->staleness == CT_PS_ASYNC
               ? powf(mu, 1 / (float)d->plan->n_groups)
               : mu;
}

/* Unbounded staleness: P - 1 pushes of other ranks arrive before the next one
 * of this rank, and each is about equal to this rank's last one. */
static float step_among(const struct ct_dist *d)
{
    const float P  = (float)d->plan->n_groups, mu = dist_ps_momentum(d);
    float once = 1 / P, sum = 0, all = 0;

    if (mu > 0)
        once *= (1 - mu) / (1 - powf(mu, P));
    for (int k = 1; k < d->plan->n_groups; k++) {
        sum = 1 + mu * sum;
        all += sum;
    }
    return once * all;
}

float dist_ps_step(const struct ct_dist *d, int64_t clock)
{
    const float mu = dist_ps_momentum(d);
    float step     = 0;

    if (d->plan->staleness == CT_PS_ASYNC)
        return step_among(d);
    for (int64_t k = clock; k < d->ps.clock; k++)
        step = 1 + mu * step;
    return step / (float)(d->view.group ? d->ps.group_size : 1);
}

static enum ct_status create(struct ct_dist *d, const struct ct_net *net)
{
    const Caffe__DistributedParameter *o = d->options;
    struct ct_ps_config config = {
        .comm        = d->view.all,
        .table       = &d->ps.table,
        .worker_rank = d->ps.worker_rank,
        .server_rank = d->ps.server_rank,
        .n_workers   = d->plan->n_groups,
        .values      = d->plan->values,
        .rounds      = d->plan->rounds,
        .staleness   = d->plan->values ? d->plan->staleness : 0,
        .momentum    = d->plan->values ? dist_ps_momentum(d) : 0,
        .clock       = d->trainer.iter,
        .fold        = d->plan->late == DIST_LATE_FOLD ? 0.5f : 0,
        .stall       = o->stall,
        .apply       = dist_ps_apply,
        .read        = read_history,
        .note        = d->plan->values ? dist_words_note : NULL,
        .fill        = d->plan->values ? dist_words_fill : NULL,
        .health      = health,
        .arg         = d,
    };

    CT_TRY(dist_ps_form(d, net, &config.form));
    CT_TRY(ct_ps_create(&config, &d->ps.ps));
    if (d->plan->rounds)
        CT_TRY(dist_round_create(d, &d->ps.round));
    return CT_OK;
}

enum ct_status dist_ps_build(struct ct_dist *d, struct ct_net *net)
{
    size_t n;

    CT_TRY(cut_arena(d, net));
    n = (size_t)d->ps.table.n;
    CT_TRY(ct_alloc(n, sizeof(*d->ps.slice), "slices", &d->ps.slice));
    CT_TRY(ct_alloc(d->ps.table.longest, sizeof(*d->ps.scratch), "slice",
                    &d->ps.scratch));
    for (int i = 0; i < d->ps.table.n; i++)
        CT_TRY(describe(d, net, i));
    CT_TRY(name_ranks(d));
    CT_TRY(weigh(d, net));
    return create(d, net);
}

void dist_ps_hang_up(struct ct_dist *d)
{
    dist_round_destroy(d->ps.round);
    ct_ps_destroy(d->ps.ps);
    d->ps.round = NULL;
    d->ps.ps    = NULL;
}

void dist_ps_unbuild(struct ct_dist *d)
{
    struct dist_ps *p = &d->ps;

    dist_ps_hang_up(d);
    for (int i = 0; p->slice && i < p->table.n; i++)
        ct_free(p->slice[i].run);
    ct_free(p->slice);
    dist_wires_fini(d);
    ct_free(p->run);
    ct_free(p->scratch);
    ct_free(p->worker_rank);
    ct_free(p->server_rank);
    ct_free(p->loss);
    ct_free(p->weighs);
    ct_ps_table_fini(&p->table);
    *p = (struct dist_ps){ 0 };
}
