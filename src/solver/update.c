/* update.c - one update of all parameters, in Caffe's order: rate, clipping
 * by the global norm, division by iter_size, weight decay, rule.
 *
 * Each parameter has a state.  An iteration makes all parameters due.  Each is
 * updated at once, or when the next forward pass reaches its layer. */
#include <math.h>
#include <string.h>

#include "base/pulse.h"
#include "base/trace.h"
#include "core/buffer.h"
#include "cortado/log.h"
#include "net/training.h"
#include "solver/solver_inner.h"

static enum ct_status squares(const struct ct_blob *b, const float *x,
                              double *out)
{
    return b->dev->ops->dot(b->dev, b->count, x, x, out);
}

/* The factor that turns a sum over ranks into the mean. */
static float mean_scale(const struct ct_solver *s)
{
    return s->options.exchange ? s->options.exchange->facts.scale : 1;
}

/* Waits for the summed gradient.  Gradients that the solver did not send are
 * summed by the caller. */
static enum ct_status arrived(const struct ct_solver *s, int param,
                              const float **sum)
{
    struct ct_exchange *x        = s->options.exchange;
    const struct ct_net_param *p = ct_net_param(s->net, param);

    *sum = ct_diff(p->blob);
    if (!s->peers.exchanged)
        return CT_OK;
    ct_pulse_set(x->facts.pulse, CT_PULSE_EXCHANGE,
                 ct_net_layer(s->net, p->layer)->name);
    CT_TRY(s->peers.mirror ? ct_mirror_arrive(s->peers.mirror, x, param)
                           : x->ops->wait(x, param, sum));
    ct_pulse_set(x->facts.pulse, CT_PULSE_UPDATE, NULL);
    return CT_OK;
}

/* The factor that brings the norm of all gradients down to clip_gradients. */
static enum ct_status clip_scale(const struct ct_solver *s, float *out)
{
    double sum = 0, part, norm;
    float clip = s->param->clip_gradients;
    const float *g;

    *out = 1;
    if (clip < 0 ||
        (s->options.exchange && s->options.exchange->facts.holds_back))
        return CT_OK;
    for (int i = 0; i < ct_net_n_params(s->net); i++) {
        const struct ct_net_param *p = ct_net_param(s->net, i);

        CT_TRY(arrived(s, i, &g));
        if (ct_layer_is_statistic(ct_net_layer(s->net, p->layer), p->index))
            continue; /* no gradient */
        CT_TRY(squares(p->blob, g, &part));
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
                                 const float *gradient, float scale,
                                 float *out)
{
    const Caffe__SolverParameter *sp = s->param;
    const float rate = s->due.now.rate;
    const float decay = sp->weight_decay * p->decay_mult;
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

/* Waits for the gradient of parameter i and computes the numbers of its
 * update. */
static enum ct_status prepare(struct ct_solver *s, int i, const float **g,
                              struct rule_step *out)
{
    const struct ct_net_param *p = ct_net_param(s->net, i);

    *out = solver_rule_step(s, i, &s->due.now, mean_scale(s));
    CT_TRY(arrived(s, i, g));
    if (!solver_updates(s, i))
        return CT_OK;
    return local_rate(s, p, *g, out->scale * s->due.now.factor, &out->rate);
}

/* On a GPU one launch updates all parameters. */
static enum ct_status update_on_device(struct ct_solver *s)
{
    const uint64_t start  = ct_trace_begin();
    struct rule_step step = { 0 };
    const float *g;

    for (int i = ct_net_n_params(s->net) - 1; i >= 0; i--) {
        struct ct_update_run *run = &s->gpu.runs[i];

        CT_TRY(prepare(s, i, &g, &step));
        run->rate     = step.rate;
        run->l2       = step.l2;
        run->l1       = step.l1;
        run->momentum = step.momentum;
        s->due.state[i] = SOLVER_CURRENT;
    }
    CT_TRY(solver_device_update(s, &step));
    ct_trace_end(start, CT_TRACE_UPDATE, "all parameters");
    return CT_OK;
}

static enum ct_status apply_param(struct ct_solver *s, int i)
{
    const struct ct_net_param *p = ct_net_param(s->net, i);
    struct rule_step step;
    struct ct_update_range range = { .first = p->offset,
                              .n     = (size_t)p->blob->count,
                              .scale = mean_scale(s),
                              .share = 1,
                              .rate  = &step.rate };
    uint64_t start;

    CT_TRY(prepare(s, i, &range.sum, &step));
    start = ct_trace_begin();
    solver_apply(s, &s->due.now, s->histories, &range);
    ct_trace_end(start, CT_TRACE_UPDATE, ct_net_layer(s->net, p->layer)->name);
    return CT_OK;
}

/* Brings parameter i up to date. */
static enum ct_status update_param(struct ct_solver *s, int i)
{
    const enum solver_param_state was = s->due.state[i];
    const float *sum;

    s->due.state[i] = SOLVER_CURRENT;
    return was == SOLVER_DUE         ? apply_param(s, i)
           : was == SOLVER_ELSEWHERE ? arrived(s, i, &sum)
                                     : CT_OK;
}

/* In canonical training the statistics of all micro-batches arrive with the
 * gradients; layers take them from there. */
static void take_statistics_in(struct ct_solver *s)
{
    const struct ct_exchange *x = s->options.exchange;

    for (int i = 0; x && x->facts.micro && i < ct_net_n_layers(s->net); i++) {
        struct ct_layer *l = ct_net_layer(s->net, i);

        if (l->type->take_in)
            l->type->take_in(l, x->facts.scale);
    }
}

/* Statistics travel with the gradients and are not part of their norm. */
static enum ct_status set_statistics_aside(struct ct_solver *s)
{
    const struct ct_exchange *x = s->options.exchange;

    if (!x || !x->facts.micro)
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

/* On a GPU: waits for all gradients and computes their factor. */
static enum ct_status judge_on_device(struct ct_solver *s)
{
    const float *g;

    for (int i = 0; i < ct_net_n_params(s->net); i++)
        CT_TRY(arrived(s, i, &g));
    CT_TRY(set_statistics_aside(s));
    return solver_device_judge(s, mean_scale(s));
}

/* Clipping needs the norm of all gradients before the first update. */
static enum ct_status find_scale(struct ct_solver *s)
{
    if (!s->due.now.scaled && s->gpu.gradients)
        CT_TRY(judge_on_device(s));
    else if (!s->due.now.scaled)
        CT_TRY(clip_scale(s, &s->due.now.scale));
    s->due.now.scaled = true;
    return CT_OK;
}

/* The pass has begun already, so its diff must be cleared. */
static enum ct_status update_and_clear(struct ct_solver *s, int i)
{
    CT_TRY(update_param(s, i));
    return ct_net_begin_diff(s->net, i);
}

enum ct_status solver_update_rate(struct ct_solver *s)
{
    float rate = 0;

    if (s->due.next.t == s->iter + 1)
        return CT_OK;
    CT_TRY(solver_rate(s, &rate));
    s->due.next = solver_update_at(s, rate);
    return CT_OK;
}

/* Sets the state of every parameter for this iteration. */
static void make_due(struct ct_solver *s)
{
    const struct ct_exchange *x = s->options.exchange;
    const bool by_peers         = s->peers.shares_params && s->peers.exchanged;

    s->due.first = 0;
    s->due.end   = ct_net_n_params(s->net);
    for (int i = 0; i < s->due.end; i++)
        s->due.state[i] = s->due.state[i] == SOLVER_EARLY ? SOLVER_CURRENT
                          : by_peers                      ? SOLVER_ELSEWHERE
                                                          : SOLVER_DUE;
    if (x && x->facts.remote) { /* servers update; fetch gets the results */
        s->due.end         = 0;
        s->peers.exchanged = false;
    }
}

enum ct_status solver_update_begin(struct ct_solver *s)
{
    CT_TRY(solver_update_rate(s));
    s->due.now = s->due.next;
    if (s->param->display && s->iter % s->param->display == 0)
        CT_INFO("Iteration %d, lr = %g", s->iter, (double)s->due.now.rate);
    s->last_rate = s->due.now.rate;
    s->iter++;
    make_due(s);
    return CT_OK;
}

bool solver_is_due(const struct ct_solver *s)
{
    return s->due.first < s->due.end;
}

void solver_update_drop(struct ct_solver *s)
{
    s->due.first = s->due.end = 0;
    s->peers.exchanged        = false;
}

/* Parameters are in the order of their layers.  While the required one has not
 * arrived, those of the last layers, which were sent first, are updated. */
enum ct_status solver_update_layer(struct ct_solver *s, int layer)
{
    struct ct_exchange *x = s->options.exchange;

    while (solver_is_due(s) &&
           ct_net_param(s->net, s->due.first)->layer <= layer) {
        CT_TRY(find_scale(s));
        while (s->due.first + 1 < s->due.end &&
               !x->ops->ready(x, s->due.first) &&
               x->ops->ready(x, s->due.end - 1))
            CT_TRY(update_and_clear(s, --s->due.end));
        CT_TRY(update_and_clear(s, s->due.first++));
    }
    return CT_OK;
}

enum ct_status solver_update_all(struct ct_solver *s)
{
    if (!solver_is_due(s))
        return CT_OK;
    CT_TRY(solver_be_alone(s));
    if (s->peers.shares_params && !s->peers.exchanged) {
        solver_update_drop(s);
        return solver_update_shared(s);
    }
    CT_TRY(find_scale(s));
    if (s->gpu.update) {
        CT_TRY(update_on_device(s));
        s->due.first = s->due.end;
    }
    /* Last layers first: that is the order in which gradients arrive. */
    while (solver_is_due(s))
        CT_TRY(update_param(s, --s->due.end));
    if (!s->gpu.gradients) /* otherwise judge_on_device() has done it */
        take_statistics_in(s);
    solver_swap_shared(s);
    s->peers.exchanged = false;
    return CT_OK;
}

enum ct_status solver_updated(struct ct_solver *s)
{
    struct ct_exchange *x = s->options.exchange;

    return x ? x->ops->updated(x, s->iter, s->last_rate) : CT_OK;
}

enum ct_status ct_solver_apply_update(struct ct_solver *s)
{
    if (solver_commits(s))
        return ct_fail(CT_ENOTSUP, "an elastic job updates in whole "
                       "iterations: use ct_solver_step()");
    CT_TRY(solver_update_begin(s));
    CT_TRY(solver_update_all(s));
    return solver_updated(s);
}
