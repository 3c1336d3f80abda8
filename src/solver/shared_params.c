/* shared_params.c - one copy of parameters and histories for all ranks of a
 * host.
 *
 * Where the exchange has a house, parameters that are learned and their
 * histories lie in memory that all ranks see, and each rank updates a part of
 * them with the sum of everyone's gradients, by the solver's own rule.  So a
 * host holds the model once, and an update is done once, not by each rank.
 *
 * Parts are updated while the backward pass is still at layers below: all
 * ranks are past the layers that read them.  The next forward pass waits for
 * what its layers need.  Who writes to parameters outside of an update must
 * know that peers see it; all ranks meet before and after. */
#include "core/buffer.h"
#include "cortado/log.h"
#include "solver/solver.h"

static bool fits(const struct ct_solver *s)
{
    return !solver_wants_mirror(s) && !solver_needs_norms(s) &&
           !s->param->debug_info; /* it reads what peers may be updating */
}

static enum ct_status share_with_tests(struct ct_solver *s)
{
    for (int i = 0; i < s->n_test_net; i++)
        CT_TRY(ct_net_share_weights(s->test_net[i], s->net));
    return CT_OK;
}

static void update_part(void *arg, size_t first, size_t n, const float *sum)
{
    const struct ct_solver *s = arg;
    const struct ct_remote_step step = { first, n, s->iter, NULL, sum,
                                         s->options.exchange->scale, 1 };

    solver_update_run(s, &s->next, s->options.exchange->updater.history,
                      &step);
}

/* This rank's values are everybody's. */
static enum ct_status fill(const struct ct_solver *s)
{
    struct ct_buffer *const *to = s->house.array;

    const int64_t n = (int64_t)ct_net_arena_count(s->net);

    CT_TRY(ct_copy(s->options.device, n, ct_net_arena_data(s->net),
                   to[0]->ptr));
    for (int h = 0; h < s->rule->n_history; h++)
        CT_TRY(ct_copy(s->options.device, n, s->history[h]->ptr,
                       to[h + 1]->ptr));
    return CT_OK;
}

enum ct_status solver_enter_house(struct ct_solver *s)
{
    struct ct_exchange *x = s->options.exchange;

    if (!s->house.array[0])
        return CT_OK;
    CT_TRY(x->meet(x)); /* nobody reads there any more */
    if (s->house.fills)
        CT_TRY(fill(s));
    CT_TRY(x->meet(x));
    CT_TRY(ct_net_house_values(s->net, s->house.array[0]));
    s->housed = true;
    for (int h = 0; h < s->rule->n_history; h++) {
        ct_buffer_drop(s->history[h]);
        s->history[h] = ct_buffer_use(s->house.array[h + 1]);
    }
    return share_with_tests(s);
}

enum ct_status solver_leave_house(struct ct_solver *s)
{
    const size_t n = ct_net_arena_count(s->net);

    if (!s->housed)
        return CT_OK;
    CT_TRY(ct_net_house_values(s->net, NULL));
    for (int h = 0; h < s->rule->n_history; h++) {
        struct ct_buffer *own;

        CT_TRY(ct_buffer_create(s->options.device, n * sizeof(float),
                                "history", &own));
        CT_TRY(ct_copy(s->options.device, (int64_t)n, s->history[h]->ptr,
                       own->ptr));
        ct_buffer_drop(s->history[h]);
        s->history[h] = own;
    }
    s->housed = false;
    return share_with_tests(s);
}

void solver_drop_house(struct ct_solver *s)
{
    for (int i = 0; i < CT_HOUSE_MOST; i++)
        ct_buffer_drop(s->house.array[i]);
    s->house = (struct ct_house){ .fills = false };
}

static void evict(void *arg)
{
    struct ct_solver *s = arg;

    /* Without memory for its own it keeps using the house's. */
    if (solver_leave_house(s) != CT_OK)
        CT_WARN("parameters stay in shared memory: %s", ct_last_error());
    solver_drop_house(s);
}

enum ct_status solver_find_house(struct ct_solver *s)
{
    struct ct_exchange *x   = s->options.exchange;
    struct ct_tenant tenant = { 0, s, update_part, evict };

    if (!x || !x->house || x->size == 1)
        return CT_OK;
    if (fits(s))
        tenant.n_arrays = 1 + s->rule->n_history;
    CT_TRY(x->house(x, s->net, &tenant, &s->house));
    return solver_enter_house(s);
}

enum ct_status solver_update_house(struct ct_solver *s)
{
    struct ct_exchange *x = s->options.exchange;
    const size_t n        = ct_net_arena_count(s->net);
    const size_t first    = n * (size_t)x->rank / (size_t)x->size;
    const size_t end      = n * (size_t)(x->rank + 1) / (size_t)x->size;

    CT_TRY(x->meet(x)); /* nobody reads the old ones any more */
    update_part(s, first, end - first, ct_net_arena_diff(s->net) + first);
    return x->meet(x);
}
