/* commit.c - when an iteration counts, where ranks may be lost.
 *
 *     mark       where the iteration begins
 *     ...        gradients are made and summed
 *     commit     all ranks have all sums: from here on it counts
 *     complete   parameters and histories change
 *
 * Before the commit nothing changes that outlives the iteration, but the place
 * in the data and statistics that a forward pass keeps, which the mark has, and
 * where ranks of a host share parameters a second copy of these, which is the
 * current one from the commit on (shared_params.c).
 * When the view ends, the next one says how many iterations count.  A rank that
 * has the sums of one more than it has completed completes it; one that began
 * an iteration which does not count goes back to the mark.  Then all go on
 * with nets for the new number of ranks.
 *
 * Ranks that train apart (local.c) agree when they meet, so the mark is where
 * they last met, and has the parameters and histories of then. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/trace.h"
#include "core/buffer.h"
#include "cortado/log.h"
#include "net/training.h"
#include "solver/solver_inner.h"

bool solver_commits(const struct ct_solver *s)
{
    return s->options.exchange && s->options.exchange->facts.commits;
}

typedef enum ct_status (*statistic_fn)(struct ct_blob *b, float *x);

static enum ct_status keep(struct ct_blob *b, float *x)
{
    return ct_blob_get(b, false, x);
}

static enum ct_status put_back(struct ct_blob *b, float *x)
{
    return ct_blob_put(b, false, x);
}

/* Each statistic of the train net, with its place in one array; NULL fn: only
 * *n, the floats of all.  In canonical training they come with the gradients,
 * and a pass changes none. */
static enum ct_status each_statistic(struct ct_solver *s, statistic_fn fn,
                                     float *x, int64_t *n)
{
    int64_t at = 0;

    for (int l = 0; l < ct_net_n_layers(s->net); l++) {
        struct ct_layer *layer = ct_net_layer(s->net, l);

        for (int i = 0; i < layer->n_blob; i++) {
            if (s->options.exchange->facts.micro ||
                !ct_layer_is_statistic(layer, i))
                continue;
            if (fn)
                CT_TRY(fn(layer->blob[i], x + at));
            at += layer->blob[i]->count;
        }
    }
    *n = at;
    return CT_OK;
}

/* Parameters and histories, to the mark or back from it. */
static enum ct_status copy_state(struct ct_solver *s, bool back)
{
    const struct ct_device *dev = s->options.device;
    const size_t n              = ct_net_arena_count(s->net);

    if (!s->standing.mark.state)
        CT_TRY(ct_alloc(n * (size_t)(1 + s->rule->n_history), sizeof(float),
                        "what ranks had when they met",
                        &s->standing.mark.state));
    for (int i = 0; i <= s->rule->n_history; i++) {
        float *here  = i == 0 ? ct_net_arena_data(s->net)
                              : s->history[i - 1]->ptr;
        float *there = s->standing.mark.state + (size_t)i * n;

        CT_TRY(back ? dev->ops->from_host(dev, n * sizeof(float), there, here)
                    : dev->ops->to_host(dev, n * sizeof(float), here, there));
    }
    return CT_OK;
}

static bool trains_apart(const struct ct_solver *s)
{
    return s->options.exchange->facts.apart;
}

enum ct_status solver_mark(struct ct_solver *s)
{
    struct ct_exchange *x = s->options.exchange;
    int64_t n;

    if (!solver_commits(s))
        return CT_OK;
    if (trains_apart(s) && s->standing.mark.set &&
        x->job->counts(x) == s->standing.mark.iter)
        return CT_OK; /* they have not met since */
    if (trains_apart(s))
        CT_TRY(copy_state(s, false));
    s->standing.mark.iter         = s->iter;
    s->standing.mark.current_step = s->current_step;
    s->standing.mark.last_rate    = s->last_rate;
    CT_TRY(each_statistic(s, NULL, NULL, &n));
    if (!s->standing.mark.statistics)
        CT_TRY(ct_alloc((size_t)n + 1, sizeof(float), "statistics",
                        &s->standing.mark.statistics));
    CT_TRY(each_statistic(s, keep, s->standing.mark.statistics, &n));
    CT_TRY(x->job->mark(x));
    s->standing.mark.n_passes = ct_net_n_passes(s->net);
    s->standing.mark.asked    = CT_ACTION_NONE;
    s->standing.mark.set      = true;
    return CT_OK;
}

void solver_mark_fini(struct ct_solver *s)
{
    ct_free(s->standing.mark.statistics);
    ct_free(s->standing.mark.state);
    s->standing.mark = (struct solver_mark){ 0 };
}

enum ct_status solver_commit(struct ct_solver *s)
{
    struct ct_exchange *x = s->options.exchange;
    const uint64_t start  = ct_trace_begin();

    if (!solver_commits(s) || trains_apart(s))
        return CT_OK;
    CT_TRY(x->job->commit(x, s->iter));
    s->standing.mark.set    = false;
    s->standing.mark.tested = false;
    ct_trace_end(start, CT_TRACE_WAIT, "commit");
    return CT_OK;
}

/* Back to where this iteration began. */
static enum ct_status discard(struct ct_solver *s)
{
    int64_t n;

    solver_update_drop(s);
    s->last_pass = false;
    s->peers.pending      = s->standing.mark.asked != CT_ACTION_NONE
                                ? s->standing.mark.asked
                                : s->peers.pending;
    s->standing.mark.back = true;
    s->current_step       = s->standing.mark.current_step;
    if (trains_apart(s)) {
        CT_TRY(copy_state(s, true));
        s->iter                = s->standing.mark.iter;
        s->last_rate           = s->standing.mark.last_rate;
        s->standing.loose_ends = false;
    }
    return each_statistic(s, put_back, s->standing.mark.statistics, &n);
}

/* Brings this rank to where `base` iterations count. */
static enum ct_status reach(struct ct_solver *s,
                            const struct ct_next_view *next)
{
    const bool marked = s->standing.mark.set;
    const int base    = next->base;

    s->standing.mark.set = false;
    if (trains_apart(s) && marked && next->full &&
        base == s->standing.mark.iter)
        return discard(s);
    if (trains_apart(s) && (!next->full || base == s->iter))
        return CT_OK; /* others bring it all, or it has the mean */
    if (next->full && base == s->iter + 1 && marked) {
        s->standing.mark.tested = false;
        return solver_complete(s);
    }
    if (next->full && base != s->iter)
        return ct_fail(CT_EINTERNAL, "%d iterations count in the next view, "
                       "and this rank has %d", base, s->iter);
    return marked ? discard(s) : CT_OK;
}

static enum ct_status enter(struct ct_solver *s)
{
    struct ct_exchange *x = s->options.exchange;
    enum ct_status st     = x->job->enter_view(x);
    char why[1024];

    if (st == CT_OK)
        st = solver_enter_view(s, false);
    if (st == CT_OK || st == CT_ECOMM)
        return st;
    snprintf(why, sizeof(why), "%s", ct_last_error());
    return ct_fail(x->job->goes_on(x, st) ? CT_ECOMM : st, "%s", why);
}

static enum ct_status follow_once(struct ct_solver *s)
{
    struct ct_exchange *x = s->options.exchange;
    struct ct_next_view next;

    CT_TRY(x->job->next_view(x, &next));
    s->standing.lost = next.lost;
    if (s->standing.lost)
        return ct_fail(CT_ECOMM, "all ranks that had the parameters are gone; "
                       "the newest snapshot has what there is");
    if (reach(s, &next) != CT_OK) /* no peer takes part in that */
        return ct_fail_in(CT_EINTERNAL, "iteration %d", s->iter);
    solver_tell_view(s, false);
    solver_trace_drop(s);
    CT_TRY(solver_abandon_view(s));
    CT_TRY(enter(s));
    CT_TRY(solver_meet_again(s));
    solver_tell_view(s, true);
    return CT_OK;
}

/* A view may end while this rank enters it. */
static enum ct_status follow(struct ct_solver *s)
{
    enum ct_status st;

    do
        st = follow_once(s);
    while (st == CT_ECOMM && !s->standing.lost);
    return st;
}

enum ct_status solver_or_follow(struct ct_solver *s, enum ct_status st)
{
    return st == CT_ECOMM && solver_commits(s) && !s->standing.lost
               ? follow(s)
               : st;
}
