/* measure.c - `cortado train --measure`: how fast a training would be. */
#include "measure.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "solver/solver_inner.h"

/* Steps that ranks take in one go, as rank 0 asks for them. */
struct turn {
    int    n;        /* 0: that was all */
    int    n_before; /* turns */
    bool   stopped;  /* a signal came */
    bool   is_last;
    double took;     /* seconds */
};

bool measure_makes_sense(const struct train_flags *f)
{
    static const double most = 1e6;
    const bool is_time       = f->measure >= 0 && f->measure <= most;

    if (!is_time)
        fprintf(stderr, "cortado train: --measure takes seconds, from 0 to "
                "%g\n", most);
    else if (f->measure > 0 && f->elastic.elastic)
        fprintf(stderr, "cortado train: --measure is for jobs of fixed size: "
                "leave --elastic out, or it\n");
    else
        return true;
    return false;
}

void measure_flags(struct train_flags *f)
{
    f->snapshot         = NULL;
    f->trace            = NULL;
    f->explain          = false;
    f->on_nan           = "continue"; /* it is as fast */
    f->observe          = (struct observe_flags){ NULL, NULL };
    f->signals          = (struct signal_flags){ "stop", "stop", "stop",
                                                 "stop" };
    f->dist.rank_log    = "";
    f->elastic.restarts = 0;
}

/* Test nets are there, as they will be, and have their part of the memory. */
void measure_solver(Caffe__SolverParameter *p)
{
    p->has_snapshot = p->has_snapshot_seconds = true;
    p->snapshot = p->snapshot_seconds = 0;
    p->has_snapshot_after_train = p->has_test_initialization = true;
    p->snapshot_after_train = p->test_initialization = false;
    p->has_test_interval = true;
    p->test_interval     = INT_MAX;
}

/* How many steps the next turn has.  The first one warms up.  Then turns grow
 * until one takes long enough to tell from it how many steps fill the time;
 * these are one turn, because turns begin and end with work that steps do not
 * have. */
static int next_turn(struct turn *t, double seconds)
{
    static const double enough = 1.0 / 8, nearly_all = 3.0 / 4;
    static const int warm_up = 2, most = 1 << 24;

    if (t->n_before < 2)
        return t->n_before == 0 ? warm_up : 1;
    if (t->is_last || t->took >= nearly_all * seconds)
        return 0;
    if (t->took < enough * seconds)
        return t->n < most ? 2 * t->n : most;
    t->is_last = true;
    return (int)fmin(fmax(seconds * t->n / t->took, 1), most);
}

enum ct_status measure_steps(struct ct_solver *s, struct ct_dist *d,
                             double seconds)
{
    const bool leads  = ct_dist_rank(d) == 0;
    const int max     = ct_solver_param(s)->max_iter;
    struct turn t     = { 0 };
    int64_t mine, all = 0;
    double rate       = 0;

    for (;;) {
        double begin;

        if (leads) {
            const int left = max - ct_solver_iter(s);
            const int n    = t.stopped ? 0 : next_turn(&t, seconds);

            t.n = n < left ? n : left > 0 ? left : 0;
            t.n_before++;
        }
        CT_TRY(ct_dist_broadcast(d, &t, sizeof(t)));
        if (t.n == 0)
            break;
        begin = ct_now();
        CT_TRY(ct_solver_step(s, t.n));
        t.took    = ct_now() - begin;
        t.stopped = s->stop;
        solver_count_samples(s, &mine, &all);
        /* A net whose samples nobody can count has one an iteration. */
        rate = t.n * (all > 0 ? (double)all : 1) / fmax(t.took, 1e-9);
    }
    if (t.stopped)
        return ct_fail(CT_ESTOP, "measuring was asked to stop");
    if (leads)
        printf("%.6g samples/s\n", rate);
    return CT_OK;
}
