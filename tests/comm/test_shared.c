/* test_shared.c - sums through memory that ranks share, and waiting there. */
#include <time.h>

#include "base/rng.h"
#include "comm/coll/coll.h"
#include "comm/coll/shared.h"
#include "comm/comm_ranks.h"

TEST(shared, slices_are_whole_lines_and_cover_everything)
{
    for (int size = 1; size <= 17; size++)
        for (int64_t n = 0; n < 600; n++) {
            int64_t at = 0;

            for (int i = 0; i < size; i++) {
                struct ct_part p = ct_shared_slice(n, size, i);

                ASSERT_INT(at, p.first);
                ASSERT(p.first % 16 == 0 || p.first == n);
                at += p.n;
            }
            ASSERT_INT(n, at);
        }
}

/* Runs of many lengths, more than may be open at once, all posted before the
 * first is waited for; then once more over the same floats. */
enum { FLOATS = 9000, RUNS = 150 };

static int64_t run_first(int k)
{
    return (int64_t)k * k * FLOATS / (RUNS * RUNS);
}

static float value(int round, int rank, int64_t i)
{
    return 2 * ct_uniform(5, (uint64_t)(100 * round + rank), (uint64_t)i) - 1;
}

/* The sum in rank order, in floats: to the bit. */
static enum ct_status check_run(struct ct_shared *s, int round, int k)
{
    const float *sums = ct_shared_sums(s);

    for (int64_t i = run_first(k); i < run_first(k + 1); i++) {
        float want = value(round, 0, i);

        for (int r = 1; r < s->comm->size; r++)
            want += value(round, r, i);
        if (sums[i] != want)
            return ct_fail(CT_EINTERNAL, "round %d, run %d: [%lld] is %.9g, "
                           "not %.9g", round, k, (long long)i,
                           (double)sums[i], (double)want);
    }
    return CT_OK;
}

static enum ct_status many_runs(struct ct_comm *c, void *arg)
{
    struct ct_shared *s;
    uint64_t ticket[RUNS];
    enum ct_status st = CT_OK;

    (void)arg;
    CT_TRY(ct_shared_create(c, FLOATS, 0, &s));
    for (int round = 0; round < 3 && st == CT_OK; round++) {
        for (int64_t i = 0; i < FLOATS; i++)
            ct_shared_mine(s)[i] = value(round, c->rank, i);
        for (int k = 0; k < RUNS && st == CT_OK; k++) {
            st = ct_shared_post(s, "sum", run_first(k),
                                run_first(k + 1) - run_first(k), &ticket[k]);
            if (k % 7 == c->rank)
                ct_shared_progress(s);
        }
        for (int k = 0; k < RUNS && st == CT_OK; k++) {
            st = ct_shared_wait(s, ticket[k]);
            if (st == CT_OK)
                st = check_run(s, round, k);
        }
    }
    if (st == CT_OK && (double)atomic_load(&c->bytes_sent) !=
                           (c->size > 1 ? 3.0 * 4 * FLOATS : 0))
        st = ct_fail(CT_EINTERNAL, "%llu bytes",
                     (unsigned long long)atomic_load(&c->bytes_sent));
    ct_shared_destroy(s);
    return st;
}

TEST(shared, many_runs_are_summed_in_rank_order)
{
    static const int sizes[] = { 1, 2, 3, 4, 7, 8 };

    for (int i = 0; i < 6; i++)
        ranks_run(sizes[i], NULL, many_runs, NULL);
}

/* ---- Floats that lie elsewhere. */

struct elsewhere {
    float vector[4][64], sums[64];
};

/* In any order. */
static enum ct_status elsewhere_rank(struct ct_comm *c, void *arg)
{
    struct elsewhere *e    = arg;
    float *const vector[4] = { e->vector[2], e->vector[0], e->vector[3],
                               e->vector[1] };
    struct ct_shared *s;
    uint64_t ticket;
    enum ct_status st;

    CT_TRY(ct_shared_create_at(c, vector, e->sums, &s));
    for (int i = 0; i < 64; i++)
        vector[c->rank][i] = (float)((c->rank + 1) * (i + 1));
    st = ct_shared_mine(s) == vector[c->rank] ? CT_OK : CT_EINTERNAL;
    if (st == CT_OK)
        st = ct_shared_post(s, "sum", 0, 64, &ticket);
    if (st == CT_OK)
        st = ct_shared_wait(s, ticket);
    for (int i = 0; i < 64 && st == CT_OK; i++)
        if (e->sums[i] != (float)(10 * (i + 1)))
            st = ct_fail(CT_EINTERNAL, "%g", (double)e->sums[i]);
    ct_shared_destroy(s);
    return st;
}

TEST(shared, sums_floats_that_lie_elsewhere)
{
    static struct elsewhere e;

    ranks_run(4, NULL, elsewhere_rank, &e);
}

/* Who comes back from the k-th meeting finds all others there; sums and work
 * may stand between them. */
static enum ct_status meetings(struct ct_comm *c, void *arg)
{
    atomic_int *n = arg;
    struct ct_shared *s;
    uint64_t ticket;
    enum ct_status st = CT_OK;

    CT_TRY(ct_shared_create(c, 64, 0, &s));
    for (int k = 0; k < 3 * CT_SHARED_RUNS && st == CT_OK; k++) {
        if (k % 3 == 0)
            st = ct_shared_post(s, "sum", 0, 64, &ticket);
        atomic_fetch_add(&n[k], 1);
        if (st == CT_OK)
            st = ct_shared_meet(s);
        if (st == CT_OK && atomic_load(&n[k]) != c->size)
            st = ct_fail(CT_EINTERNAL, "meeting %d: %d of %d are there", k,
                         atomic_load(&n[k]), c->size);
        if (st == CT_OK && k % 3 == 0)
            st = ct_shared_wait(s, ticket);
    }
    ct_shared_destroy(s);
    return st;
}

TEST(shared, who_meets_finds_all_others)
{
    for (int size = 1; size <= 8; size++) {
        atomic_int n[3 * CT_SHARED_RUNS] = { 0 };

        ranks_run(size, NULL, meetings, n);
    }
}

/* Work in pieces: the k-th run adds k + 1 to PIECES floats of its own, so that
 * a piece that is left out or done twice shows. */
enum { PIECES = 5, ROUNDS = 3 };

struct chain {
    int k, n_mine; /* pieces that this rank did */
};

static enum ct_status add_piece(struct ct_shared *s, void *arg, int64_t piece)
{
    struct chain *x = arg;

    ct_shared_more(s)[x->k * PIECES + piece] += (float)(x->k + 1);
    x->n_mine++;
    return CT_OK;
}

static enum ct_status post_chain(struct ct_shared *s, struct chain *x,
                                 uint64_t *ticket)
{
    return ct_shared_post_work(s, &(struct ct_shared_work){
        .label = "chain", .run = add_piece, .arg = x, .n_pieces = PIECES,
        .bytes = 40 }, ticket);
}

static enum ct_status check_pieces(const struct ct_shared *s, int round, int k)
{
    for (int i = 0; i < PIECES; i++) {
        float x = ct_shared_more(s)[k * PIECES + i];

        if (x != (float)((round + 1) * (k + 1)))
            return ct_fail(CT_EINTERNAL, "round %d, run %d, piece %d: %g",
                           round, k, i, (double)x);
    }
    return CT_OK;
}

/* All of a round are posted, more than may be open at once, before the first
 * is waited for; rank 0 takes no piece while it has anything else to do. */
static enum ct_status pieces_of_work(struct ct_comm *c, void *arg)
{
    struct chain x[RUNS];
    struct ct_shared *s;
    uint64_t ticket[RUNS];
    enum ct_status st = CT_OK;

    (void)arg;
    CT_TRY(ct_shared_create(c, 10, RUNS * PIECES, &s));
    for (int round = 0; round < ROUNDS && st == CT_OK; round++) {
        for (int k = 0; k < RUNS && st == CT_OK; k++) {
            x[k] = (struct chain){ k, 0 };
            st = post_chain(s, &x[k], &ticket[k]);
            if (c->rank != 0)
                ct_shared_progress(s);
        }
        for (int k = 0; k < RUNS && st == CT_OK; k++) {
            st = ct_shared_wait(s, ticket[k]);
            if (st == CT_OK)
                st = check_pieces(s, round, k);
        }
        if (st == CT_OK)
            st = ct_barrier(c); /* all have looked */
    }
    ct_shared_destroy(s);
    return st;
}

TEST(shared, every_piece_of_work_is_done_once)
{
    static const int sizes[] = { 1, 2, 3, 8 };

    for (int i = 0; i < 4; i++)
        ranks_run(sizes[i], NULL, pieces_of_work, NULL);
}

static void nap(double seconds)
{
    struct timespec t = { (time_t)seconds,
                          (long)(1e9 * (seconds - (double)(time_t)seconds)) };

    nanosleep(&t, NULL);
}

/* Until so many have come; a minute at most. */
static void await(const atomic_int *n, int least)
{
    for (int ms = 0; ms < 60000 && atomic_load(n) < least; ms++)
        nap(1e-3);
}

/* Rank 1 comes when the others sleep; they wake. */
static enum ct_status late_rank(struct ct_comm *c, void *arg)
{
    struct ct_shared *s;
    uint64_t ticket;
    enum ct_status st = CT_OK;

    (void)arg;
    CT_TRY(ct_shared_create(c, 100, 0, &s));
    for (int k = 0; k < 5 && st == CT_OK; k++) {
        if (c->rank == 1)
            nap(0.02);
        ct_shared_mine(s)[99] = (float)(k + c->rank);
        st = ct_shared_post(s, "sum", 0, 100, &ticket);
        if (st == CT_OK)
            st = ct_shared_wait(s, ticket);
        if (st == CT_OK && ct_shared_sums(s)[99] != (float)(3 * k + 3))
            st = ct_fail(CT_EINTERNAL, "%g", (double)ct_shared_sums(s)[99]);
    }
    ct_shared_destroy(s);
    return st;
}

TEST(shared, who_sleeps_is_woken)
{
    ranks_run(3, NULL, late_rank, NULL);
}

/* Rank 1 posts and does nothing more until the others have seen all done. */
static enum ct_status idle_rank(struct ct_comm *c, void *arg)
{
    atomic_int *n_seen = arg;
    struct chain x     = { 0, 0 };
    struct ct_shared *s;
    uint64_t ticket;
    enum ct_status st;

    CT_TRY(ct_shared_create(c, 10, PIECES, &s));
    st = post_chain(s, &x, &ticket);
    if (c->rank == 1)
        await(n_seen, 2);
    if (st == CT_OK)
        st = ct_shared_wait(s, ticket);
    if (st == CT_OK && c->rank == 1 && x.n_mine > 0)
        st = ct_fail(CT_EINTERNAL, "it did %d pieces", x.n_mine);
    atomic_fetch_add(n_seen, 1);
    await(n_seen, 3); /* who leaves is missed */
    ct_shared_destroy(s);
    return st;
}

TEST(shared, who_waits_relieves_who_is_busy)
{
    atomic_int n_seen = 0;

    ranks_run(3, NULL, idle_rank, &n_seen);
}

enum { LEAVE, ABORT, STALL };

struct absence {
    int        how;    /* what rank 1 does instead of posting */
    atomic_int n_done; /* rank 0 has ended its wait */
};

static enum ct_status absent_rank(struct ct_comm *c, void *arg)
{
    struct absence *a = arg;
    const int how     = a->how;
    struct ct_shared *s;
    uint64_t ticket;
    enum ct_status st = CT_OK;

    CT_TRY(ct_shared_create(c, 100, 0, &s));
    if (c->rank == 1) {
        if (how == ABORT)
            ct_window_abort(s->window);
        if (how != LEAVE)
            await(&a->n_done, 1);
    } else {
        if (how == STALL)
            c->stall_after = 0.2;
        st = ct_shared_post(s, "sum", 0, 100, &ticket);
        if (st == CT_OK)
            st = ct_shared_wait(s, ticket);
        atomic_store(&a->n_done, 1);
    }
    ct_shared_destroy(s);
    return st;
}

TEST(shared, a_rank_that_does_not_come_ends_the_wait_with_its_name)
{
    static const char *const why[] = { "rank 1 has left",
                                       "rank 1 aborted the job",
                                       "rank 0: nothing from or to rank 1" };

    for (int how = LEAVE; how <= STALL; how++) {
        struct absence a = { .how = how };
        struct rank r[MOST_RANKS];

        ranks_try(2, NULL, absent_rank, &a, r);
        ASSERT_OK(r[1].status);
        ASSERT_STATUS(CT_ECOMM, r[0].status);
        ASSERT_HAS(why[how], r[0].why);
    }
}

static enum ct_status count_tick(struct ct_comm *c, void *arg)
{
    (void)c;
    atomic_fetch_add((atomic_int *)arg, 1);
    return CT_OK;
}

struct wait {
    struct ct_shared *shared;
    uint64_t          ticket;
    enum ct_status    st;
};

static void *wait_main(void *arg)
{
    struct wait *w = arg;

    w->st = ct_shared_wait(w->shared, w->ticket);
    return NULL;
}

struct ticking {
    bool       apart; /* rank 0 waits on another thread than its own */
    atomic_int n_ticks[2], n_done;
};

/* Rank 1 comes when rank 0 has ticked, or long after it would have. */
static enum ct_status ticking_rank(struct ct_comm *c, void *arg)
{
    struct ticking *t = arg;
    const bool apart  = t->apart;
    struct wait w     = { 0 };
    pthread_t thread;

    CT_TRY(ct_shared_create(c, 100, 0, &w.shared));
    c->tick     = count_tick;
    c->tick_arg = &t->n_ticks[c->rank];
    if (c->rank == 1 && apart)
        nap(0.5);
    else if (c->rank == 1)
        await(&t->n_ticks[0], 1);
    w.st = ct_shared_post(w.shared, "sum", 0, 100, &w.ticket);
    if (w.st == CT_OK && apart && pthread_create(&thread, NULL, wait_main,
                                                 &w) == 0)
        pthread_join(thread, NULL);
    else if (w.st == CT_OK)
        wait_main(&w);
    atomic_fetch_add(&t->n_done, 1);
    await(&t->n_done, 2); /* who leaves is missed */
    ct_shared_destroy(w.shared);
    if (w.st == CT_OK && c->rank == 0 &&
        (atomic_load(&t->n_ticks[0]) > 0) == apart)
        return ct_fail(CT_EINTERNAL, "%d ticks", atomic_load(&t->n_ticks[0]));
    return w.st;
}

TEST(shared, a_wait_ticks_on_the_thread_that_owns_the_comm_alone)
{
    for (int apart = 0; apart < 2; apart++) {
        struct ticking t = { .apart = apart };

        ranks_run(2, NULL, ticking_rank, &t);
    }
}

TEST(shared, ranks_on_several_hosts_are_refused)
{
    static const int host[] = { 0, 1 };
    struct ct_transport *t[2];
    struct ct_comm *c;
    float x = 1;

    ASSERT_OK(test_ends(2, &(struct ct_loopback_options){ .host = host }, t));
    ASSERT_OK(ct_comm_create(t[0], &c));
    ASSERT(!ct_allreduce_available(c, ct_allreduce_find("shared")));
    ASSERT_STATUS(CT_ENOTSUP, ct_allreduce_find("shared")->run(c, &x, 1));
    ct_comm_destroy(c);
    t[1]->ops->destroy(t[1]);
}
