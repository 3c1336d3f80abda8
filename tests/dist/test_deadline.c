/* test_deadline.c - iterations that do not wait for a slow rank: the mean is
 * over who came, the slow one catches up, and no sample is lost or counted
 * twice. */
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/pulse.h"
#include "cortado/log.h"
#include "liveness/members.h"
#include "dist/ranks.h"

enum { STEPS = 40, SLOW = 2 };

TEST(deadline, members_become_suspect_and_come_back)
{
    struct live_members m;

    ASSERT_OK(live_members_init(&m, 3, 100));
    ASSERT(!live_members_missed(&m, 1));
    ASSERT(!live_members_missed(&m, 1));
    ASSERT(live_members_missed(&m, 1)); /* the third in a row */
    ASSERT(!live_members_missed(&m, 1));
    ASSERT_INT(2, m.n_alive);
    ASSERT_INT(1, (int)m.epoch);
    live_members_heard(&m, 1, 101);
    ASSERT(m.one[1].suspect); /* a heartbeat is not enough */
    ASSERT(live_members_came(&m, 1, 102));
    ASSERT(!live_members_came(&m, 1, 103));
    ASSERT_INT(3, m.n_alive);
    ASSERT_INT(4, (int)m.one[1].n_missed);
    /* One heard of at 103, the others at 100. */
    ASSERT_INT(-1, live_members_silent(&m, 109, 10));
    ASSERT_INT(0, live_members_silent(&m, 111, 10));
    ASSERT_INT(1, m.n_alive);
    live_members_fini(&m);
}

TEST(deadline, when_all_come_in_time_it_is_lock_step)
{
    static const char *const options[] = {
        "deadline: 30", "deadline: 30 road: 'sharded'",
        "deadline: 30 road: 'ps'",
    };
    struct rank *one;

    ranks_make_data();
    one = ranks_train(1, "", "", 0);
    for (int i = 0; i < 3; i++)
        for (int n = 1; n <= 4; n++)
            if (n != 3 || i < 2)
                ranks_same_as_one(one, ranks_train(n, "", options[i], 0), n);
}

/* What each rank fed into iterations that counted it, by the first value of
 * the batch's first sample. */
static int lead; /* the slow rank waits until rank 0 is so far ahead */
static int pause_us; /* or so long */
static atomic_int rank_0_at;
static struct {
    float first[RANKS_MOST][STEPS];
    int   n[RANKS_MOST], n_left_out[RANKS_MOST];
    int   last[RANKS_MOST]; /* the iteration noted last */
} seen;

/* Was this rank in the iteration that ended before `iter`? */
static bool was_in(const struct rank *r, int iter)
{
    const struct ct_dist *d = r->exchange->state;
    const int before        = seen.last[r->number];

    seen.last[r->number] = iter;
    return (before == 0 || iter == before + 1) &&
           ct_ps_mask_has(&d->ps.latest.mask, ct_ps_worker(d->ps.ps));
}

/* Called after each iteration.  Rank 0 gets ahead of the slow rank only by
 * leaving it out. */
static void note(const struct rank *r, int iter)
{
    const struct ct_blob *x = ct_net_blob(r->net,
                                          ct_net_find_blob(r->net, "x"));
    int rank = r->number, goal = iter + lead, i = seen.n[rank];
    float first = 0;

    if (goal > r->how->steps) /* it was left out before, on a busy machine */
        goal = r->how->steps;
    if (!was_in(r, iter))
        seen.n_left_out[rank]++;
    else if (x->dev->ops->to_host(x->dev, sizeof(first), ct_data(x),
                                  &first) == CT_OK)
        seen.first[rank][seen.n[rank]++] = first;
    if (rank == 0)
        atomic_store(&rank_0_at, iter);
    /* On a busy machine another rank may come late, and end all of them. */
    for (int ms = 0; rank == SLOW && i == 3 && ms < 60000 &&
                     atomic_load(&rank_0_at) < goal; ms++)
        usleep(1000);
    if (rank == SLOW && i == 3)
        usleep((useconds_t)pause_us);
    usleep(3000); /* so that there is an iteration left to come back to */
}

static void expect_lead(int n)
{
    memset(&seen, 0, sizeof(seen));
    atomic_store(&rank_0_at, 0);
    lead     = n;
    pause_us = 0;
}

static struct rank *train_slow(const char *options, int n_servers)
{
    struct ranks_how how = { .n_ranks = 3 + n_servers, .steps = STEPS,
                             .n_servers = n_servers, .options = options,
                             .each = note };

    return ranks_train_so(&how);
}

/* 96 rows, 8 a rank and iteration: four batches of each rank an epoch.  The
 * slow rank goes through its batches in order, none twice and none skipped,
 * only not in every iteration. */
static void every_batch_once(void)
{
    for (int r = 0; r < 3; r++)
        for (int i = 4; i < seen.n[r]; i++)
            ASSERT(seen.first[r][i] == seen.first[r][i - 4]);
    for (int r = 0; r < 3; r++)
        for (int i = 0; i < 4; i++)
            for (int k = 0; k < i; k++)
                ASSERT(seen.first[r][i] != seen.first[r][k]);
}

TEST(deadline, a_slow_rank_is_left_out_and_loses_no_sample)
{
    static const char *const options[] = {
        "deadline: 0.02 road: 'ps'", "deadline: 0.02 road: 'sharded'",
        "patience: 2 road: 'sharded'", "patience: 2 deadline: 0.005",
        "deadline: 0.02 road: 'sharded' servers: 2",
    };

    ranks_make_data();
    for (int i = 0; i < 5; i++) {
        struct rank *r;

        expect_lead(5);
        r = train_slow(options[i], i == 4 ? 2 : 0);
        for (int k = 0; k < 3; k++) {
            if (r[k].st != CT_OK)
                FAIL("rank %d: %s", k, r[k].why);
            ASSERT_INT(STEPS, r[k].iter);
        }
        /* Rank 0 is in every iteration; the slow one is not. */
        ASSERT_INT(STEPS, seen.n[0]);
        ASSERT(seen.n[SLOW] < STEPS);
        ASSERT(seen.n_left_out[SLOW] >= 1);
        every_batch_once();
        ASSERT_INT(0, memcmp(r[0].weights, r[SLOW].weights,
                             r[0].n * sizeof(float)));
    }
}

/* The others have long ended when the slow one wakes up. */
TEST(deadline, a_rank_that_comes_after_the_end_ends_too)
{
    struct ranks_how how = { .n_ranks = 3, .steps = 12, .each = note,
                             .options = "deadline: 0.02" };
    struct rank *r;

    ranks_make_data();
    expect_lead(8);
    r = ranks_train_so(&how);
    for (int k = 0; k < 3; k++) {
        ASSERT_OK(r[k].st);
        ASSERT_INT(12, r[k].iter);
    }
    ASSERT(seen.n_left_out[SLOW] >= 1);
    ASSERT_INT(0, memcmp(r[0].weights, r[SLOW].weights,
                         r[0].n * sizeof(float)));
}

/* The slow rank missed some iterations before the snapshot; afterwards it
 * goes on with the batch that it was at. */
TEST(deadline, a_snapshot_knows_who_is_behind)
{
    char more[600], state[600];
    struct ranks_how how = { .n_ranks = 3, .steps = 20, .each = note,
                             .more = more, .options = "deadline: 0.02" };
    int before;
    float last;

    ranks_make_data();
    snprintf(more, sizeof(more), "snapshot_prefix: '%s/s' "
             "snapshot_after_train: true", test_folder());
    snprintf(state, sizeof(state), "%s/s_iter_20.solverstate", test_folder());
    expect_lead(5);
    ASSERT_OK(ranks_train_so(&how)[SLOW].st);
    before = seen.n[SLOW];
    ASSERT(before >= 4);
    last   = seen.first[SLOW][before - 4]; /* the batch that comes next */
    ASSERT(before < 20);
    expect_lead(0);
    how.steps   = 4;
    how.resume  = state;
    how.options = "deadline: 60"; /* nobody is late */
    ASSERT_OK(ranks_train_so(&how)[SLOW].st);
    ASSERT(seen.n[SLOW] > 0);
    ASSERT(seen.first[SLOW][0] == last);
}

TEST(deadline, what_is_late_may_be_folded_in_or_be_an_error)
{
    struct rank *r;

    ranks_make_data();
    expect_lead(5);
    r = train_slow("deadline: 0.02 late: 'fold'", 0);
    ASSERT_OK(r[0].st);
    ASSERT_OK(r[SLOW].st);
    ASSERT(seen.n_left_out[SLOW] >= 1);
    expect_lead(5);
    r = train_slow("deadline: 0.02 late: 'error'", 0);
    ranks_refuse("comes after its deadline", r, 3);
}

TEST(deadline, without_a_quorum_the_iteration_waits)
{
    struct rank *r;

    ranks_make_data();
    expect_lead(0);
    pause_us = 100000;
    r        = train_slow("deadline: 0.0001 quorum: 1", 0);
    ASSERT_OK(r[0].st);
    ASSERT_INT(0, seen.n_left_out[SLOW]);
    ASSERT_INT(STEPS, seen.n[SLOW]);
}

/* Of a batch of 4 rank 0 has 2 samples and the others one each: without the
 * slow one three quarters are in, of the ranks two thirds. */
TEST(deadline, the_quorum_is_one_of_samples)
{
    struct rank *r;

    ranks_make_data();
    ranks_batch(4);
    expect_lead(5);
    r = train_slow("deadline: 0.02 quorum: 0.7 batch: 'global'", 0);
    ASSERT_OK(r[0].st);
    ASSERT_OK(r[SLOW].st);
    ASSERT(seen.n_left_out[SLOW] >= 1);
}

/* The slow rank comes back when the others have met a request to stop. */
static void come_back_late(const struct rank *r, int iter)
{
    int at, still = 0;

    if (r->number == 0)
        atomic_store(&rank_0_at, iter);
    if (r->number != SLOW || iter != 3)
        return;
    for (at = 0; still < 300 && at < STEPS; usleep(1000)) {
        const int now = atomic_load(&rank_0_at);

        still = now > 8 && now == at ? still + 1 : 0;
        at    = now;
    }
}

static enum ct_solver_action stop_at_five(void *rank)
{
    const struct rank *r = rank;

    return r->number == 0 && atomic_load(&rank_0_at) >= 5 ? CT_ACTION_STOP
                                                          : CT_ACTION_NONE;
}

TEST(deadline, a_rank_that_is_late_for_a_stop_stops)
{
    struct ranks_how how = { .n_ranks = 3, .steps = STEPS,
                             .options = "deadline: 0.02 stall: 60",
                             .each = come_back_late, .action = stop_at_five };
    struct rank *r;

    ranks_make_data();
    atomic_store(&rank_0_at, 0);
    r = ranks_train_so(&how);
    for (int k = 0; k < 3; k++) {
        if (r[k].st != CT_OK && r[k].st != CT_ESTOP)
            FAIL("rank %d: %s", k, r[k].why);
        ASSERT_INT(r[0].iter, r[k].iter);
    }
    ASSERT(r[0].iter < STEPS);
}

/* Rank 0 tests for longer than a stall and the seconds that it has to speak
 * first, and moves. */
static void test_long(const struct rank *r, int iter)
{
    double end = ct_now() + 17;

    while (r->number == 0 && iter == 3 && ct_now() < end) {
        ct_pulse_set(r->exchange->facts.pulse, CT_PULSE_TEST, "conv");
        usleep(10000);
    }
}

/* A rank stands still until another one has had enough, or for a minute. */
static void stand_still(const struct rank *r, int iter)
{
    for (int ms = 0; r->number == SLOW && iter == 3 && ms < 60000 &&
                     !ranks_have_failed(); ms++)
        usleep(1000);
}

TEST(deadline, a_long_test_of_rank_0_is_no_stall)
{
    static const char *const options[] = {
        "deadline: 0.02 stall: 10", "deadline: 0.02 stall: 10 servers: 1",
        "groups: 2 staleness: 0 stall: 10",
    };
    static const int n_ranks[] = { 3, 4, 4 };

    ranks_make_data();
    for (int i = 0; i < 3; i++) {
        struct ranks_how how = { .n_ranks = n_ranks[i], .steps = 6,
                                 .n_servers = i == 1, .each = test_long,
                                 .options = options[i] };
        struct rank *r       = ranks_train_so(&how);

        for (int k = 0; k < n_ranks[i]; k++)
            if (r[k].st != CT_OK)
                FAIL("%s, rank %d: %s", options[i], k, r[k].why);
    }
}

TEST(deadline, a_rank_that_stands_still_is_named_by_those_who_push)
{
    static const char *const options[] = {
        "road: 'ps' stall: 5", "groups: 2 staleness: 0 stall: 5",
    };

    ranks_make_data();
    for (int i = 0; i < 2; i++) {
        struct ranks_how how = { .n_ranks = 3 + i, .steps = 6,
                                 .each = stand_still, .options = options[i] };

        ranks_refuse("for rank 2 (pid ", ranks_train_so(&how), 3 + i);
    }
}

static void go_slowly(const struct rank *r, int iter)
{
    (void)r, (void)iter;
    usleep(400000);
}

/* Longer than a stall and the seconds that rank 0 has to speak first. */
TEST(deadline, ranks_that_serve_wait_however_long_training_takes)
{
    struct ranks_how how = { .n_ranks = 4, .steps = 42, .n_servers = 2,
                             .each    = go_slowly,
                             .options = "road: 'sharded' servers: 2 "
                                        "stall: 10" };
    struct rank *r;

    ranks_make_data();
    r = ranks_train_so(&how);
    for (int k = 0; k < 4; k++)
        if (r[k].st != CT_OK)
            FAIL("rank %d: %s", k, r[k].why);
}

static atomic_int n_without, n_without_it_alone, n_suspect;
static bool has_slept; /* the slow rank */

/* Of the slow rank. */
static void count_lines(enum ct_log_level level, const char *line, void *arg)
{
    const char *who = strstr(line, "went on without rank ");

    (void)level, (void)arg;
    n_without += who && *strpbrk(who, "2;") == '2';
    n_without_it_alone += strstr(line, "went on without rank 2;") != NULL;
    n_suspect += strstr(line, "Rank 2 is suspect") != NULL;
}

/* The slow rank comes back when rank 0 is at the end. */
static void sleep_once(const struct rank *r, int iter)
{
    if (r->number == 0)
        atomic_store(&rank_0_at, iter);
    if (r->number != SLOW || iter < 3 || has_slept)
        return;
    has_slept = true;
    for (int ms = 0; ms < 60000 && atomic_load(&rank_0_at) < r->how->steps;
         ms++)
        usleep(1000);
}

/* It misses some twenty iterations in a row. */
TEST(deadline, of_a_suspect_rank_the_log_warns_once)
{
    struct ranks_how how = { .n_ranks = 3, .steps = 25, .each = sleep_once,
                             .options = "deadline: 0.02" };
    struct rank *r;

    ranks_make_data();
    n_without = n_without_it_alone = n_suspect = 0;
    has_slept = false;
    atomic_store(&rank_0_at, 0);
    ct_log_set_sink(count_lines, NULL);
    ct_log_set_level(CT_LOG_WARNING);
    r = ranks_train_so(&how);
    ct_log_set_level(CT_LOG_NONE);
    ct_log_set_sink(NULL, NULL);
    for (int k = 0; k < 3; k++)
        if (r[k].st != CT_OK)
            FAIL("rank %d: %s", k, r[k].why);
    ASSERT(n_suspect >= 1);
    /* On a busy machine it is late before that, too, and so are others. */
    ASSERT(n_without >= n_suspect * LIVE_MISSES);
    ASSERT(n_without_it_alone < n_suspect * LIVE_MISSES + 10);
}
