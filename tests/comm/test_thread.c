/* test_thread.c - jobs in order, their failures, and the link probe. */
#include <unistd.h>

#include "comm/coll/coll.h"
#include "comm/probe.h"
#include "comm/comm_ranks.h"
#include "comm/thread.h"
#include "comm/transport/transports.h"

static struct ct_comm *alone(void)
{
    struct ct_transport *t;
    struct ct_comm *c;

    ASSERT_OK(ct_transport_alone.create(&t));
    ASSERT_OK(ct_comm_create(t, &c));
    return c;
}

static struct ct_comm_thread *started(struct ct_comm *c,
                                      const struct ct_comm_thread_options *o)
{
    struct ct_comm_thread *t;

    ASSERT_OK(ct_comm_thread_create(c, o, &t));
    return t;
}

/* A gate holds the thread until the queue is as the test wants it. */
struct gate {
    atomic_bool open;
};

static enum ct_status gate_job(struct ct_comm *c, void *arg)
{
    struct gate *g = arg;

    (void)c;
    while (!atomic_load(&g->open))
        usleep(100);
    return CT_OK;
}

struct note {
    int *list, *n, value;
};

static enum ct_status note_job(struct ct_comm *c, void *arg)
{
    struct note *a = arg;

    (void)c;
    a->list[(*a->n)++] = a->value;
    return CT_OK;
}

static void run_in(enum ct_job_order order, int *list)
{
    const int priority[] = { 3, 1, 3, 0, 1 };
    struct gate g;
    struct ct_comm *c = alone();
    struct ct_comm_thread *t =
        started(c, &(struct ct_comm_thread_options){ .order = order });
    struct ct_job hold = { .run = gate_job, .arg = &g }, job[5];
    struct note note[5];
    int n = 0;

    atomic_init(&g.open, false);
    ct_job_submit(t, &hold);
    while (ct_comm_thread_stats(t).n_queued > 0)
        usleep(100); /* until the gate's job itself has begun */
    for (int i = 0; i < 5; i++) {
        note[i] = (struct note){ list, &n, i };
        job[i]  = (struct ct_job){ .run = note_job, .arg = &note[i],
                                   .priority = priority[i] };
        ct_job_submit(t, &job[i]);
    }
    ASSERT(!ct_job_done(&job[0]));
    ASSERT_INT(5, ct_comm_thread_stats(t).n_queued);
    atomic_store(&g.open, true);
    for (int i = 0; i < 5; i++)
        ASSERT_OK(ct_job_wait(&job[i]));
    ASSERT(ct_job_done(&job[0]));
    ASSERT_INT(6, ct_comm_thread_stats(t).n_jobs);
    ASSERT_INT(0, ct_comm_thread_stats(t).n_failed);
    ct_comm_thread_destroy(t);
    ct_comm_destroy(c);
}

TEST(thread, jobs_run_in_the_order_they_were_handed_in)
{
    int list[5];

    run_in(CT_JOBS_FIFO, list);
    for (int i = 0; i < 5; i++)
        ASSERT_INT(i, list[i]);
}

TEST(thread, agreed_jobs_run_by_urgency_then_age)
{
    const int want[] = { 3, 1, 4, 0, 2 };
    int list[5];

    run_in(CT_JOBS_AGREED, list);
    for (int i = 0; i < 5; i++)
        ASSERT_INT(want[i], list[i]);
}

static enum ct_status fail_job(struct ct_comm *c, void *arg)
{
    enum ct_status *st = arg;

    (void)c;
    return *st == CT_OK ? CT_OK : ct_fail(*st, "job says %d", (int)*st);
}

TEST(thread, a_failure_comes_back_with_its_text_and_others_go_on)
{
    enum ct_status bad = CT_ENAN, good = CT_OK;
    struct ct_comm *c = alone();
    struct ct_comm_thread *t = started(c, NULL);

    ASSERT_STATUS(CT_ENAN, ct_job_run(t, fail_job, &bad));
    ASSERT_HAS("job says", ct_last_error());
    ASSERT_OK(ct_job_run(t, fail_job, &good));
    ASSERT_INT(1, ct_comm_thread_stats(t).n_failed);
    ct_comm_thread_destroy(t);
    ct_comm_destroy(c);
}

TEST(thread, after_a_failure_of_comm_no_job_runs)
{
    enum ct_status bad = CT_ECOMM, good = CT_OK;
    int list[1] = { 7 }, n = 0;
    struct note note  = { list, &n, 1 };
    struct ct_comm *c = alone();
    struct ct_comm_thread *t = started(c, NULL);

    ASSERT_OK(ct_job_run(t, fail_job, &good));
    ASSERT_STATUS(CT_ECOMM, ct_job_run(t, fail_job, &bad));
    ASSERT_STATUS(CT_ECOMM, ct_job_run(t, note_job, &note));
    ASSERT_HAS("job says", ct_last_error());
    ASSERT_INT(0, n);
    ct_comm_thread_destroy(t);
    ct_comm_destroy(c);
}

TEST(thread, stopping_runs_what_is_queued)
{
    int list[50], n = 0;
    struct ct_job job[50];
    struct note note[50];
    struct ct_comm *c = alone();
    struct ct_comm_thread *t = started(c, NULL);

    for (int i = 0; i < 50; i++) {
        note[i] = (struct note){ list, &n, i };
        job[i]  = (struct ct_job){ .run = note_job, .arg = &note[i] };
        ct_job_submit(t, &job[i]);
    }
    ct_comm_thread_destroy(t);
    ASSERT_INT(50, n);
    ASSERT_INT(49, list[49]);
    ct_comm_destroy(c);
}

static enum ct_status idle_job(struct ct_comm *c, void *arg)
{
    (void)c;
    atomic_fetch_add((atomic_int *)arg, 1);
    return CT_OK;
}

TEST(thread, without_jobs_the_idle_function_runs)
{
    atomic_int n;
    enum ct_status good = CT_OK;
    struct ct_comm *c   = alone();
    struct ct_comm_thread *t;

    atomic_init(&n, 0);
    t = started(c, &(struct ct_comm_thread_options){ .idle = idle_job,
                                                     .idle_arg = &n });
    while (atomic_load(&n) < 5)
        usleep(100);
    ASSERT_OK(ct_job_run(t, fail_job, &good));
    ct_comm_thread_destroy(t);
    ct_comm_destroy(c);
}

/* With an hour between two calls the second comes when the pace changes. */
TEST(thread, the_idle_function_runs_at_another_pace)
{
    const long moment = 100000, hour = 3600000000000;
    atomic_int n;
    struct ct_comm *c = alone();
    struct ct_comm_thread *t;

    atomic_init(&n, 0);
    t = started(c, &(struct ct_comm_thread_options){ .idle = idle_job,
                                                     .idle_arg = &n,
                                                     .idle_ns = hour });
    while (atomic_load(&n) < 1)
        usleep(100);
    ct_comm_thread_pace(t, moment);
    while (atomic_load(&n) < 5)
        usleep(100);
    ct_comm_thread_pace(t, hour);
    ct_comm_thread_destroy(t);
    ct_comm_destroy(c);
}

/* Every rank has a compute thread, the test's, and a comm thread. */
struct bucket {
    float x[1000];
};

static enum ct_status bucket_job(struct ct_comm *c, void *arg)
{
    struct bucket *b = arg;

    return ct_allreduce(c, b->x, 1000);
}

enum { BUCKETS = 20 };

static enum ct_status train_rank(struct ct_comm *c, void *arg)
{
    struct bucket *b = (struct bucket *)arg + c->rank * BUCKETS;
    struct ct_job job[BUCKETS];
    struct ct_comm_thread *t;
    enum ct_status st = CT_OK;

    CT_TRY(ct_comm_thread_create(c, NULL, &t));
    for (int i = 0; i < BUCKETS; i++) {
        for (int k = 0; k < 1000; k++)
            b[i].x[k] = (float)(c->rank * 100 + i);
        job[i] = (struct ct_job){ .run = bucket_job, .arg = &b[i] };
        ct_job_submit(t, &job[i]);
    }
    for (int i = BUCKETS - 1; i >= 0 && st == CT_OK; i--)
        st = ct_job_wait(&job[i]);
    if (ct_comm_thread_stats(t).bytes_sent == 0)
        st = ct_fail(CT_EINTERNAL, "nothing was counted");
    ct_comm_thread_destroy(t);
    return st;
}

TEST(thread, ranks_sum_their_buckets_through_comm_threads)
{
    static struct bucket b[7 * BUCKETS];

    ranks_run(7, &(struct ct_loopback_options){ .delay_seed = 2 }, train_rank,
              b);
    for (int r = 0; r < 7; r++)
        for (int i = 0; i < BUCKETS; i++)
            ASSERT_FLOAT(2100 + 7 * i, b[r * BUCKETS + i].x[999], 0);
}

struct turn {
    struct bucket bucket;
    int *order, *n, number;
};

static enum ct_status turn_job(struct ct_comm *c, void *arg)
{
    struct turn *a = arg;

    a->order[(*a->n)++] = a->number;
    return bucket_job(c, &a->bucket);
}

enum { TURNS = 11 };
static int orders[TURNS][BUCKETS];

/* Ranks hand their jobs in at their own pace, the urgent ones last. */
static enum ct_status agreeing_rank(struct ct_comm *c, void *arg)
{
    static struct turn turn[TURNS][BUCKETS];
    struct ct_job job[BUCKETS];
    struct ct_comm_thread *t;
    enum ct_status st;
    int n = 0;

    (void)arg;
    CT_TRY(ct_comm_thread_create(c, NULL, &t));
    st = ct_comm_thread_agree(t);
    for (int i = 0; i < BUCKETS; i++) {
        struct turn *a = &turn[c->rank][i];

        *a = (struct turn){ .order = orders[c->rank], .n = &n, .number = i };
        a->bucket.x[999] = (float)(c->rank * 100 + i);
        job[i] = (struct ct_job){ .run = turn_job, .arg = a,
                                  .priority = BUCKETS - i };
        ct_job_submit(t, &job[i]);
        if (i % 3 == c->rank % 3)
            usleep(500);
    }
    for (int i = BUCKETS - 1; i >= 0 && st == CT_OK; i--) {
        st = ct_job_wait(&job[i]);
        if (st == CT_OK &&
            turn[c->rank][i].bucket.x[999] != (float)(5500 + TURNS * i))
            st = ct_fail(CT_EINTERNAL, "bucket %d holds %g", i,
                         (double)turn[c->rank][i].bucket.x[999]);
    }
    ct_comm_thread_destroy(t);
    return st;
}

TEST(thread, all_ranks_run_the_jobs_in_the_order_of_rank_0)
{
    bool overtaken = false;

    ranks_run(TURNS, &(struct ct_loopback_options){ .delay_seed = 3 },
              agreeing_rank, NULL);
    for (int r = 0; r < TURNS; r++)
        ASSERT_INT(0, memcmp(orders[0], orders[r], sizeof(orders[0])));
    for (int i = 0; i < BUCKETS; i++)
        overtaken |= orders[0][i] != i;
    ASSERT(overtaken);
}

static enum ct_status lose_rank(struct ct_comm *c, void *arg)
{
    struct ct_comm_thread *t;
    enum ct_status st = CT_OK;

    if (c->rank == 1)
        return CT_OK; /* leaves */
    CT_TRY(ct_comm_thread_create(c, NULL, &t));
    st = ct_job_run(t, bucket_job, arg);
    ct_comm_thread_destroy(t);
    return st;
}

TEST(thread, a_lost_peer_ends_the_job_with_its_name)
{
    struct rank rank[2];
    struct bucket b = { { 0 } };

    ranks_try(2, NULL, lose_rank, &b, rank);
    ASSERT_INT(CT_ECOMM, rank[0].status);
    ASSERT_HAS(test_ends_are_sockets() ? "lost rank 1" : "rank 1 has left",
               rank[0].why);
}

static enum ct_status no_job(struct ct_comm *c, void *arg)
{
    (void)c, (void)arg;
    return CT_OK;
}

static enum ct_status gated_barrier(struct ct_comm *c, void *arg)
{
    CT_TRY(gate_job(c, arg));
    return ct_barrier(c);
}

struct turns {
    struct ct_transport *both[2];
    struct gate          submitted; /* rank 0's jobs are */
};

/* Rank 0 has two jobs when it says which is first, and it is the second; rank
 * 1 has the other one alone, and waits for its turn. */
static enum ct_status wait_for_turn(struct ct_comm *c, void *arg)
{
    struct turns *w     = arg;
    struct ct_job first = { .run = gated_barrier, .arg = &w->submitted };
    struct ct_job job[] = { { .run = no_job, .priority = 2 },
                            { .run = no_job, .priority = 1 } };
    struct ct_comm_thread *t;
    enum ct_status st;

    CT_TRY(ct_comm_thread_create(c, &(struct ct_comm_thread_options){
                                        .order = CT_JOBS_AGREED }, &t));
    w->both[c->rank] = c->transport;
    ct_job_submit(t, &first);
    ct_job_submit(t, &job[0]);
    if (c->rank == 0) {
        ct_job_submit(t, &job[1]);
        atomic_store(&w->submitted.open, true);
        CT_TRY(ct_job_wait(&first));
        usleep(100000);
        for (int r = 1; r >= 0; r--)
            w->both[r]->ops->over(w->both[r]);
    }
    st = ct_job_wait(&job[0]);
    ct_comm_thread_destroy(t);
    return st;
}

TEST(thread, a_job_that_waits_for_its_turn_ends_with_the_view)
{
    struct turns w = { .both = { NULL } };
    struct rank rank[2];

    ranks_try(2, NULL, wait_for_turn, &w, rank);
    ASSERT_INT(CT_ECOMM, rank[1].status);
    ASSERT_HAS("the view is over", rank[1].why);
}

static enum ct_status probe_rank(struct ct_comm *c, void *arg)
{
    return ct_comm_probe(c, (struct ct_probe *)arg + c->rank);
}

/* What a rank finds briefly, and bytes that it sends for that. */
struct brief {
    struct ct_probe probe;
    uint64_t        bytes;
};

static enum ct_status probe_briefly(struct ct_comm *c, void *arg)
{
    struct brief *b = (struct brief *)arg + c->rank;
    enum ct_status st;

    st       = ct_comm_probe_briefly(c, &b->probe);
    b->bytes = atomic_load(&c->bytes_sent);
    return st;
}

/* Two links a rank, each with 64 KB there and back. */
TEST(thread, a_brief_probe_sends_little_and_finds_the_same_everywhere)
{
    for (int P = 2; P <= 5; P++) {
        struct brief b[5];

        ranks_run(P, NULL, probe_briefly, b);
        for (int r = 0; r < P; r++) {
            ASSERT(b[r].bytes < 160 << 10);
            ASSERT(b[r].probe.alpha > 0 && b[r].probe.beta > 0);
            ASSERT_INT(P, b[r].probe.n_links);
            ASSERT_FLOAT(b[0].probe.alpha, b[r].probe.alpha, 0);
            ASSERT_FLOAT(b[0].probe.beta, b[r].probe.beta, 0);
        }
        for (int r = 0; r < P; r++)
            ct_probe_fini(&b[r].probe);
    }
}

TEST(thread, the_probe_gives_all_ranks_the_same_positive_costs)
{
    for (int P = 1; P <= 4; P++) {
        struct ct_probe p[4];

        ranks_run(P, NULL, probe_rank, p);
        ASSERT_INT(P > 1 ? P : 0, p[0].n_links);
        ASSERT(p[0].gamma > 0);
        for (int r = 0; r < P; r++) {
            ASSERT_FLOAT(p[0].beta, p[r].beta, 0);
            ASSERT_INT(p[0].slow_rank, p[r].slow_rank);
            for (int k = 0; k < p[0].n_links; k++) {
                ASSERT_FLOAT(p[0].link[k].alpha, p[r].link[k].alpha, 0);
                ASSERT(p[0].link[k].alpha > 0 && p[0].link[k].beta > 0);
                ASSERT(p[0].link[k].beta <= p[0].beta);
            }
        }
        if (P > 1)
            ASSERT_INT((p[0].slow_rank + 1) % P, p[0].slow_peer);
        for (int r = 0; r < P; r++)
            ct_probe_fini(&p[r]);
    }
}
