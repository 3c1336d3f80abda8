/* shared_params.c - parameters and histories in memory that all ranks of a host
 * share.
 *
 * If the exchange offers it, learned parameters and their histories are in
 * memory that all ranks share.  Each rank updates a part of them with the
 * summed gradients, by the solver's own rule.  So a host holds the model once
 * and updates it once.
 *
 * A part is updated during the backward pass, when all ranks are past the
 * layers that read it.  The next forward pass waits for the parameters of its
 * layers.  Code that writes to parameters outside of an update changes them for
 * all ranks; all ranks must meet before and after.
 *
 * In elastic jobs there are two copies.  Nobody changes the current one;
 * updates are written to the next one.  When all ranks have all of it, the
 * iteration counts, and the next copy becomes the current one on each rank.  A
 * rank may be lost in the middle of a piece, or be taken for lost and continue:
 * it writes only to a copy that the others do not read.  When a view ends,
 * ranks keep reading the current copy.  In the next view they go on with both
 * copies, if nobody else can write there any more; otherwise they copy it once
 * to other shared memory, each rank that has it a part.  An update of the next
 * iteration writes to the copy in which this iteration began, but only after
 * every rank has posted gradients for it; then no rank can have to go back. */
#include <string.h>

#include "core/buffer.h"
#include "cortado/log.h"
#include "net/arena.h"
#include "solver/solver_inner.h"

bool solver_fits_shared(const struct ct_solver *s)
{
    return !solver_wants_mirror(s) && !solver_needs_norms(s) &&
           !s->param->debug_info; /* it reads what peers may be updating */
}

enum ct_status solver_share_with_tests(struct ct_solver *s)
{
    for (int i = 0; i < s->tests.n; i++)
        CT_TRY(ct_net_share_weights(s->tests.net[i], s->net));
    return CT_OK;
}

static void update_part(void *arg, size_t first, size_t n, const float *sum)
{
    const struct ct_solver *s          = arg;
    const struct ct_shared_params *all = &s->peers.shared;
    const struct ct_update_range range = {
        .first = first, .n = n, .sum = sum,
        .scale = s->options.exchange->facts.scale, .share = 1 };
    struct solver_copies copies;

    if (!all->next[0]) {
        solver_apply(s, &s->due.next, s->histories, &range);
        return;
    }
    for (int i = 0; i <= s->rule->n_history; i++) {
        copies.from[i] = all->array[i]->ptr;
        copies.to[i]   = all->next[i]->ptr;
    }
    solver_apply_to(s, &s->due.next, &copies, &range);
}

static void use_histories(struct ct_solver *s)
{
    for (int h = 0; h < s->rule->n_history; h++) {
        ct_buffer_drop(s->history[h]);
        s->history[h]   = ct_buffer_use(s->peers.shared.array[h + 1]);
        s->histories[h] = s->history[h]->ptr;
    }
}

void solver_swap_shared(struct ct_solver *s)
{
    struct ct_shared_params *all = &s->peers.shared;

    if (!s->peers.shares_params || !all->next[0])
        return;
    for (int i = 0; i <= s->rule->n_history; i++) {
        struct ct_buffer *was = all->array[i];

        all->array[i] = all->next[i];
        all->next[i]  = was;
    }
    ct_net_swap_values(s->net, all->array[0]);
    use_histories(s);
}

/* This rank's part of the values becomes everybody's: of ranks that have all of
 * them each brings its part, or rank 0 brings all.  The next copy is written by
 * the first update, all of it. */
static enum ct_status fill(const struct ct_solver *s)
{
    const struct ct_exchange_facts *f = &s->options.exchange->facts;
    struct ct_buffer *const *to       = s->peers.shared.array;
    const size_t n      = ct_net_arena_count(s->net);
    const size_t n_have = (size_t)f->n_have;
    const size_t rank   = (size_t)f->rank;
    const size_t first  = n * rank / n_have, end = n * (rank + 1) / n_have;

    if (rank >= n_have)
        return CT_OK;
    for (int i = 0; i <= s->rule->n_history; i++)
        CT_TRY(ct_copy(s->options.device, (int64_t)(end - first),
                       (i == 0 ? ct_net_arena_data(s->net)
                               : s->history[i - 1]->ptr) + first,
                       to[i]->ptr + first));
    return CT_OK;
}

enum ct_status solver_enter_shared(struct ct_solver *s)
{
    struct ct_exchange *x = s->options.exchange;

    if (!s->peers.shared.array[0])
        return CT_OK;
    if (!s->peers.shared.kept) {
        CT_TRY(x->job->meet(x)); /* nobody reads there any more */
        CT_TRY(fill(s));
        CT_TRY(x->job->meet(x));
    }
    CT_TRY(ct_net_share_values(s->net, s->peers.shared.array[0]));
    s->peers.shares_params = true;
    use_histories(s);
    return solver_share_with_tests(s);
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
    return solver_share_with_tests(s);
}

enum ct_status solver_keep_alone(struct ct_solver *s)
{
    struct ct_exchange *x  = s->options.exchange;
    struct ct_buffer *diff = NULL;

    if (!s->peers.shares_params || x->facts.size > 1 ||
        !x->job->keep_alone(x, s->net, &diff))
        return CT_OK;
    ct_net_lend_diffs(s->net, diff);
    ct_buffer_drop(diff);
    CT_TRY(ct_net_keep_values(s->net));
    s->peers.shares_params = false;
    return solver_share_with_tests(s);
}

void solver_drop_shared(struct ct_solver *s)
{
    for (int i = 0; i < CT_SHARED_ARRAYS; i++) {
        ct_buffer_drop(s->peers.shared.array[i]);
        ct_buffer_drop(s->peers.shared.next[i]);
    }
    s->peers.shared = (struct ct_shared_params){ .array = { NULL } };
}

static void leave(void *arg)
{
    struct ct_solver *s = arg;

    /* Without memory for its own it reads the shared ones, and trains when
     * there is some: peers may have them still.  Between two views nothing
     * changes them: updates lead into the other copy. */
    if (!s->standing.moves && solver_leave_shared(s) != CT_OK)
        CT_WARN("parameters stay in shared memory: %s", ct_last_error());
    solver_drop_shared(s);
}

enum ct_status solver_be_alone(struct ct_solver *s)
{
    if (s->options.exchange || !s->peers.shares_params)
        return CT_OK;
    return solver_leave_shared(s) == CT_OK
               ? CT_OK
               : ct_fail_in(CT_ENOMEM, "the parameters are still in memory "
                            "that other ranks share");
}

enum ct_status solver_find_shared(struct ct_solver *s)
{
    struct ct_exchange *x   = s->options.exchange;
    struct ct_params_user user = { .arg = s, .update = update_part,
                                   .leave = leave };

    if (!x || x->facts.size == 1)
        return CT_OK;
    if (solver_fits_shared(s))
        user.n_arrays = 1 + s->rule->n_history;
    if (s->peers.shares_params)
        user.values = ct_net_arena_data(s->net);
    return x->job->share(x, s->net, &user, &s->peers.shared);
}

enum ct_status solver_share_params(struct ct_solver *s)
{
    CT_TRY(solver_find_shared(s));
    return solver_comes(s) ? CT_OK : solver_enter_shared(s);
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
    CT_TRY(x->job->meet(x));
    solver_swap_shared(s);
    return CT_OK;
}
