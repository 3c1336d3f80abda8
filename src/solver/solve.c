/* solve.c - a whole training: all iterations, the last snapshot, and the output
 * that Caffe prints at the end. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "cortado/access.h"
#include "cortado/log.h"
#include "solver/solver_inner.h"

/* Fails if the last update made parameters that are not finite; there is no
 * later pass that would notice. */
static enum ct_status check_params(struct ct_solver *s)
{
    int n = ct_net_n_params(s->net), bad = -1;
    float *room = NULL;

    if (strcmp(s->param->on_nan, "continue") == 0)
        return CT_OK;
    for (int i = 0; i < n && bad < 0; i++) {
        const struct ct_blob *b = ct_net_param(s->net, i)->blob;
        const float *value;
        enum ct_status st = ct_blob_read(b, &room, &value);
        int64_t k         = 0;

        while (st == CT_OK && k < b->count && isfinite(value[k]))
            k++;
        if (st == CT_OK && k < b->count)
            bad = ct_net_param(s->net, i)->layer;
        ct_free(room);
        room = NULL;
        CT_TRY(st);
    }
    if (bad < 0)
        return CT_OK;
    return ct_fail(CT_ENAN, "iteration %d: the last update left layer %s "
                   "parameters that are not finite, and no snapshot was "
                   "written.  Lower base_lr, set clip_gradients, or use "
                   "--on_nan=continue", s->iter,
                   ct_net_layer(s->net, bad)->name);
}

/* *loss becomes the mean over ranks, if all ranks are in step.  Otherwise it
 * remains that of this rank, and *of says so in the log.  In canonical training
 * it is the loss of the first micro-batch, for any number of ranks.  With a
 * deadline ranks may be missing. */
static enum ct_status mean_loss(const struct ct_solver *s, double *loss,
                                const char **of)
{
    struct ct_exchange *x = s->options.exchange;
    const bool together   = x && (x->facts.deal_tests || x->facts.root_data);

    *of = "";
    if (together && x->facts.size > 1 && !x->facts.micro)
        return ct_exchange_mean(x, loss);
    *loss /= solver_weight(s);
    if (x && x->facts.micro)
        *of = " (of the first micro-batch)";
    else if (x && x->facts.size > 1)
        *of = " (of rank 0)";
    return CT_OK;
}

/* The loss and the test that Caffe prints after the last iteration. */
static enum ct_status last_words(struct ct_solver *s)
{
    const Caffe__SolverParameter *p = s->param;
    const char *of;
    double loss;

    if (solver_due(s->iter, p->display)) {
        CT_TRY(ct_net_forward(s->net, &loss));
        CT_TRY(mean_loss(s, &loss, &of));
        solver_smooth(s, loss);
        CT_INFO("Iteration %d, loss = %g%s", s->iter, s->shown.smoothed, of);
        CT_TRY(solver_check_loss(s, loss));
    }
    if (solver_due(s->iter, p->test_interval))
        CT_TRY(ct_solver_test_all(s));
    return CT_OK;
}

static void report_layers(const struct ct_net *net)
{
    for (int i = 0; i < ct_net_n_layers(net); i++) {
        const struct ct_layer *l = ct_net_layer(net, i);

        if (l->type->report)
            l->type->report(l);
    }
}

/* Runs the iterations.  In a later view this stage may be repeated; then it
 * only does what rank 0 still has to do. */
static enum ct_status train(struct ct_solver *s)
{
    const int left   = s->param->max_iter - s->iter;
    const bool again = s->standing.trained;

    s->standing.trained = true;
    CT_TRY(again ? solver_go_on(s) : solver_step(s, left > 0 ? left : 0));
    return s->options.exchange && s->options.exchange->facts.serves
               ? CT_OK
               : check_params(s);
}

/* Whether to write a last snapshot.  After a request to stop it serves to
 * resume later. */
static bool wants_last(const struct ct_solver *s)
{
    const Caffe__SolverParameter *p = s->param;

    return p->snapshot_after_train ||
           (s->stop && (p->snapshot > 0 || p->snapshot_seconds > 0));
}

enum ct_status ct_solver_stop_snapshot(struct ct_solver *s)
{
    s->standing.stops = true;
    solver_tell_last(s);
    if (wants_last(s))
        CT_TRY(ct_solver_snapshot(s));
    return solver_meet_last(s);
}

static enum ct_status last_snapshot(struct ct_solver *s)
{
    solver_tell_last(s);
    if (wants_last(s))
        CT_TRY(solver_snapshot_last(s));
    /* No rank leaves before it is written: another rank may have to do that. */
    if (solver_commits(s))
        CT_TRY(s->options.exchange->job->meet(s->options.exchange));
    report_layers(s->net);
    if (s->stop) {
        CT_INFO("Optimization stopped early.");
        return CT_ESTOP;
    }
    return CT_OK;
}

/* No rank leaves while others need it for the last loss and test.  If ranks
 * have met since the training began, rank 0 was past this point in the view
 * before, and all ranks may leave. */
static enum ct_status part(struct ct_solver *s)
{
    return !solver_commits(s) || s->standing.n_met > s->standing.n_met_before
               ? CT_OK
               : solver_try_to_meet(s);
}

/* A whole training.  Ranks that join others continue at the stage of rank 0. */
static enum ct_status solve(struct ct_solver *s)
{
    enum ct_status (*const stage[])(struct ct_solver *s) = {
        train, last_snapshot, last_words, part
    };
    const int n_stages = sizeof(stage) / sizeof(stage[0]);
    enum ct_status st  = CT_OK;

    if (s->standing.has_come && s->standing.others == SOLVER_OTHERS_STEP)
        return ct_fail(CT_EINVAL, "the others of this job go step by step, and "
                       "this process asked for a whole training (solve()): "
                       "all of them have to run the same program");
    if (solver_comes_late(s, &st))
        return st;
    /* A folder that cannot be written is reported before training. */
    if (s->param->snapshot_after_train &&
        !(s->options.exchange && s->options.exchange->facts.rank > 0))
        CT_TRY(solver_check_writable(s));
    s->standing.whole = true;
    s->standing.over  = false;
    /* A rank that joins after the iterations runs no more of them, even if a
     * later view returns to the stage of iterations. */
    s->standing.trained      = s->standing.stage > 0;
    s->standing.n_met_before = s->standing.n_met;
    CT_INFO("Solving %s", ct_net_name(s->net));
    CT_INFO("Learning Rate Policy: %s", s->param->lr_policy);
    solver_say_samples(s);
    if (s->standing.stage > 0) /* the stages before would have attached it */
        st = solver_or_follow(s, solver_engage(s));
    while (s->standing.stage < n_stages && st == CT_OK) {
        const int at = s->standing.stage;

        st = stage[at](s);
        if (st == CT_OK && s->options.exchange &&
            s->options.exchange->facts.serves)
            return CT_OK;
        if (st == CT_OK && s->standing.stage == at)
            s->standing.stage++;
        else
            st = solver_or_follow(s, st);
    }
    s->standing.stage = 0;
    s->standing.whole = false;
    CT_TRY(st);
    CT_INFO("Optimization Done.");
    return CT_OK;
}

enum ct_status ct_solver_solve(struct ct_solver *s)
{
    const enum ct_status st = solve(s);

    solver_tell_stop(s, st);
    return st;
}
