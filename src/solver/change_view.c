/* change_view.c - a solver goes on among other ranks.
 *
 *     all of the old view    solver_leave_view
 *     the exchange           changes its view (dist_change_view)
 *     all of the new view    solver_enter_view
 *
 * Between two iterations every rank holds the same parameters.  A rank that
 * stays keeps its own; one that is new gets rank 0's, with histories and the
 * place in the data.  With a batch of all ranks together the mathematics stays
 * the same, whatever their number: nets are built anew for each rank's part. */
#include "base/mem.h"
#include "core/buffer.h"
#include "net/arena.h"
#include "solver/solver.h"

enum ct_status solver_leave_view(struct ct_solver *s)
{
    struct ct_exchange *x = s->options.exchange;

    CT_TRY(solver_update_all(s));
    CT_TRY(solver_unpack(s));
    CT_TRY(x->ops->settle(x, s->iter, CT_SETTLE_SNAPSHOT));
    CT_TRY(solver_leave_shared(s));
    x->ops->detach(x, s->net);
    solver_drop_shared(s);
    solver_remote_stop(s);
    s->attached = (struct ct_attached){ 0 };
    return CT_OK;
}

/* The values of the old train net go over to the new one. */
static enum ct_status take_over(struct ct_solver *s, const struct ct_net *old)
{
    const size_t n = ct_net_arena_count(s->net);

    if (ct_net_arena_count(old) != n)
        return ct_fail(CT_EINTERNAL, "the net has %zu floats for these ranks "
                       "and had %zu before", n, ct_net_arena_count(old));
    CT_TRY(ct_copy(s->options.device, (int64_t)n, ct_net_arena_data(old),
                   ct_net_arena_data(s->net)));
    return ct_net_seek(s->net, ct_net_n_passes(old));
}

static void drop_deals(struct ct_solver *s)
{
    ct_free(s->weights);
    ct_free(s->batches);
    s->weights     = NULL;
    s->batches     = NULL;
    s->dealt       = NULL;
    s->deals       = false;
    s->tests_count = false;
}

/* Nets for this rank's part of a batch. */
static enum ct_status rebuild_nets(struct ct_solver *s)
{
    const struct ct_exchange *x = s->options.exchange;
    struct ct_net *old          = s->net, **tests = s->test_net;
    uint64_t *tested            = s->n_tested;
    const int n_tests           = s->n_test_net;
    enum ct_status st;

    s->options.rank = x->facts.rank;
    s->options.size = x->facts.size;
    s->net          = NULL;
    s->test_net     = NULL;
    s->n_tested     = NULL;
    s->n_test_net   = 0;
    drop_deals(s);
    CT_TRY_GOTO(solver_create_nets(s), st, out);
    CT_TRY_GOTO(take_over(s, old), st, out);
    for (int i = 0; i < s->n_test_net && i < n_tests; i++)
        CT_TRY_GOTO(solver_test_seek(s, i, tested[i]), st, out);
out:
    for (int i = 0; i < n_tests; i++)
        ct_net_destroy(tests[i]);
    ct_free(tests);
    ct_free(tested);
    ct_net_destroy(old);
    ct_mirror_destroy(s->mirror); /* the old net may have recorded it */
    s->mirror = NULL;
    return st;
}

/* Rank 0's floats, wherever they lie, on all ranks. */
static enum ct_status spread_floats(struct ct_solver *s, float *at)
{
    const struct ct_device *dev = s->options.device;
    struct ct_exchange *x       = s->options.exchange;
    const size_t bytes = ct_net_arena_count(s->net) * sizeof(float);
    float *host = NULL;
    enum ct_status st;

    CT_TRY(ct_alloc(bytes + 1, 1, "rank 0's floats", &host));
    CT_TRY_GOTO(dev->ops->to_host(dev, bytes, at, host), st, out);
    CT_TRY_GOTO(x->job->spread(x, host, bytes), st, out);
    st = dev->ops->from_host(dev, bytes, host, at);
out:
    ct_free(host);
    return st;
}

/* Where training stands. */
struct standing {
    int64_t  iter, current_step;
    uint64_t seed, n_passes;
    float    last_rate;
};

static enum ct_status share_state(struct ct_solver *s)
{
    struct ct_exchange *x = s->options.exchange;
    struct standing at    = { s->iter, s->current_step, s->seed,
                              ct_net_n_passes(s->net), s->last_rate };

    CT_TRY(x->job->spread(x, &at, sizeof(at)));
    s->iter         = (int)at.iter;
    s->current_step = (int)at.current_step;
    s->seed         = at.seed;
    s->last_rate    = at.last_rate;
    s->next.t       = 0;
    ct_net_reseed(s->net, s->seed);
    CT_TRY(ct_net_seek(s->net, at.n_passes));
    CT_TRY(spread_floats(s, ct_net_arena_data(s->net)));
    for (int h = 0; h < s->rule->n_history; h++)
        CT_TRY(spread_floats(s, s->history[h]->ptr));
    return CT_OK;
}

enum ct_status solver_enter_view(struct ct_solver *s, bool is_new)
{
    if (!is_new) { /* as one does that is made */
        CT_TRY(rebuild_nets(s));
        CT_TRY(solver_share_params(s));
    }
    CT_TRY(solver_leave_shared(s));
    if (!s->options.exchange->facts.serves)
        CT_TRY(share_state(s));
    return solver_enter_shared(s);
}
