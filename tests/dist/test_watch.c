/* test_watch.c - a rank that keeps others waiting is named, with what it is
 * at; so is one of another host, which tells of itself in messages. */
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/pulse.h"
#include "comm/coll/coll.h"
#include "cortado/log.h"
#include "dist/ranks.h"
#include "liveness/watch.h"

enum { MOST = 5 };

struct waiter {
    struct ct_transport *transport;
    struct ct_dist      *dist;
    double               stall, heartbeat; /* 0: 0.3 */
    const char          *options; /* more of them */
    enum ct_status     (*meet)(struct ct_dist *d, float *x, int64_t n);
    void               (*before)(struct ct_pulse *p); /* coming to the sum */
    const char          *awaits; /* this in the log, before it joins; NULL */
    enum ct_status       st;
    char                 why[512];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char noted[1 << 14];
static bool failed; /* a rank has given up */

static void note(enum ct_log_level level, const char *line, void *arg)
{
    (void)level, (void)arg;
    pthread_mutex_lock(&lock);
    strncat(noted, line, sizeof(noted) - 1 - strlen(noted));
    pthread_mutex_unlock(&lock);
}

/* A moment later: is it in the log, or has a rank given up? */
static bool soon(const char *what)
{
    const struct timespec t = { 0, 20000000 };
    bool yes;

    nanosleep(&t, NULL);
    pthread_mutex_lock(&lock);
    yes = failed || (what && strstr(noted, what));
    pthread_mutex_unlock(&lock);
    return yes;
}

static void until_named(struct ct_pulse *p)
{
    ct_pulse_iter(p, 41);
    ct_pulse_set(p, CT_PULSE_BACKWARD,
                 "conv_with_a_name_of_more_than_40_letters_in_it");
    while (!soon("iteration 41"))
        ;
}

static void until_it_fails(struct ct_pulse *p)
{
    ct_pulse_iter(p, 41);
    ct_pulse_set(p, CT_PULSE_BACKWARD, "conv1");
    while (!soon(NULL))
        ;
}

/* Longer than a stall, and never at rest. */
static double long_s = 12;

static void move_on(struct ct_pulse *p)
{
    double end = ct_now() + long_s;

    while (ct_now() < end && !soon(NULL))
        ct_pulse_set(p, CT_PULSE_TEST, "conv2");
}

static void write_slowly(struct ct_pulse *p)
{
    double end = ct_now() + long_s;

    ct_pulse_set(p, CT_PULSE_SNAPSHOT, NULL);
    while (ct_now() < end && !soon(NULL))
        ;
}

static void *waiter_main(void *arg)
{
    struct waiter *w = arg;
    float x          = 1;
    char text[256];
    Caffe__DistributedParameter *p = NULL;

    snprintf(text, sizeof(text), "heartbeat: %g stall: %g %s",
             w->heartbeat > 0 ? w->heartbeat : 0.3, w->stall,
             w->options ? w->options : "");
    w->st = ct_text_parse(&caffe__distributed_parameter__descriptor, text,
                          strlen(text), "test", &p);
    while (w->awaits && !soon(w->awaits))
        ;
    if (w->st == CT_OK)
        w->st = dist_create_over(w->transport, p, &w->dist);
    if (w->st == CT_OK && w->before)
        w->before(ct_dist_exchange(w->dist)->facts.pulse);
    if (w->st == CT_OK)
        w->st = w->meet(w->dist, &x, 1);
    if (w->st != CT_OK) {
        snprintf(w->why, sizeof(w->why), "%s", ct_last_error());
        pthread_mutex_lock(&lock);
        failed = true;
        pthread_mutex_unlock(&lock);
        ct_dist_abort(w->dist, 1);
    }
    ct_dist_destroy(w->dist);
    ct_message_free(p);
    return NULL;
}

/* n ranks, as `w` says. */
static void run_waiters(struct waiter *w, int n, const int *host)
{
    const struct ct_loopback_options loop = { .host = host };
    struct ct_transport *t[MOST];
    pthread_t thread[MOST];

    noted[0] = '\0';
    failed   = false;
    ct_log_set_sink(note, NULL);
    ct_log_set_level(CT_LOG_WARNING);
    ASSERT_OK(test_ends(n, &loop, t));
    for (int r = 0; r < n; r++) {
        w[r].transport = t[r];
        pthread_create(&thread[r], NULL, waiter_main, &w[r]);
    }
    for (int r = 0; r < n; r++)
        pthread_join(thread[r], NULL);
    ct_log_set_level(CT_LOG_NONE);
    ct_log_set_sink(NULL, NULL);
}

/* Three ranks meet; rank 2 does something else before. */
static void wait_for_rank_2(struct waiter *w, const int *host, double stall,
                            void (*before)(struct ct_pulse *p))
{
    for (int r = 0; r < 3; r++)
        w[r] = (struct waiter){ .stall = stall, .meet = ct_dist_sum,
                                .before = r == 2 ? before : NULL };
    run_waiters(w, 3, host);
}

TEST(watch, a_rank_that_is_waited_for_is_named_with_its_layer)
{
    struct waiter w[3];

    wait_for_rank_2(w, NULL, 100, until_named);
    for (int r = 0; r < 3; r++)
        ASSERT_OK(w[r].st);
    ASSERT_HAS("for rank 2 (pid ", noted);
    ASSERT_HAS("iteration 41, backward of layer conv_with_a_name", noted);
}

/* Nobody has heard of it: it has still to come. */
TEST(watch, a_rank_that_does_not_come_is_named)
{
    struct waiter w[2];

    for (int r = 0; r < 2; r++)
        w[r] = (struct waiter){ .stall = 100, .meet = ct_dist_sum,
                                .awaits = r == 1 ? "to begin" : NULL };
    run_waiters(w, 2, NULL);
    for (int r = 0; r < 2; r++)
        ASSERT_OK(w[r].st);
    ASSERT_HAS("for each other to begin: rank 0 has no message from or to "
               "rank 1, in iteration 0, start-up", noted);
}

TEST(watch, ranks_that_never_come_together_end_the_job)
{
    struct waiter w[2];

    for (int r = 0; r < 2; r++)
        w[r] = (struct waiter){ .stall = 1, .meet = ct_dist_sum,
                                .awaits = r == 1 ? "nothing" : NULL };
    run_waiters(w, 2, NULL);
    ASSERT_STATUS(CT_ECOMM, w[0].st);
    ASSERT_HAS("for each other to begin: rank 0 has no message from or to "
               "rank 1", w[0].why);
}

/* Its pulse cannot be mapped, so it comes in messages. */
TEST(watch, a_rank_of_another_host_tells_of_itself)
{
    static const int host[] = { 0, 0, 1 };
    struct waiter w[3];

    wait_for_rank_2(w, host, 100, until_named);
    for (int r = 0; r < 3; r++)
        ASSERT_OK(w[r].st);
    ASSERT_HAS("for rank 2 (pid ", noted);
    ASSERT_HAS("iteration 41, backward of layer conv_with_a_name", noted);
}

TEST(watch, a_stall_ends_the_job_with_that_text)
{
    struct waiter w[3];

    wait_for_rank_2(w, NULL, 5, until_it_fails);
    for (int r = 0; r < 3; r++)
        ASSERT_STATUS(CT_ECOMM, w[r].st);
    ASSERT_HAS("for rank 2 (pid ", w[0].why);
    ASSERT_HAS("iteration 41, backward of layer conv1", w[0].why);
}

static enum ct_status come_to_the_end(struct ct_dist *d, float *x, int64_t n)
{
    (void)x, (void)n;
    return ct_dist_end(d);
}

/* Longer than a stall, at something that no pulse tells of. */
static void work_on(struct ct_pulse *p)
{
    double end = ct_now() + long_s;

    (void)p;
    while (ct_now() < end && !soon(NULL))
        ;
}

static void end_without_rank_2(const int *host)
{
    struct waiter w[3];

    for (int r = 0; r < 3; r++)
        w[r] = (struct waiter){ .stall = 10, .meet = come_to_the_end,
                                .before = r == 2 ? work_on : NULL };
    run_waiters(w, 3, host);
    for (int r = 0; r < 3; r++)
        if (w[r].st != CT_OK)
            FAIL("rank %d: %s", r, w[r].why);
}

TEST(watch, ranks_that_are_done_wait_for_one_that_works_on)
{
    static const int host[] = { 0, 1, 2 };

    end_without_rank_2(NULL);
    end_without_rank_2(host);
}

TEST(watch, a_slow_snapshot_is_no_stall)
{
    struct waiter w[3];

    wait_for_rank_2(w, NULL, 10, write_slowly);
    for (int r = 0; r < 3; r++)
        ASSERT_OK(w[r].st);
    ASSERT_HAS("snapshot", noted);
}

TEST(watch, a_rank_that_moves_on_is_waited_for)
{
    struct waiter w[3];

    wait_for_rank_2(w, NULL, 10, move_on);
    for (int r = 0; r < 3; r++)
        ASSERT_OK(w[r].st);
    ASSERT_HAS("test of layer conv2", noted);
}

/* Rank 0's host sees it, and tells the third host. */
TEST(watch, a_rank_of_another_host_that_moves_on_is_waited_for)
{
    static const int host[] = { 0, 1, 2 };
    struct waiter w[3];

    long_s = 17; /* than a stall and the time that rank 0 has to speak */
    wait_for_rank_2(w, host, 10, move_on);
    long_s = 12;
    for (int r = 0; r < 3; r++)
        if (w[r].st != CT_OK)
            FAIL("rank %d: %s", r, w[r].why);
}

/* Comes to its group, then to all. */
static enum ct_status group_then_all(struct ct_dist *d, float *x, int64_t n)
{
    if (d->view.group)
        CT_TRY(dist_group_sum(d, x, n));
    return dist_all_sum(d, x, n);
}

/* Ranks 0 and 1, and 2 and 3, train as groups; rank 4 serves.  Rank 3 does
 * something else before. */
static void wait_for_rank_3(struct waiter *w, double stall,
                            void (*before)(struct ct_pulse *p))
{
    for (int r = 0; r < MOST; r++)
        w[r] = (struct waiter){
            .stall = stall, .meet = group_then_all,
            .options = "road: 'ps' servers: 1 groups: 2 staleness: 1",
            .before  = r == 3 ? before : NULL };
    run_waiters(w, MOST, NULL);
}

TEST(watch, groups_and_servers_wait_for_a_rank_that_moves_on)
{
    struct waiter w[MOST];

    wait_for_rank_3(w, 10, move_on);
    for (int r = 0; r < MOST; r++)
        ASSERT_OK(w[r].st);
    ASSERT_HAS("for rank 3 (pid ", noted);
    ASSERT_HAS("test of layer conv2", noted);
}

TEST(watch, a_stall_of_a_group_ends_the_job_with_that_text)
{
    struct waiter w[MOST];

    wait_for_rank_3(w, 5, until_it_fails);
    for (int r = 0; r < MOST; r++)
        ASSERT_STATUS(CT_ECOMM, w[r].st);
    ASSERT_HAS("for rank 3 (pid ", w[0].why);
    ASSERT_HAS("iteration 41, backward of layer conv1", w[0].why);
}

static enum ct_status hierarchical_job(struct ct_comm *c, void *x)
{
    return ct_allreduce_find("hierarchical")->run(c, x, 1);
}

static void pass(double seconds)
{
    double end = ct_now() + seconds;

    while (ct_now() < end && !soon("waiting"))
        ;
}

/* When rank 0 comes to the second sum it has heard of all, and nobody else is
 * there.  Rank 1 comes when the log has named somebody. */
static enum ct_status come_late(struct ct_dist *d, float *x, int64_t n)
{
    static const double at[] = { 1.2, 20, 2, 2 };

    (void)n;
    CT_TRY(ct_job_run(d->view.thread, hierarchical_job, x));
    pass(at[d->view.rank]);
    return ct_job_run(d->view.thread, hierarchical_job, x);
}

/* Rank 0 waits in its host's memory for longer than silence takes to show. */
TEST(watch, ranks_of_other_hosts_are_heard_while_a_host_waits_for_its_own)
{
    static const int host[] = { 0, 0, 1, 1 };
    struct waiter w[MOST];

    for (int r = 0; r < 4; r++)
        w[r] = (struct waiter){ .stall = 100, .heartbeat = 3.5,
                                .meet = come_late };
    run_waiters(w, 4, host);
    for (int r = 0; r < 4; r++)
        ASSERT_OK(w[r].st);
    ASSERT_HAS("s for rank 1 (pid ", noted);
    if (strstr(noted, "no sign of life"))
        FAIL("%s", noted);
}

/* ---- A view of ranks that come and go. */

static uint64_t none_sent(const void *arg)
{
    (void)arg;
    return 0;
}

static unsigned none_asked(const void *arg)
{
    (void)arg;
    return 0;
}

/* One rank of a view. */
struct viewer {
    struct ct_comm        *comm;
    struct ct_comm_thread *thread;
    struct live_watch     *watch;
    struct ct_job          meeting;
};

static void come_to_view(struct viewer *v, struct ct_transport *t,
                         double brief)
{
    struct live_watch_config config = {
        .n_train = t->size, .stall = 100, .heartbeat = 100, .brief = brief,
        .view = 7, .sent = none_sent, .asked = none_asked };

    ASSERT_OK(ct_comm_create(t, &v->comm));
    ASSERT_OK(ct_comm_thread_create(v->comm, NULL, &v->thread));
    config.all = config.alike = v->comm;
    config.thread             = v->thread;
    ASSERT_OK(live_watch_create(&config, &v->watch));
}

static enum ct_status meet_job(struct ct_comm *c, void *arg)
{
    (void)arg;
    return ct_barrier(c);
}

static void leave_view(struct viewer *v)
{
    for (int r = 0; r < 2; r++) {
        live_watch_stop(v[r].watch);
        ct_comm_thread_destroy(v[r].thread);
        live_watch_destroy(v[r].watch);
        ct_comm_destroy(v[r].comm);
    }
}

/* One thread makes all of them, one after the other: it would wait for ever if
 * one waited for the next. */
TEST(watch, in_a_view_nobody_waits_until_the_others_are_there)
{
    struct viewer v[2] = { { .comm = NULL } };
    struct ct_transport *t[2];
    struct live_look look;

    ASSERT_OK(test_ends(2, NULL, t));
    come_to_view(&v[0], t[0], 0);
    ASSERT(live_watch_look(v[0].watch, 0, &look));
    ASSERT(!live_watch_look(v[0].watch, 1, &look));
    come_to_view(&v[1], t[1], 0);
    for (int r = 0; r < 2; r++) {
        v[r].meeting = (struct ct_job){ .run = meet_job };
        ct_job_submit(v[r].thread, &v[r].meeting);
    }
    for (int r = 0; r < 2; r++) {
        ASSERT_OK(ct_job_wait(&v[r].meeting));
        ASSERT(live_watch_look(v[r].watch, 1 - r, &look));
        ASSERT_INT(getpid(), look.pid);
    }
    leave_view(v);
}

static void run_both(struct viewer *v, enum ct_status (*run)(struct ct_comm *c,
                                                             void *arg))
{
    for (int r = 0; r < 2; r++) {
        v[r].meeting = (struct ct_job){ .run = run };
        ct_job_submit(v[r].thread, &v[r].meeting);
    }
}

/* Something that the other one never sends, or that rank 1 sends. */
static enum ct_status await_other(struct ct_comm *c, void *arg)
{
    struct ct_request r;
    char x;

    (void)arg;
    CT_TRY(ct_comm_receive(c, 1 - c->rank, CT_TAG_USER, &x, 1, &r));
    return ct_comm_wait(c, 1 - c->rank, &r);
}

static enum ct_status send_late(struct ct_comm *c, void *arg)
{
    const double end = ct_now() + 3;
    struct ct_request r;
    char x = 0;

    if (c->rank == 0)
        return await_other(c, arg);
    while (ct_now() < end)
        (void)soon(NULL);
    CT_TRY(ct_comm_send(c, 0, CT_TAG_USER, &x, 1, &r));
    return ct_comm_wait(c, 0, &r);
}

/* Where nobody is at work there is nothing to wait for: what they wait for is
 * lost on its way. */
TEST(watch, ranks_that_all_wait_do_so_for_a_brief_time)
{
    struct viewer v[2] = { { .comm = NULL } };
    struct ct_transport *t[2];
    const double begin = ct_now();

    failed = false;
    ASSERT_OK(test_ends(2, NULL, t));
    for (int r = 0; r < 2; r++)
        come_to_view(&v[r], t[r], 1);
    run_both(v, send_late); /* one of them is at work */
    for (int r = 0; r < 2; r++)
        ASSERT_OK(ct_job_wait(&v[r].meeting));
    run_both(v, await_other);
    ASSERT_STATUS(CT_ECOMM, ct_job_wait(&v[0].meeting));
    ASSERT_HAS("for each other", ct_last_error());
    ASSERT(ct_now() - begin < 60);
    ct_comm_thread_call_off(v[1].thread);
    ASSERT_STATUS(CT_ECOMM, ct_job_wait(&v[1].meeting));
    leave_view(v);
}
