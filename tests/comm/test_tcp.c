/* test_tcp.c - messages of views over sockets, between ends of this process. */
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "comm/comm_ranks.h"
#include "comm/transport/tcp.h"
#include "comm/transport/tcp_parts.h"
#include "testing/files.h"

enum { MOST = 4, LONG = 300000 }; /* LONG bytes wait for their receive */

/* Processes that are all in this one. */
struct world {
    struct ct_tcp       *end[MOST];
    const void          *address[MOST];
    size_t               bytes[MOST];
    struct ct_transport *t[MOST];
};

static void world_create(struct world *w, int n)
{
    for (int i = 0; i < n; i++) {
        ASSERT_OK(ct_tcp_create(&w->end[i]));
        w->address[i] = ct_tcp_address(w->end[i], &w->bytes[i]);
        ASSERT(w->bytes[i] > 0);
    }
}

/* Ranks 0 to n - 1 of a view are ends 0 to n - 1. */
static void world_open_one(struct world *w, uint32_t number, int n, int rank)
{
    const struct ct_tcp_view v = { .number = number, .rank = rank, .size = n,
                                   .address       = w->address,
                                   .address_bytes = w->bytes };

    ASSERT_OK(ct_tcp_open(w->end[rank], &v, &w->t[rank]));
}

static void world_open(struct world *w, uint32_t number, int n)
{
    for (int r = 0; r < n; r++)
        world_open_one(w, number, n, r);
}

static void world_close(struct world *w, int n)
{
    for (int r = 0; r < n; r++)
        w->t[r]->ops->destroy(w->t[r]);
}

static void world_destroy(struct world *w, int n)
{
    for (int i = 0; i < n; i++)
        ct_tcp_destroy(w->end[i]);
}

/* One thread plays all ranks, so that whoever waits moves all along: by the
 * test of a receive that nothing ever comes for. */
static void move_on(struct world *w, int rank)
{
    struct ct_transport *t = w->t[rank];
    struct ct_request never;
    bool done;
    char x;

    if (t && t->size > 1 &&
        t->ops->receive(t, rank == 0, 32767, &x, 1, &never) == CT_OK &&
        t->ops->test(t, &never, &done) == CT_OK)
        (void)t->ops->cancel(t, &never);
}

/* Until this one is done or fails; false after a minute. */
static bool finish(struct world *w, int n, int rank, struct ct_request *r,
                   enum ct_status *st)
{
    const double end = ct_now() + 60;
    bool done        = false;

    *st = CT_OK;
    while (!done && *st == CT_OK && ct_now() < end) {
        *st = w->t[rank]->ops->test(w->t[rank], r, &done);
        for (int i = 0; i < n && !done; i++)
            if (i != rank)
                move_on(w, i);
    }
    if (*st != CT_OK)
        (void)w->t[rank]->ops->cancel(w->t[rank], r);
    return done || *st != CT_OK;
}

static void expect(struct world *w, int n, int rank, struct ct_request *r)
{
    enum ct_status st;

    ASSERT(finish(w, n, rank, r, &st));
    ASSERT_OK(st);
}

static void send(struct world *w, int from, int to, int tag, const void *x,
                 size_t bytes, struct ct_request *r)
{
    ASSERT_OK(w->t[from]->ops->send(w->t[from], to, tag, x, bytes, r));
}

static void receive(struct world *w, int at, int from, int tag, void *x,
                    size_t bytes, struct ct_request *r)
{
    ASSERT_OK(w->t[at]->ops->receive(w->t[at], from, tag, x, bytes, r));
}

TEST(tcp, messages_meet_by_sender_and_tag)
{
    struct world w = { 0 };
    struct ct_request sent[3], got[3];
    const int a = 11, b = 22, z = 33;
    int in[3] = { 0 };

    world_create(&w, 3);
    world_open(&w, 1, 3);
    receive(&w, 2, 0, 7, &in[0], 4, &got[0]);
    receive(&w, 2, 1, 7, &in[1], 4, &got[1]);
    receive(&w, 2, 0, 8, &in[2], 4, &got[2]);
    send(&w, 1, 2, 7, &b, 4, &sent[1]);
    send(&w, 0, 2, 8, &z, 4, &sent[2]);
    send(&w, 0, 2, 7, &a, 4, &sent[0]);
    for (int i = 0; i < 3; i++)
        expect(&w, 3, 2, &got[i]);
    expect(&w, 3, 0, &sent[0]);
    expect(&w, 3, 1, &sent[1]);
    expect(&w, 3, 0, &sent[2]);
    ASSERT_INT(11, in[0]);
    ASSERT_INT(22, in[1]);
    ASSERT_INT(33, in[2]);
    world_close(&w, 3);
    world_destroy(&w, 3);
}

TEST(tcp, messages_of_nothing_and_of_much_arrive)
{
    static unsigned char out[LONG], in[LONG];
    struct world w = { 0 };
    struct ct_request sent, got;

    for (int i = 0; i < LONG; i++)
        out[i] = (unsigned char)(i * 7);
    world_create(&w, 2);
    world_open(&w, 1, 2);
    send(&w, 0, 1, 0, NULL, 0, &sent);
    receive(&w, 1, 0, 0, NULL, 0, &got);
    expect(&w, 2, 1, &got);
    expect(&w, 2, 0, &sent);
    for (int first = 0; first < 2; first++) { /* the receive, or the send */
        memset(in, 0, sizeof(in));
        if (first == 0)
            receive(&w, 1, 0, 1, in, LONG, &got);
        send(&w, 0, 1, 1, out, LONG, &sent);
        if (first == 1)
            receive(&w, 1, 0, 1, in, LONG, &got);
        expect(&w, 2, 1, &got);
        expect(&w, 2, 0, &sent);
        ASSERT_INT(0, memcmp(in, out, LONG));
    }
    world_close(&w, 2);
    world_destroy(&w, 2);
}

TEST(tcp, a_message_of_another_size_is_an_error_with_both_sizes)
{
    static const size_t sizes[][2] = { { 4, 8 }, { 8, 4 }, { 8, 0 }, { 0, 8 },
                                       { LONG, 8 }, { 8, LONG },
                                       { LONG, LONG - 1 } };
    static char in[LONG], out[LONG];

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (int posted = 0; posted < 2; posted++) {
            struct world w = { 0 };
            struct ct_request sent, got;
            enum ct_status st;

            world_create(&w, 2);
            world_open(&w, 1, 2);
            if (posted)
                receive(&w, 1, 0, 3, in, sizes[i][1], &got);
            send(&w, 0, 1, 3, out, sizes[i][0], &sent);
            if (!posted)
                receive(&w, 1, 0, 3, in, sizes[i][1], &got);
            ASSERT(finish(&w, 2, 1, &got, &st));
            ASSERT_INT(CT_ECOMM, st);
            ASSERT_HAS(test_format("not %zu", sizes[i][1]), ct_last_error());
            ASSERT_HAS("from rank 0", ct_last_error());
            expect(&w, 2, 0, &sent);
            world_close(&w, 2);
            world_destroy(&w, 2);
        }
}

TEST(tcp, a_cancelled_receive_takes_no_message)
{
    struct world w = { 0 };
    struct ct_request sent, got;
    int out = 9, gone = 0, in = 0;

    world_create(&w, 2);
    world_open(&w, 1, 2);
    receive(&w, 1, 0, 0, &gone, 4, &got);
    ASSERT(w.t[1]->ops->cancel(w.t[1], &got));
    send(&w, 0, 1, 0, &out, 4, &sent);
    receive(&w, 1, 0, 0, &in, 4, &got);
    expect(&w, 2, 1, &got);
    expect(&w, 2, 0, &sent);
    ASSERT_INT(0, gone);
    ASSERT_INT(9, in);
    world_close(&w, 2);
    world_destroy(&w, 2);
}

/* Rank 0 sends in view 5; rank 1 leaves without receiving.  The same tag of
 * view 6 gets what was sent in view 6, and a message of view 7 that comes
 * before its view waits. */
TEST(tcp, messages_of_other_views_never_match)
{
    static char big[LONG], in_big[LONG];
    struct world w = { 0 };
    struct ct_request sent, got, early;
    int old = 5, now = 6, next = 7, in = 0;
    enum ct_status st;

    world_create(&w, 2);
    world_open(&w, 5, 2);
    send(&w, 0, 1, 0, &old, 4, &sent);
    expect(&w, 2, 0, &sent);
    send(&w, 0, 1, 1, big, LONG, &sent); /* nobody will ever receive it */
    for (int r = 0; r < 2; r++)
        w.t[r]->ops->over(w.t[r]);
    world_close(&w, 2);
    world_open(&w, 6, 2);
    memset(big, 6, LONG);
    receive(&w, 1, 0, 0, &in, 4, &got);
    send(&w, 0, 1, 0, &now, 4, &sent);
    expect(&w, 2, 1, &got);
    expect(&w, 2, 0, &sent);
    ASSERT_INT(6, in);
    receive(&w, 1, 0, 1, in_big, LONG, &got);
    send(&w, 0, 1, 1, big, LONG, &sent);
    expect(&w, 2, 1, &got);
    expect(&w, 2, 0, &sent);
    ASSERT_INT(6, in_big[LONG - 1]);

    w.t[0]->ops->destroy(w.t[0]);
    world_open_one(&w, 7, 2, 0);
    send(&w, 0, 1, 0, &next, 4, &early);
    receive(&w, 1, 0, 0, &in, 4, &got);
    ASSERT(finish(&w, 2, 1, &got, &st));
    ASSERT_INT(CT_ECOMM, st);
    ASSERT_HAS("rank 1: lost rank 0: it has left", ct_last_error());
    w.t[1]->ops->destroy(w.t[1]);
    world_open_one(&w, 7, 2, 1);
    receive(&w, 1, 0, 0, &in, 4, &got);
    expect(&w, 2, 1, &got);
    expect(&w, 2, 0, &early);
    ASSERT_INT(7, in);
    world_close(&w, 2);
    world_destroy(&w, 2);
}

/* Every request of a view that is over fails, and at once. */
TEST(tcp, nothing_waits_when_the_view_is_over)
{
    static char big[LONG];
    struct world w = { 0 };
    struct ct_request sent, got, late;
    bool done;
    char x;

    world_create(&w, 2);
    world_open(&w, 1, 2);
    receive(&w, 0, 1, 0, &x, 1, &got);
    send(&w, 0, 1, 1, big, LONG, &sent);
    w.t[0]->ops->over(w.t[0]);
    ASSERT_STATUS(CT_ECOMM, w.t[0]->ops->test(w.t[0], &got, &done));
    ASSERT_HAS("the view is over", ct_last_error());
    ASSERT_STATUS(CT_ECOMM, w.t[0]->ops->test(w.t[0], &sent, &done));
    ASSERT(w.t[0]->ops->cancel(w.t[0], &got));
    ASSERT(w.t[0]->ops->cancel(w.t[0], &sent));
    ASSERT_STATUS(CT_ECOMM, w.t[0]->ops->send(w.t[0], 1, 0, &x, 1, &late));
    ASSERT_STATUS(CT_ECOMM, w.t[0]->ops->receive(w.t[0], 1, 0, &x, 1, &late));
    world_close(&w, 2);
    world_open(&w, 2, 2); /* both live on */
    receive(&w, 0, 1, 0, &x, 1, &got);
    send(&w, 1, 0, 0, "y", 1, &sent);
    expect(&w, 2, 0, &got);
    expect(&w, 2, 1, &sent);
    ASSERT_INT('y', x);
    world_close(&w, 2);
    world_destroy(&w, 2);
}

/* The end of rank 1 goes away: rank 0 names it, and rank 2 does not mind. */
TEST(tcp, a_lost_rank_fails_its_own_requests_by_name)
{
    struct world w = { 0 };
    struct ct_request sent, got, lost;
    enum ct_status st;
    int x = 3, in = 0;

    world_create(&w, 3);
    world_open(&w, 1, 3);
    for (int r = 1; r < 3; r++) { /* all connected */
        receive(&w, r, 0, 0, &in, 4, &got);
        send(&w, 0, r, 0, &x, 4, &sent);
        expect(&w, 3, r, &got);
        expect(&w, 3, 0, &sent);
    }
    receive(&w, 0, 1, 0, &in, 4, &lost);
    w.t[1]->ops->destroy(w.t[1]);
    w.t[1] = NULL;
    ct_tcp_destroy(w.end[1]);
    ASSERT(finish(&w, 3, 0, &lost, &st));
    ASSERT_INT(CT_ECOMM, st);
    ASSERT_HAS("rank 0: lost rank 1", ct_last_error());
    receive(&w, 2, 0, 0, &in, 4, &got);
    send(&w, 0, 2, 0, &x, 4, &sent);
    expect(&w, 3, 2, &got);
    expect(&w, 3, 0, &sent);
    for (int r = 0; r < 3; r += 2)
        w.t[r]->ops->destroy(w.t[r]);
    ct_tcp_destroy(w.end[0]);
    ct_tcp_destroy(w.end[2]);
}

/* Rank 0 is in view 7, rank 1 in view 6, which has a seat for a rank 0. */
TEST(tcp, a_call_waits_for_its_view_and_never_gets_into_another)
{
    struct world w = { 0 };
    struct ct_request sent, got;
    int x = 7, in = 0;
    bool done;

    world_create(&w, 2);
    world_open_one(&w, 6, 2, 1);
    world_open_one(&w, 7, 2, 0);
    send(&w, 0, 1, 0, &x, 4, &sent);
    receive(&w, 1, 0, 0, &in, 4, &got);
    for (int i = 0; i < 100; i++) {
        move_on(&w, 0);
        ASSERT_OK(w.t[1]->ops->test(w.t[1], &got, &done));
        ASSERT(!done);
    }
    ASSERT(w.t[1]->ops->cancel(w.t[1], &got));
    w.t[1]->ops->destroy(w.t[1]);
    world_open_one(&w, 7, 2, 1);
    receive(&w, 1, 0, 0, &in, 4, &got);
    expect(&w, 2, 1, &got);
    expect(&w, 2, 0, &sent);
    ASSERT_INT(7, in);
    world_close(&w, 2);
    world_destroy(&w, 2);
}

TEST(tcp, a_call_of_an_old_view_is_refused)
{
    struct world w = { 0 };
    struct ct_request sent;
    enum ct_status st;
    char x = 1;

    world_create(&w, 2);
    world_open_one(&w, 9, 2, 1);
    world_open_one(&w, 8, 2, 0);
    send(&w, 0, 1, 0, &x, 1, &sent);
    ASSERT(finish(&w, 2, 0, &sent, &st));
    ASSERT_INT(CT_ECOMM, st);
    ASSERT_HAS("rank 0: lost rank 1: it is in another view", ct_last_error());
    world_close(&w, 2);
    world_destroy(&w, 2);
}

TEST(tcp, who_has_another_key_or_no_address_is_refused)
{
    struct world w = { 0 };
    struct ct_request sent;
    enum ct_status st;
    char wrong[1024], x = 1;
    const void *right;

    world_create(&w, 2);
    right = w.address[1];
    memcpy(wrong, right, w.bytes[1]);
    for (size_t i = 16; i < 32; i++) /* where the key is */
        wrong[i] = (char)~wrong[i];
    w.address[1] = wrong;
    world_open(&w, 1, 2);
    send(&w, 0, 1, 0, &x, 1, &sent);
    ASSERT(finish(&w, 2, 0, &sent, &st));
    ASSERT_INT(CT_ECOMM, st);
    ASSERT_HAS("lost rank 1", ct_last_error());
    world_close(&w, 2);
    memset(wrong, 0, sizeof(wrong));
    ASSERT_STATUS(CT_EINVAL, ct_tcp_open(w.end[0], &(struct ct_tcp_view){
        .number = 2, .size = 2, .address = w.address,
        .address_bytes = w.bytes }, &w.t[0]));
    ASSERT_HAS("rank 1", ct_last_error());
    world_destroy(&w, 2);
}

enum { HUGE = 24 << 20 }; /* more than sockets hold */

/* A message from rank 0 to 1 of which some bytes have come. */
static void begin_huge(struct world *w, char *out, char *in,
                       struct ct_request *sent, struct ct_request *got)
{
    bool done;

    for (int i = 0; i < HUGE; i++)
        out[i] = (char)(1 + i % 99);
    memset(in, 0, HUGE);
    receive(w, 1, 0, 4, in, HUGE, got);
    send(w, 0, 1, 4, out, HUGE, sent);
    for (int i = 0; i < 100000 && in[100] == 0; i++) {
        move_on(w, 0);
        ASSERT_OK(w->t[1]->ops->test(w->t[1], got, &done));
        ASSERT(!done);
    }
    ASSERT(in[100] != 0 && in[HUGE - 1] == 0);
}

static void still_speak(struct world *w)
{
    struct ct_request sent, got;
    int x = 21, in = 0;

    receive(w, 1, 0, 5, &in, 4, &got);
    send(w, 0, 1, 5, &x, 4, &sent);
    expect(w, 2, 1, &got);
    expect(w, 2, 0, &sent);
    ASSERT_INT(21, in);
}

TEST(tcp, a_buffer_is_left_alone_once_its_request_is_given_up)
{
    char *out = ct_malloc(HUGE, "out"), *in = ct_malloc(HUGE, "in");
    struct world w = { 0 };
    struct ct_request sent, got;

    ASSERT(out && in);
    world_create(&w, 2);
    world_open(&w, 1, 2);
    begin_huge(&w, out, in, &sent, &got);
    ASSERT(w.t[1]->ops->cancel(w.t[1], &got)); /* the rest goes nowhere */
    memset(in, 123, HUGE);
    expect(&w, 2, 0, &sent);
    still_speak(&w);
    for (int i = 0; i < HUGE; i++)
        if (in[i] != 123)
            FAIL("byte %d was written", i);

    begin_huge(&w, out, in, &sent, &got);
    ASSERT(w.t[0]->ops->cancel(w.t[0], &sent)); /* what began is finished */
    memset(out, 0, HUGE);
    expect(&w, 2, 1, &got);
    for (int i = 0; i < HUGE; i++)
        if (in[i] != 1 + i % 99)
            FAIL("byte %d is %d", i, in[i]);
    still_speak(&w);

    begin_huge(&w, out, in, &sent, &got);
    w.t[1]->ops->over(w.t[1]);
    ASSERT_STATUS(CT_ECOMM, w.t[1]->ops->test(w.t[1], &got, &(bool){ 0 }));
    ASSERT(w.t[1]->ops->cancel(w.t[1], &got));
    ct_free(in);
    w.t[0]->ops->over(w.t[0]);
    ASSERT_STATUS(CT_ECOMM, w.t[0]->ops->test(w.t[0], &sent, &(bool){ 0 }));
    ASSERT(w.t[0]->ops->cancel(w.t[0], &sent));
    ct_free(out);
    world_close(&w, 2);
    world_destroy(&w, 2);
}

/* 20,000 small messages that nobody receives wait at the sender, but for the
 * first few; then they come, in order. */
TEST(tcp, a_receiver_keeps_few_messages_that_it_did_not_ask_for)
{
    enum { N = 20000 };
    struct ct_request *sent = ct_calloc(N, sizeof(*sent), "requests"), got;
    int *x = ct_calloc(N, sizeof(*x), "numbers"), in = -1, n_done = 0;
    struct world w = { 0 };
    size_t before;
    bool *done = ct_calloc(N, sizeof(*done), "done");

    ASSERT(sent && x && done);
    world_create(&w, 2);
    world_open(&w, 1, 2);
    still_speak(&w);
    before = ct_mem_stats().live_bytes;
    for (int i = 0; i < N; i++) {
        x[i] = i;
        send(&w, 0, 1, 0, &x[i], 4, &sent[i]);
    }
    for (int k = 0; k < 200; k++) {
        move_on(&w, 1);
        move_on(&w, 0);
    }
    for (int i = 0; i < N; i++) {
        ASSERT_OK(w.t[0]->ops->test(w.t[0], &sent[i], &done[i]));
        n_done += done[i];
    }
    ASSERT(n_done >= 1000 && n_done < 5000);
    /* Operations of the sender, and offers, are all that grows. */
    ASSERT(ct_mem_stats().live_bytes - before < N * 400);
    for (int i = 0; i < N; i++) {
        receive(&w, 1, 0, 0, &in, 4, &got);
        expect(&w, 2, 1, &got);
        ASSERT_INT(i, in);
        if (!done[i])
            expect(&w, 2, 0, &sent[i]);
    }
    world_close(&w, 2);
    world_destroy(&w, 2);
    ct_free(sent);
    ct_free(x);
    ct_free(done);
}

/* A rank that builds a net sends nothing for a long time.  Those it has called
 * do not wait for so long to hear who it is. */
TEST(tcp, connections_come_about_without_a_message)
{
    const double end = ct_now() + 60;
    struct world w   = { 0 };
    bool all         = false;

    world_create(&w, 3);
    world_open(&w, 1, 3);
    while (!all && ct_now() < end) {
        all = true;
        for (int r = 0; r < 3; r++) {
            const struct tcp_view *v = (const struct tcp_view *)w.t[r];

            ct_transport_progress(w.t[r]);
            for (int q = 0; q < 3; q++)
                all &= q == r || v->peer[q].fd >= 0;
        }
    }
    ASSERT(all);
    world_close(&w, 3);
    world_destroy(&w, 3);
}

/* A process that was forked and has all that this one had open. */
static pid_t start_child(int *to)
{
    int pipe_fd[2];
    char word;
    pid_t pid;

    ASSERT_INT(0, pipe(pipe_fd));
    pid = fork();
    ASSERT(pid >= 0);
    if (pid == 0) {
        close(pipe_fd[1]);
        (void)!read(pipe_fd[0], &word, 1); /* until its parent lets go */
        _exit(0);
    }
    close(pipe_fd[0]);
    *to = pipe_fd[1];
    return pid;
}

static void end_child(pid_t pid, int to)
{
    close(to);
    ASSERT(waitpid(pid, NULL, 0) == pid);
}

/* Such as those that read data for a Python script. */
TEST(tcp, a_view_ends_for_others_though_a_forked_process_lives)
{
    struct world w = { 0 };
    struct ct_request got, sent;
    enum ct_status st;
    const int x = 5;
    pid_t child;
    int to, in;

    world_create(&w, 2);
    world_open(&w, 1, 2);
    still_speak(&w);
    child = start_child(&to);
    send(&w, 0, 1, 9, &x, 4, &sent); /* which rank 1 never reads */
    expect(&w, 1, 0, &sent);
    w.t[1]->ops->over(w.t[1]);
    w.t[1]->ops->destroy(w.t[1]);
    w.t[1] = NULL;
    receive(&w, 0, 1, 3, &in, 4, &got);
    ASSERT(finish(&w, 1, 0, &got, &st));
    ASSERT_STATUS(CT_ECOMM, st);
    w.t[0]->ops->destroy(w.t[0]);
    ASSERT_INT(0, test_n_stale_events());
    world_open(&w, 2, 2);
    still_speak(&w);
    world_close(&w, 2);
    world_destroy(&w, 2);
    end_child(child, to);
}
