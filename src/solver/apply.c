/* apply.c - the one way to apply an update: a range of the arena, its gradient
 * and the solver's rule.
 *
 * Who applies it, and when, are schedules of ranges: parameter by parameter
 * (update.c), slices while the gradient is made (early.c), parts of the one
 * copy that a host has (shared_params.c), slices that a server keeps
 * (remote.c).  On a GPU all parameters go in one launch (device_update.c), by
 * the same numbers. */
#include <math.h>
#include <string.h>

#include "solver/solver_inner.h"

/* The history holds lr times gradients, so a rate that grows in warm-up must
 * let it grow too, or the first steps weigh too little. */
static float warm_momentum(const struct ct_solver *s, float rate)
{
    int warm = s->param->warmup_iter > s->param->rampup_interval
                   ? s->param->warmup_iter
                   : s->param->rampup_interval;

    if (s->iter > warm || warm == 0 || s->last_rate <= 0 || s->iter == 0)
        return s->param->momentum;
    return s->param->momentum * rate / s->last_rate;
}

struct solver_update solver_update_at(const struct ct_solver *s, float rate)
{
    return (struct solver_update){
        .rate     = rate,
        .scale    = 1,
        .factor   = 1,
        .momentum = s->rule->n_history == 1 ? warm_momentum(s, rate)
                                            : s->param->momentum,
        .t        = s->iter + 1,
    };
}

bool solver_updates(const struct ct_solver *s, int param)
{
    const struct ct_net_param *p = ct_net_param(s->net, param);

    return p->lr_mult != 0 ||
           (s->rule->adapts &&
            !ct_layer_is_statistic(ct_net_layer(s->net, p->layer), p->index));
}

/* A parameter whose gradients come with their momentum. */
static bool is_held_back(const struct ct_solver *s, int param)
{
    return s->options.exchange && s->peers.attached.held &&
           s->rule->n_history == 1 && s->peers.attached.held[param];
}

struct rule_step solver_rule_step(const struct ct_solver *s, int param,
                                  const struct solver_update *u, float scale)
{
    const Caffe__SolverParameter *sp = s->param;
    const struct ct_net_param *p     = ct_net_param(s->net, param);
    const bool held = is_held_back(s, param);
    float decay = sp->weight_decay * p->decay_mult;
    bool l1     = strcmp(sp->regularization_type, "L1") == 0;

    if (held) /* in the long run momentum makes 1 / (1 - mu) of a decay */
        decay /= 1 - sp->momentum;

    return (struct rule_step){
        .rate      = u->rate * p->lr_mult,
        .scale     = u->scale * scale / (float)sp->iter_size,
        .l2        = l1 ? 0 : decay,
        .l1        = l1 ? decay : 0,
        .momentum  = held ? 0 : u->momentum,
        .momentum2 = sp->momentum2,
        .delta     = sp->delta,
        .rms_decay = sp->rms_decay,
        .t         = u->t,
    };
}

/* Where each rank's gradient is a share 1/P of an update, P of them are to do
 * what one update does.  Momentum that acts P times is mu^(1/P), and the rate
 * is what then leads as far: r / P (1 - mu^(1/P)) / (1 - mu). */
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

static void apply_part(const struct ct_solver *s,
                       const struct solver_update *u, float *const *history,
                       const struct ct_update_range *r, int param)
{
    const struct ct_net_param *p = ct_net_param(s->net, param);
    struct rule_step step;
    size_t from = p->offset > r->first ? p->offset : r->first;
    size_t end  = p->offset + (size_t)p->blob->count;

    if (end > r->first + r->n)
        end = r->first + r->n;
    if (from >= end || !solver_updates(s, param))
        return;
    step = solver_rule_step(s, param, u, r->scale);
    if (r->rate)
        step.rate = *r->rate;
    take_share(s, r->share, &step);
    step.n = (int64_t)(end - from);
    step.w = r->value ? r->value + (from - r->first)
                      : ct_data(p->blob) + (from - p->offset);
    step.g = r->sum + (from - r->first);
    for (int h = 0; h < s->rule->n_history; h++)
        step.history[h] = history[h] + from;
    s->rule->update(&step);
}

void solver_apply(const struct ct_solver *s, const struct solver_update *u,
                  float *const *history, const struct ct_update_range *r)
{
    for (int i = 0; i < ct_net_n_params(s->net); i++)
        apply_part(s, u, history, r, i);
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
