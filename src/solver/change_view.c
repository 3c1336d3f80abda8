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
#include <string.h>

#include "base/hush.h"
#include "base/mem.h"
#include "core/buffer.h"
#include "net/arena.h"
#include "net/training.h"
#include "solver/solver_inner.h"

void solver_leave_pulse(struct ct_solver *s)
{
    ct_net_set_pulse(s->net, s->watch.pulse);
    for (int i = 0; i < s->tests.n; i++)
        if (s->tests.net[i])
            ct_net_set_pulse(s->tests.net[i], s->watch.pulse);
}

static void detach(struct ct_solver *s)
{
    struct ct_exchange *x = s->options.exchange;

    x->ops->detach(x, s->net);
    solver_leave_pulse(s);
    solver_drop_shared(s);
    solver_remote_stop(s);
    s->peers.attached = (struct ct_attached){ 0 };
}

enum ct_status solver_leave_view(struct ct_solver *s)
{
    struct ct_exchange *x = s->options.exchange;

    CT_TRY(solver_update_all(s));
    CT_TRY(solver_unpack(s));
    CT_TRY(x->ops->settle(x, s->iter, CT_SETTLE_SNAPSHOT));
    CT_TRY(solver_leave_shared(s));
    detach(s);
    return CT_OK;
}

enum ct_status solver_abandon_view(struct ct_solver *s)
{
    CT_TRY(solver_unpack(s));
    s->standing.moves = true;
    detach(s);
    s->standing.moves = false;
    return CT_OK;
}

/* Passes of a step: another number of ranks may share them out otherwise. */
static uint64_t share_of(const struct ct_net *net)
{
    return (uint64_t)ct_net_share(net);
}

static enum ct_status take_values(struct ct_solver *s,
                                  const struct ct_net *old)
{
    const struct ct_device *dev = s->options.device;

    if (s->peers.shares_params)
        return ct_net_share_values_of(s->net, old);
    if (dev->kind != CT_CPU) /* layers may have recorded addresses of theirs */
        return ct_copy(dev, (int64_t)ct_net_arena_count(old),
                       ct_net_arena_data(old), ct_net_arena_data(s->net));
    ct_net_take_arenas(s->net, old);
    return solver_share_with_tests(s);
}

/* The values of the old train net go over to the new one. */
static enum ct_status take_over(struct ct_solver *s, const struct ct_net *old)
{
    const size_t n = ct_net_arena_count(s->net);

    if (ct_net_arena_count(old) != n)
        return ct_fail(CT_EINTERNAL, "the net has %zu floats for these ranks "
                       "and had %zu before", n, ct_net_arena_count(old));
    CT_TRY(take_values(s, old));
    ct_net_set_skew(s->net, ct_net_skew(old), ct_net_skew_step(old));
    return ct_net_seek(s->net,
                       (s->standing.mark.back ? s->standing.mark.n_passes
                                              : ct_net_n_passes(old)) /
                           share_of(old) * share_of(s->net));
}

static void drop_deals(struct ct_solver *s)
{
    ct_free(s->shares.weights);
    ct_free(s->shares.batches);
    s->shares.weights = NULL;
    s->shares.batches = NULL;
    s->shares.dealt   = NULL;
    s->tests.deals    = false;
    s->tests.count    = false;
}

/* More floats: memory that nobody needs is worth more than a moment. */
static const size_t most_retired = 16 << 20;

static struct solver_nets take_nets(struct ct_solver *s)
{
    const struct solver_nets n = { s->net, s->tests.net, s->tests.n_batches,
                            s->tests.n };

    s->net        = NULL;
    s->tests.net       = NULL;
    s->tests.n_batches = NULL;
    s->tests.n         = 0;
    return n;
}

static void put_nets(struct ct_solver *s, const struct solver_nets *n)
{
    s->net        = n->train;
    s->tests.net       = n->test;
    s->tests.n_batches = n->tested;
    s->tests.n         = n->n_test;
}

static void drop_nets(const struct solver_nets *n)
{
    for (int i = 0; i < n->n_test; i++)
        ct_net_destroy(n->test[i]);
    ct_free(n->test);
    ct_free(n->tested);
    ct_net_destroy(n->train);
}

void solver_drop_retired(struct ct_solver *s)
{
    drop_nets(&s->ahead.retired);
    s->ahead.retired = (struct solver_nets){ NULL };
}

/* Frees the nets of the view before.  All ranks wait while a view begins, and
 * freeing nets takes time: so those that leave nothing outside of the process
 * (only such nets are prepared) are freed when the first iteration counts. */
static void retire(struct ct_solver *s, const struct solver_nets *old)
{
    if (!s->ahead.taken || ct_net_arena_count(old->train) > most_retired) {
        drop_nets(old);
        return;
    }
    s->ahead.retired    = *old;
    s->ahead.retired_at = s->iter;
}

static enum ct_status build_nets(struct ct_solver *s,
                                 const struct solver_nets *old)
{
    enum ct_status st;

    ct_log_hush(true); /* they are as they were, but for a batch */
    st = solver_create_nets(s);
    ct_log_hush(false);
    CT_TRY(st);
    CT_TRY(take_over(s, old->train));
    if (old->tested) /* also where rank 0 tests alone: another may become it */
        memcpy(s->tests.n_batches, old->tested,
               s->param->n_test_iter * sizeof(*old->tested));
    for (int i = 0; i < s->tests.n && i < old->n_test; i++)
        CT_TRY(solver_test_seek(s, i, old->tested[i]));
    return CT_OK;
}

/* Nets for this rank's part of a batch.  Where that fails the old ones stay,
 * with what they have learned. */
static enum ct_status rebuild_nets(struct ct_solver *s)
{
    const struct ct_exchange *x = s->options.exchange;
    const struct solver_nets old       = take_nets(s);
    struct solver_nets half;
    enum ct_status st;

    /* Its thread reads names of the old net. */
    if (s->param->snapshot_format ==
        CAFFE__SOLVER_PARAMETER__SNAPSHOT_FORMAT__HDF5)
        solver_snapshot_finish(s);
    if (!s->standing.between) /* it may be the second try */
        s->standing.wrote = s->options.rank == 0;
    s->standing.between = true;
    s->options.rank = x->facts.rank;
    s->options.size = x->facts.size;
    drop_deals(s);
    solver_drop_retired(s);
    st = build_nets(s, &old);
    if (st != CT_OK) {
        half = take_nets(s);
        drop_nets(&half);
        put_nets(s, &old);
        return st;
    }
    s->standing.mark.back = false;
    solver_device_scale(s);
    retire(s, &old);
    ct_mirror_destroy(s->peers.mirror); /* the old net may have recorded it */
    s->peers.mirror = NULL;
    return CT_OK;
}

/* These floats, wherever they lie, of a rank that has them, on a rank that has
 * not. */
static enum ct_status supply_floats(struct ct_solver *s, float *at)
{
    const struct ct_device *dev = s->options.device;
    struct ct_exchange *x       = s->options.exchange;
    const size_t bytes = ct_net_arena_count(s->net) * sizeof(float);
    float *host        = NULL;
    enum ct_status st;

    if (dev->kind == CT_CPU)
        return x->job->supply(x, at, bytes);
    CT_TRY(ct_alloc(bytes + 1, 1, "parameters", &host));
    if (x->facts.rank < x->facts.n_have)
        CT_TRY_GOTO(dev->ops->to_host(dev, bytes, at, host), st, out);
    CT_TRY_GOTO(x->job->supply(x, host, bytes), st, out);
    if (x->facts.rank >= x->facts.n_have)
        st = dev->ops->from_host(dev, bytes, host, at);
out:
    ct_free(host);
    return st;
}

/* b becomes its mean over the ranks that have trained. */
static enum ct_status merge_blob(struct ct_solver *s, struct ct_blob *b)
{
    struct ct_exchange *x = s->options.exchange;
    const size_t n        = (size_t)b->count, P = (size_t)x->facts.size;
    float *mine = NULL, *all = NULL;
    enum ct_status st;

    CT_TRY_GOTO(ct_alloc(n, sizeof(float), "statistics", &mine), st, out);
    CT_TRY_GOTO(ct_alloc(n * P, sizeof(float), "statistics", &all), st, out);
    CT_TRY_GOTO(ct_blob_get(b, false, mine), st, out);
    CT_TRY_GOTO(ct_exchange_gather(x, mine, n * sizeof(float), all), st, out);
    for (size_t i = 0; i < n; i++) {
        double sum = 0;

        for (int r = 0; r < x->facts.n_full; r++)
            sum += (double)all[(size_t)r * n + i];
        mine[i] = (float)(sum / x->facts.n_full);
    }
    st = ct_blob_put(b, false, mine);
out:
    ct_free(mine);
    ct_free(all);
    return st;
}

/* Where training stands.  A view may end when some ranks have done what follows
 * an iteration and others have not; then rank 0's word counts. */
struct standing {
    int64_t  iter, current_step;
    uint64_t seed, n_steps;
    float    last_rate;
    int32_t  stage, agreed;
    int32_t  tested, loose_ends, stop;
    int32_t  was_asked, end, whole; /* what they do, for who has come */
    int32_t  over, stops, snapshot, n_met;
    int64_t  skew, skew_step;
    int32_t  snapshot_iter; /* that is whole; -1: nobody knows */
};

/* More iterations, passes or batches are nobody's, and a position in the data
 * could not be computed from them. */
static const int64_t most_iters = INT64_C(1) << 30,
                     most_passes = INT64_C(1) << 40;

/* Where the passes so far have led to: no sample before the first. */
static bool is_position(uint64_t n_steps, int64_t skew, int64_t step)
{
    int64_t samples;

    return n_steps <= (uint64_t)most_passes && step >= 0 &&
           !__builtin_mul_overflow((int64_t)n_steps, step, &samples) &&
           !__builtin_add_overflow(samples, skew, &samples) && samples >= 0 &&
           samples <= INT64_MAX / 2;
}

/* What another rank says is looked at before anything follows it. */
static enum ct_status check_standing(const struct standing *at)
{
    const bool counted = at->iter >= 0 && at->iter <= most_iters &&
                         at->current_step >= 0 &&
                         at->current_step <= most_iters && at->stage >= 0 &&
                         at->n_met >= 0 && at->snapshot_iter >= -1;
    const bool named   = at->agreed >= CT_ACTION_NONE &&
                         at->agreed <= CT_ACTION_STOP && at->snapshot >= 0 &&
                         at->snapshot <= 2;

    return counted && named &&
                   is_position(at->n_steps, at->skew, at->skew_step)
               ? CT_OK
               : ct_fail(CT_EPARSE, "rank 0 says what cannot be of where "
                         "training stands: iteration %lld, step %lld, %llu "
                         "passes", (long long)at->iter,
                         (long long)at->current_step,
                         (unsigned long long)at->n_steps);
}

/* Every rank's mean, where each kept statistics of its own samples. */
static enum ct_status merge_statistics(struct ct_solver *s)
{
    struct ct_exchange *x = s->options.exchange;

    for (int l = 0; l < ct_net_n_layers(s->net); l++) {
        struct ct_layer *layer = ct_net_layer(s->net, l);

        for (int i = 0; i < layer->n_blob; i++)
            if (ct_layer_is_statistic(layer, i) && !x->facts.micro)
                CT_TRY(merge_blob(s, layer->blob[i]));
    }
    return CT_OK;
}

/* Ranks deal out test batches by how many there were. */
static enum ct_status share_tests(struct ct_solver *s)
{
    struct ct_exchange *x = s->options.exchange;
    const size_t n        = s->param->n_test_iter;

    if (n > 0)
        CT_TRY(x->job->spread(x, s->tests.n_batches,
                              n * sizeof(*s->tests.n_batches)));
    for (size_t i = 0; i < n; i++)
        if (s->tests.n_batches[i] > (uint64_t)most_passes)
            return ct_fail(CT_EPARSE, "rank 0 says that %llu batches were "
                           "tested", (unsigned long long)s->tests.n_batches[i]);
    for (int i = 0; i < s->tests.n; i++)
        CT_TRY(solver_test_seek(s, i, s->tests.n_batches[i]));
    return CT_OK;
}

/* What rank 0 is at, for this rank to do, too. */
static void do_as(struct ct_solver *s, const struct standing *at)
{
    const struct ct_exchange *x = s->options.exchange;
    const bool is_full          = x->facts.rank < x->facts.n_full;

    s->standing.others = SOLVER_OTHERS_BEGIN;
    s->standing.owes   = is_full && at->n_met < s->standing.n_met;
    s->standing.owes_ends = false;
    if (is_full && at->n_met != s->standing.n_met) {
        /* One of both is at a meeting, and the other has been there. */
        if (!s->standing.owes)
            s->standing.n_met = at->n_met;
        else if (at->snapshot == 2 && at->loose_ends) {
            s->standing.owes_ends = true; /* a snapshot went with its writer */
            s->peers.agreed       = CT_ACTION_SNAPSHOT;
        }
        return;
    }
    s->standing.snapshot    = is_full ? s->standing.snapshot : 0;
    s->standing.n_met       = at->n_met;
    s->standing.stage       = at->stage;
    s->peers.agreed         = (enum ct_solver_action)at->agreed;
    s->standing.mark.tested = at->tested;
    s->standing.loose_ends  = at->loose_ends;
    s->stop                 = at->stop;
    if (is_full || x->facts.n_full == 0 || !at->was_asked)
        return;
    s->standing.end      = at->end;
    s->standing.snapshot = at->snapshot;
    s->standing.others   = at->stops   ? SOLVER_OTHERS_STOP
                           : at->over  ? SOLVER_OTHERS_END
                           : at->whole ? SOLVER_OTHERS_SOLVE
                                       : SOLVER_OTHERS_STEP;
}

/* All that ranks know of a training, to those who are new. */
static enum ct_status share_state(struct ct_solver *s)
{
    struct ct_exchange *x = s->options.exchange;
    struct standing at;

    if (s->standing.snapshot == 2 && x->facts.rank == 0 &&
        !(s->standing.wrote && s->snapshots.iter == s->iter)) {
        s->standing.loose_ends = true; /* it went with who wrote it */
        s->peers.agreed        = CT_ACTION_SNAPSHOT;
    }
    at = (struct standing){
        .iter          = s->iter,
        .current_step  = s->current_step,
        .seed          = s->seed,
        .n_steps       = ct_net_n_passes(s->net) / share_of(s->net),
        .last_rate     = s->last_rate,
        .stage         = s->standing.stage,
        .agreed        = (int32_t)s->peers.agreed,
        .tested        = s->standing.mark.tested,
        .loose_ends    = s->standing.loose_ends,
        .stop          = s->stop,
        .was_asked     = s->standing.was_asked,
        .end           = s->standing.end,
        .whole         = s->standing.whole,
        .over          = s->standing.over,
        .stops         = s->standing.stops,
        .snapshot      = s->standing.snapshot,
        .n_met         = s->standing.n_met,
        .skew          = ct_net_skew(s->net),
        .skew_step     = ct_net_skew_step(s->net),
        .snapshot_iter = s->standing.wrote && !s->snapshots.writing
                             ? s->snapshots.iter
                             : -1,
    };

    CT_TRY(x->job->spread(x, &at, sizeof(at)));
    CT_TRY(check_standing(&at));
    if (x->facts.rank < x->facts.n_full && at.iter != s->iter)
        return ct_fail(CT_EINTERNAL, "rank %d has %d iterations where rank 0 "
                       "has %d", x->facts.rank, s->iter, (int)at.iter);
    do_as(s, &at);
    if (x->facts.rank >= x->facts.n_have)
        s->standing.half = true;
    if (x->facts.n_full > 0)
        s->snapshots.iter = at.snapshot_iter;
    s->iter         = (int)at.iter;
    s->current_step = (int)at.current_step;
    s->seed         = at.seed;
    s->last_rate    = at.last_rate;
    s->due.next.t   = 0;
    ct_net_reseed(s->net, s->seed);
    ct_net_set_skew(s->net, at.skew, at.skew_step);
    CT_TRY(ct_net_seek(s->net, at.n_steps * share_of(s->net)));
    CT_TRY(share_tests(s));
    if (x->facts.n_full > 0)
        CT_TRY(merge_statistics(s));
    if (x->facts.n_full == x->facts.size || s->peers.shared.array[0])
        return CT_OK; /* all have the same, or will find them there */
    CT_TRY(supply_floats(s, ct_net_arena_data(s->net)));
    for (int h = 0; h < s->rule->n_history; h++)
        CT_TRY(supply_floats(s, s->history[h]->ptr));
    return CT_OK;
}

bool solver_comes(const struct ct_solver *s)
{
    const struct ct_exchange *x = s->options.exchange;

    return solver_commits(s) && x->facts.n_full < x->facts.size;
}

/* Between steps, or when the others are done: the next call is as a new
 * one's. */
static bool comes_back(const struct ct_solver *s)
{
    const struct ct_exchange *x = s->options.exchange;

    return solver_commits(s) && x->facts.n_full > 0 &&
           x->facts.rank >= x->facts.n_full &&
           (s->standing.meets || s->standing.others == SOLVER_OTHERS_END ||
            s->standing.others == SOLVER_OTHERS_STOP);
}

enum ct_status solver_enter_view(struct ct_solver *s, bool is_new)
{
    struct ct_exchange *x = s->options.exchange;

    if (!is_new) { /* as one does that is made */
        CT_TRY(rebuild_nets(s));
        CT_TRY(solver_commits(s) ? solver_find_shared(s)
                                 : solver_share_params(s));
        if (solver_commits(s))
            CT_TRY(solver_keep_alone(s));
    }
    if (!solver_commits(s) || !s->peers.shared.array[0])
        CT_TRY(solver_leave_shared(s));
    CT_TRY(x->job->fit(x, s->options.device));
    if (!x->facts.serves)
        CT_TRY(share_state(s));
    s->standing.has_come = is_new || comes_back(s);
    CT_TRY(solver_enter_shared(s));
    /* Parameters that are not learned come with the net.  Where nobody has
     * trained any, those that it was made with will do. */
    s->standing.half &= x->facts.n_full > 0;
    s->standing.between = false;
    if (solver_commits(s))
        CT_TRY(solver_engage(s)); /* it has them now */
    s->standing.half = false;
    return CT_OK;
}

enum ct_status solver_join(struct ct_solver *s, struct ct_exchange *x)
{
    const bool is_new = x->facts.rank >= x->facts.n_full;
    enum ct_status st;

    s->options.exchange = x;
    solver_early_fini(s); /* what it does alone, it does no more */
    solver_pack_init(s);
    st = solver_enter_view(s, false);
    if (st == CT_OK) {
        s->standing.has_come = is_new;
        return CT_OK;
    }
    (void)!solver_abandon_view(s);
    s->options.exchange = NULL;
    return st;
}

void solver_forget_others(struct ct_solver *s)
{
    const bool half = s->standing.half;

    solver_mark_fini(s);
    s->standing     = (struct solver_standing){ .half = half };
    s->peers.agreed = s->peers.pending = CT_ACTION_NONE;
    s->stop         = false;
}

void solver_tell_last(struct ct_solver *s)
{
    struct ct_exchange *x = s->options.exchange;

    if (solver_commits(s))
        x->job->last(x, x->facts.apart ? x->job->counts(x) : s->iter);
}

enum ct_status solver_meet_last(struct ct_solver *s)
{
    solver_tell_last(s);
    s->standing.over = true;
    return solver_meet(s);
}
