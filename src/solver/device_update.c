/* device_update.c - the update of all parameters on a GPU, in one launch. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "core/buffer.h"
#include "solver/solver.h"

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

enum ct_status solver_device_init(struct ct_solver *s)
{
    int n = ct_net_n_params(s->net);

    if (s->options.device->kind == CT_CPU)
        return CT_OK;
    CT_TRY(ct_alloc((size_t)n + 1, sizeof(*s->runs), "update", &s->runs));
    for (int i = 0; i < n; i++) {
        const struct ct_net_param *p = ct_net_param(s->net, i);

        s->runs[i].first = (int64_t)p->offset;
        s->runs[i].n     = p->lr_mult != 0 ? p->blob->count : 0;
    }
    return ct_update_create(s->options.device, rule_of(s->rule->name), n,
                            s->runs, &s->device_update);
}

void solver_device_fini(struct ct_solver *s)
{
    ct_update_destroy(s->device_update);
    ct_free(s->runs);
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

    CT_TRY(ct_update_set(s->device_update, s->runs, &shared));
    return ct_update_launch(s->device_update, ct_net_arena_data(s->net),
                            ct_net_arena_diff(s->net), s->history[0]->ptr,
                            s->history[1] ? s->history[1]->ptr : NULL);
}
