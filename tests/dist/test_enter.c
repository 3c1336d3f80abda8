/* test_enter.c - solvers that were made alone come to ranks that go. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "dist/bus.h"
#include "cortado/access.h"
#include "dist/bsp/factors.h"
#include "dist/ranks.h"
#include "net/arena.h"
#include "solver/solver_inner.h"
#include "testing/files.h"

enum { LAST = 4 };

/* A process, which comes while those who have parameters go. */
struct comer {
    struct member   *m;
    bool             first;  /* ends member 0, once it has a place beside it */
    int              n_ready;
    bool             half;   /* of what others have, it had when it said that
                              * it has all */
    bool             owns;   /* its gradients, after it left */
    bool             unfilled, has_own; /* its nets, of the last view */
    struct elastic_membership asks;
    struct ct_dist   *dist;
    struct ct_solver *solver;
};

static enum ct_status next(void *arg, struct elastic_place *out)
{
    struct comer *c = arg;

    return c->m->asks.next(c->m, out);
}

static enum ct_status open_end(void *arg, struct ct_transport **out)
{
    struct comer *c = arg;
    struct bus *b   = c->m->bus;

    pthread_mutex_lock(&b->lock);
    if (c->first && b->member[0].alive)
        bus_kill(b, &b->member[0]);
    pthread_mutex_unlock(&b->lock);
    return c->m->asks.open(c->m, out);
}

static void close_end(void *arg)
{
    struct comer *c = arg;

    c->m->asks.close(c->m);
}

static void prepared(void *arg, uint64_t hint)
{
    struct comer *c = arg;

    c->m->asks.prepared(c->m, hint);
}

/* The view ends before it can say that it has them, once. */
static bool ready(void *arg, int iter)
{
    struct comer *c = arg;
    struct bus *b   = c->m->bus;

    if (c->n_ready++ > 0)
        return c->m->asks.ready(c->m, iter);
    pthread_mutex_lock(&b->lock);
    bus_renew(b, c->m);
    while (c->m->a.own.view.number == c->m->given)
        pthread_cond_wait(&b->change, &b->lock);
    pthread_mutex_unlock(&b->lock);
    return false;
}

static enum ct_status begin(void *arg, int iter)
{
    (void)arg;
    return iter == 0 ? CT_OK : CT_EINTERNAL;
}

static enum ct_status live(struct comer *c)
{
    const struct dist_entry how = { .begin = begin };
    struct ct_solver_options o  = { .device = ct_device_cpu() };

    CT_TRY(ct_solver_create(c->m->bus->param, &o, &c->solver));
    CT_TRY(dist_enter_elastic(&c->asks, &how, c->m->bus->options, c->solver,
                              &c->dist));
    CT_TRY(ct_solver_step(c->solver, LAST));
    c->m->iter = c->solver->iter;
    return CT_OK;
}

static void *comer_main(void *arg)
{
    struct comer *c = arg;

    ct_device_cpu_set_threads(1);
    c->m->st = live(c);
    if (c->m->st != CT_OK)
        snprintf(c->m->why, sizeof(c->m->why), "%s", ct_last_error());
    pthread_mutex_lock(&c->m->bus->lock);
    bus_leave(c->m);
    pthread_mutex_unlock(&c->m->bus->lock);
    ct_solver_destroy(c->solver);
    ct_dist_destroy(c->dist);
    return NULL;
}

/* Twice in a row nobody has the parameters, and there is no snapshot: what
 * they had when they were made is as good as it was. */
TEST(enter, views_without_parameters_follow_each_other)
{
    Caffe__DistributedParameter *p = NULL;
    const char *options            = "batch: 'global'";
    Caffe__SolverParameter *param;
    struct comer comer[2] = { { .first = true } };
    struct bus *b;

    ranks_make_data();
    ranks_batch(RANKS_BATCH);
    param = ranks_solver(1, test_format("snapshot_prefix: '%s/none'",
                                        test_folder()));
    ASSERT_OK(ct_text_parse(&caffe__distributed_parameter__descriptor, options,
                            strlen(options), "test", &p));
    ASSERT_OK(bus_create(1, param, p, &b));
    b->begins_again = true;
    bus_start(b, 1); /* it never says a word */
    pthread_mutex_lock(&b->lock);
    for (int i = 0; i < 2; i++) {
        comer[i].m    = bus_join(b);
        comer[i].asks = (struct elastic_membership){
            .arg = &comer[i], .next = next, .open = open_end,
            .close = close_end, .ready = ready, .prepared = prepared };
        pthread_create(&comer[i].m->thread, NULL, comer_main, &comer[i]);
    }
    pthread_mutex_unlock(&b->lock);
    for (int i = 0; i < 2; i++)
        pthread_join(comer[i].m->thread, NULL);
    bus_stop(b);
    for (int i = 0; i < 2; i++) {
        if (comer[i].m->st != CT_OK)
            FAIL("process %d: %s", i, comer[i].m->why);
        ASSERT_INT(LAST, comer[i].m->iter);
    }
    bus_destroy(b);
    ct_message_free(p);
    ct_message_free(param);
}

/* ---- One that trains, and one that comes to it and goes again. */

static atomic_bool has_gone; /* the second */

/* What it has got, as it first says that it has all. */
static bool ready_at_once(void *arg, int iter)
{
    struct comer *c = arg;

    if (c->n_ready++ == 0)
        c->half = c->solver->standing.half;
    return c->m->asks.ready(c->m, iter);
}

static enum ct_status begin_anywhere(void *arg, int iter)
{
    (void)arg;
    (void)iter;
    return CT_OK;
}

static bool owns_diffs(struct ct_net *net)
{
    const float *at = ct_net_arena_diff(net);

    return ct_net_own_diffs(net) == CT_OK && ct_net_arena_diff(net) == at;
}

/* Is the parameter that only its test net has as fillers make it? */
static bool has_own(const struct ct_solver *s)
{
    const struct ct_net *net = s->tests.net[0];

    for (int i = 0; i < ct_net_n_layers(net); i++) {
        const struct ct_layer *l = ct_net_layer(net, i);

        if (strcmp(l->name, "own") == 0)
            return ct_data(l->blob[0])[0] == 3;
    }
    return false;
}

static enum ct_status live_on(struct comer *c)
{
    const struct dist_entry how = { .begin = begin_anywhere };
    struct ct_solver_options o  = { .device = ct_device_cpu() };

    CT_TRY(ct_solver_create(c->m->bus->param, &o, &c->solver));
    CT_TRY(dist_enter_elastic(&c->asks, &how, c->m->bus->options, c->solver,
                              &c->dist));
    if (c->m->number == 1)
        return ct_solver_step(c->solver, LAST);
    while (!atomic_load(&has_gone))
        CT_TRY(ct_solver_step(c->solver, 1));
    return CT_OK;
}

static void *pair_main(void *arg)
{
    struct comer *c = arg;

    ct_device_cpu_set_threads(1);
    c->m->st = live_on(c);
    if (c->m->st != CT_OK)
        snprintf(c->m->why, sizeof(c->m->why), "%s", ct_last_error());
    if (c->m->st == CT_OK)
        ct_solver_leave(c->solver);
    c->owns = c->m->st == CT_OK && owns_diffs(c->solver->net);
    if (c->m->st == CT_OK) {
        c->unfilled = ct_net_layer(c->solver->net, 1)->run->unfilled;
        c->has_own  = has_own(c->solver);
    }
    pthread_mutex_lock(&c->m->bus->lock);
    bus_leave(c->m);
    pthread_mutex_unlock(&c->m->bus->lock);
    if (c->m->number == 1)
        atomic_store(&has_gone, true);
    ct_solver_destroy(c->solver);
    ct_dist_destroy(c->dist);
    return NULL;
}

/* A parameter that is not learned comes last, with the net: until then the one
 * that comes has not all.  Who leaves has gradients of its own.  Nets that are
 * built for a view run no fillers, but for what only a test net has. */
TEST(enter, who_comes_has_all_once_it_has_what_is_not_learned)
{
    const char *in_file =
        "layer { name: 'd' type: 'DummyData' top: 'x' dummy_data_param { "
        "shape { dim: 2 dim: 3 } } } "
        "layer { name: 'own' type: 'InnerProduct' bottom: 'x' top: 'y' "
        "inner_product_param { num_output: 2 "
        "weight_filler { type: 'constant' value: 3 } } } "
        "layer { name: 's' type: 'Silence' bottom: 'y' }";
    Caffe__DistributedParameter *p = NULL;
    const char *options            = "batch: 'global'";
    struct comer comer[2]          = { { .first = false } };
    Caffe__SolverParameter *param;
    struct bus *b;

    ranks_make_data();
    ranks_batch(RANKS_BATCH);
    ranks_insert("layer { name: 'z' type: 'Scale' bottom: 'c' top: 'c' "
                 "param { lr_mult: 0 } }");
    test_write(test_path("own.prototxt"), in_file, strlen(in_file));
    param = ranks_solver(1, test_format(
        "test_net: '%s' test_iter: 1 test_interval: 1000 "
        "test_initialization: false", test_path("own.prototxt")));
    ASSERT_OK(ct_text_parse(&caffe__distributed_parameter__descriptor, options,
                            strlen(options), "test", &p));
    ASSERT_OK(bus_create(1, param, p, &b));
    bus_start(b, 1);
    atomic_store(&has_gone, false);
    pthread_mutex_lock(&b->lock);
    for (int i = 0; i < 2; i++) {
        comer[i].m    = i == 0 ? &b->member[0] : bus_join(b);
        comer[i].asks = (struct elastic_membership){
            .arg = &comer[i], .next = next, .open = open_end,
            .close = close_end, .ready = ready_at_once,
            .prepared = prepared };
        pthread_create(&comer[i].m->thread, NULL, pair_main, &comer[i]);
    }
    pthread_mutex_unlock(&b->lock);
    for (int i = 0; i < 2; i++)
        pthread_join(comer[i].m->thread, NULL);
    bus_stop(b);
    for (int i = 0; i < 2; i++) {
        if (comer[i].m->st != CT_OK)
            FAIL("process %d: %s", i, comer[i].m->why);
        ASSERT(comer[i].owns);
        ASSERT(comer[i].unfilled);
        ASSERT(comer[i].has_own);
        ASSERT_INT(i, comer[i].half);
    }
    bus_destroy(b);
    ct_message_free(p);
    ct_message_free(param);
}

/* ---- Places that are only likely. */

/* What a member hears of the next view. */
struct hints {
    struct member *m;
    int size, rank; /* of the next one; -1: there is none */
    uint64_t n;
};

static enum ct_status next_hinted(void *arg, struct elastic_place *out)
{
    const struct hints *h = arg;

    return h->m->asks.next(h->m, out);
}

static enum ct_status open_hinted(void *arg, struct ct_transport **out)
{
    const struct hints *h = arg;

    return h->m->asks.open(h->m, out);
}

static void close_hinted(void *arg)
{
    const struct hints *h = arg;

    h->m->asks.close(h->m);
}

static bool ready_hinted(void *arg, int iter)
{
    const struct hints *h = arg;

    return h->m->asks.ready(h->m, iter);
}

static bool expects_hinted(void *arg, struct elastic_place *out)
{
    struct hints *h = arg;

    if (h->size < 0)
        return false;
    *out    = (struct elastic_place){ .hint = ++h->n, .rank = h->rank,
                                      .size = h->size };
    h->size = -1;
    return true;
}

static void prepared_hinted(void *arg, uint64_t hint)
{
    (void)arg;
    ASSERT(hint > 0);
}

/* Steps with this hint; whether anything was prepared for it. */
static bool prepares(struct ct_solver *s, struct hints *h, int rank, int size)
{
    h->rank = rank;
    h->size = size;
    ASSERT_OK(ct_solver_step(s, 1));
    ASSERT_INT(-1, h->size);
    return s->ahead.prepared != NULL;
}

/* One that trains alone, and has a test net of a file. */
struct hermit {
    struct hints              h;
    struct elastic_membership asks;
    Caffe__DistributedParameter *p;
    Caffe__SolverParameter   *param;
    struct bus               *b;
    struct ct_dist           *d;
    struct ct_solver         *s;
};

static void hermit_begin(struct hermit *a, int test_interval)
{
    static const char in_file[] =
        "layer { name: 'd' type: 'DummyData' top: 'x' dummy_data_param { "
        "shape { dim: 2 dim: 3 } } } "
        "layer { name: 's' type: 'Silence' bottom: 'x' }";
    static const char options[] = "batch: 'global'";
    struct ct_solver_options o  = { .device = ct_device_cpu(), .size = 1 };

    *a = (struct hermit){ .h = { .size = -1 } };
    ranks_make_data();
    ranks_batch(RANKS_BATCH);
    test_write(test_path("test.prototxt"), in_file, strlen(in_file));
    a->param = ranks_solver(1, test_format(
        "test_net: '%s' test_iter: 1 test_interval: %d "
        "test_initialization: false", test_path("test.prototxt"),
        test_interval));
    ASSERT_OK(ct_text_parse(&caffe__distributed_parameter__descriptor, options,
                            strlen(options), "test", &a->p));
    ASSERT_OK(bus_create(1, a->param, a->p, &a->b));
    bus_start(a->b, 1);
    a->h.m  = &a->b->member[0];
    a->asks = (struct elastic_membership){
        .arg = &a->h, .next = next_hinted, .open = open_hinted,
        .close = close_hinted, .ready = ready_hinted,
        .expects = expects_hinted, .prepared = prepared_hinted };
    ASSERT_OK(dist_create_elastic(&a->asks, a->p, NULL, &a->d));
    o.exchange = ct_dist_exchange(a->d);
    ASSERT_OK(ct_solver_create(a->param, &o, &a->s));
}

static void hermit_end(struct hermit *a)
{
    ct_solver_destroy(a->s);
    ct_dist_destroy(a->d);
    bus_stop(a->b);
    bus_destroy(a->b);
    ct_message_free(a->p);
    ct_message_free(a->param);
}

/* Another view comes, and nobody with it. */
static void renew(struct hermit *a)
{
    pthread_mutex_lock(&a->b->lock);
    bus_renew(a->b, a->h.m);
    pthread_mutex_unlock(&a->b->lock);
}

/* An inner product of n x m with a batch of k. */
static struct ct_net *factors_net(int n, int m, int k)
{
    Caffe__NetParameter *param = NULL;
    struct ct_net *net         = NULL;
    const char *text           = test_format(
        "layer { name: 'd' type: 'DummyData' top: 'x' top: 'y' "
        "dummy_data_param { shape { dim: %d dim: %d } shape { dim: %d } } } "
        "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' "
        "inner_product_param { num_output: %d } } "
        "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'y' "
        "top: 'l' }", k, m, k, n);

    ASSERT_OK(ct_text_parse(&caffe__net_parameter__descriptor, text,
                            strlen(text), "test", &param));
    ASSERT_OK(ct_net_create(param, &(struct ct_net_options){
        .phase = CAFFE__PHASE__TRAIN, .device = ct_device_cpu() }, &net));
    ct_message_free(param);
    return net;
}

static void await_spare(const struct ct_dist *d)
{
    while (!atomic_load(&d->host.spare))
        bus_nap(1000); /* the last that its thread makes */
}

/* A hint that is withdrawn, or of a view that has come otherwise, leaves
 * nothing behind; and a rank that has not built the test nets of a file, which
 * may have layers that write or that run the user's code, builds none ahead. */
TEST(enter, what_is_prepared_goes_with_its_hint)
{
    struct hermit a;
    int n_tests;

    hermit_begin(&a, 100);
    ASSERT(prepares(a.s, &a.h, 0, 2));
    await_spare(a.d);
    ASSERT(atomic_load(&a.d->elastic.adding) > 0); /* nobody waits for that */
    ASSERT(atomic_load(&a.d->elastic.multiplying) > 0);
    ASSERT(!prepares(a.s, &a.h, 0, 0));
    while (a.s->ahead.dropped)
        ASSERT_OK(ct_solver_step(a.s, 1));
    ASSERT(!atomic_load(&a.d->host.spare));
    n_tests      = a.s->tests.n;
    a.s->tests.n = 0; /* as on ranks that do not test */
    ASSERT(!prepares(a.s, &a.h, 0, 2));
    a.s->tests.n = n_tests;
    ASSERT(prepares(a.s, &a.h, 0, 2));
    await_spare(a.d);
    renew(&a);
    for (int i = 0; i < 3 || a.s->ahead.dropped; i++)
        ASSERT_OK(ct_solver_step(a.s, 1));
    ASSERT(!atomic_load(&a.d->host.spare));
    hermit_end(&a);
}

/* A net is prepared as one that keeps factors where ranks will have some. */
TEST(enter, what_is_prepared_keeps_factors_as_the_view_will)
{
    const struct { int n, m, k; bool in_memory, by_messages; } one[] = {
        { 256, 512, 4, true, true }, { 8, 16, 64, false, true } };
    struct ct_expected e;
    struct hermit a;

    for (int i = 0; i < 2; i++) {
        struct ct_net *net = factors_net(one[i].n, one[i].m, one[i].k);

        ASSERT_INT(one[i].in_memory, dist_shares_factors(net, 2));
        ASSERT_INT(one[i].by_messages, dist_may_have_factors(net, 2));
        ASSERT(!dist_shares_factors(net, 1) && !dist_may_have_factors(net, 1));
        ct_net_destroy(net);
    }
    hermit_begin(&a, 100);
    a.h.rank = 0;
    a.h.size = 2;
    ASSERT(ct_dist_exchange(a.d)->job->expects(ct_dist_exchange(a.d), &e));
    ASSERT(e.keeps_factors == dist_shares_factors);
    hermit_end(&a);
}

/* Rank 0 tests alone.  Whoever becomes rank 0 goes on behind its batches. */
TEST(enter, tests_go_on_where_another_rank_ended_them)
{
    struct hermit a;
    uint64_t n;

    hermit_begin(&a, 1);
    ASSERT_OK(ct_solver_step(a.s, 3));
    n = a.s->tests.n_batches[0];
    ASSERT_INT(2, n);
    ct_net_destroy(a.s->tests.net[0]); /* as on ranks that do not test */
    a.s->tests.n = 0;
    ASSERT_OK(ct_solver_step(a.s, 2));
    ASSERT_INT(4, a.s->tests.n_batches[0]);
    renew(&a);
    ASSERT_OK(ct_solver_step(a.s, 1));
    ASSERT_INT(1, a.s->tests.n);
    ASSERT(a.s->tests.n_batches[0] >= 5);
    ASSERT(ct_net_n_passes(a.s->tests.net[0]) == a.s->tests.n_batches[0]);
    hermit_end(&a);
}

/* ---- Sources that a view would leave without their samples. */

/* A solver whose net has this layer, too, is refused for this reason. */
static void refuse(const char *why, const char *layer, const char *more)
{
    struct ct_solver_options o     = { .device = ct_device_cpu(), .size = 1 };
    Caffe__DistributedParameter *p = NULL;
    const char *options            = "batch: 'global'";
    struct ct_solver *s            = NULL;
    struct ct_dist *d              = NULL;
    Caffe__SolverParameter *param;
    struct bus *b;

    ranks_make_data();
    ranks_insert(layer);
    param = ranks_solver(1, more);
    ASSERT_OK(ct_text_parse(&caffe__distributed_parameter__descriptor, options,
                            strlen(options), "test", &p));
    ASSERT_OK(bus_create(1, param, p, &b));
    bus_start(b, 1);
    ASSERT_OK(dist_create_elastic(&b->member[0].asks, p, NULL, &d));
    o.exchange = ct_dist_exchange(d);
    ASSERT_STATUS(CT_EINVAL, ct_solver_create(param, &o, &s));
    ASSERT_HAS(why, ct_last_error());
    ct_dist_destroy(d);
    bus_stop(b);
    bus_destroy(b);
    ct_message_free(p);
    ct_message_free(param);
}

TEST(enter, what_a_program_has_put_in_is_refused)
{
    refuse("layer arrays: ranks come and go",
           "layer { name: 'arrays' type: 'MemoryData' top: 'm' top: 'n' "
           "memory_data_param { batch_size: 24 channels: 2 height: 1 "
           "width: 1 } }", "");
    refuse("layer in: ranks come and go",
           "layer { name: 'in' type: 'Input' top: 'm' "
           "input_param { shape { dim: 4 dim: 2 } } }", "");
    refuse("layer in: ranks come and go",
           "layer { name: 'in' type: 'Input' top: 'm' include { phase: TEST } "
           "input_param { shape { dim: 4 dim: 2 } } }",
           "test_iter: 1 test_interval: 1");
}
