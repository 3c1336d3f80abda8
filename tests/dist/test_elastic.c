/* test_elastic.c - ranks that are lost, come and go at any moment, inside one
 * process: every iteration's loss stays that of one rank with the same batch,
 * so no sample is lost or taken twice. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "core/buffer.h"
#include "dist/bus.h"
#include "dist/ranks.h"
#include "solver/solver_inner.h"
#include "testing/files.h"

static void watch_parts(struct member *m, struct ct_dist *d);
static void shake(struct bus *b);

/* ---- A rank. */

static void note(const struct ct_iteration *e, void *arg)
{
    struct member *m = arg;

    if (e->iter < BUS_STEPS)
        m->loss[e->iter] = e->loss;
    if (m->bus->shaken && m->number == 0 && e->iter % 3 == 2)
        shake(m->bus);
}

static const struct ct_solver_events events = { .iteration = note };

static enum ct_status keep_weights(struct member *m, const struct ct_net *net)
{
    m->n_weights = ct_net_arena_count(net);
    CT_TRY(ct_alloc(m->n_weights, sizeof(float), "weights", &m->weights));
    return ct_device_cpu()->ops->to_host(ct_device_cpu(),
                                         m->n_weights * sizeof(float),
                                         ct_net_arena_data(net), m->weights);
}

/* As the program does: all look for the newest snapshot.  Here is none. */
static enum ct_status begin_again(struct ct_solver *s)
{
    char *newest            = NULL;
    const enum ct_status st = ct_solver_newest_snapshot(s, &newest);

    ct_free(newest);
    return st == CT_ENOTFOUND ? CT_OK : st;
}

/* Nets for the place that it is likely to get. */
struct plans {
    const struct member       *of;
    struct solver_preparation *made;
};

static void prepare(void *arg, const struct ct_expected *e)
{
    const struct ct_solver_options o = { .device = ct_device_cpu() };
    struct plans *p                  = arg;

    solver_prepare_first(p->of->bus->param, &o, e, &p->made);
}

static enum ct_status live(struct member *m, struct ct_dist **d,
                           struct ct_solver **s)
{
    struct ct_solver_options o = { .device = ct_device_cpu() };
    struct plans plans         = { .of = m };
    const struct dist_preparer preparer = { prepare, &plans };
    enum ct_status st;

    st = dist_create_elastic(&m->asks, m->bus->options, &preparer, d);
    if (st != CT_OK) {
        solver_preparation_destroy(plans.made);
        return st;
    }
    o.exchange = ct_dist_exchange(*d);
    o.rank     = ct_dist_rank(*d);
    o.size     = ct_dist_size(*d);
    CT_TRY(solver_create_prepared(m->bus->param, &o, plans.made, s));
    CT_TRY(ct_solver_listen(*s, &events, m));
    if (o.exchange->facts.n_full == 0)
        CT_TRY(begin_again(*s));
    if (o.exchange->facts.n_full < o.size)
        CT_TRY(solver_enter_view(*s, true));
    watch_parts(m, *d);
    CT_TRY(ct_solver_step(*s, BUS_STEPS - ct_solver_iter(*s)));
    m->iter = ct_solver_iter(*s);
    return keep_weights(m, ct_solver_net(*s));
}

/* Whoever ends between two views can say who it was. */
static void ask_who(struct ct_dist *d)
{
    struct ct_rank_state state;

    if (!d)
        return;
    (void)ct_dist_rank_state(d, ct_dist_rank(d), &state);
    CT_ASSERT(ct_dist_rank(d) < ct_dist_n_ranks(d));
    CT_ASSERT(ct_dist_local_rank(d) <= ct_dist_rank(d));
}

static void *member_main(void *arg)
{
    struct member *m    = arg;
    struct ct_dist *d   = NULL;
    struct ct_solver *s = NULL;

    ct_device_cpu_set_threads(m->threads);
    /* A view may end while it comes in. */
    while ((m->st = live(m, &d, &s)) != CT_OK) {
        snprintf(m->why, sizeof(m->why), "%s", ct_last_error());
        if (!dist_asks_again(&m->asks, d, m->st))
            break;
        ct_solver_destroy(s);
        ct_dist_destroy(d);
        s = NULL;
        d = NULL;
    }
    pthread_mutex_lock(&m->bus->lock);
    bus_leave(m);
    pthread_mutex_unlock(&m->bus->lock);
    ask_who(d);
    ct_solver_destroy(s);
    ct_dist_destroy(d);
    return NULL;
}

/* ---- What happens to them. */

static void join_member(struct bus *b)
{
    struct member *m = bus_join(b);

    pthread_create(&m->thread, NULL, member_main, m);
}

enum { KILL = 1, JOIN = 2, SUSPECT = 4, LEAVE = 8, ALL = 15 };

static void harm(struct bus *b, int kinds)
{
    const int kind = 1 << bus_any(b, 4);

    pthread_mutex_lock(&b->lock);
    if (bus_n_alive(b) == 0 || !(kinds & kind)) {
        pthread_mutex_unlock(&b->lock);
        return;
    }
    if (kind == KILL && bus_n_full(b) > 1)
        bus_kill(b, bus_any_alive(b));
    else if (kind == LEAVE && bus_n_full(b) > 2)
        bus_let_go(b);
    else if (kind == SUSPECT && bus_n_full(b) > 2)
        bus_suspect(b);
    else if (kind == JOIN && b->n < BUS_MEMBERS && bus_n_alive(b) < 6)
        join_member(b);
    pthread_mutex_unlock(&b->lock);
}

static bool all_gone(struct bus *b)
{
    bool gone;

    pthread_mutex_lock(&b->lock);
    gone = bus_n_alive(b) == 0;
    pthread_mutex_unlock(&b->lock);
    return gone;
}

/* ---- The test. */

/* How one rank trains by itself. */
struct alone {
    double loss[BUS_STEPS];
    bool   apart;   /* ranks have weights of their own, now and then */
    float *weights; /* NULL: sums differ in their last bits */
};

static void judge(const struct bus *b, const struct alone *alone)
{
    const struct member *one = NULL;

    for (int i = 0; i < b->n; i++) {
        const struct member *m = &b->member[i];

        if (m->st != CT_OK && m->st != CT_ESTOP)
            FAIL("seed %llu: member %d: %s", (unsigned long long)b->seed, i,
                 m->why);
        for (int k = 0; k < BUS_STEPS; k++)
            if (m->loss[k] != 0 && !alone->apart &&
                !(fabs(m->loss[k] - alone->loss[k]) <=
                  (alone->weights ? 0 : 1e-4)))
                FAIL("seed %llu: member %d, iteration %d: the loss is %.9g, "
                     "alone %.9g", (unsigned long long)b->seed, i, k,
                     m->loss[k], alone->loss[k]);
        if (!m->done)
            continue;
        ASSERT_INT(BUS_STEPS, m->iter);
        if (one && memcmp(one->weights, m->weights,
                          one->n_weights * sizeof(float)) != 0)
            FAIL("members %d and %d end with other weights", one->number, i);
        if (alone->weights && memcmp(alone->weights, m->weights,
                                     m->n_weights * sizeof(float)) != 0)
            FAIL("seed %llu: member %d ends with other bits than one rank",
                 (unsigned long long)b->seed, i);
        one = m;
    }
    if (!one)
        FAIL("nobody came to the end");
}

static struct bus *make_bus(unsigned seed, const char *options,
                            const Caffe__SolverParameter *param,
                            Caffe__DistributedParameter **p)
{
    struct bus *b;

    ASSERT_OK(ct_text_parse(&caffe__distributed_parameter__descriptor, options,
                            strlen(options), "test", p));
    ASSERT_OK(bus_create(seed, param, *p, &b));
    return b;
}

static void storm(unsigned seed, const char *options, int kinds,
                  const Caffe__SolverParameter *param,
                  const struct alone *alone)
{
    Caffe__DistributedParameter *p = NULL;
    struct bus *b                  = make_bus(seed, options, param, &p);

    bus_start(b, 4);
    for (int i = 0; i < b->n; i++)
        pthread_create(&b->member[i].thread, NULL, member_main, &b->member[i]);
    for (int i = 0; i < 40 && !all_gone(b); i++) {
        bus_nap(500 + bus_any(b, 8000));
        harm(b, kinds);
    }
    bus_await(b);
    bus_stop(b);
    judge(b, alone);
    if (getenv("CORTADO_TEST_SHOW"))
        printf("seed %u: %d members, %d views, %s\n", seed, b->n, b->n_views,
               options);
    ct_message_free(p);
    bus_destroy(b);
}

static void train_alone(const Caffe__SolverParameter *param,
                        struct ct_exchange *x, struct alone *out)
{
    struct ct_solver_options o = { .device = ct_device_cpu(), .exchange = x,
                                   .size = x != NULL };
    struct ct_solver *s        = NULL;
    const size_t bytes         = sizeof(float);

    ct_device_cpu_set_threads(1); /* as members have */
    ASSERT_OK(ct_solver_create(param, &o, &s));
    for (int i = 0; i < BUS_STEPS; i++) {
        ASSERT_OK(ct_solver_step(s, 1));
        out->loss[i] = ct_solver_loss(s);
    }
    if (x) {
        const size_t n = ct_net_arena_count(ct_solver_net(s));

        ASSERT_OK(ct_alloc(n, bytes, "weights", &out->weights));
        memcpy(out->weights, ct_net_arena_data(ct_solver_net(s)), n * bytes);
    }
    ct_solver_destroy(s);
}

/* One rank whose sums are those of any number. */
static void train_canonical(const Caffe__SolverParameter *param,
                            const char *options, struct alone *out)
{
    Caffe__DistributedParameter *p = NULL;
    struct ct_transport *t         = NULL;
    struct ct_dist *d              = NULL;

    ASSERT_OK(ct_text_parse(&caffe__distributed_parameter__descriptor, options,
                            strlen(options), "test", &p));
    ASSERT_OK(ct_loopback_create(1, NULL, &t));
    ASSERT_OK(dist_create_over(t, p, &d));
    train_alone(param, ct_dist_exchange(d), out);
    ct_dist_destroy(d);
    ct_message_free(p);
}

/* Storms of seeds from `first` on, by one way to exchange after the other. */
static void storms(int first, const char *const *options, int n,
                   const char *more)
{
    const char *seed = getenv("CORTADO_TEST_SEED");  /* one, for a look */
    const char *many = getenv("CORTADO_TEST_STORMS"); /* in place of n */
    const int all    = ALL, calm = KILL | JOIN;
    Caffe__SolverParameter *param;
    struct alone alone = { .apart = strstr(options[0], "local_steps: 3") };
    int n_storms       = many ? atoi(many) : n;

    if (seed) {
        first    = atoi(seed);
        n_storms = 1;
    }
    param = ranks_solver(1, more);
    if (strstr(options[0], "canonical"))
        train_canonical(param, options[0], &alone);
    else
        train_alone(param, NULL, &alone);
    for (int i = first; i < first + n_storms; i++)
        storm((unsigned)i, options[i % n], i % 2 ? calm : all, param, &alone);
    ct_free(alone.weights);
    ct_message_free(param);
}

TEST(elastic, ranks_are_lost_and_the_losses_stay)
{
    static const char *const options[] = {
        "batch: 'global'",
        "batch: 'global' reduce: 'ring' slice_bytes: 4096",
        "batch: 'global' reduce: 'tree' bucket_bytes: 4096",
        "batch: 'global' road: 'factors'",
        "batch: 'global' road: 'sharded'",
        "batch: 'global' road: 'ps'",
    };

    ranks_make_data();
    ranks_batch(RANKS_BATCH);
    storms(0, options, 6, "");
}

/* All members have done an iteration of the first view. */
static bool all_train(struct bus *b, int n)
{
    bool yes = true;

    pthread_mutex_lock(&b->lock);
    for (int i = 0; i < n; i++)
        yes &= b->member[i].a.ready > 0;
    pthread_mutex_unlock(&b->lock);
    return yes;
}

/* Something happens to four ranks that train, and of n all come to the end but
 * member `unfit`, which does not fit. */
static void one_does_not_fit(unsigned seed, const char *options,
                             void (*happens)(struct bus *b), int n, int unfit,
                             const char *why)
{
    Caffe__SolverParameter *param  = ranks_solver(1, "");
    Caffe__DistributedParameter *p = NULL;
    struct bus *b                  = make_bus(seed, options, param, &p);
    struct alone alone             = { .apart = false };
    struct member *that            = &b->member[unfit];

    if (strstr(options, "canonical"))
        train_canonical(param, options, &alone);
    else
        train_alone(param, NULL, &alone);
    bus_start(b, 4);
    for (int i = 0; i < 4; i++)
        pthread_create(&b->member[i].thread, NULL, member_main, &b->member[i]);
    while (!all_train(b, 4))
        bus_nap(100);
    pthread_mutex_lock(&b->lock);
    happens(b);
    pthread_mutex_unlock(&b->lock);
    bus_await(b);
    bus_stop(b);
    ASSERT_INT(n, b->n);
    ASSERT_STATUS(CT_EINVAL, that->st);
    ASSERT_HAS(why, that->why);
    that->st = CT_ESTOP;
    judge(b, &alone);
    for (int i = 0; i < n; i++)
        ASSERT(b->member[i].done || i == unfit);
    ct_free(alone.weights);
    ct_message_free(param);
    ct_message_free(p);
    bus_destroy(b);
}

/* With one more rank than the four, nobody can train. */
TEST(elastic, one_that_does_not_fit_ends_and_the_others_go_on)
{
    ranks_make_data();
    ranks_batch(4);
    for (unsigned i = 0; i < 4; i++) {
        one_does_not_fit(i, "batch: 'global'", join_member, 5, 4,
                         "cannot be divided by 5 ranks");
        one_does_not_fit(i, "batch: 'global' canonical: true parts: 4",
                         join_member, 5, 4, "cannot be dealt out to 5 ranks");
    }
}

static void come_with_another(struct bus *b, struct member *m)
{
    struct member *new = bus_return(b, m);

    b->left_out = NULL;
    pthread_create(&new->thread, NULL, member_main, new);
}

static void suspect_fourth(struct bus *b)
{
    b->left_out = come_with_another;
    elastic_suspect(&b->member[0].a, b->member[3].a.me, true);
    bus_look(b);
}

/* One of the four was taken for lost, and comes back at once with a fifth one:
 * all see that five cannot train, and the fifth one alone ends. */
TEST(elastic, one_that_comes_back_beside_who_does_not_fit_stays)
{
    ranks_make_data();
    ranks_batch(4);
    for (unsigned i = 0; i < 2; i++)
        one_does_not_fit(i, "batch: 'global'", suspect_fourth, 5, 4,
                         "cannot be divided by 5 ranks");
}

static void join_two(struct bus *b)
{
    struct member *fifth = bus_join_two(b);

    for (int i = 0; i < 2; i++)
        pthread_create(&fifth[i].thread, NULL, member_main, &fifth[i]);
}

/* Two new ones come together, and there is room for one more. */
TEST(elastic, one_of_two_that_come_together_stays)
{
    ranks_make_data();
    ranks_batch(5);
    for (unsigned i = 0; i < 4; i++)
        one_does_not_fit(i, "batch: 'global'", join_two, 6, 5,
                         "cannot be divided by 6 ranks");
}

/* With more threads than the others; the job needs both that come. */
static void join_unlike(struct bus *b, int unlike)
{
    struct member *fifth = bus_join_two(b);

    fifth[unlike].threads = 2;
    for (int i = 0; i < 6; i++)
        b->member[i].a.least = 6;
    for (int i = 0; i < 2; i++)
        pthread_create(&fifth[i].thread, NULL, member_main, &fifth[i]);
}

static void join_unlike_and_like(struct bus *b)
{
    join_unlike(b, 0);
}

static void join_like_and_unlike(struct bus *b)
{
    join_unlike(b, 1);
}

/* The one that is meant knows, and so do all others: it alone ends. */
TEST(elastic, one_that_is_unlike_ends_and_who_comes_with_it_stays)
{
    static const char options[] = "batch: 'global' canonical: true parts: 6";

#ifdef __SANITIZE_THREAD__
    test_skip("the thread sanitizer takes barriers of libgomp for races");
#endif
    ranks_make_data();
    ranks_batch(6);
    for (unsigned i = 0; i < 2; i++) {
        one_does_not_fit(i, options, join_unlike_and_like, 6, 4,
                         "rank 4 has another number of threads");
        one_does_not_fit(i, options, join_like_and_unlike, 6, 5,
                         "rank 5 has another number of threads");
    }
}

/* A mean after every iteration is training in step; with more between them
 * ranks go back to the last one, and all end alike. */
TEST(elastic, ranks_that_train_apart_go_back_to_where_they_met)
{
    static const char *const each[] = {
        "batch: 'global' sync: 'local' local_steps: 1",
        "batch: 'global' sync: 'local' local_steps: 1 guard_interval: 2",
    };
    static const char *const third[] = {
        "batch: 'global' sync: 'local' local_steps: 3",
        "batch: 'global' sync: 'local' local_steps: 3 guard_interval: 4",
    };

    ranks_make_data();
    ranks_batch(RANKS_BATCH);
    storms(400, each, 2, "");
    storms(410, third, 2, test_format(
        "test_iter: 2 test_interval: 5 snapshot: 7 snapshot_prefix: '%s/s'",
        test_folder()));
}

TEST(elastic, statistics_tests_and_snapshots_go_along)
{
    static const char *const options[] = {
        "batch: 'global' sync_bn: true guard_interval: 3",
    };

    ranks_make_data();
    ranks_batch(RANKS_BATCH);
    ranks_insert("layer { name: 'bn' type: 'BatchNorm' bottom: 'c' top: 'c' }");
    storms(200, options, 1, test_format(
        "test_iter: 2 test_interval: 5 snapshot: 7 snapshot_prefix: '%s/s'",
        test_folder()));
}

TEST(elastic, so_do_other_sources_and_solvers)
{
    static const char *const options[] = { "batch: 'global'",
                                           "batch: 'global' data: 'root'" };

    ranks_make_data();
    ranks_batch(RANKS_BATCH);
    ranks_source_db(ranks_make_db("train_lmdb"), "shuffle: true");
    storms(100, options, 2, "type: 'Adam' momentum: 0.9 base_lr: 0.001 "
           "iter_size: 2 clip_gradients: 3");
}

/* Through any number of ranks to the same bits, with draws and statistics. */
TEST(elastic, canonical_training_ends_with_the_bits_of_one_rank)
{
    static const char *const options[] = {
        "batch: 'global' canonical: true parts: 8",
        "batch: 'global' canonical: true parts: 8 bucket_bytes: 4096",
    };

    ranks_make_data();
    ranks_batch(RANKS_BATCH);
    ranks_insert("layer { name: 'bn' type: 'BatchNorm' bottom: 'c' top: 'c' }"
                 "layer { name: 'o' type: 'Dropout' bottom: 'c' top: 'c' }");
    storms(300, options, 2, "");
}

/* ---- The parameters are lost. */

/* The one that has them goes while two others come in, one of them in the view
 * after the other's; they begin again, and end as one rank does.  Returns
 * whether nobody else had them by then. */
static bool lose_parameters(unsigned seed, const Caffe__SolverParameter *param,
                            const struct alone *alone)
{
    Caffe__DistributedParameter *p = NULL;
    struct bus *b = make_bus(seed, "batch: 'global'", param, &p);
    bool lost;

    bus_start(b, 1);
    pthread_create(&b->member[0].thread, NULL, member_main, &b->member[0]);
    for (int i = 0; i < 2; i++) {
        bus_nap(500 + bus_any(b, 5000));
        pthread_mutex_lock(&b->lock);
        if (bus_n_alive(b) > 0) /* on a busy machine all may be over */
            join_member(b);
        pthread_mutex_unlock(&b->lock);
    }
    bus_nap(500 + bus_any(b, 5000));
    pthread_mutex_lock(&b->lock);
    lost = b->n == 3 && bus_n_full(b) == 1 && b->member[0].alive &&
           b->member[1].a.rank >= 0 && b->member[2].a.rank >= 0;
    b->begins_again = lost;
    if (lost)
        bus_kill(b, &b->member[0]);
    pthread_mutex_unlock(&b->lock);
    bus_await(b);
    bus_stop(b);
    judge(b, alone);
    ct_message_free(p);
    bus_destroy(b);
    return lost;
}

TEST(elastic, parameters_that_all_have_lost_are_made_again)
{
    Caffe__SolverParameter *param;
    struct alone alone = { 0 };
    int n_lost         = 0;

    ranks_make_data();
    ranks_batch(RANKS_BATCH);
    param = ranks_solver(1, test_format("snapshot_prefix: '%s/none'",
                                        test_folder()));
    train_alone(param, NULL, &alone);
    for (unsigned seed = 0; seed < 10; seed++)
        n_lost += lose_parameters(seed, param, &alone);
    if (getenv("CORTADO_TEST_SHOW"))
        printf("lost in %d of 10\n", n_lost);
    ASSERT(n_lost > 0);
    ct_message_free(param);
}

/* ---- Codecs that hold back. */

/* Views of the same members follow each other in the middle of iterations: now
 * and then, and whenever the first one has done three. */
static void shake(struct bus *b)
{
    struct elastic_agreement *a = &b->member[0].a;

    pthread_mutex_lock(&b->lock);
    if (bus_n_alive(b) == 3 && a->ready > b->shaken_at) {
        b->shaken_at = a->ready;
        bus_renew(b, &b->member[0]);
    }
    pthread_mutex_unlock(&b->lock);
}

/* Three ranks; the weights of the first. */
static float *train_shaken(const Caffe__SolverParameter *param,
                           const char *options, bool shaken, size_t *n)
{
    Caffe__DistributedParameter *p = NULL;
    struct bus *b                  = make_bus(1, options, param, &p);
    float *weights;

    b->shaken = shaken;
    bus_start(b, 3);
    for (int i = 0; i < b->n; i++)
        pthread_create(&b->member[i].thread, NULL, member_main, &b->member[i]);
    while (shaken && !all_gone(b)) {
        bus_nap(200 + bus_any(b, 1000));
        shake(b);
    }
    bus_await(b);
    bus_stop(b);
    for (int i = 0; i < b->n; i++)
        if (b->member[i].st != CT_OK)
            FAIL("%s: member %d: %s", options, i, b->member[i].why);
    if (getenv("CORTADO_TEST_SHOW"))
        printf("%d views, %s\n", b->n_views, options);
    if (shaken)
        ASSERT(b->n_views > BUS_STEPS / 4);
    weights              = b->member[0].weights;
    *n                   = b->member[0].n_weights;
    b->member[0].weights = NULL;
    ct_message_free(p);
    bus_destroy(b);
    return weights;
}

/* Trains so with views in between and without. */
static void shaken_as_calm(const Caffe__SolverParameter *param,
                           const char *options)
{
    size_t n, m;
    float *calm   = train_shaken(param, options, false, &n);
    float *shaken = train_shaken(param, options, true, &m);

    ASSERT_INT((int)n, (int)m);
    if (memcmp(calm, shaken, n * sizeof(float)) != 0)
        FAIL("%s: views in between change the outcome", options);
    ct_free(calm);
    ct_free(shaken);
}

TEST(elastic, what_codecs_hold_back_goes_along)
{
    static const char *const options[] = {
        "reduce: 'ring'",
        "compress: 'onebit'",
        "compress: 'topk:0.1:0'",
        "compress: 'powersgd:2:0'",
        "compress: 'qsgd'",
    };
    Caffe__SolverParameter *param;

    ranks_make_data();
    ranks_batch(RANKS_BATCH);
    param = ranks_solver(1, "base_lr: 0.01");
    for (int i = 0; i < 5; i++)
        shaken_as_calm(param, test_format(
            "batch: 'global' road: 'allreduce' %s", options[i]));
    ct_message_free(param);
}

/* ---- One copy of parameters for all. */

/* Iterations that are done again leave nothing behind, in parameters, histories
 * or rates. */
TEST(elastic, one_copy_of_parameters_goes_along)
{
    static const char *const options[] = {
        "batch: 'global' bucket_bytes: 4096",
        "batch: 'global' road: 'factors'",
    };
    static const char *const rules[] = {
        "base_lr: 0.01",
        "type: 'Adam' base_lr: 0.001 lr_policy: 'multistep' gamma: 0.5 "
        "stepvalue: 9 stepvalue: 9 stepvalue: 20",
    };

    if (getenv("CORTADO_TEST_DEVICE"))
        test_skip("on a GPU every rank has its own copy");
    ranks_make_data();
    ranks_batch(RANKS_BATCH);
    ranks_insert("layer { name: 'z' type: 'Scale' bottom: 'c' top: 'c' "
                 "param { lr_mult: 0 } }");
    for (int i = 0; i < 4; i++) {
        Caffe__SolverParameter *param = ranks_solver(1, rules[i / 2]);

        shaken_as_calm(param, options[i % 2]);
        ct_message_free(param);
    }
}

/* A rank that is lost in the middle of an update, of the `at`th part that any
 * rank makes in the first view. */
static struct {
    atomic_int            n_parts;
    int                   at;
    atomic_int            n_lost;
    struct ct_params_user was[BUS_MEMBERS];
} half_done;

static bool others_went_on(struct bus *b, const struct member *m)
{
    bool yes = true;

    pthread_mutex_lock(&b->lock);
    for (int i = 0; i < b->n; i++)
        yes &= &b->member[i] == m || !b->member[i].alive ||
               b->member[i].given > 1;
    pthread_mutex_unlock(&b->lock);
    return yes;
}

/* It lives on for a while, in the same update. */
static void go_on_writing(const struct ct_solver *s)
{
    for (int k = 0; k < 20; k++) {
        for (int i = 0; i <= s->rule->n_history; i++) {
            const struct ct_buffer *b = s->peers.shared.next[i];

            for (size_t j = 0; j < b->bytes / sizeof(float); j++)
                b->ptr[j] = NAN;
        }
        bus_nap(500);
    }
}

/* What it leaves is no number, and is never said to be done. */
static void update_half(void *arg, size_t first, size_t n, const float *sum)
{
    struct member *m                 = arg;
    const struct ct_params_user *was = &half_done.was[m->number];
    const struct ct_solver *s        = was->arg;

    was->update(was->arg, first, n, sum);
    if (atomic_fetch_add(&half_done.n_parts, 1) != half_done.at)
        return;
    atomic_fetch_add(&half_done.n_lost, 1);
    for (int i = 0; i <= s->rule->n_history; i++)
        for (size_t k = n / 2; k < n; k++)
            s->peers.shared.next[i]->ptr[first + k] = NAN;
    pthread_mutex_lock(&m->bus->lock);
    bus_kill(m->bus, m);
    pthread_mutex_unlock(&m->bus->lock);
    while (!others_went_on(m->bus, m))
        bus_nap(200);
    go_on_writing(s);
}

static void leave_half(void *arg)
{
    const struct member *m = arg;

    half_done.was[m->number].leave(half_done.was[m->number].arg);
}

/* Before the first iteration. */
static void watch_parts(struct member *m, struct ct_dist *d)
{
    if (half_done.at == 0 || m->given > 1)
        return;
    ASSERT(d->host.params_of != NULL);
    half_done.was[m->number] = d->host.user;
    d->host.user.arg         = m;
    d->host.user.update      = update_half;
    d->host.user.leave       = leave_half;
}

TEST(elastic, who_is_lost_in_the_middle_of_an_update_leaves_nothing)
{
    static const char *const options[] = { "batch: 'global'",
                                           "batch: 'global' road: 'factors'" };
    Caffe__SolverParameter *param;
    struct alone alone = { 0 };

    if (getenv("CORTADO_TEST_DEVICE"))
        test_skip("on a GPU every rank has its own copy");
    ranks_make_data();
    ranks_batch(RANKS_BATCH);
    param = ranks_solver(1, "");
    train_alone(param, NULL, &alone);
    for (int i = 0; i < 24; i++) {
        half_done.at = 1 + i + 7 * (i / 6);
        atomic_store(&half_done.n_parts, 0);
        storm((unsigned)i, options[i % 2], 0, param, &alone);
    }
    ASSERT_INT(24, atomic_load(&half_done.n_lost));
    half_done.at = 0;
    ct_message_free(param);
}
