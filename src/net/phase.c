/* phase.c - selects the layers of a net for a phase, a level and stages.
 *
 * A layer without rules belongs to the net.  With `include` rules it belongs if
 * any of them fits; with `exclude` rules it does not if any fits; both kinds
 * together are refused.  A rule fits if everything that it names fits. */
#include "net/phase.h"

#include <string.h>

#include "base/mem.h"
#include "proto/edit.h"

static bool has_stage(const Caffe__NetState *state, const char *stage)
{
    for (size_t i = 0; i < state->n_stage; i++)
        if (strcmp(state->stage[i], stage) == 0)
            return true;
    return false;
}

static bool rule_fits(const Caffe__NetStateRule *rule,
                      const Caffe__NetState *state)
{
    if (rule->has_phase && rule->phase != state->phase)
        return false;
    if (rule->has_min_level && state->level < rule->min_level)
        return false;
    if (rule->has_max_level && state->level > rule->max_level)
        return false;
    for (size_t i = 0; i < rule->n_stage; i++)
        if (!has_stage(state, rule->stage[i]))
            return false;
    for (size_t i = 0; i < rule->n_not_stage; i++)
        if (has_stage(state, rule->not_stage[i]))
            return false;
    return true;
}

static bool any_fits(Caffe__NetStateRule *const *rule, size_t n,
                     const Caffe__NetState *state)
{
    for (size_t i = 0; i < n; i++)
        if (rule_fits(rule[i], state))
            return true;
    return false;
}

static enum ct_status drop(const Caffe__NetParameter *in,
                           const Caffe__NetState *state,
                           Caffe__NetParameter **out)
{
    Caffe__NetParameter *net;
    size_t i = 0;

    CT_TRY(ct_message_copy(in, &net));
    *out = net;
    while (i < net->n_layer) {
        const Caffe__LayerParameter *l = net->layer[i];
        bool in_net = l->n_include == 0 ||
                      any_fits(l->include, l->n_include, state);

        if (l->n_include && l->n_exclude)
            return ct_fail(CT_EINVAL, "layer %s: has both include and exclude "
                           "rules; use one kind", l->name ? l->name : "");
        if (l->n_exclude && any_fits(l->exclude, l->n_exclude, state))
            in_net = false;
        if (in_net)
            i++;
        else
            ct_edit_remove(&net->layer, &net->n_layer, i);
    }
    return CT_OK;
}

static enum ct_status net_state(const Caffe__NetParameter *param,
                                const struct ct_net_options *o,
                                Caffe__NetState *state, const char ***stages)
{
    size_t n_own = param->state ? param->state->n_stage : 0, n = 0;
    const char **list;

    CT_TRY(ct_alloc(n_own + (size_t)o->n_stage + 1, sizeof(*list), "stages",
                    &list));
    for (size_t i = 0; i < n_own; i++)
        list[n++] = param->state->stage[i];
    for (int i = 0; i < o->n_stage; i++)
        list[n++] = o->stage[i];
    *state = (Caffe__NetState)CAFFE__NET_STATE__INIT;
    state->has_phase = true;
    state->phase     = o->phase;
    state->level     = o->level;
    if (!o->level && param->state && param->state->has_level)
        state->level = param->state->level;
    state->stage   = (char **)(uintptr_t)list;
    state->n_stage = n;
    *stages        = list;
    return CT_OK;
}

enum ct_status net_filter(const Caffe__NetParameter *in,
                          const struct ct_net_options *options,
                          Caffe__NetParameter **out)
{
    Caffe__NetState state;
    const char **stages = NULL;
    enum ct_status st;

    CT_TRY(net_state(in, options, &state, &stages));
    st = drop(in, &state, out);
    ct_free(stages);
    return st;
}
