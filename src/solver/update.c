/* update.c - one update of all parameters, in Caffe's order: rate, clipping
 * by the global norm, division by iter_size, weight decay, rule. */
#include <math.h>
#include <string.h>

#include "base/pulse.h"
#include "base/trace.h"
#include "core/buffer.h"
#include "cortado/log.h"
#include "solver/solver.h"

static enum ct_status squares(const struct ct_blob *b, const float *x,
                              double *out)
{
    return b->dev->ops->dot(b->dev, b->count, x, x, out);
}

/* What turns the sum over ranks that a diff holds into their mean. */
static float mean_scale(const struct ct_solver *s)
{
    return s->options.exchange ? s->options.exchange->scale : 1;
}

/* Gradients that the solver did not send are the caller's to sum. */
static enum ct_status arrived(const struct ct_solver *s, int param)
{
    struct ct_exchange *x = s->options.exchange;

    if (!s->exchanged)
        return CT_OK;
    ct_pulse_set(x->pulse, CT_PULSE_EXCHANGE,
                 ct_net_layer(s->net, ct_net_param(s->net, param)->layer)
                     ->name);
    CT_TRY(s->mirror ? ct_mirror_arrive(s->mirror, x, param)
                     : x->wait(x, param));
    ct_pulse_set(x->pulse, CT_PULSE_UPDATE, NULL);
    return CT_OK;
}

/* The gradient, summed over ranks, once it has arrived. */
static const float *gradient(const struct ct_solver *s, int param)
{
    struct ct_exchange *x = s->options.exchange;

    if (s->exchanged && x->summed && !s->mirror)
        return x->summed(x, param);
    return ct_diff(ct_net_param(s->net, param)->blob);
}

/* The factor that brings the norm of all gradients down to clip_gradients. */
static enum ct_status clip_scale(const struct ct_solver *s, float *out)
{
    double sum = 0, part, norm;
    float clip = s->param->clip_gradients;

    *out = 1;
    if (clip < 0 || (s->options.exchange && s->options.exchange->holds_back))
        return CT_OK;
    for (int i = 0; i < ct_net_n_params(s->net); i++) {
        const struct ct_net_param *p = ct_net_param(s->net, i);
        const struct ct_blob *b      = p->blob;

        CT_TRY(arrived(s, i));
        if (ct_layer_is_statistic(ct_net_layer(s->net, p->layer), p->index))
            continue; /* no gradient */
        CT_TRY(squares(b, gradient(s, i), &part));
        sum += part;
    }
    norm = sqrt(sum) * (double)mean_scale(s);
    if (norm > (double)clip) {
        *out = (float)((double)clip / norm);
        CT_INFO("Gradient clipping: scaling down gradients (L2 norm %g > %g) "
                "by scale factor %g", norm, (double)clip, (double)*out);
    }
    return CT_OK;
}

/* Layer-wise rates.  LARS takes the place of lr_mult; LARC scales the global
 * rate by a local one, or clips it. */
static enum ct_status local_rate(const struct ct_solver *s,
                                 const struct ct_net_param *p,
                                 const float *gradient, float rate,
                                 float scale, float decay, float *out)
{
    const Caffe__SolverParameter *sp = s->param;
    bool lars = sp->local_lr_auto || strcmp(s->rule->name, "LARS") == 0;
    double w, g, local;

    *out = rate * p->lr_mult;
    if ((!lars && !sp->larc) || p->lr_mult == 0)
        return CT_OK;
    CT_TRY(squares(p->blob, ct_data(p->blob), &w));
    CT_TRY(squares(p->blob, gradient, &g));
    w = sqrt(w);
    g = sqrt(g) * (double)fabsf(scale);
    if (w == 0 || g == 0)
        return CT_OK;
    if (lars) {
        *out = rate * (float)((double)sp->local_gw_ratio * w /
                              (g + (double)decay * w));
        return CT_OK;
    }
    local = (double)sp->larc_eta * w / g;
    if (!sp->larc_turbo)
        local *= 1 - (double)sp->momentum;
    if (strcmp(sp->larc_policy, "clip") == 0)
        *out = fminf(*out, (float)local * p->lr_mult);
    else
        *out = *out * (float)local;
    return CT_OK;
}

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

/* A parameter whose gradients come with their momentum. */
static bool is_held_back(const struct ct_solver *s, int param)
{
    struct ct_exchange *x = s->options.exchange;

    return x && x->holds_back && s->rule->n_history == 1 &&
           x->holds_back(x, param);
}

bool solver_updates(const struct ct_solver *s, int param)
{
    const struct ct_net_param *p = ct_net_param(s->net, param);

    return p->lr_mult != 0 ||
           (s->rule->adapts &&
            !ct_layer_is_statistic(ct_net_layer(s->net, p->layer), p->index));
}

struct solver_update solver_update_at(const struct ct_solver *s, float rate)
{
    return (struct solver_update){
        .end      = ct_net_n_params(s->net),
        .rate     = rate,
        .scale    = 1,
        .factor   = 1,
        .momentum = s->rule->n_history == 1 ? warm_momentum(s, rate)
                                            : s->param->momentum,
        .t        = s->iter + 1,
    };
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

/* What the update of parameter i needs, once its gradient is in. */
static enum ct_status prepare(struct ct_solver *s, int i,
                              struct rule_step *out)
{
    const Caffe__SolverParameter *sp = s->param;
    const struct ct_net_param *p     = ct_net_param(s->net, i);

    *out = solver_rule_step(s, i, &s->update, mean_scale(s));
    out->n = p->blob->count;
    out->w = ct_data(p->blob);
    for (int h = 0; h < s->rule->n_history; h++)
        out->history[h] = s->history[h]->ptr + p->offset;
    CT_TRY(arrived(s, i));
    if (!solver_updates(s, i))
        return CT_OK;
    out->g = gradient(s, i);
    return local_rate(s, p, out->g, s->update.rate,
                      out->scale * s->update.factor,
                      sp->weight_decay * p->decay_mult, &out->rate);
}

/* On a GPU all parameters go in one launch. */
static enum ct_status update_on_device(struct ct_solver *s)
{
    const uint64_t start  = ct_trace_begin();
    struct rule_step step = { 0 };

    for (int i = ct_net_n_params(s->net) - 1; i >= 0; i--) {
        struct ct_update_run *run = &s->runs[i];

        CT_TRY(prepare(s, i, &step));
        run->rate     = step.rate;
        run->l2       = step.l2;
        run->l1       = step.l1;
        run->momentum = step.momentum;
    }
    CT_TRY(solver_device_update(s, &step));
    ct_trace_end(start, CT_TRACE_UPDATE, "all parameters");
    return CT_OK;
}

static enum ct_status update_param(struct ct_solver *s, int i)
{
    const struct ct_net_param *p = ct_net_param(s->net, i);
    struct rule_step step;
    uint64_t start;

    if (solver_is_early(s, i))
        return CT_OK;
    if (s->housed)
        return arrived(s, i);
    CT_TRY(prepare(s, i, &step));
    start = ct_trace_begin();
    if (solver_updates(s, i))
        s->rule->update(&step);
    ct_trace_end(start, CT_TRACE_UPDATE, ct_net_layer(s->net, p->layer)->name);
    return CT_OK;
}

/* In canonical training the statistics of all micro-batches came with the
 * gradients. */
static void take_statistics_in(struct ct_solver *s)
{
    const struct ct_exchange *x = s->options.exchange;

    for (int i = 0; x && x->micro && i < ct_net_n_layers(s->net); i++) {
        struct ct_layer *l = ct_net_layer(s->net, i);

        if (l->type->take_in)
            l->type->take_in(l, x->scale);
    }
}

/* Statistics that came with the gradients are no part of their norm. */
static enum ct_status set_statistics_aside(struct ct_solver *s)
{
    const struct ct_exchange *x = s->options.exchange;

    if (!x || !x->micro)
        return CT_OK;
    take_statistics_in(s);
    for (int i = 0; i < ct_net_n_params(s->net); i++) {
        const struct ct_net_param *p = ct_net_param(s->net, i);

        if (ct_layer_is_statistic(ct_net_layer(s->net, p->layer), p->index))
            CT_TRY(ct_fill(p->blob->dev, p->blob->count, 0,
                           ct_diff(p->blob)));
    }
    return CT_OK;
}

/* On a GPU, once all gradients are in. */
static enum ct_status judge_on_device(struct ct_solver *s)
{
    for (int i = 0; i < ct_net_n_params(s->net); i++)
        CT_TRY(arrived(s, i));
    CT_TRY(set_statistics_aside(s));
    return solver_device_judge(s, mean_scale(s));
}

/* Clipping needs the norm of all gradients before the first is used. */
static enum ct_status find_scale(struct ct_solver *s)
{
    if (!s->update.scaled && s->gradients)
        CT_TRY(judge_on_device(s));
    else if (!s->update.scaled)
        CT_TRY(clip_scale(s, &s->update.scale));
    s->update.scaled = true;
    return CT_OK;
}

/* For a pass that has begun already: the diff starts at zero. */
static enum ct_status update_and_clear(struct ct_solver *s, int i)
{
    CT_TRY(update_param(s, i));
    return ct_net_begin_diff(s->net, i);
}

enum ct_status solver_update_rate(struct ct_solver *s)
{
    float rate = 0;

    CT_TRY(solver_rate(s, &rate));
    s->next  = solver_update_at(s, rate);
    s->rated = true;
    return CT_OK;
}

enum ct_status solver_update_begin(struct ct_solver *s)
{
    if (!s->rated)
        CT_TRY(solver_update_rate(s));
    s->rated  = false;
    s->update = s->next;
    if (s->param->display && s->iter % s->param->display == 0)
        CT_INFO("Iteration %d, lr = %g", s->iter, (double)s->update.rate);
    s->last_rate = s->update.rate;
    s->iter++;
    if (s->options.exchange && s->options.exchange->remote) {
        s->update.end = s->update.first; /* servers do it */
        s->exchanged  = false;
    }
    return CT_OK;
}

/* Parameters lie in the order of their layers.  While the one that is needed
 * is under way, those of the last layers, which came first, take their turn. */
enum ct_status solver_update_layer(struct ct_solver *s, int layer)
{
    struct solver_update *u = &s->update;
    struct ct_exchange *x   = s->options.exchange;

    while (u->first < u->end &&
           ct_net_param(s->net, u->first)->layer <= layer) {
        CT_TRY(find_scale(s));
        while (u->first + 1 < u->end && !x->ready(x, u->first) &&
               x->ready(x, u->end - 1))
            CT_TRY(update_and_clear(s, --u->end));
        CT_TRY(update_and_clear(s, u->first++));
    }
    return CT_OK;
}

enum ct_status solver_update_all(struct ct_solver *s)
{
    struct solver_update *u = &s->update;

    if (u->first == u->end)
        return CT_OK;
    if (s->housed && !s->exchanged) {
        u->first = u->end;
        return solver_update_house(s);
    }
    CT_TRY(find_scale(s));
    if (s->device_update) {
        CT_TRY(update_on_device(s));
        u->first = u->end;
    }
    /* Last layers first: that is the order in which gradients arrive. */
    while (u->first < u->end)
        CT_TRY(update_param(s, --u->end));
    if (!s->gradients) /* otherwise they are in already */
        take_statistics_in(s);
    s->early_done = false;
    s->exchanged  = false;
    return CT_OK;
}

enum ct_status solver_updated(struct ct_solver *s)
{
    struct ct_exchange *x = s->options.exchange;

    if (!x || !x->updated)
        return CT_OK;
    x->rate = s->last_rate;
    return x->updated(x, s->iter);
}

enum ct_status ct_solver_apply_update(struct ct_solver *s)
{
    CT_TRY(solver_update_begin(s));
    CT_TRY(solver_update_all(s));
    return solver_updated(s);
}
