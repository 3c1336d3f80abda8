/* test_fail.c - a rank whose step fails leaves nothing to the comm thread, and
 * one that cannot serve any more ends the job. */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "comm/ps/ps_message.h"
#include "dist/ranks.h"
#include "dist/servers/rounds.h"

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
    if (!(e[1].seconds < 60))
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

/* ---- A server that has no memory left.  Nobody's process ends, and nothing is
 * wrong with the connections. */

struct poor_end {
    struct ct_transport  base;
    struct ct_transport *inner;
};

static atomic_bool is_poor;
static int poor_tag; /* messages that it cannot send */

static struct ct_transport *inner_of(struct ct_transport *t)
{
    return ((struct poor_end *)(void *)t)->inner;
}

static enum ct_status poor_send(struct ct_transport *t, int to, int tag,
                                const void *data, size_t bytes,
                                struct ct_request *out)
{
    if (tag == poor_tag && atomic_load(&is_poor))
        return ct_fail(CT_ENOMEM, "no memory for a message");
    return inner_of(t)->ops->send(inner_of(t), to, tag, data, bytes, out);
}

static enum ct_status poor_receive(struct ct_transport *t, int from, int tag,
                                   void *data, size_t bytes,
                                   struct ct_request *out)
{
    return inner_of(t)->ops->receive(inner_of(t), from, tag, data, bytes, out);
}

static enum ct_status poor_test(struct ct_transport *t, struct ct_request *r,
                                bool *done)
{
    return inner_of(t)->ops->test(inner_of(t), r, done);
}

static bool poor_cancel(struct ct_transport *t, struct ct_request *r)
{
    return inner_of(t)->ops->cancel(inner_of(t), r);
}

static void poor_abort(struct ct_transport *t, int code)
{
    inner_of(t)->ops->abort(inner_of(t), code);
}

static void poor_destroy(struct ct_transport *t)
{
    inner_of(t)->ops->destroy(inner_of(t));
    ct_free(t);
}

static const struct ct_transport_ops poor_ops = {
    .name    = "poor",
    .send    = poor_send,
    .receive = poor_receive,
    .test    = poor_test,
    .cancel  = poor_cancel,
    .abort   = poor_abort,
    .destroy = poor_destroy,
};

static struct ct_transport *make_poor(struct ct_transport *inner)
{
    struct poor_end *p = ct_calloc(1, sizeof(*p), "a poor end");

    ASSERT(p);
    p->base     = *inner;
    p->base.ops = &poor_ops;
    p->inner    = inner;
    return &p->base;
}

/* As a program does: it trains, meets the others, and ends them if that
 * fails. */
static enum ct_status train_to_the_end(struct end *e, struct ct_dist *d)
{
    const struct ct_solver_options o = { .rank     = ct_dist_rank(d),
                                         .size     = ct_dist_size(d),
                                         .exchange = ct_dist_exchange(d) };
    struct ct_solver *s = NULL;
    enum ct_status st;

    CT_TRY(ct_solver_create(e->param, &o, &s));
    st = ct_solver_step(s, 1);
    if (e->number == 0)
        atomic_store(&is_poor, true);
    if (st == CT_OK)
        st = ct_solver_step(s, 100);
    ct_solver_destroy(s);
    CT_TRY(st);
    return ct_dist_end(d);
}

static void *poor_main(void *arg)
{
    struct end *e     = arg;
    struct ct_dist *d = NULL;

    ct_device_cpu_set_threads(1);
    e->st = dist_create_over(e->transport, e->options, &d);
    if (e->st == CT_OK)
        e->st = train_to_the_end(e, d);
    snprintf(e->why, sizeof(e->why), "%s", ct_last_error());
    if (e->st != CT_OK)
        ct_dist_abort(d, 1);
    ct_dist_destroy(d);
    return NULL;
}

static void serve_without_memory(const char *options, int tag)
{
    Caffe__DistributedParameter *p = NULL;
    Caffe__SolverParameter *param  = ranks_solver(N_RANKS - 1, "");
    struct ct_transport *t[N_RANKS];
    struct end e[N_RANKS] = { 0 };
    pthread_t thread[N_RANKS];

    ASSERT_OK(ct_text_parse(&caffe__distributed_parameter__descriptor,
                            options, strlen(options), "test", &p));
    ASSERT_OK(ct_loopback_create(N_RANKS, &(struct ct_loopback_options){ 0 },
                                 t));
    atomic_store(&is_poor, false);
    poor_tag = tag;
    t[N_RANKS - 1] = make_poor(t[N_RANKS - 1]);
    for (int r = 0; r < N_RANKS; r++) {
        e[r] = (struct end){ .transport = t[r], .param = param, .options = p,
                             .number = r };
        pthread_create(&thread[r], NULL, poor_main, &e[r]);
    }
    for (int r = 0; r < N_RANKS; r++)
        pthread_join(thread[r], NULL);
    ct_message_free(param);
    ct_message_free(p);
    for (int r = 0; r < N_RANKS; r++)
        if (e[r].st == CT_OK)
            FAIL("rank %d: all is well", r);
}

TEST(fail, a_server_that_adds_up_without_memory_ends_the_job)
{
    ranks_make_data();
    serve_without_memory("road: 'ps' servers: 1 stall: 0",
                         CT_PS_TAG_ANSWER);
}

TEST(fail, a_server_that_keeps_parameters_without_memory_ends_the_job)
{
    ranks_make_data();
    serve_without_memory("sync: 'ssp' staleness: 1 servers: 1 stall: 0",
                         CT_PS_TAG_ANSWER);
}

/* All have trained, and wait for its word of who has come. */
TEST(fail, a_server_without_memory_for_the_last_meeting_ends_the_job)
{
    const int of_who_is_gone = DIST_ROUND_TAG_FREE + 1;

    ranks_make_data();
    serve_without_memory("deadline: 5 servers: 1 stall: 0", of_who_is_gone);
}
