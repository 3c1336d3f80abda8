/* apply.c - the update rules, and the one way to apply them: a range of the
 * arena, its gradient and the solver's rule.
 *
 *     g = scale dw + l2 w + l1 sign(w)         (AdamW: l2 acts apart)
 *
 *     SGD       h = mu h + r g                  w -= h
 *     Nesterov  h' = mu h + r g                 w -= (1+mu) h' - mu h
 *     AdaGrad   h += g^2                        w -= r g / (sqrt(h) + d)
 *     RMSProp   h = rho h + (1-rho) g^2         w -= r g / (sqrt(h) + d)
 *     AdaDelta  h = mu h + (1-mu) g^2
 *               u = g sqrt((q + d) / (h + d))   w -= r u
 *               q = mu q + (1-mu) u^2
 *     Adam      m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2
 *               w -= r sqrt(1-b2^t) / (1-b1^t) m / (sqrt(v) + d)
 *     AdamW     as Adam, then w -= r l2 w
 *
 * r is the rate, mu momentum, d delta, rho rms_decay, b1 momentum, b2
 * momentum2.  The history of SGD and Nesterov includes the rate, as in Caffe.
 *
 * Callers apply the rule to different ranges: whole parameters (update.c),
 * slices while the gradient is computed (early.c), parts of the copy that the
 * ranks of a host share (shared_params.c), slices that a server keeps (end of
 * this file).  On a GPU one launch updates all parameters with the same numbers
 * (device_update.c). */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "core/buffer.h"
#include "device/cpu/loop.h"
#include "device/cpu/simd.h"
#include "solver/solver_inner.h"

CT_INLINE float sign(float w)
{
    return (float)((w > 0) - (w < 0));
}

/* `s` is a local copy of the caller, so the compiler knows that writes to w do
 * not change it. */
CT_INLINE float gradient(const struct rule_step *s, int64_t i)
{
    return s->scale * s->g[i] + s->l2 * s->old_w[i] + s->l1 * sign(s->old_w[i]);
}

CT_SIMD static void sgd(const struct rule_step *step, int64_t from,
                        int64_t to)
{
    const struct rule_step s = *step;
    const float *old = s.old[0], *old_w = s.old_w;
    float *h = s.history[0], *w = s.w;

    CT_SIMD_FROM (i, from, to) {
        h[i] = s.momentum * old[i] + s.rate * gradient(&s, i);
        w[i] = old_w[i] - h[i];
    }
}

CT_SIMD static void nesterov(const struct rule_step *step, int64_t from,
                             int64_t to)
{
    const struct rule_step s = *step;
    const float *old_h = s.old[0], *old_w = s.old_w;
    float *h = s.history[0], *w = s.w;

    CT_SIMD_FROM (i, from, to) {
        float old = old_h[i];

        h[i] = s.momentum * old + s.rate * gradient(&s, i);
        w[i] = old_w[i] - ((1 + s.momentum) * h[i] - s.momentum * old);
    }
}

CT_SIMD static void adagrad(const struct rule_step *step, int64_t from,
                            int64_t to)
{
    const struct rule_step s = *step;
    const float *old = s.old[0], *old_w = s.old_w;
    float *h = s.history[0], *w = s.w;

    CT_SIMD_FROM (i, from, to) {
        float g = gradient(&s, i);

        h[i] = old[i] + g * g;
        w[i] = old_w[i] - s.rate * g / (sqrtf(h[i]) + s.delta);
    }
}

CT_SIMD static void rmsprop(const struct rule_step *step, int64_t from,
                            int64_t to)
{
    const struct rule_step s = *step;
    const float *old = s.old[0], *old_w = s.old_w;
    float *h = s.history[0], *w = s.w;

    CT_SIMD_FROM (i, from, to) {
        float g = gradient(&s, i);

        h[i] = s.rms_decay * old[i] + (1 - s.rms_decay) * g * g;
        w[i] = old_w[i] - s.rate * g / (sqrtf(h[i]) + s.delta);
    }
}

CT_SIMD static void adadelta(const struct rule_step *step, int64_t from,
                             int64_t to)
{
    const struct rule_step s = *step;
    const float *old_h = s.old[0], *old_q = s.old[1], *old_w = s.old_w;
    float *h = s.history[0], *q = s.history[1], *w = s.w;

    CT_SIMD_FROM (i, from, to) {
        float g = gradient(&s, i), old = old_q[i], u;

        h[i] = s.momentum * old_h[i] + (1 - s.momentum) * g * g;
        u    = g * sqrtf((old + s.delta) / (h[i] + s.delta));
        q[i] = s.momentum * old + (1 - s.momentum) * u * u;
        w[i] = old_w[i] - s.rate * u;
    }
}

/* shrink: the weight decay of AdamW; 1 for Adam, whose l2 is part of the
 * gradient. */
CT_INLINE void adam_with(struct rule_step s, float shrink, int64_t from,
                         int64_t to)
{
    const float b1 = s.momentum, b2 = s.momentum2;
    const float rate = (float)((double)s.rate * sqrt(1 - pow(b2, s.t)) /
                               (1 - pow(b1, s.t)));
    const float *old_m = s.old[0], *old_v = s.old[1], *old_w = s.old_w;
    float *m = s.history[0], *v = s.history[1], *w = s.w;

    CT_SIMD_FROM (i, from, to) {
        float g = gradient(&s, i);

        m[i] = b1 * old_m[i] + (1 - b1) * g;
        v[i] = b2 * old_v[i] + (1 - b2) * g * g;
        w[i] = shrink * old_w[i] - rate * m[i] / (sqrtf(v[i]) + s.delta);
    }
}

CT_SIMD static void adam(const struct rule_step *step, int64_t from,
                         int64_t to)
{
    adam_with(*step, 1, from, to);
}

CT_SIMD static void adamw(const struct rule_step *step, int64_t from,
                          int64_t to)
{
    struct rule_step apart = *step;

    apart.l2 = 0;
    adam_with(apart, 1 - step->rate * step->l2, from, to);
}

static const struct solver_rule rules[] = {
    { "SGD", 1, false, false, sgd },
    { "Nesterov", 1, false, false, nesterov },
    { "AdaGrad", 1, true, true, adagrad },
    { "RMSProp", 1, true, true, rmsprop },
    { "AdaDelta", 2, false, true, adadelta },
    { "Adam", 2, false, true, adam },
    { "AdamW", 2, false, true, adamw },
    { "LARS", 1, false, false, sgd },
};

const struct solver_rule *solver_rule_find(const char *name)
{
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        if (strcmp(rules[i].name, name) == 0)
            return &rules[i];
    return NULL;
}

/* ---- Ranges of the arena ---- */

/* The history holds lr times gradients.  While the rate grows in warm-up, the
 * history must grow with it, or the first steps count too little. */
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

/* Whether the exchange holds parts of this gradient back.  Such a gradient has
 * momentum already. */
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

    if (held) /* momentum would multiply the decay by 1 / (1 - mu) */
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

/* If each rank's gradient is applied as 1/P of an update, P of them together
 * must have the effect of one update.  Momentum then acts P times, so it is
 * mu^(1/P), and the rate r / P (1 - mu^(1/P)) / (1 - mu) moves parameters
 * equally far. */
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

/* Where the update of a range reads and writes.  Histories are laid out as the
 * arena, and so is the other copy. */
struct places {
    float *const               *history;
    const struct solver_copies *copies; /* NULL: in place */
};

/* One thread updates a row, which fits into its first-level cache. */
static void each_row(const struct solver_rule *rule, const struct rule_step *s)
{
    enum { ROW = 4096 };

    CT_FOR_ROWS (r, (s->n + ROW - 1) / ROW, ROW) {
        const int64_t from = r * ROW;

        rule->update(s, from, from + ROW < s->n ? from + ROW : s->n);
    }
}

static void apply_part(const struct ct_solver *s,
                       const struct solver_update *u, const struct places *at,
                       const struct ct_update_range *r, int param)
{
    const struct ct_net_param *p   = ct_net_param(s->net, param);
    const struct solver_copies *to = at->copies;
    struct rule_step step;
    size_t from = p->offset > r->first ? p->offset : r->first;
    size_t end  = p->offset + (size_t)p->blob->count;
    float *here;

    if (end > r->first + r->n)
        end = r->first + r->n;
    if (from >= end || !solver_updates(s, param))
        return;
    step = solver_rule_step(s, param, u, r->scale);
    if (r->rate)
        step.rate = *r->rate;
    take_share(s, r->share, &step);
    here       = r->value ? r->value + (from - r->first)
                          : ct_data(p->blob) + (from - p->offset);
    step.n     = (int64_t)(end - from);
    step.old_w = to ? to->from[0] + from : here;
    step.w     = to ? to->to[0] + from : here;
    step.g     = r->sum + (from - r->first);
    for (int h = 0; h < s->rule->n_history; h++) {
        step.old[h]     = to ? to->from[1 + h] + from : at->history[h] + from;
        step.history[h] = to ? to->to[1 + h] + from : at->history[h] + from;
    }
    each_row(s->rule, &step);
}

static void apply(const struct ct_solver *s, const struct solver_update *u,
                  const struct places *at, const struct ct_update_range *r)
{
    for (int i = 0; i < ct_net_n_params(s->net); i++)
        apply_part(s, u, at, r, i);
}

void solver_apply(const struct ct_solver *s, const struct solver_update *u,
                  float *const *history, const struct ct_update_range *r)
{
    apply(s, u, &(struct places){ .history = history }, r);
}

/* Does the rule change every float of the range? */
static bool changes_all(const struct ct_solver *s,
                        const struct ct_update_range *r)
{
    for (int i = 0; i < ct_net_n_params(s->net); i++) {
        const struct ct_net_param *p = ct_net_param(s->net, i);

        if (r->first >= p->offset &&
            r->first + r->n <= p->offset + (size_t)p->blob->count)
            return solver_updates(s, i);
    }
    return false;
}

void solver_apply_to(const struct ct_solver *s, const struct solver_update *u,
                     const struct solver_copies *c,
                     const struct ct_update_range *r)
{
    const bool whole = changes_all(s, r);

    for (int i = 0; i <= s->rule->n_history && !whole; i++)
        memcpy(c->to[i] + r->first, c->from[i] + r->first,
               r->n * sizeof(float));
    apply(s, u, &(struct places){ .copies = c }, r);
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

/* ---- Servers
 *
 * A server has a run of the arena: its values and the sum of its gradients.  It
 * updates them by the solver's rule, rates and histories, on the comm thread.
 * The compute thread may be iterations ahead or behind.  So the server counts
 * iterations and computes rates in a copy of the solver, which shares only
 * constants and histories with the original.  All arrays are in CPU memory,
 * even if ranks train on GPUs. */

/* The iterations of any two runs of the arena differ by less than this. */
enum { KEPT = 64 };

struct solver_remote {
    const struct ct_solver *of;
    struct ct_solver solver; /* a copy; its iter is the first without a rate */
    float           *history[2]; /* borrowed */
    float            rate[KEPT], before[KEPT]; /* per iteration, modulo KEPT */
    bool             one_thread; /* the comm thread computes on one thread */
};

/* The rate of iteration `iter`, and the rate of the iteration before. */
static enum ct_status rate_at(struct solver_remote *r, int iter, float *rate,
                              float *before)
{
    struct ct_solver *s = &r->solver;

    if (iter < s->iter - KEPT)
        return ct_fail(CT_EINTERNAL, "an update of iteration %d came when "
                       "another part was at %d", iter, s->iter);
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

static enum ct_status update(void *arg, int iter,
                             const struct ct_update_range *range)
{
    struct solver_remote *r = arg;
    struct ct_solver at     = r->solver;
    struct solver_update with;
    float rate = 0;

    /* The compute thread uses the other cores. */
    if (!r->one_thread)
        ct_device_cpu_set_threads(1);
    r->one_thread = true;
    CT_TRY(rate_at(r, iter, &rate, &at.last_rate));
    at.iter = iter;
    with    = solver_update_at(&at, rate);
    solver_apply(&at, &with, r->history, range);
    return CT_OK;
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

    /* The server keeps its own pointers: those of the updater may change when
     * this rank is asked for more steps, while the last gradients of others
     * still arrive. */
    r->solver = *r->of;
    memcpy(r->history, r->of->peers.updater.history, sizeof(r->history));
}

enum ct_status solver_remote_start(struct ct_solver *s, struct ct_updater *out)
{
    CT_TRY(check(s));
    if (!s->peers.remote)
        CT_TRY(ct_alloc(1, sizeof(*s->peers.remote), "remote updates",
                        &s->peers.remote));
    s->peers.remote->of = s;
    out->arg            = s->peers.remote;
    out->begin    = begin;
    out->update   = update;
    return CT_OK;
}

void solver_remote_stop(struct ct_solver *s)
{
    ct_free(s->peers.remote);
    s->peers.remote = NULL;
}
