/* device_update.c - the update of all parameters on a GPU, in one launch.
 *
 * If gradients are clipped or losses are scaled (fp16), a pass over all
 * gradients comes first.  It decides on the device about the factor, and
 * whether the update is skipped.  The log shows its result two steps later. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "core/buffer.h"
#include "cortado/log.h"
#include "net/arena.h"
#include "net/training.h"
#include "solver/solver_inner.h"

static enum ct_update_rule rule_of(const char *name)
{
    static const struct {
        const char         *name;
        enum ct_update_rule rule;
    } rules[] = {
        { "SGD", CT_UPDATE_SGD },           { "LARS", CT_UPDATE_SGD },
        { "Nesterov", CT_UPDATE_NESTEROV }, { "AdaGrad", CT_UPDATE_ADAGRAD },
        { "RMSProp", CT_UPDATE_RMSPROP },   { "AdaDelta", CT_UPDATE_ADADELTA },
        { "Adam", CT_UPDATE_ADAM },         { "AdamW", CT_UPDATE_ADAMW },
    };

    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        if (strcmp(name, rules[i].name) == 0)
            return rules[i].rule;
    return CT_UPDATE_SGD;
}

/* The limit for the norm of gradients; -1: none.  Peers that hold gradients
 * back clip what they send. */
static float clip_of(const struct ct_solver *s)
{
    return s->options.exchange && s->options.exchange->facts.holds_back
               ? -1
               : s->param->clip_gradients;
}

/* Whether code that does not know the loss scale uses the gradients: servers,
 * and codecs that hold parts back. */
static bool is_for_others(const struct ct_solver *s)
{
    const struct ct_exchange *x = s->options.exchange;

    return x && !x->facts.whole;
}

/* The first loss scale; 0: losses are not scaled. */
static float first_scale(const struct ct_solver *s)
{
    const Caffe__NetParameter *p = ct_net_param_message(s->net);

    if (ct_device_dtype(s->options.device) != CT_F16 || is_for_others(s))
        return 0;
    return p->has_global_grad_scale && p->global_grad_scale > 0
               ? p->global_grad_scale
               : CT_LOSS_SCALE_FIRST;
}

void solver_device_scale(struct ct_solver *s)
{
    if (s->gpu.gradients && first_scale(s) > 0)
        ct_net_set_loss_scale(
            s->net, &ct_gradients_state(s->gpu.gradients)->loss_scale);
}

static enum ct_status init_gradients(struct ct_solver *s)
{
    const float scale = first_scale(s);

    if (ct_device_dtype(s->options.device) == CT_F16 && is_for_others(s))
        CT_WARN("losses are not scaled for fp16, because servers or a codec "
                "use the gradients: small ones are lost.  Use bf16");
    if (scale == 0 && clip_of(s) < 0)
        return CT_OK;
    CT_TRY(ct_gradients_create(s->options.device, scale, &s->gpu.gradients));
    if (scale > 0) {
        solver_device_scale(s);
        CT_INFO("Losses are scaled for fp16, by %g at first", (double)scale);
    }
    return CT_OK;
}

enum ct_status solver_device_init(struct ct_solver *s)
{
    int n = ct_net_n_params(s->net);

    if (s->options.device->kind == CT_CPU)
        return CT_OK;
    CT_TRY(ct_alloc((size_t)n + 1, sizeof(*s->gpu.runs), "update",
                    &s->gpu.runs));
    for (int i = 0; i < n; i++) {
        const struct ct_net_param *p = ct_net_param(s->net, i);

        s->gpu.runs[i].first = (int64_t)p->offset;
        s->gpu.runs[i].n     = solver_updates(s, i) ? p->blob->count : 0;
    }
    CT_TRY(init_gradients(s));
    return ct_update_create(s->options.device, rule_of(s->rule->name), n,
                            s->gpu.runs, &s->gpu.update);
}

void solver_device_fini(struct ct_solver *s)
{
    ct_update_destroy(s->gpu.update);
    ct_gradients_destroy(s->gpu.gradients);
    ct_free(s->gpu.runs);
}

enum ct_status solver_device_update(struct ct_solver *s,
                                    const struct rule_step *step)
{
    const double b1 = step->momentum, b2 = step->momentum2;
    const struct ct_update_step shared = {
        .scale      = step->scale,
        .momentum2  = step->momentum2,
        .delta      = step->delta,
        .rms_decay  = step->rms_decay,
        .correction = (float)(sqrt(1 - pow(b2, step->t)) /
                              (1 - pow(b1, step->t))),
    };

    CT_TRY(ct_update_set(s->gpu.update, s->gpu.runs, &shared));
    return ct_update_launch(
        s->gpu.update,
        s->gpu.gradients ? ct_gradients_state(s->gpu.gradients) : NULL,
        ct_net_arena_data(s->net), ct_net_arena_diff(s->net),
        s->history[0]->ptr, s->history[1] ? s->history[1]->ptr : NULL);
}

static void tell(struct ct_solver *s, const struct ct_gradient_state *state,
                 int step)
{
    if (state->skip)
        CT_WARN("Iteration %d: gradients are not finite and are left out; the "
                "loss scale is %g from here on", step,
                (double)state->loss_scale);
    else if (state->loss_scale != s->gpu.told_scale && s->gpu.told_scale != 0)
        CT_INFO("Iteration %d: the loss scale is %g from here on", step,
                (double)state->loss_scale);
    if (!state->skip && state->clip < 1)
        CT_INFO("Gradient clipping: scaling down gradients (L2 norm %g > %g) "
                "by scale factor %g", state->norm,
                (double)s->param->clip_gradients, (double)state->clip);
    s->gpu.told_scale = state->loss_scale;
}

enum ct_status solver_device_judge(struct ct_solver *s, float mean)
{
    struct ct_gradient_state state;
    int step;
    bool any;

    CT_TRY(ct_gradients_judge(
        s->gpu.gradients, (int64_t)ct_net_arena_count(s->net) - CT_ARENA_RIDERS,
        ct_net_arena_diff(s->net) + CT_ARENA_RIDERS, mean, clip_of(s)));
    CT_TRY(ct_gradients_note(s->gpu.gradients, s->due.now.t - 1, &state, &step,
                             &any));
    if (any)
        tell(s, &state, step);
    if (strcmp(s->rule->name, "LARS") == 0 || s->param->local_lr_auto ||
        s->param->larc) {
        CT_TRY(ct_gradients_get(s->gpu.gradients, &state));
        s->due.now.factor = state.factor;
    }
    return CT_OK;
}

enum ct_status solver_device_report(struct ct_solver *s)
{
    struct ct_gradient_state state;
    bool any = s->gpu.gradients;
    int step;

    while (any) {
        CT_TRY(ct_gradients_noted(s->gpu.gradients, &state, &step, &any));
        if (any)
            tell(s, &state, step);
    }
    return CT_OK;
}

static bool scales(const struct ct_solver *s)
{
    return s->gpu.gradients && first_scale(s) > 0;
}

enum ct_status solver_loss_scale_save(const struct ct_solver *s,
                                      const struct ct_keep *keep)
{
    struct ct_gradient_state state;
    float kept[2];

    if (!scales(s))
        return CT_OK;
    CT_TRY(ct_gradients_get(s->gpu.gradients, &state));
    kept[0] = state.loss_scale;
    kept[1] = (float)state.n_good;
    return keep->put(keep->arg, "loss_scale", 2, kept);
}

enum ct_status solver_loss_scale_restore(struct ct_solver *s,
                                         const struct ct_keep *keep)
{
    struct ct_gradient_state state;
    float kept[2];
    bool found;

    if (!scales(s))
        return CT_OK; /* a snapshot of another precision may have one */
    CT_TRY(keep->get(keep->arg, "loss_scale", 2, kept, &found));
    if (!found)
        return CT_OK;
    if (!(kept[0] > 0) || !isfinite(kept[0]) || !(kept[1] >= 0) ||
        !(kept[1] < CT_LOSS_SCALE_GOOD_STEPS))
        return ct_fail(CT_EPARSE, "it has a loss scale of %g after %g good "
                       "steps", (double)kept[0], (double)kept[1]);
    CT_TRY(ct_gradients_get(s->gpu.gradients, &state));
    state.loss_scale = kept[0];
    state.n_good     = (int32_t)kept[1];
    s->gpu.told_scale = kept[0];
    return ct_gradients_put(s->gpu.gradients, &state);
}

enum ct_status ct_solver_loss_scale(const struct ct_solver *s, float *out)
{
    struct ct_gradient_state state;

    *out = 0;
    if (!scales(s))
        return CT_OK;
    CT_TRY(ct_gradients_get(s->gpu.gradients, &state));
    *out = state.loss_scale;
    return CT_OK;
}
