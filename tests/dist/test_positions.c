/* test_positions.c - which samples an elastic job takes, over stops, resumes
 * and any number of ranks: each of them once, in their order.
 *
 * With rate 0 the loss of an iteration is the mean of numbers that its samples
 * have, each another one, so it tells which these were. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "data/hdf5.h"
#include "dist/bus.h"
#include "dist/ranks.h"
#include "solver/solver_inner.h"
#include "testing/files.h"

enum { ROWS = 50, MOST_STEPS = 32 };

/* The number of sample i. */
static double number(int64_t i)
{
    return 1 + (double)ct_uniform(7, 0, (uint64_t)(i % ROWS));
}

static void make_rows(void)
{
    static float x[ROWS], zero[ROWS];
    struct ct_hdf5 *h;
    FILE *list;

    for (int i = 0; i < ROWS; i++)
        x[i] = (float)sqrt(2 * number(i));
    ASSERT_OK(ct_hdf5_create(test_path("rows.h5"), &h));
    ASSERT_OK(ct_hdf5_write(h, "x", CT_SHAPE(ROWS, 1), x));
    ASSERT_OK(ct_hdf5_write(h, "y", CT_SHAPE(ROWS, 1), zero));
    ASSERT_OK(ct_hdf5_close(h));
    list = fopen(test_path("rows.txt"), "w");
    ASSERT(list);
    fprintf(list, "%s\n", test_path("rows.h5"));
    fclose(list);
}

static Caffe__SolverParameter *solver_of(int batch)
{
    const char *text = test_format(
        "base_lr: 0 lr_policy: 'fixed' random_seed: 1 "
        "snapshot_after_train: false snapshot_prefix: '%s/s' net_param { "
        "layer { name: 'd' type: 'HDF5Data' top: 'x' top: 'y' "
        "hdf5_data_param { source: '%s' batch_size: %d } } "
        "layer { name: 'f' type: 'InnerProduct' bottom: 'x' top: 'f' "
        "inner_product_param { num_output: 1 bias_term: false "
        "weight_filler { type: 'constant' value: 1 } } } "
        "layer { name: 'l' type: 'EuclideanLoss' bottom: 'f' bottom: 'y' "
        "top: 'l' } }", test_folder(), test_path("rows.txt"), batch);
    Caffe__SolverParameter *p = NULL;

    ASSERT_OK(ct_text_parse(&caffe__solver_parameter__descriptor, text,
                            strlen(text), "test", &p));
    return p;
}

/* ---- A job: it goes on from a snapshot, and ends with one. */

struct job {
    int         n_ranks, batch, first, last;
    const char *resume;  /* NULL: it begins */
    const char *options;
    bool        changes; /* one dies, two come, and views in between */
    double      loss[MOST_STEPS];
    int         dies_at, comes_at;
};
static struct job *now;
static struct ct_solver *solvers[BUS_MEMBERS];
static struct ct_dist   *dists[BUS_MEMBERS];

static void *member_main(void *arg);

static void note(const struct ct_iteration *e, void *arg)
{
    struct member *m = arg;
    struct bus *b    = m->bus;
    double *loss     = &now->loss[e->iter];

    pthread_mutex_lock(&b->lock);
    if (*loss != 0 && memcmp(loss, &e->loss, sizeof(*loss)) != 0)
        *loss = NAN; /* members see other losses */
    else
        *loss = e->loss;
    if (now->changes && m->number == 0 && e->iter % 2 == 0)
        bus_renew(b, m);
    if (now->changes && m->number == 0 &&
        (e->iter == now->comes_at || e->iter == now->comes_at + 3)) {
        struct member *new = bus_join(b);

        pthread_create(&new->thread, NULL, member_main, new);
    }
    if (now->changes && m->number == 1 && e->iter == now->dies_at)
        bus_kill(b, m);
    pthread_mutex_unlock(&b->lock);
}

static const struct ct_solver_events events = { .iteration = note };

static enum ct_status live(struct member *m, struct ct_dist **d,
                           struct ct_solver **s)
{
    struct ct_solver_options o = { .device = ct_device_cpu() };
    bool is_full;

    CT_TRY(dist_create_elastic(&m->asks, m->bus->options, NULL, d));
    o.exchange = ct_dist_exchange(*d);
    o.rank     = ct_dist_rank(*d);
    o.size     = ct_dist_size(*d);
    is_full    = o.rank < o.exchange->facts.n_full;
    CT_TRY(ct_solver_create(m->bus->param, &o, s));
    CT_TRY(ct_solver_listen(*s, &events, m));
    if (is_full && now->resume)
        CT_TRY(ct_solver_restore(*s, now->resume));
    if (o.exchange->facts.n_full < o.size)
        CT_TRY(solver_enter_view(*s, true));
    CT_TRY(ct_solver_step(*s, now->last - ct_solver_iter(*s)));
    return ct_solver_snapshot(*s);
}

static void *member_main(void *arg)
{
    struct member *m     = arg;
    struct ct_solver **s = &solvers[m->number];
    struct ct_dist **d   = &dists[m->number];

    ct_device_cpu_set_threads(1);
    while ((m->st = live(m, d, s)) == CT_ECOMM) {
        ct_solver_destroy(*s);
        ct_dist_destroy(*d);
        *s = NULL;
        *d = NULL;
    }
    if (m->st != CT_OK)
        snprintf(m->why, sizeof(m->why), "%s", ct_last_error());
    pthread_mutex_lock(&m->bus->lock);
    bus_leave(m);
    pthread_mutex_unlock(&m->bus->lock);
    ct_solver_destroy(*s);
    ct_dist_destroy(*d);
    *s = NULL;
    *d = NULL;
    return NULL;
}

static void run_job(struct job *j)
{
    Caffe__SolverParameter *param  = solver_of(j->batch);
    Caffe__DistributedParameter *p = NULL;
    bool ended                     = false;
    struct bus *b;

    now = j;
    ASSERT_OK(ct_text_parse(&caffe__distributed_parameter__descriptor,
                            j->options, strlen(j->options), "test", &p));
    ASSERT_OK(bus_create(1, param, p, &b));
    bus_start(b, j->n_ranks);
    for (int i = 0; i < j->n_ranks; i++)
        pthread_create(&b->member[i].thread, NULL, member_main, &b->member[i]);
    bus_await(b);
    bus_stop(b);
    for (int i = 0; i < b->n; i++) {
        if (b->member[i].st != CT_OK && b->member[i].st != CT_ESTOP)
            FAIL("member %d: %s", i, b->member[i].why);
        ended |= b->member[i].st == CT_OK;
    }
    ASSERT(ended);
    ASSERT(!j->changes || b->n_views > 3);
    bus_destroy(b);
    ct_message_free(p);
    ct_message_free(param);
}

/* Returns the sample that is next. */
static int64_t check_samples(const struct job *j, int64_t next)
{
    for (int i = j->first; i < j->last; i++) {
        double sum = 0;

        for (int k = 0; k < j->batch; k++)
            sum += number(next++);
        if (!(fabs(sum / j->batch - j->loss[i]) <= 2e-6))
            FAIL("%s: iteration %d: the loss is %.9g, that of its samples "
                 "%.9g", j->options, i, j->loss[i], sum / j->batch);
    }
    return next;
}

static const char *snapshot_of(int iter)
{
    return test_path(test_format("s_iter_%d.solverstate", iter));
}

/* 8 samples an iteration, then 6, then 9: ranks begin in the middle of what
 * would be a batch of theirs, and of an epoch. */
static void stop_and_go(const char *options)
{
    struct job first  = { .n_ranks = 3, .batch = 8, .first = 0, .last = 5,
                          .options = options, .changes = true, .dies_at = 1,
                          .comes_at = 1 };
    struct job second = { .n_ranks = 2, .batch = 6, .first = 5, .last = 16,
                          .options = options, .changes = true, .dies_at = 11,
                          .comes_at = 7 };
    struct job third  = { .n_ranks = 1, .batch = 9, .first = 16, .last = 25,
                          .options = options, .changes = true, .dies_at = -1,
                          .comes_at = 18 };
    int64_t next;

    make_rows();
    run_job(&first);
    next          = check_samples(&first, 0);
    second.resume = snapshot_of(5);
    run_job(&second);
    next         = check_samples(&second, next);
    third.resume = snapshot_of(16);
    run_job(&third);
    next = check_samples(&third, next);
    ASSERT_INT(5 * 8 + 11 * 6 + 9 * 9, (int)next);
}

TEST(positions, a_job_that_was_stopped_takes_each_sample_once)
{
    stop_and_go("batch: 'global'");
    stop_and_go("batch: 'global' reduce: 'ring'");
}
