/* test_store.c - memory of a host's ranks, as some of them end. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "comm/window.h"
#include "core/buffer.h"
#include "dist/bus.h"
#include "dist/ranks.h"
#include "net/arena.h"
#include "solver/solver_inner.h"

enum { RANKS = 3 };

/* A rank that ends after `steps`, and where its parameters lay after each. */
struct leaver {
    struct member    *m;
    int               steps;
    bool              lingers; /* it is taken for lost before it ends */
    struct ct_dist   *dist;
    struct ct_solver *solver;
    double            loss[BUS_STEPS];
    double            at[BUS_STEPS]; /* when an iteration was done */
    const float      *values[BUS_STEPS], *history[BUS_STEPS], *diff[BUS_STEPS];
    uint64_t          number[BUS_STEPS]; /* of the store; 0: it has none */
};

static struct leaver leaver[RANKS];

static void note(const struct ct_iteration *e, void *arg)
{
    struct leaver *l          = arg;
    const struct ct_window *w = l->dist->host.store.window;

    l->at[e->iter]      = ct_now();
    l->loss[e->iter]    = e->loss;
    l->values[e->iter]  = ct_net_arena_data(ct_solver_net(l->solver));
    l->diff[e->iter]    = ct_net_arena_diff(ct_solver_net(l->solver));
    l->history[e->iter] = l->solver->history[0]->ptr;
    l->number[e->iter]  = w ? ct_window_number(w) : 0;
}

static const struct ct_solver_events events = { .iteration = note };

static enum ct_status live(struct leaver *l)
{
    struct ct_solver_options o = { .device = ct_device_cpu() };

    CT_TRY(dist_create_elastic(&l->m->asks, l->m->bus->options, NULL,
                               &l->dist));
    o.exchange = ct_dist_exchange(l->dist);
    o.rank     = ct_dist_rank(l->dist);
    o.size     = ct_dist_size(l->dist);
    CT_TRY(ct_solver_create(l->m->bus->param, &o, &l->solver));
    CT_TRY(ct_solver_listen(l->solver, &events, l));
    return ct_solver_step(l->solver, l->steps);
}

static bool others_are_done(const struct leaver *l)
{
    struct bus *b = l->m->bus;
    bool yes      = true;

    pthread_mutex_lock(&b->lock);
    for (int i = 0; i < RANKS; i++)
        yes &= &leaver[i] == l || !b->member[i].alive;
    pthread_mutex_unlock(&b->lock);
    return yes;
}

/* The others hear of its end when its memory is gone, or long before. */
static void *leaver_main(void *arg)
{
    struct leaver *l = arg;
    struct bus *b    = l->m->bus;

    ct_device_cpu_set_threads(1);
    l->m->st = live(l);
    if (l->m->st != CT_OK)
        snprintf(l->m->why, sizeof(l->m->why), "%s", ct_last_error());
    if (l->lingers) {
        pthread_mutex_lock(&b->lock);
        bus_leave(l->m);
        pthread_mutex_unlock(&b->lock);
        while (!others_are_done(l))
            bus_nap(1000);
    }
    ct_solver_destroy(l->solver);
    ct_dist_destroy(l->dist);
    if (!l->lingers) {
        pthread_mutex_lock(&b->lock);
        bus_leave(l->m);
        pthread_mutex_unlock(&b->lock);
    }
    return NULL;
}

/* What becomes of a rank that ends before the others. */
enum end { ENDS, LINGERS, LEAVES };

/* Ranks end one after the other, the last ones first. */
static void train(const char *options, const char *more, const int *steps,
                  enum end end)
{
    Caffe__DistributedParameter *p = NULL;
    Caffe__SolverParameter *param  = ranks_solver(1, more);
    struct bus *b;

    ASSERT_OK(ct_text_parse(&caffe__distributed_parameter__descriptor, options,
                            strlen(options), "test", &p));
    ASSERT_OK(bus_create(1, param, p, &b));
    b->part = end == LEAVES;
    bus_start(b, RANKS);
    for (int i = 0; i < RANKS; i++) {
        leaver[i] = (struct leaver){ .m = &b->member[i], .steps = steps[i],
                                     .lingers = end != ENDS && i > 0 };
        pthread_create(&b->member[i].thread, NULL, leaver_main, &leaver[i]);
    }
    bus_await(b);
    bus_stop(b);
    for (int i = 0; i < RANKS; i++)
        if (b->member[i].st != CT_OK)
            FAIL("member %d: %s", i, b->member[i].why);
    ct_message_free(p);
    ct_message_free(param);
    bus_destroy(b);
}

static void as_one(const char *more, int n)
{
    struct ct_solver_options o    = { .device = ct_device_cpu() };
    Caffe__SolverParameter *param = ranks_solver(1, more);
    struct ct_solver *s           = NULL;

    ct_device_cpu_set_threads(1);
    ASSERT_OK(ct_solver_create(param, &o, &s));
    for (int i = 0; i < n; i++) {
        ASSERT_OK(ct_solver_step(s, 1));
        for (int r = 0; r < RANKS; r++)
            if (i < leaver[r].steps &&
                !(fabs(leaver[r].loss[i] - ct_solver_loss(s)) <= 1e-4))
                FAIL("rank %d, iteration %d: the loss is %.9g, alone %.9g", r,
                     i, leaver[r].loss[i], ct_solver_loss(s));
    }
    ct_solver_destroy(s);
    ct_message_free(param);
}

static bool is_one_of(const float *at, const float *const *places, int n)
{
    for (int i = 0; i < n; i++)
        if (places[i] == at)
            return true;
    return false;
}

/* Where this rank's parameters were in iterations `from` to `end` - 1, they had
 * been in the first two, and so had gradients. */
static bool stayed(const struct leaver *l, int from, int end)
{
    bool yes = true;

    for (int i = from; i < end; i++)
        yes &= is_one_of(l->values[i], l->values, 2) &&
               is_one_of(l->history[i], l->history, 2) &&
               l->diff[i] == l->diff[0];
    return yes;
}

static void skip_on_gpu(void)
{
    if (getenv("CORTADO_TEST_DEVICE"))
        test_skip("on a GPU every rank has its own copy");
}

/* Nothing is copied, and no memory is found anew, neither by two nor by the
 * one that is left. */
TEST(store, parameters_stay_where_they_are_as_ranks_end)
{
    static const char *const roads[] = { "batch: 'global'",
                                         "batch: 'global' road: 'factors'" };
    static const char *const rules[] = {
        "base_lr: 0.01",
        "type: 'Adam' base_lr: 0.001 lr_policy: 'multistep' gamma: 0.5 "
        "stepvalue: 5 stepvalue: 9" };
    static const int steps[RANKS] = { 14, 9, 5 };

    skip_on_gpu();
    for (int i = 0; i < 4; i++) {
        ranks_make_data();
        ranks_batch(RANKS_BATCH);
        ranks_insert("layer { name: 'z' type: 'Scale' bottom: 'c' top: 'c' "
                     "param { lr_mult: 0 } }");
        train(roads[i % 2], rules[i / 2], steps, ENDS);
        for (int r = 0; r < RANKS; r++)
            ASSERT(stayed(&leaver[r], 2, steps[r]));
        for (int k = 0; k < steps[1]; k++) {
            ASSERT(leaver[0].number[k] == leaver[0].number[0]);
            ASSERT(leaver[1].number[k] == leaver[0].number[0]);
        }
        ASSERT(leaver[0].number[0] != 0 && leaver[0].number[steps[1]] == 0);
        as_one(rules[i / 2], steps[0]);
    }
}

/* Ranks that share nothing keep theirs, from net to net. */
TEST(store, own_parameters_and_gradients_stay_where_they_are)
{
    static const char *const options[] = {
        "batch: 'global' canonical: true parts: 8",
        "batch: 'global' reduce: 'ring'" };
    static const int steps[RANKS] = { 14, 9, 5 };

    skip_on_gpu();
    for (int i = 0; i < 2; i++) {
        ranks_make_data();
        ranks_batch(RANKS_BATCH);
        train(options[i], "", steps, ENDS);
        for (int r = 0; r < RANKS; r++)
            ASSERT(stayed(&leaver[r], 0, steps[r]));
        as_one("", steps[0]);
    }
}

/* It could still write there. */
TEST(store, nobody_goes_on_beside_a_rank_that_lives)
{
    static const int steps[RANKS] = { 14, 9, 5 };

    skip_on_gpu();
    ranks_make_data();
    ranks_batch(RANKS_BATCH);
    train("batch: 'global'", "", steps, LINGERS);
    for (int r = 0; r < RANKS - 1; r++) {
        ASSERT(stayed(&leaver[r], 2, steps[2]));
        ASSERT(leaver[r].number[steps[2]] != leaver[r].number[0]);
        ASSERT(!stayed(&leaver[r], steps[2], steps[2] + 1));
    }
    as_one("", steps[0]);
}

static void forget_patience(void *usual)
{
    dist_store_patience = *(double *)usual;
}

/* It ends when it is done with what it has: others do not wait for its end, as
 * they do where a rank was lost, here for a minute. */
TEST(store, nobody_waits_for_the_end_of_a_rank_that_has_left)
{
    static const int steps[RANKS] = { 14, 9, 5 };
    static double usual;

    skip_on_gpu();
    usual               = dist_store_patience;
    dist_store_patience = 60;
    test_defer(forget_patience, &usual);
    ranks_make_data();
    ranks_batch(RANKS_BATCH);
    train("batch: 'global'", "", steps, LEAVES);
    for (int r = 1; r < RANKS; r++) {
        const double *at = &leaver[0].at[steps[r]];

        if (!(at[0] - at[-1] < 30))
            FAIL("as rank %d left, an iteration took %.1f s", r,
                 at[0] - at[-1]);
    }
}
