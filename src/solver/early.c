/* early.c - updates large parameters while their gradient is computed.
 *
 * Writing, reading and clearing the gradient of a large inner product costs
 * more than computing it, and it takes as much memory as the parameter.  If
 * nothing else reads it, slices of it are passed to the update rule as soon as
 * they are computed (struct ct_sink) and are never stored.
 *
 * This needs a solver that trains alone on the CPU with iter_size 1, an update
 * without norms of gradients (no clipping, LARS or LARC), and no reader of
 * gradients (keep_blobs, debug_info, snapshot_diff).  The result is the same as
 * that of an update after the pass.  CORTADO_IMPL=update:late stores all
 * gradients; update:early stores none of inner products, even of small
 * ones. */
#include <string.h>

#include "base/mem.h"
#include "core/buffer.h"
#include "device/impl.h"
#include "solver/solver_inner.h"

enum { LARGE = 1 << 20 }; /* least values of a parameter for which this is
                           * faster */

static void take(const struct ct_sink *sink, int64_t first, int64_t n,
                 const float *g)
{
    const struct solver_early *e =
        (const struct solver_early *)(const void *)sink;
    const struct ct_solver *s    = e->solver;
    const struct ct_net_param *p = ct_net_param(s->net, e->param);

    solver_apply(s, &s->due.next, s->histories,
                 &(struct ct_update_range){ .first = p->offset + (size_t)first,
                                     .n = (size_t)n, .sum = g, .scale = 1,
                                     .share = 1 });
}

static bool solver_allows(const struct ct_solver *s)
{
    const Caffe__SolverParameter *p = s->param;

    return !s->options.exchange && !s->options.keep_blobs &&
           s->options.device->kind == CT_CPU && p->iter_size == 1 &&
           p->clip_gradients < 0 && !p->debug_info && !p->snapshot_diff &&
           !p->local_lr_auto && !p->larc &&
           strcmp(s->rule->name, "LARS") != 0 &&
           ct_impl_allowed("update", "early");
}

static bool takes(const struct ct_solver *s, const struct ct_net_param *p)
{
    const struct ct_layer *l = ct_net_layer(s->net, p->layer);
    const bool forced        = !ct_impl_allowed("update", "late");

    return (l->flags & CT_LAYER_SINKS) && p->index == 0 && p->n_sharers == 1 &&
           l->blob_wants_grad[0] && p->lr_mult != 0 &&
           ct_net_layer_needs_backward(s->net, p->layer) &&
           (forced || p->blob->count >= LARGE);
}

static void set_sinks(struct ct_solver *s, bool on)
{
    for (int i = 0; i < ct_net_n_params(s->net); i++)
        if (s->due.early[i].solver)
            ct_net_layer(s->net, ct_net_param(s->net, i)->layer)->sink =
                on ? &s->due.early[i].sink : NULL;
}

enum ct_status solver_early_init(struct ct_solver *s)
{
    const int n = ct_net_n_params(s->net);
    bool any    = false;
    enum ct_status st;

    if (!solver_allows(s))
        return CT_OK;
    CT_TRY(ct_alloc((size_t)n + 1, sizeof(*s->due.early), "early updates",
                    &s->due.early));
    for (int i = 0; i < n; i++) {
        const struct ct_net_param *p = ct_net_param(s->net, i);

        if (!takes(s, p))
            continue;
        s->due.early[i] = (struct solver_early){ { take, NULL }, s, i };
        any         = true;
    }
    if (!any) {
        solver_early_fini(s);
        return CT_OK;
    }
    set_sinks(s, true);
    st = ct_net_reshape(s->net); /* makes room for slices */
    set_sinks(s, false);
    return st;
}

enum ct_status solver_early_begin(struct ct_solver *s)
{
    if (!s->due.early || s->listeners.inspecting)
        return CT_OK;
    CT_TRY(solver_update_rate(s));
    set_sinks(s, true);
    return CT_OK;
}

void solver_early_end(struct ct_solver *s)
{
    if (!s->due.early || s->listeners.inspecting)
        return;
    set_sinks(s, false);
    for (int i = 0; i < ct_net_n_params(s->net); i++)
        if (s->due.early[i].solver)
            s->due.state[i] = SOLVER_EARLY;
}

void solver_early_fini(struct ct_solver *s)
{
    ct_free(s->due.early);
    s->due.early = NULL;
}
