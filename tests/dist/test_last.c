/* test_last.c - the end of a training whose ranks come and go: some are at it
 * before others, and views change in between. */
#include <string.h>
#include <unistd.h>

#include "cortado/access.h"
#include "dist/bus.h"
#include "dist/ranks.h"
#include "solver/solver_inner.h"
#include "testing/files.h"

enum { LAST = 4 };

/* Where member 0 is when something happens. */
enum moment {
    CHECKED,   /* it has proved the last iteration's parameters, with all */
    AT_MEETING, /* of the last snapshot, or of all who are done */
    MET         /* the others are there and go on, and it does not know */
};

/* What happens there. */
static struct script {
    enum moment moment;
    int         nth;     /* time that it is there, from 1 */
    bool        renews;  /* another view of the same members; else one comes */
    bool        solves, snapshots; /* in place of steps; behind them */
    bool        stops;   /* the job is asked to end, behind them */
    bool        dies;    /* member 0, with the snapshot that it was writing */
    bool        goes_back; /* once one has come: another view, in which rank 0
                            * has yet to hear that the job was asked to end */
    atomic_int  n_there, n_waiting;
    atomic_int  n_unaware; /* who meets behind that, and has not heard of it */
} script;

struct actor {
    struct member    *m;
    struct ct_dist   *dist;
    struct ct_solver *solver;
    struct ct_exchange_ops ops;
    struct ct_job_ops      job;
    const struct ct_exchange_ops *real_ops;
    const struct ct_job_ops      *real_job;
};

static struct actor actors[BUS_MEMBERS];
static _Thread_local struct actor *here;

static void *actor_main(void *arg);

static void start(struct member *m)
{
    actors[m->number] = (struct actor){ .m = m };
    pthread_create(&m->thread, NULL, actor_main, &actors[m->number]);
}

/* The view is over for member 0 before it has done what it is at; the others
 * have had the time to go on. */
static enum ct_status lose_view(struct actor *a)
{
    struct bus *b    = a->m->bus;
    const bool again = script.goes_back && b->n > 2;

    if (script.dies) {
        ASSERT_INT(0, unlink(test_path("s_iter_4.solverstate")));
        pthread_mutex_lock(&b->lock);
        bus_kill(b, a->m);
        pthread_mutex_unlock(&b->lock);
        return ct_fail(CT_ECOMM, "it is dead");
    }

    while (atomic_load(&script.n_waiting) < (again ? 3 : b->n - 1))
        bus_nap(200);
    bus_nap(5000);
    if (again) {
        a->solver->standing.stage      = 0;
        a->solver->standing.loose_ends = true;
        a->solver->peers.agreed        = CT_ACTION_STOP;
    }
    pthread_mutex_lock(&b->lock);
    if (script.renews || again)
        bus_renew(b, a->m);
    else
        start(bus_join(b));
    while (a->m->a.own.view.number == a->m->given)
        pthread_cond_wait(&b->change, &b->lock);
    pthread_mutex_unlock(&b->lock);
    return ct_fail(CT_ECOMM, "the view is over");
}

static bool is_moment(enum moment m)
{
    int n;

    if (here->m->number > 0 || script.moment != m)
        return false;
    n = atomic_fetch_add(&script.n_there, 1) + 1;
    return n == script.nth || (script.goes_back && n == script.nth + 1);
}

static enum ct_status settle(struct ct_exchange *x, int iter,
                             enum ct_settle why)
{
    CT_TRY(here->real_ops->settle(x, iter, why));
    return why == CT_SETTLE_CHECK && iter == LAST && is_moment(CHECKED)
               ? lose_view(here)
               : CT_OK;
}

static enum ct_status meet(struct ct_exchange *x)
{
    if (here->solver->iter == LAST)
        atomic_fetch_add(&script.n_waiting, here->m->number > 0);
    if (script.goes_back && here->m->given > 2 && !here->solver->stop)
        atomic_fetch_add(&script.n_unaware, 1);
    if (here->solver->iter == LAST && is_moment(AT_MEETING))
        return lose_view(here);
    CT_TRY(here->real_job->meet(x));
    return here->solver->iter == LAST && is_moment(MET) ? lose_view(here)
                                                        : CT_OK;
}

/* A view brings the real ones. */
static void watch(struct actor *a)
{
    struct ct_exchange *x = ct_dist_exchange(a->dist);

    if (x->ops != &a->ops) {
        a->real_ops   = x->ops;
        a->ops        = *x->ops;
        a->ops.settle = settle;
        x->ops        = &a->ops;
    }
    if (x->job != &a->job) {
        a->real_job = x->job;
        a->job      = *x->job;
        a->job.meet = meet;
        x->job      = &a->job;
    }
}

static void see_view(bool begins, void *arg)
{
    if (begins && script.goes_back)
        watch(arg);
}

static const struct ct_solver_events events = { .view = see_view };

/* The view behind a death ends before anybody is in it. */
static enum ct_status (*real_open)(void *arg, struct ct_transport **out);

static enum ct_status open_end(void *arg, struct ct_transport **out)
{
    struct member *m = arg;
    struct bus *b    = m->bus;

    CT_TRY(real_open(arg, out));
    pthread_mutex_lock(&b->lock);
    if (m->number == 1 && m->given == 2) {
        bus_renew(b, m);
        while (m->a.own.view.number == m->given)
            pthread_cond_wait(&b->change, &b->lock);
    }
    pthread_mutex_unlock(&b->lock);
    return CT_OK;
}

static enum ct_status live(struct actor *a)
{
    struct ct_solver_options o = { .device = ct_device_cpu() };

    CT_TRY(dist_create_elastic(&a->m->asks, a->m->bus->options, NULL,
                               &a->dist));
    o.exchange = ct_dist_exchange(a->dist);
    o.rank     = ct_dist_rank(a->dist);
    o.size     = ct_dist_size(a->dist);
    CT_TRY(ct_solver_create(a->m->bus->param, &o, &a->solver));
    CT_TRY(ct_solver_listen(a->solver, &events, a));
    if (o.exchange->facts.n_full < o.size)
        CT_TRY(solver_enter_view(a->solver, true));
    watch(a);
    CT_TRY(script.solves ? ct_solver_solve(a->solver)
                         : ct_solver_step(a->solver,
                                          LAST - a->solver->iter));
    if (script.snapshots)
        CT_TRY(ct_solver_snapshot(a->solver));
    if (script.stops) {
        a->solver->stop = true;
        CT_TRY(ct_solver_stop_snapshot(a->solver));
    }
    a->m->iter = a->solver->iter;
    return solver_meet_last(a->solver);
}

static void *actor_main(void *arg)
{
    struct actor *a = arg;

    here = a;
    ct_device_cpu_set_threads(1);
    a->m->st = live(a);
    if (a->m->st != CT_OK)
        snprintf(a->m->why, sizeof(a->m->why), "%s", ct_last_error());
    pthread_mutex_lock(&a->m->bus->lock);
    bus_leave(a->m);
    pthread_mutex_unlock(&a->m->bus->lock);
    ct_solver_destroy(a->solver);
    ct_dist_destroy(a->dist);
    return NULL;
}

/* All come to the end, and so does who comes. */
static void play(const char *more, const char *options, struct script s)
{
    Caffe__SolverParameter *param  = ranks_solver(1, more);
    Caffe__DistributedParameter *p = NULL;
    const int n                    = s.dies ? 3 : 2;
    struct bus *b;

    script = s;
    ASSERT_OK(ct_text_parse(&caffe__distributed_parameter__descriptor, options,
                            strlen(options), "test", &p));
    ASSERT_OK(bus_create(1, param, p, &b));
    bus_start(b, n);
    pthread_mutex_lock(&b->lock);
    real_open = b->member[0].asks.open;
    for (int i = 0; i < n; i++) {
        if (s.dies)
            b->member[i].asks.open = open_end;
        start(&b->member[i]);
    }
    pthread_mutex_unlock(&b->lock);
    bus_await(b);
    bus_stop(b);
    ASSERT_INT(s.renews ? 2 : 3, b->n);
    for (int i = 0; i < b->n; i++) {
        if ((s.stops && !s.dies && i == 2) || (s.dies && i == 0) ||
            s.goes_back) {
            ASSERT_INT(CT_ESTOP, b->member[i].st);
            continue;
        }
        if (b->member[i].st != CT_OK)
            FAIL("member %d: %s", i, b->member[i].why);
        ASSERT_INT(LAST, b->member[i].iter);
    }
    if (s.goes_back)
        ASSERT_INT(0, atomic_load(&script.n_unaware));
    bus_destroy(b);
    ct_message_free(p);
    ct_message_free(param);
}

static void make_data(void)
{
    ranks_make_data();
    ranks_batch(RANKS_BATCH);
}

/* Rank 0 has to prove its parameters once more, and nobody else does. */
TEST(last, those_who_are_done_do_what_others_have_left)
{
    make_data();
    for (int solves = 0; solves < 2; solves++)
        play("max_iter: 4", "batch: 'global' guard_interval: 1",
             (struct script){ .moment = CHECKED, .nth = 1, .renews = true,
                              .solves = solves });
}

TEST(last, a_snapshot_is_apart_from_the_step_before_it)
{
    make_data();
    for (int nth = 1; nth <= 2; nth++)
        play(test_format("max_iter: 4 snapshot_prefix: '%s/s'",
                         test_folder()),
             "batch: 'global' guard_interval: 1",
             (struct script){ .moment = CHECKED, .nth = nth, .renews = true,
                              .snapshots = true });
}

/* The others are at the last snapshot, at the end of a whole training, or
 * behind it. */
TEST(last, who_comes_last_goes_with_the_others)
{
    make_data();
    for (int nth = 1; nth <= 3; nth++)
        play("max_iter: 4", "batch: 'global'",
             (struct script){ .moment = AT_MEETING, .nth = nth,
                              .solves = true });
    play("max_iter: 4", "batch: 'global'",
         (struct script){ .moment = AT_MEETING, .nth = 1 });
}

/* Rank 0 of the view after it has not heard yet what the others had. */
TEST(last, who_comes_last_goes_back_with_the_others)
{
    make_data();
    play("max_iter: 4", "batch: 'global'",
         (struct script){ .moment = AT_MEETING, .nth = 1, .solves = true,
                          .goes_back = true });
}

/* Rank 0 was not through a meeting that was over for the other. */
TEST(last, a_meeting_is_made_up_for)
{
    make_data();
    for (int nth = 1; nth <= 3; nth++)
        play("max_iter: 4", "batch: 'global'",
             (struct script){ .moment = MET, .nth = nth, .renews = true,
                              .solves = true });
    for (int nth = 1; nth <= 2; nth++)
        play(test_format("max_iter: 4 snapshot_prefix: '%s/s'",
                         test_folder()),
             "batch: 'global' guard_interval: 1",
             (struct script){ .moment = MET, .nth = nth, .renews = true,
                              .snapshots = true });
}

/* The others write their last snapshot; nobody goes on without them. */
TEST(last, who_comes_when_a_job_is_asked_to_end_ends)
{
    make_data();
    for (int nth = 1; nth <= 3; nth++)
        play(test_format("max_iter: 9 snapshot: 9 snapshot_prefix: '%s/s'",
                         test_folder()),
             "batch: 'global' guard_interval: 1",
             (struct script){ .moment = AT_MEETING, .nth = nth,
                              .stops = true });
}

/* Who finds nobody that knows of a whole one writes it again. */
TEST(last, a_snapshot_that_went_with_its_rank_is_written_again)
{
    make_data();
    play(test_format("max_iter: 4 snapshot_after_train: true "
                     "snapshot_prefix: '%s/s'", test_folder()),
         "batch: 'global'",
         (struct script){ .moment = AT_MEETING, .nth = 1, .solves = true,
                          .dies = true });
    ASSERT_INT(0, access(test_path("s_iter_4.solverstate"), R_OK));
}

TEST(last, a_snapshot_at_a_stop_goes_not_with_its_writer)
{
    make_data();
    play(test_format("max_iter: 9 snapshot: 9 snapshot_prefix: '%s/s'",
                     test_folder()),
         "batch: 'global'",
         (struct script){ .moment = AT_MEETING, .nth = 2, .stops = true,
                          .dies = true });
    ASSERT_INT(0, access(test_path("s_iter_4.solverstate"), R_OK));
}
