/* shared_params.c - one copy of parameters and histories for all ranks of a
 * host.
 *
 * Where the exchange has room for it, parameters that are learned and their
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
#include "net/arena.h"
#include "solver/solver_inner.h"

static bool fits(const struct ct_solver *s)
{
    return !solver_wants_mirror(s) && !solver_needs_norms(s) &&
           !s->param->debug_info; /* it reads what peers may be updating */
}

static enum ct_status share_with_tests(struct ct_solver *s)
{
    for (int i = 0; i < s->tests.n; i++)
        CT_TRY(ct_net_share_weights(s->tests.net[i], s->net));
    return CT_OK;
}

static void update_part(void *arg, size_t first, size_t n, const float *sum)
{
    const struct ct_solver *s          = arg;
    const struct ct_update_range range = { .first = first, .n = n, .sum = sum,
                                     .scale = s->options.exchange->facts.scale,
                                     .share = 1 };

    solver_apply(s, &s->due.next, s->histories, &range);
}

/* This rank's values are everybody's. */
static enum ct_status fill(const struct ct_solver *s)
{
    struct ct_buffer *const *to = s->peers.shared.array;

    const int64_t n = (int64_t)ct_net_arena_count(s->net);

    CT_TRY(ct_copy(s->options.device, n, ct_net_arena_data(s->net),
                   to[0]->ptr));
    for (int h = 0; h < s->rule->n_history; h++)
        CT_TRY(ct_copy(s->options.device, n, s->history[h]->ptr,
                       to[h + 1]->ptr));
    return CT_OK;
}

enum ct_status solver_enter_shared(struct ct_solver *s)
{
    struct ct_exchange *x = s->options.exchange;

    if (!s->peers.shared.array[0])
        return CT_OK;
    CT_TRY(x->job->meet(x)); /* nobody reads there any more */
    if (s->peers.shared.fills)
        CT_TRY(fill(s));
    CT_TRY(x->job->meet(x));
    CT_TRY(ct_net_share_values(s->net, s->peers.shared.array[0]));
    s->peers.shares_params = true;
    for (int h = 0; h < s->rule->n_history; h++) {
        ct_buffer_drop(s->history[h]);
        s->history[h]         = ct_buffer_use(s->peers.shared.array[h + 1]);
        s->histories[h] = s->history[h]->ptr;
    }
    return share_with_tests(s);
}

enum ct_status solver_leave_shared(struct ct_solver *s)
{
    const size_t n = ct_net_arena_count(s->net);

    if (!s->peers.shares_params)
        return CT_OK;
    CT_TRY(ct_net_share_values(s->net, NULL));
    for (int h = 0; h < s->rule->n_history; h++) {
        struct ct_buffer *own;

        CT_TRY(ct_buffer_create(s->options.device, n * sizeof(float),
                                "history", &own));
        CT_TRY(ct_copy(s->options.device, (int64_t)n, s->history[h]->ptr,
                       own->ptr));
        ct_buffer_drop(s->history[h]);
        s->history[h]         = own;
        s->histories[h] = own->ptr;
    }
    s->peers.shares_params = false;
    return share_with_tests(s);
}

void solver_drop_shared(struct ct_solver *s)
{
    for (int i = 0; i < CT_SHARED_ARRAYS; i++)
        ct_buffer_drop(s->peers.shared.array[i]);
    s->peers.shared = (struct ct_shared_params){ .fills = false };
}

static void leave(void *arg)
{
    struct ct_solver *s = arg;

    /* Without memory for its own it keeps using the shared ones. */
    if (solver_leave_shared(s) != CT_OK)
        CT_WARN("parameters stay in shared memory: %s", ct_last_error());
    solver_drop_shared(s);
}

enum ct_status solver_share_params(struct ct_solver *s)
{
    struct ct_exchange *x   = s->options.exchange;
    struct ct_params_user user = { 0, s, update_part, leave };

    if (!x || x->facts.size == 1)
        return CT_OK;
    if (fits(s))
        user.n_arrays = 1 + s->rule->n_history;
    CT_TRY(x->job->share(x, s->net, &user, &s->peers.shared));
    return solver_enter_shared(s);
}

enum ct_status solver_update_shared(struct ct_solver *s)
{
    struct ct_exchange *x = s->options.exchange;
    const size_t n        = ct_net_arena_count(s->net);
    const size_t size     = (size_t)x->facts.size;
    const size_t rank     = (size_t)x->facts.rank;
    const size_t first    = n * rank / size, end = n * (rank + 1) / size;

    CT_TRY(x->job->meet(x)); /* nobody reads the old ones any more */
    update_part(s, first, end - first, ct_net_arena_diff(s->net) + first);
    return x->job->meet(x);
}
