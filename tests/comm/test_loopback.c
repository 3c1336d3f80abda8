/* test_loopback.c - messages between ranks that are threads. */
#include <sched.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "comm/comm_ranks.h"
#include "comm/coll/tune.h"
#include "comm/transport/transports.h"

static void ends(int P, const struct ct_loopback_options *o,
                 struct ct_comm **out)
{
    struct ct_transport *t[MOST_RANKS];

    ASSERT_OK(ct_loopback_create(P, o, t));
    for (int r = 0; r < P; r++) {
        ASSERT_OK(ct_comm_create(t[r], &out[r]));
        out[r]->stall_after = 20;
    }
}

static void leave(int P, struct ct_comm **c)
{
    for (int r = 0; r < P; r++)
        ct_comm_destroy(c[r]);
}

/* Both ends from one thread: sends wait, so receives are posted first. */
TEST(loopback, messages_meet_by_sender_and_tag)
{
    struct ct_comm *c[3];
    struct ct_request sent[3], got[3];
    const int a = 11, b = 22, z = 33;
    int in[3] = { 0 };

    ends(3, NULL, c);
    ASSERT_OK(ct_comm_receive(c[2], 0, 7, &in[0], 4, &got[0]));
    ASSERT_OK(ct_comm_receive(c[2], 1, 7, &in[1], 4, &got[1]));
    ASSERT_OK(ct_comm_receive(c[2], 0, 8, &in[2], 4, &got[2]));
    ASSERT_OK(ct_comm_send(c[1], 2, 7, &b, 4, &sent[1]));
    ASSERT_OK(ct_comm_send(c[0], 2, 8, &z, 4, &sent[2]));
    ASSERT_OK(ct_comm_send(c[0], 2, 7, &a, 4, &sent[0]));
    for (int i = 0; i < 3; i++)
        ASSERT_OK(ct_comm_wait(c[2], -1, &got[i]));
    ASSERT_OK(ct_comm_wait(c[0], 2, &sent[0]));
    ASSERT_OK(ct_comm_wait(c[1], 2, &sent[1]));
    ASSERT_OK(ct_comm_wait(c[0], 2, &sent[2]));
    ASSERT_INT(11, in[0]);
    ASSERT_INT(22, in[1]);
    ASSERT_INT(33, in[2]);
    ASSERT_INT(8, c[0]->bytes_sent);
    ASSERT_INT(12, c[2]->bytes_received);
    leave(3, c);
}

TEST(loopback, a_send_waits_for_its_receive)
{
    struct ct_comm *c[2];
    struct ct_request sent, got;
    int out = 5, in = 0;
    bool done;

    ends(2, NULL, c);
    ASSERT_OK(ct_comm_send(c[0], 1, 0, &out, 4, &sent));
    ASSERT_OK(ct_comm_test(c[0], &sent, &done));
    ASSERT(!done);
    ASSERT_OK(ct_comm_receive(c[1], 0, 0, &in, 4, &got));
    ASSERT_OK(ct_comm_test(c[0], &sent, &done));
    ASSERT(done);
    ASSERT_OK(ct_comm_wait(c[1], 0, &got));
    ASSERT_INT(5, in);
    leave(2, c);
}

TEST(loopback, a_message_of_another_size_is_an_error_with_both_sizes)
{
    struct ct_comm *c[2];
    struct ct_request sent, got;
    char in[8] = { 0 }, out[4] = { 1, 2, 3, 4 };

    ends(2, NULL, c);
    ASSERT_OK(ct_comm_receive(c[1], 0, 0, in, 8, &got));
    ASSERT_OK(ct_comm_send(c[0], 1, 0, out, 4, &sent));
    ASSERT_STATUS(CT_ECOMM, ct_comm_wait(c[1], 0, &got));
    ASSERT_HAS("4 bytes came from rank 0", ct_last_error());
    ASSERT_HAS("not 8", ct_last_error());
    ASSERT_OK(ct_comm_wait(c[0], 1, &sent));
    leave(2, c);
}

TEST(loopback, a_cancelled_receive_takes_no_message)
{
    struct ct_comm *c[2];
    struct ct_request sent, got;
    int out = 9, gone = 0, in = 0;

    ends(2, NULL, c);
    ASSERT_OK(ct_comm_receive(c[1], 0, 0, &gone, 4, &got));
    ASSERT(ct_comm_cancel(c[1], &got));
    ASSERT_OK(ct_comm_send(c[0], 1, 0, &out, 4, &sent));
    ASSERT_OK(ct_comm_receive(c[1], 0, 0, &in, 4, &got));
    ASSERT_OK(ct_comm_wait(c[1], 0, &got));
    ASSERT_OK(ct_comm_wait(c[0], 1, &sent));
    ASSERT_INT(0, gone);
    ASSERT_INT(9, in);
    leave(2, c);
}

TEST(loopback, peers_that_do_not_exist_are_refused)
{
    struct ct_comm *c[2];
    struct ct_request r;
    int x = 0;

    ends(2, NULL, c);
    ASSERT_STATUS(CT_EINVAL, ct_comm_send(c[0], 2, 0, &x, 4, &r));
    ASSERT_STATUS(CT_EINVAL, ct_comm_send(c[0], -1, 0, &x, 4, &r));
    ASSERT_STATUS(CT_EINVAL, ct_comm_receive(c[1], 1, 0, &x, 4, &r));
    ASSERT_HAS("no peer 1", ct_last_error());
    ASSERT_INT(0, c[0]->bytes_sent);
    leave(2, c);
}

TEST(loopback, silence_ends_a_wait_and_names_the_peer)
{
    struct ct_comm *c[2];
    struct ct_request r;
    int x = 0;

    ends(2, NULL, c);
    c[1]->stall_after = 0.02;
    ASSERT_OK(ct_comm_receive(c[1], 0, 0, &x, 4, &r));
    ASSERT_STATUS(CT_ECOMM, ct_comm_wait(c[1], 0, &r));
    ASSERT_HAS("rank 1: nothing from or to rank 0", ct_last_error());
    leave(2, c);
}

static enum ct_status leave_early(struct ct_comm *c, void *arg)
{
    struct ct_request r;
    char x;

    (void)arg;
    if (c->rank == 0)
        return CT_OK;
    CT_TRY(ct_comm_receive(c, 0, 0, &x, 1, &r));
    return ct_comm_wait(c, 0, &r);
}

TEST(loopback, a_rank_that_left_is_not_waited_for)
{
    struct rank rank[2];

    ranks_try(2, NULL, leave_early, NULL, rank);
    ASSERT_INT(CT_ECOMM, rank[1].status);
    ASSERT_HAS("rank 0 has left", rank[1].why);
}

static enum ct_status fail_one(struct ct_comm *c, void *arg)
{
    (void)arg;
    if (c->rank == 2)
        return ct_fail(CT_ENAN, "rank 2 cannot go on");
    for (int i = 0; i < 1000; i++)
        CT_TRY(ct_barrier(c));
    return CT_OK;
}

TEST(loopback, abort_ends_the_wait_of_every_rank)
{
    struct rank rank[5];

    ranks_try(5, NULL, fail_one, NULL, rank);
    for (int r = 0; r < 5; r++)
        ASSERT_INT(r == 2 ? CT_ENAN : CT_ECOMM, rank[r].status);
}

/* 40 messages on each of 3 tags: each tag's come in order. */
static enum ct_status count_up(struct ct_comm *c, void *arg)
{
    struct ct_request r[3][40];
    int number[3][40];

    (void)arg;
    for (int tag = 0; tag < 3; tag++)
        for (int i = 0; i < 40; i++) {
            number[tag][i] = c->rank == 0 ? 100 * tag + i : -1;
            CT_TRY(c->rank == 0
                       ? ct_comm_send(c, 1, tag, &number[tag][i], 4, &r[tag][i])
                       : ct_comm_receive(c, 0, tag, &number[tag][i], 4,
                                         &r[tag][i]));
        }
    for (int i = 39; i >= 0; i--)
        for (int tag = 2; tag >= 0; tag--)
            CT_TRY(ct_comm_wait(c, !c->rank, &r[tag][i]));
    for (int tag = 0; tag < 3; tag++)
        for (int i = 0; i < 40; i++)
            if (number[tag][i] != 100 * tag + i)
                return ct_fail(CT_EINTERNAL, "tag %d place %d: %d", tag, i,
                               number[tag][i]);
    return CT_OK;
}

TEST(loopback, one_tag_keeps_its_order_with_and_without_delays)
{
    for (unsigned seed = 0; seed < 6; seed++)
        ranks_run(2, &(struct ct_loopback_options){ .delay_seed = seed },
                  count_up, NULL);
}

/* Does a message come before one with a lower tag that was sent earlier?  A
 * busy machine may hide it in one round, so there are many. */
static bool overtakes(struct ct_comm **c)
{
    struct ct_request sent[64], got[64];
    bool there[64] = { false }, seen = false;
    char x = 0, y[64];
    int n = 0;

    for (int i = 0; i < 64; i++) {
        ASSERT_OK(ct_comm_receive(c[1], 0, i, &y[i], 1, &got[i]));
        ASSERT_OK(ct_comm_send(c[0], 1, i, &x, 1, &sent[i]));
    }
    while (n < 64)
        for (int i = 0, behind = 0; i < 64; i++) {
            if (there[i])
                continue;
            ASSERT_OK(ct_comm_test(c[1], &got[i], &there[i]));
            n += there[i];
            seen |= there[i] && behind;
            behind |= !there[i];
        }
    for (int i = 0; i < 64; i++)
        ASSERT_OK(ct_comm_wait(c[0], 1, &sent[i]));
    return seen;
}

TEST(loopback, with_delays_other_tags_overtake)
{
    struct ct_comm *c[2];
    bool seen = false;

    ends(2, &(struct ct_loopback_options){ .delay_seed = 3 }, c);
    for (int i = 0; i < 100 && !seen; i++)
        seen = overtakes(c);
    leave(2, c);
    ASSERT(seen);
}

static enum ct_status no_memory(struct ct_comm *c, void *arg)
{
    atomic_uint_least64_t *calls = arg;
    static float x[MOST_RANKS][5000];

    for (int i = 0; i < 20; i++) {
        CT_TRY(ct_barrier(c));
        if (i == 10 && c->rank == 0)
            atomic_store(calls, ct_mem_stats().n_calls);
        CT_TRY(ct_barrier(c));
        for (int k = 0; k < CT_N_ALLREDUCE; k++)
            if (ct_allreduce_available(c, ct_allreduce_at(k)))
                CT_TRY(ct_allreduce_at(k)->run(c, x[c->rank], 5000));
        CT_TRY(ct_barrier(c));
    }
    if (c->rank == 0)
        atomic_store(calls, ct_mem_stats().n_calls - atomic_load(calls));
    return ct_barrier(c);
}

TEST(loopback, collectives_allocate_nothing_after_the_first_ones)
{
    atomic_uint_least64_t calls;

    atomic_init(&calls, 0);
    ranks_run(5, NULL, no_memory, &calls);
    ASSERT_INT(0, atomic_load(&calls));
}

TEST(loopback, alone_every_collective_is_done_at_once)
{
    struct ct_transport *t;
    struct ct_comm *c;
    struct ct_request r;
    float x[3]   = { 1, 2, 3 }, y[3] = { 0 };
    size_t bytes = sizeof(x);

    ASSERT_OK(ct_transport_alone.create(&t));
    ASSERT_OK(ct_comm_create(t, &c));
    ASSERT_OK(ct_allreduce(c, x, 3));
    ASSERT_OK(ct_broadcast(c, 0, x, sizeof(x)));
    ASSERT_OK(ct_allgather(c, x, &bytes, y));
    ASSERT_OK(ct_barrier(c));
    ASSERT_FLOAT(3, y[2], 0);
    ASSERT_FLOAT(2, x[1], 0);
    ASSERT_INT(0, c->bytes_sent);
    ASSERT_STATUS(CT_EINVAL, ct_comm_send(c, 0, 0, x, 4, &r));
    ASSERT_STATUS(CT_ENOTSUP, ct_allreduce_find("mpi")->run(c, x, 3));
    ct_comm_destroy(c);
}

TEST(loopback, nothing_waits_when_the_view_is_over)
{
    struct ct_comm *c[2];
    struct ct_request sent, got, late;
    bool done;
    char x = 1, y;

    ends(2, NULL, c);
    ASSERT_OK(ct_comm_send(c[0], 1, 0, &x, 1, &sent));
    ASSERT_OK(ct_comm_receive(c[0], 1, 0, &y, 1, &got));
    c[0]->transport->ops->over(c[0]->transport);
    ASSERT_STATUS(CT_ECOMM, ct_comm_test(c[0], &sent, &done));
    ASSERT_HAS("the view is over", ct_last_error());
    ASSERT(ct_comm_cancel(c[0], &sent));
    ASSERT_STATUS(CT_ECOMM, ct_comm_wait(c[0], 1, &got));
    ASSERT_STATUS(CT_ECOMM, ct_comm_send(c[0], 1, 0, &x, 1, &late));
    ASSERT_STATUS(CT_ECOMM, ct_comm_receive(c[0], 1, 0, &x, 1, &late));
    /* Rank 1 knows nothing of it, also when rank 0 has gone. */
    ASSERT_OK(ct_comm_receive(c[1], 0, 0, &y, 1, &got));
    ASSERT_OK(ct_comm_test(c[1], &got, &done));
    ASSERT(!done);
    ct_comm_destroy(c[0]);
    ASSERT_OK(ct_comm_test(c[1], &got, &done));
    ASSERT(!done);
    c[1]->transport->ops->over(c[1]->transport);
    ASSERT_STATUS(CT_ECOMM, ct_comm_test(c[1], &got, &done));
    ASSERT(ct_comm_cancel(c[1], &got));
    ct_comm_destroy(c[1]);
}

/* A view of a view, and a limited one, are over with what is below them. */
TEST(loopback, a_part_of_a_view_ends_with_it)
{
    struct ct_transport *t[2], *part, *slow;
    struct ct_request r;
    char x;

    ASSERT_OK(ct_loopback_create(2, NULL, t));
    ASSERT_OK(ct_limit_create(t[0], 1e9, NULL, NULL, &slow));
    ASSERT_OK(ct_subset_create(slow, 0, 2, &part));
    part->ops->over(part);
    ASSERT_STATUS(CT_ECOMM, part->ops->receive(part, 1, 0, &x, 1, &r));
    ASSERT_STATUS(CT_ECOMM, ct_transport_check(part));
    ASSERT_STATUS(CT_ECOMM, ct_transport_check(slow));
    ASSERT_OK(ct_transport_check(t[1]));
    part->ops->destroy(part);
    slow->ops->destroy(slow);
    t[1]->ops->destroy(t[1]);
}

/* Ranks 1 and up wait for rank 0, which does not come, each in its own way. */
struct ending {
    struct ct_transport *t[4];
    atomic_int           n_waiting;
};

static enum ct_status in_message(struct ct_comm *c)
{
    struct ct_request r;
    char x;

    CT_TRY(ct_comm_receive(c, 0, 0, &x, 1, &r));
    return ct_comm_wait(c, 0, &r);
}

static enum ct_status wait_in(struct ct_comm *c, void *arg)
{
    struct ending *e = arg;
    float x          = 1;

    /* The window is made by all. */
    CT_TRY(ct_allreduce_find("shared")->run(c, &x, 1));
    atomic_fetch_add(&e->n_waiting, 1);
    if (c->rank == 0) {
        while (atomic_load(&e->n_waiting) < c->size)
            sched_yield();
        usleep(20000); /* they sleep by now */
        for (int r = 0; r < c->size; r++)
            e->t[r]->ops->over(e->t[r]);
        return CT_OK;
    }
    return c->rank == 1 ? in_message(c)
                        : ct_allreduce_find("shared")->run(c, &x, 1);
}

TEST(loopback, waits_of_every_kind_end_with_the_view)
{
    struct ending e;
    struct rank rank[4];
    double start;

    atomic_init(&e.n_waiting, 0);
    ASSERT_OK(ct_loopback_create(4, NULL, e.t));
    start = ct_now();
    for (int r = 0; r < 4; r++) {
        rank[r] = (struct rank){ .transport = e.t[r], .fn = wait_in,
                                 .arg = &e };
        ASSERT(pthread_create(&rank[r].thread, NULL, rank_main, &rank[r]) ==
               0);
    }
    for (int r = 0; r < 4; r++)
        pthread_join(rank[r].thread, NULL);
    ASSERT(ct_now() - start < 60);
    for (int r = 1; r < 4; r++) {
        ASSERT_INT(CT_ECOMM, rank[r].status);
        ASSERT_HAS("the view is over", rank[r].why);
    }
}

/* A request that failed belongs to its caller until it is given up: those that
 * follow are others. */
TEST(loopback, a_request_that_failed_is_given_up_once)
{
    struct ct_comm *c[3];
    struct ct_request lost, sent[2], got[2];
    const int out[2] = { 11, 22 };
    int in[2]        = { 0 };
    bool done        = true;

    ends(3, NULL, c);
    ASSERT_OK(ct_comm_receive(c[0], 2, 7, &in[0], 4, &lost));
    ct_comm_destroy(c[2]);
    ASSERT_STATUS(CT_ECOMM, ct_comm_test(c[0], &lost, &done));
    ASSERT(!done);
    ASSERT(ct_comm_cancel(c[0], &lost));
    for (int i = 0; i < 2; i++)
        ASSERT_OK(ct_comm_receive(c[0], 1, i, &in[i], 4, &got[i]));
    for (int i = 0; i < 2; i++)
        ASSERT_OK(ct_comm_send(c[1], 0, i, &out[i], 4, &sent[i]));
    for (int i = 0; i < 2; i++) {
        ASSERT_OK(ct_comm_wait(c[0], 1, &got[i]));
        ASSERT_OK(ct_comm_wait(c[1], 0, &sent[i]));
        ASSERT_INT(out[i], in[i]);
    }
    leave(2, c);
}
