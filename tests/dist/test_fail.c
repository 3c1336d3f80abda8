/* test_fail.c - a rank whose step fails leaves nothing to the comm thread. */
#include <pthread.h>
#include <time.h>

#include "base/clock.h"
#include "dist/ranks.h"

enum { N_RANKS = 3 };

struct end {
    struct ct_transport               *transport;
    const Caffe__SolverParameter      *param;
    const Caffe__DistributedParameter *options;
    int                                number;
    enum ct_status                     st;
    char                               why[512];
    double                             seconds; /* that the end took */
    int                                waiting_for, n_queued;
};

static pthread_barrier_t failed;

/* Begins an iteration, and ends the solver in the middle of it. */
static void fail_in_step(struct ct_dist *d, struct ct_solver *s,
                         struct end *e)
{
    struct ct_exchange *x  = ct_dist_exchange(d);
    const struct ct_net *n = ct_solver_net(s);
    struct ct_comm_thread_stats stats;
    double start;

    e->st = x->ops->begin(x, 1);
    for (int l = ct_net_n_layers(n) - 1; l > 0 && e->st == CT_OK; l--)
        e->st = x->ops->layer_done(x, l); /* all but the first layer's */
    start = ct_now();
    ct_solver_destroy(s);
    e->seconds     = ct_now() - start;
    stats          = ct_comm_thread_stats(d->view.thread);
    e->waiting_for = stats.waiting_for;
    e->n_queued    = stats.n_queued;
    pthread_barrier_wait(&failed);
}

static enum ct_status run(struct end *e, struct ct_dist *d)
{
    const struct ct_solver_options o = { .rank     = ct_dist_rank(d),
                                         .size     = ct_dist_size(d),
                                         .exchange = ct_dist_exchange(d) };
    struct ct_solver *s = NULL;

    CT_TRY(ct_solver_create(e->param, &o, &s));
    CT_TRY(ct_solver_step(s, 1));
    if (e->number == 1) {
        fail_in_step(d, s, e);
        return e->st;
    }
    pthread_barrier_wait(&failed); /* it does not come to the next one */
    ct_solver_destroy(s);
    return CT_OK;
}

static void *end_main(void *arg)
{
    struct end *e     = arg;
    struct ct_dist *d = NULL;

    ct_device_cpu_set_threads(1);
    e->st = dist_create_over(e->transport, e->options, &d);
    if (e->st == CT_OK)
        e->st = run(e, d);
    snprintf(e->why, sizeof(e->why), "%s", ct_last_error());
    ct_dist_abort(d, 1);
    ct_dist_destroy(d);
    return NULL;
}

static void fail_with(const char *options)
{
    Caffe__DistributedParameter *p = NULL;
    Caffe__SolverParameter *param  = ranks_solver(N_RANKS, "");
    struct ct_transport *t[N_RANKS];
    struct end e[N_RANKS] = { 0 };
    pthread_t thread[N_RANKS];

    ASSERT_OK(ct_text_parse(&caffe__distributed_parameter__descriptor,
                            options, strlen(options), "test", &p));
    pthread_barrier_init(&failed, NULL, N_RANKS);
    ASSERT_OK(ct_loopback_create(N_RANKS, &(struct ct_loopback_options){ 0 },
                                 t));
    for (int r = 0; r < N_RANKS; r++) {
        e[r] = (struct end){ .transport = t[r], .param = param, .options = p,
                             .number = r };
        pthread_create(&thread[r], NULL, end_main, &e[r]);
    }
    for (int r = 0; r < N_RANKS; r++)
        pthread_join(thread[r], NULL);
    pthread_barrier_destroy(&failed);
    ct_message_free(param);
    ct_message_free(p);
    for (int r = 0; r < N_RANKS; r++)
        if (e[r].st != CT_OK)
            FAIL("rank %d: %s", r, e[r].why);
    ASSERT_INT(-1, e[1].waiting_for);
    ASSERT_INT(0, e[1].n_queued);
    if (!(e[1].seconds < 20))
        FAIL("the end took %g s", e[1].seconds);
}

TEST(fail, buckets_under_way_are_called_off)
{
    ranks_make_data();
    fail_with("reduce: 'ring' bucket_bytes: 1000");
}

TEST(fail, factors_under_way_are_called_off)
{
    ranks_make_data();
    fail_with("road: 'factors' reduce: 'ring' bucket_bytes: 1000");
}

TEST(fail, slices_of_a_group_are_called_off)
{
    ranks_make_data();
    fail_with("road: 'ps' groups: 2 staleness: 1 bucket_bytes: 1000");
}
