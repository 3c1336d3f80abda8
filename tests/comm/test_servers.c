/* test_servers.c - slices, clocks, subsets: what parameter servers stand on. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/pulse.h"
#include "comm/coll/coll.h"
#include "comm/ps/worker_clock.h"
#include "comm/ps/ps.h"
#include "comm/ps/table.h"
#include "comm/comm_ranks.h"

TEST(servers, slices_are_shared_out_evenly)
{
    static const size_t border[] = { 0, 12, 110, 200, 300, 398, 500, 502, 601,
                                     701, 800 };
    struct ct_ps_table t;
    size_t load = 0;

    ASSERT_OK(ct_ps_table_init(&t, border, 11, 3));
    ASSERT_INT(10, t.n);
    ASSERT_INT(102, (long)t.longest);
    for (int i = 0; i < t.n; i++) {
        ASSERT_INT((long)border[i], (long)t.slice[i].first);
        ASSERT(t.slice[i].server >= 0 && t.slice[i].server < 3);
    }
    for (int s = 0; s < 3; s++) {
        load += t.load[s];
        /* Nobody has more than the mean and one slice. */
        ASSERT(t.load[s] <= 800 / 3 + 102);
    }
    ASSERT_INT(800, (long)load);
    ct_ps_table_fini(&t);
}

TEST(servers, more_servers_than_slices_leave_some_idle)
{
    static const size_t border[] = { 0, 5 };
    struct ct_ps_table t;

    ASSERT_OK(ct_ps_table_init(&t, border, 2, 4));
    ASSERT_INT(1, t.n);
    ASSERT_INT(0, t.slice[0].server);
    ASSERT_INT(0, t.n_of[3]);
    ct_ps_table_fini(&t);
}

TEST(servers, the_slowest_clock_counts_and_none_runs_back)
{
    struct ct_ps_clock c;

    ASSERT_OK(ct_ps_clock_init(&c, 3, 7));
    ct_ps_clock_advance(&c, 0, 9);
    ct_ps_clock_advance(&c, 1, 8);
    ASSERT_INT(7, (long)ct_ps_clock_least(&c));
    ct_ps_clock_advance(&c, 2, 12);
    ct_ps_clock_advance(&c, 0, 3);
    ASSERT_INT(8, (long)ct_ps_clock_least(&c));
    ct_ps_clock_fini(&c);
}

/* Ranks 0 to 2 sum for themselves, ranks 3 and 4 too; then all of them. */
static enum ct_status sum_in_subsets(struct ct_comm *c, void *arg)
{
    const bool low = c->rank < 3;
    struct ct_transport *t;
    struct ct_comm *part;
    float x = (float)(1 << c->rank), y = 1;

    (void)arg;
    CT_TRY(ct_subset_create(c->transport, low ? 0 : 3, low ? 3 : 2, &t));
    CT_TRY(ct_comm_create(t, &part));
    CT_TRY(ct_allreduce(part, &x, 1));
    if (c->rank == 1) /* longer than others wait without a look */
        nanosleep(&(struct timespec){ 0, 200000000 }, NULL);
    x = (float)(1 << c->rank);
    CT_TRY(ct_allreduce(part, &x, 1));
    ct_comm_destroy(part);
    CT_TRY(ct_allreduce(c, &y, 1));
    if (x != (low ? 7 : 24) || y != 5)
        return ct_fail(CT_EINTERNAL, "sums %g and %g", (double)x, (double)y);
    return CT_OK;
}

TEST(servers, a_subset_is_a_transport_of_some_ranks)
{
    ranks_run(5, NULL, sum_in_subsets, NULL);
}

static enum ct_status count_looks(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    return CT_OK;
}

/* Rank 1 comes when rank 0, which waits for it, has looked around, or after
 * half a minute. */
static enum ct_status wait_and_look(struct ct_comm *c, void *arg)
{
    const struct timespec nap = { 0, 1000000 };
    atomic_int *looks         = arg;

    if (c->rank == 0) {
        c->background     = count_looks;
        c->background_arg = looks;
    }
    for (int ms = 0; c->rank == 1 && ms < 30000 && atomic_load(looks) == 0;
         ms++)
        nanosleep(&nap, NULL);
    if (c->rank == 1 && atomic_load(looks) == 0)
        return ct_fail(CT_EINTERNAL, "rank 0 did not look around");
    return ct_barrier(c);
}

TEST(servers, a_wait_goes_on_with_other_things)
{
    atomic_int looks = 0;

    ranks_run(2, NULL, wait_and_look, &looks);
}

/* A thousand ranks, all on this thread; each pushes its number. */
enum { MANY = 250, N_FLOATS = 6 };

struct many {
    struct ct_comm *comm[MANY];
    struct ct_ps   *ps[MANY];
    float           x[MANY][N_FLOATS];
    int             worker_rank[MANY];
};

static void many_begin(struct many *m, struct ct_ps_config *config)
{
    struct ct_transport *t[MANY];

    ASSERT_OK(ct_loopback_create(MANY, &(struct ct_loopback_options){ 0 }, t));
    for (int r = 0; r < MANY; r++)
        m->worker_rank[r] = r;
    for (int r = 0; r < MANY; r++) {
        ASSERT_OK(ct_comm_create(t[r], &m->comm[r]));
        config->comm = m->comm[r];
        ASSERT_OK(ct_ps_create(config, &m->ps[r]));
        for (int i = 0; i < N_FLOATS; i++)
            m->x[r][i] = (float)(r + i);
        for (int k = 0; k < config->table->n; k++)
            ASSERT_OK(ct_ps_push(m->ps[r], k, 0,
                                 &(struct ct_ps_weight){ 1, 1 }, m->x[r],
                                 NULL));
    }
}

static void sum_of_many(int n_servers)
{
    const size_t border[]   = { 0, 2, N_FLOATS };
    const int server_rank[] = { 0, MANY - 1 };
    struct ct_ps_table table;
    struct many *m = ct_calloc(1, sizeof(*m), "many");
    struct ct_ps_config config = { .table = &table,
                                   .worker_rank = m->worker_rank,
                                   .server_rank = server_rank,
                                   .n_workers = MANY };
    int n_come = 0;

    test_defer(ct_free, m);
    ASSERT_OK(ct_ps_table_init(&table, border, 3, n_servers));
    many_begin(m, &config);
    for (int look = 0; look < 10000 && n_come < MANY * table.n; look++) {
        n_come = 0;
        for (int r = 0; r < MANY; r++) {
            ASSERT_OK(ct_ps_progress(m->ps[r]));
            for (int k = 0; k < table.n; k++)
                n_come += ct_ps_has(m->ps[r], k, 1);
        }
    }
    ASSERT_INT(MANY * table.n, n_come);
    for (int r = 0; r < MANY; r++)
        for (int i = 0; i < N_FLOATS; i++)
            ASSERT_FLOAT(MANY * (MANY - 1) / 2 + MANY * i, m->x[r][i], 0);
    for (int r = 0; r < MANY; r++)
        ct_ps_destroy(m->ps[r]);
    for (int r = 0; r < MANY; r++)
        ct_comm_destroy(m->comm[r]);
    ct_ps_table_fini(&table);
}

TEST(servers, hundreds_of_workers_are_not_too_many)
{
    sum_of_many(1); /* answers go down a tree */
    sum_of_many(2);
}

enum { N = 5 };

/* values += a share of what came; the latest update is 8 everywhere. */
static enum ct_status add_share(void *arg, const struct ct_ps_update *u)
{
    (void)arg;
    for (size_t i = 0; i < u->n; i++)
        u->value[i] += u->share * u->scale * u->sum[i];
    return CT_OK;
}

static enum ct_status read_eights(void *arg, int64_t history, size_t first,
                                  size_t n, float *out)
{
    (void)arg, (void)first;
    if (history != 0)
        return ct_fail(CT_ECOMM, "there is no history %lld",
                       (long long)history);
    for (size_t i = 0; i < n; i++)
        out[i] = 8;
    return CT_OK;
}

/* Rank 0 serves, and is the only one of three workers that pushes. */
static enum ct_status push_alone(struct ct_comm *c, void *arg)
{
    static const size_t border[] = { 0, N };
    static const int worker[] = { 0, 1, 2 }, server[] = { 0 };
    const float *momentum     = arg;
    const struct ct_ps_weight one = { 1, 1 };
    const int64_t words[CT_PS_WORDS] = { 0 };
    float x[N] = { 0 }, got[N] = { 0 };
    struct ct_ps_table t;
    struct ct_ps *ps = NULL;

    if (c->rank > 0)
        return ct_barrier(c);
    CT_TRY(ct_ps_table_init(&t, border, 2, 1));
    CT_TRY(ct_ps_create(&(struct ct_ps_config){
        .comm = c, .table = &t, .worker_rank = worker, .server_rank = server,
        .n_workers = 3, .values = true, .staleness = CT_PS_ASYNC,
        .momentum = *momentum, .apply = add_share, .read = read_eights }, &ps));
    ct_ps_reset(ps, x, 0);
    for (int i = 0; i < N; i++)
        x[i] = (float)(3 * i);
    CT_TRY(ct_ps_push_here(ps, 0, 0, &one, x, words));
    CT_TRY(ct_ps_progress(ps));
    ct_ps_take(ps, 0, got);
    ct_ps_destroy(ps);
    ct_ps_table_fini(&t);
    for (int i = 0; i < N; i++) {
        float want = (float)i - 8 * (*momentum + *momentum * *momentum);

        if (got[i] != want)
            return ct_fail(CT_EINTERNAL, "value %d is %g, not %g", i,
                           (double)got[i], (double)want);
    }
    return ct_barrier(c);
}

/* Without a bound a push is a third of an update, and the answer is where
 * momentum will have taken the values when the two others have pushed. */
TEST(servers, answers_look_ahead)
{
    float none = 0, half = 0.5f;

    ranks_run(3, NULL, push_alone, &none);
    ranks_run(3, NULL, push_alone, &half);
}

/* What a rank says in its pulse while it waits. */
struct seen {
    struct ct_pulse pulse;
    int             n_looks, peer;
    bool            is_lost; /* the one that it waits for */
};

static enum ct_status look_at_pulse(void *arg)
{
    struct seen *s = arg;

    s->n_looks++;
    s->peer = ct_pulse_view(&s->pulse).peer;
    return s->is_lost ? ct_fail(CT_ECOMM, "the server is lost") : CT_OK;
}

/* Rank 0 has pushed to rank 1, which does not answer. */
static enum ct_status await_for_a_time(struct ct_comm *c, struct seen *s,
                                       double seconds)
{
    static const size_t border[] = { 0, N };
    static const int worker[] = { 0 }, server[] = { 1 };
    float x[N] = { 0 };
    struct ct_ps_table t;
    struct ct_ps *ps = NULL;
    enum ct_status st;

    CT_TRY(ct_ps_table_init(&t, border, 2, 1));
    CT_TRY(ct_ps_create(&(struct ct_ps_config){
        .comm = c, .table = &t, .worker_rank = worker, .server_rank = server,
        .n_workers = 1, .values = true, .staleness = CT_PS_ASYNC }, &ps));
    ct_ps_reset(ps, x, 0);
    CT_TRY(ct_ps_await_until(ps, 0, 1, ct_now() + 60)); /* none is due */
    CT_TRY(ct_ps_push(ps, 0, 0, &(struct ct_ps_weight){ 1, 1 }, x, NULL));
    c->pulse    = &s->pulse;
    c->judge    = look_at_pulse;
    c->tick_arg = s;
    st          = ct_ps_await_until(ps, 0, 1, ct_now() + seconds);
    ct_ps_destroy(ps);
    ct_ps_table_fini(&t);
    return st;
}

TEST(servers, a_wait_for_a_time_is_seen_judged_and_ends)
{
    struct ct_transport *t[2];
    struct ct_comm *c[2];
    struct seen s = { 0 };
    double start;

    ASSERT_OK(ct_loopback_create(2, &(struct ct_loopback_options){ 0 }, t));
    for (int r = 0; r < 2; r++)
        ASSERT_OK(ct_comm_create(t[r], &c[r]));
    ct_pulse_init(&s.pulse);
    start = ct_now();
    ASSERT_OK(await_for_a_time(c[0], &s, 2));
    ASSERT(ct_now() - start >= 2 && ct_now() - start < 50);
    ASSERT(s.n_looks > 0);
    ASSERT_INT(1, s.peer); /* the server */
    ASSERT(ct_pulse_view(&s.pulse).waiting == 0);
    s.is_lost = true;
    ASSERT_STATUS(CT_ECOMM, await_for_a_time(c[0], &s, 60));
    for (int r = 0; r < 2; r++)
        ct_comm_destroy(c[r]);
}

/* What a rank sends that is no worker of this version, or has lost count. */
struct strange {
    int         tag;
    const void *data;
    size_t      bytes;
    int         staleness;
};

/* Rank 0 serves rank 1, which sends that. */
static enum ct_status serve_strange(struct ct_comm *c, void *arg)
{
    static const size_t border[] = { 0, N };
    static const int worker[] = { 1 }, server[] = { 0 };
    const struct strange *x   = arg;
    const float zeros[N]      = { 0 };
    struct ct_ps_table t;
    struct ct_ps *ps = NULL;
    struct ct_request r;
    enum ct_status st = CT_OK;

    if (c->rank == 1) {
        CT_TRY(ct_comm_send(c, 0, x->tag, x->data, x->bytes, &r));
        CT_TRY(ct_comm_wait(c, 0, &r));
        return ct_barrier(c); /* it stays until rank 0 has looked, and left */
    }
    CT_TRY(ct_ps_table_init(&t, border, 2, 1));
    CT_TRY(ct_ps_create(&(struct ct_ps_config){
        .comm = c, .table = &t, .worker_rank = worker, .server_rank = server,
        .n_workers = 1, .values = true, .staleness = x->staleness,
        .apply = add_share, .read = read_eights }, &ps));
    ct_ps_reset(ps, zeros, 0);
    for (int i = 0; i < 60000 && st == CT_OK && ct_ps_version(ps) == 0; i++) {
        nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
        st = ct_ps_progress(ps);
    }
    ct_ps_destroy(ps);
    ct_ps_table_fini(&t);
    return st;
}

static void refuse_strange(const char *text, struct strange x)
{
    struct rank r[MOST_RANKS];

    ranks_try(2, NULL, serve_strange, &x, r);
    ASSERT_STATUS(CT_ECOMM, r[0].status);
    ASSERT_HAS(text, r[0].why);
}

TEST(servers, a_strange_pull_is_an_error)
{
    const struct ct_ps_pull foreign = { .what = 1 },
                            unknown = { .magic = CT_PS_MAGIC,
                                        .what  = 0xffffffff };

    refuse_strange("is no pull", (struct strange){
        CT_PS_TAG_PULL, &foreign, sizeof(foreign), 1 });
    refuse_strange("no history 4294967294", (struct strange){
        CT_PS_TAG_PULL, &unknown, sizeof(unknown), 1 });
}

static void refuse_push(const char *text, struct ct_ps_head head)
{
    refuse_strange(text, (struct strange){ CT_PS_TAG_HEAD, &head,
                                           sizeof(head), 2 });
}

TEST(servers, a_strange_push_is_an_error)
{
    const struct ct_ps_head good = { .magic = CT_PS_MAGIC, .weight = 1 };
    struct ct_ps_head h;

    h       = good;
    h.clock = 3; /* the ring has room for 0, 1, 2 */
    refuse_push("iteration 3 while 0 are in", h);
    h.clock = INT64_MAX;
    refuse_push("iteration 9223372036854775807 of worker 0", h);
    h        = good;
    h.worker = 7;
    refuse_push("worker 7", h);
    h        = good;
    h.weight = -1;
    refuse_push("weight -1", h);
    h       = good;
    h.slice = 4;
    refuse_push("slice 4", h);
}
