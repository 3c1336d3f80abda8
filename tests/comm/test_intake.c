/* test_intake.c - what a server holds, and that bits do not depend on who comes
 * first.  All ranks are on this thread, which moves them in any order.  Rank 0
 * serves; the others push. */
#include <string.h>

#include "base/mem.h"
#include "comm/ps/ps.h"
#include "comm/comm_ranks.h"

enum { MOST = 33, N_SLICES = 16, SLICE = 4096, N_ALL = N_SLICES * SLICE };

struct many {
    struct ct_ps_table table;
    struct ct_comm    *comm[MOST + 1];
    struct ct_ps      *ps[MOST + 1];
    int                worker_rank[MOST];
    int                n;
    float             *x[MOST];
    uint64_t           before, most; /* bytes without the server; with it */
    unsigned           dice;
};

static int throw_dice(struct many *m, int sides)
{
    m->dice = m->dice * 1103515245 + 12345;
    return (int)(m->dice >> 8) % sides;
}

/* values -= the mean */
static enum ct_status subtract(void *arg, const struct ct_ps_update *u)
{
    (void)arg;
    for (size_t i = 0; i < u->n; i++)
        u->value[i] -= u->share * u->scale * u->sum[i];
    return CT_OK;
}

static struct many *begin(int n, struct ct_ps_config config, unsigned dice)
{
    static const int server_rank[] = { 0 };
    struct many *m = ct_calloc(1, sizeof(*m), "many");
    size_t border[N_SLICES + 1];
    struct ct_transport *t[MOST + 1];
    float *zeros;

    test_defer(ct_free, m);
    m->n    = n;
    m->dice = dice;
    for (int k = 0; k <= N_SLICES; k++)
        border[k] = (size_t)k * SLICE;
    ASSERT_OK(ct_alloc(N_ALL, sizeof(float), "zeros", &zeros));
    ASSERT_OK(ct_ps_table_init(&m->table, border, N_SLICES + 1, 1));
    ASSERT_OK(ct_loopback_create(n + 1, &(struct ct_loopback_options){
        .delay_seed = dice }, t));
    for (int w = 0; w < n; w++)
        m->worker_rank[w] = w + 1;
    config.table       = &m->table;
    config.worker_rank = m->worker_rank;
    config.server_rank = server_rank;
    config.n_workers   = n;
    config.apply       = subtract;
    for (int r = n; r >= 0; r--) { /* the server last */
        ASSERT_OK(ct_comm_create(t[r], &m->comm[r]));
        config.comm = m->comm[r];
        m->before   = ct_mem_stats().live_bytes;
        ASSERT_OK(ct_ps_create(&config, &m->ps[r]));
        if (config.values)
            ct_ps_reset(m->ps[r], zeros, 0);
        if (r == 0)
            break;
        ASSERT_OK(ct_alloc(N_ALL, sizeof(float), "x", &m->x[r - 1]));
        for (int i = 0; i < N_ALL; i++)
            m->x[r - 1][i] = (float)throw_dice(m, 1 << 20) * 1e-3f /
                             (float)(1 + throw_dice(m, 1000));
    }
    ct_free(zeros);
    return m;
}

static void end(struct many *m)
{
    for (int r = 0; r <= m->n; r++)
        ct_ps_destroy(m->ps[r]);
    for (int r = 0; r <= m->n; r++)
        ct_comm_destroy(m->comm[r]);
    for (int w = 0; w < m->n; w++)
        ct_free(m->x[w]);
    ct_ps_table_fini(&m->table);
}

static void push(struct many *m, int w, int64_t clock)
{
    for (int k = 0; k < N_SLICES; k++)
        ASSERT_OK(ct_ps_push(m->ps[w + 1], k, clock,
                             &(struct ct_ps_weight){ 1, 1 }, m->x[w], NULL));
}

static void move(struct many *m, int rank)
{
    const uint64_t live = ct_mem_stats().live_bytes;

    ASSERT_OK(ct_ps_progress(m->ps[rank]));
    if (rank == 0 && live > m->before && live - m->before > m->most)
        m->most = live - m->before;
}

static bool have_all(struct many *m, int64_t clock)
{
    for (int w = 0; w < m->n; w++)
        for (int k = 0; k < N_SLICES; k++)
            if (!ct_ps_has(m->ps[w + 1], k, clock))
                return false;
    return true;
}

/* ---- bits */

/* As the head of adding.c has it, without a server. */
static float tree_sum(float *x, int n)
{
    for (int step = 1; step < n; step *= 2)
        for (int w = 0; w + step < n; w += 2 * step)
            x[w] += x[w + step];
    return x[0];
}

static void sum_in_any_order(int n, unsigned dice, bool values)
{
    struct many *m = begin(n, (struct ct_ps_config){ .values = values }, dice);
    bool pushed[MOST] = { false };
    float *want, column[MOST], *got;

    ASSERT_OK(ct_alloc(N_ALL, sizeof(float), "sums", &want));
    ASSERT_OK(ct_alloc(SLICE, sizeof(float), "slice", &got));
    for (int i = 0; i < N_ALL; i++) {
        for (int w = 0; w < n; w++)
            column[w] = m->x[w][i];
        want[i] = tree_sum(column, n);
        if (values)
            want[i] = 0 - 1 / (float)n * want[i];
    }
    for (int look = 0; !have_all(m, 1); look++) {
        const int w = throw_dice(m, n);

        if (!pushed[w])
            push(m, w, 0);
        pushed[w] = true;
        for (int i = 0; i < 4; i++)
            move(m, throw_dice(m, n + 1));
        ASSERT(look < 1000000);
    }
    for (int k = 0; k < N_SLICES; k++) {
        const float *x = m->x[n - 1] + k * SLICE;

        if (values)
            ct_ps_take(m->ps[n], k, got);
        ASSERT(memcmp(want + k * SLICE, values ? got : x,
                      SLICE * sizeof(float)) == 0);
    }
    ct_free(got);
    ct_free(want);
    end(m);
}

TEST(intake, sums_in_step_have_the_same_bits_in_any_order_of_arrival)
{
    static const int n[] = { 1, 2, 3, 5, 7, 8, 13, 33 };

    for (unsigned i = 0; i < sizeof(n) / sizeof(n[0]); i++)
        for (unsigned dice = 1; dice <= 2; dice++)
            sum_in_any_order(n[i], 17 * dice + i, dice == 2);
}

/* ---- bytes */

/* The most that the server held while `n` workers pushed `turns` times, the
 * last worker first, and all of them before the server looked. */
static uint64_t bytes_held(int n, struct ct_ps_config config, int turns)
{
    const bool any = config.staleness != 0; /* answers come, whatever
                                             * they hold */
    struct many *m = begin(n, config, 0);
    uint64_t most;

    for (int64_t clock = 0; clock < turns; clock++) {
        struct ct_ps_round round = { 0 };
        int n_got                = 0;

        for (int w = n - 1; w >= 0; w--) {
            push(m, w, clock);
            move(m, w + 1);
        }
        for (int look = 0; any ? look < 100 : !have_all(m, clock + 1);
             look++) {
            for (int r = 0; r <= n; r++)
                move(m, r);
            if (config.rounds) {
                ct_ps_round(m->ps[0], &round);
                n_got = 0;
                for (int w = 0; w < n; w++)
                    n_got += ct_ps_mask_has(&round.got, w);
            }
            if (n_got == n)
                ASSERT_OK(ct_ps_close(m->ps[0], &round.got));
            if (look >= 100000)
                FAIL("%d workers do not come in; values %d, rounds %d, "
                     "staleness %d", n, config.values, config.rounds,
                     config.staleness);
        }
    }
    most = m->most;
    end(m);
    return most;
}

/* Thirty-two workers send 8 MB; a server has room for a few of them. */
static void stays_small(struct ct_ps_config config)
{
    const uint64_t model = N_ALL * sizeof(float);
    const uint64_t few   = bytes_held(16, config, 3);
    const uint64_t many  = bytes_held(32, config, 3);

    if (many > few + 2 * model || many > 12 * model)
        FAIL("16 workers: %llu bytes, 32: %llu; values %d, rounds %d, "
             "staleness %d", (unsigned long long)few, (unsigned long long)many,
             config.values, config.rounds, config.staleness);
}

TEST(intake, a_server_does_not_grow_with_its_workers)
{
    stays_small((struct ct_ps_config){ .values = false });
    stays_small((struct ct_ps_config){ .values = true });
    stays_small((struct ct_ps_config){ .values = true, .staleness = 2 });
    stays_small((struct ct_ps_config){ .values    = true,
                                       .staleness = CT_PS_ASYNC });
    stays_small((struct ct_ps_config){ .values = true, .rounds = true });
}

/* Five workers stand still in the middle of their turns: the others come in all
 * the same. */
TEST(intake, who_stands_still_keeps_nobody_out)
{
    const int n = 12, n_still = 5;
    struct many *m = begin(n, (struct ct_ps_config){ .values = true,
                                                     .rounds = true }, 0);
    struct ct_ps_round round = { 0 };
    int n_got                = 0;

    for (int w = 0; w < n_still; w++)
        ASSERT_OK(ct_ps_push(m->ps[w + 1], 0, 0,
                             &(struct ct_ps_weight){ 1, 1 }, m->x[w], NULL));
    for (int i = 0; i < 20; i++)
        for (int r = 0; r <= n; r++)
            move(m, r);
    for (int w = n_still; w < n; w++)
        push(m, w, 0);
    for (int look = 0; n_got < n - n_still; look++) {
        for (int r = n; r >= 0; r--)
            move(m, r);
        ct_ps_round(m->ps[0], &round);
        n_got = 0;
        for (int w = 0; w < n; w++)
            n_got += ct_ps_mask_has(&round.got, w);
        ASSERT(look < 100000);
    }
    ASSERT_OK(ct_ps_close(m->ps[0], &round.got));
    for (int w = 0; w < n_still; w++) /* the rest of their turns comes late */
        for (int k = 1; k < N_SLICES; k++)
            ASSERT_OK(ct_ps_push(m->ps[w + 1], k, 0,
                                 &(struct ct_ps_weight){ 1, 1 }, m->x[w],
                                 NULL));
    for (int i = 0; i < 200; i++)
        for (int r = 0; r <= n; r++)
            move(m, r);
    ct_ps_round(m->ps[0], &round);
    for (int w = 0; w < n; w++)
        ASSERT_INT(w < n_still, ct_ps_mask_has(&round.late, w));
    end(m);
}
