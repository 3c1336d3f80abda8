/* remote.c - updates for all ranks, of the part that this one serves.
 *
 * A server has the sum of gradients for a run of the arena and the values
 * there; the solver's own rule, rates and histories make the update.  It runs
 * on the comm thread while the compute thread is iterations ahead or behind,
 * so it counts iterations and rates by itself, on a copy of the solver that
 * shares nothing but what does not change and the histories.  All of it is in
 * the CPU's memory, also where ranks train on GPUs.
 *
 * Where each rank's gradient is a share 1/P of an update, P of them are to do
 * what one update does.  Momentum that acts P times is mu^(1/P), and the rate
 * is what then leads as far: r / P (1 - mu^(1/P)) / (1 - mu). */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "core/buffer.h"
#include "solver/solver.h"

/* Runs of the arena are at iterations that differ by less. */
enum { KEPT = 64 };

struct solver_remote {
    const struct ct_solver *of;
    struct ct_solver solver; /* a copy; its iter is the next to be rated */
    float           *history[2];
    float            rate[KEPT], before[KEPT]; /* by iteration */
    bool             one_thread;
};

/* The rate of iteration `iter`, and that of the one before. */
static enum ct_status rate_at(struct solver_remote *r, int iter, float *rate,
                              float *before)
{
    struct ct_solver *s = &r->solver;

    if (iter < s->iter - KEPT)
        return ct_fail(CT_EINTERNAL, "an update of iteration %d, when another "
                       "part is at %d", iter, s->iter);
    for (; s->iter <= iter; s->iter++) {
        float *to = &r->rate[s->iter % KEPT];

        r->before[s->iter % KEPT] = s->last_rate;
        CT_TRY(solver_rate(s, to));
        s->last_rate = *to;
    }
    *rate   = r->rate[iter % KEPT];
    *before = r->before[iter % KEPT];
    return CT_OK;
}

static void take_share(const struct ct_solver *s, float share,
                       struct rule_step *step)
{
    float mu = step->momentum;

    step->rate *= share;
    if (share == 1 || s->rule->n_history != 1)
        return;
    step->momentum = powf(mu, share);
    step->rate *= (1 - step->momentum) / (1 - mu);
}

static void update_part(const struct ct_solver *s,
                        const struct ct_remote_step *u, int param,
                        const struct solver_update *with,
                        float *const *history)
{
    const struct ct_net_param *p = ct_net_param(s->net, param);
    struct rule_step step;
    size_t from = p->offset > u->first ? p->offset : u->first;
    size_t end  = p->offset + (size_t)p->blob->count;

    if (end > u->first + u->n)
        end = u->first + u->n;
    if (from >= end || !solver_updates(s, param))
        return;
    step   = solver_rule_step(s, param, with, u->scale);
    take_share(s, u->share, &step);
    step.n = (int64_t)(end - from);
    step.w = u->value ? u->value + (from - u->first)
                      : ct_data(p->blob) + (from - p->offset);
    step.g = u->sum + (from - u->first);
    for (int h = 0; h < s->rule->n_history; h++)
        step.history[h] = history[h] + from;
    s->rule->update(&step);
}

void solver_update_run(const struct ct_solver *s,
                       const struct solver_update *with,
                       float *const *history, const struct ct_remote_step *u)
{
    for (int i = 0; i < ct_net_n_params(s->net); i++)
        update_part(s, u, i, with, history);
}

static enum ct_status update(void *arg, const struct ct_remote_step *u)
{
    struct solver_remote *r = arg;
    struct ct_solver at     = r->solver;
    struct solver_update with;
    float rate = 0;

    /* The comm thread has the cores that the compute thread leaves. */
    if (!r->one_thread)
        ct_device_cpu_set_threads(1);
    r->one_thread = true;
    CT_TRY(rate_at(r, u->iter, &rate, &at.last_rate));
    at.iter = u->iter;
    with    = solver_update_at(&at, rate);
    solver_update_run(&at, &with, r->history, u);
    return CT_OK;
}

const char *solver_needs_norms(const struct ct_solver *s)
{
    const Caffe__SolverParameter *p = s->param;

    return p->clip_gradients >= 0               ? "clip_gradients"
           : p->larc                            ? "larc"
           : p->local_lr_auto                   ? "local_lr_auto"
           : strcmp(s->rule->name, "LARS") == 0 ? "type LARS"
                                                : NULL;
}

static enum ct_status check(const struct ct_solver *s)
{
    const char *what = solver_needs_norms(s);

    if (what)
        return ct_fail(CT_ENOTSUP, "%s needs norms over whole gradients, and "
                       "here servers update parts of them; train with "
                       "--sync=bsp and without --deadline and --groups", what);
    return CT_OK;
}

static void begin(void *arg)
{
    struct solver_remote *r = arg;

    /* The exchange's own may change when a rank that serves is asked for more
     * steps, while the others' last gradients still come. */
    r->solver = *r->of;
    memcpy(r->history, r->of->options.exchange->updater.history,
           sizeof(r->history));
}

enum ct_status solver_remote_start(struct ct_solver *s, struct ct_updater *out)
{
    CT_TRY(check(s));
    if (!s->remote)
        CT_TRY(ct_alloc(1, sizeof(*s->remote), "remote updates", &s->remote));
    s->remote->of = s;
    out->arg      = s->remote;
    out->begin    = begin;
    out->update   = update;
    return CT_OK;
}

void solver_remote_stop(struct ct_solver *s)
{
    ct_free(s->remote);
    s->remote = NULL;
}
