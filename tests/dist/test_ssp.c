/* test_ssp.c - servers that keep the values: in step they train as one rank
 * does; out of step ranks stay within their bound and end as one. */
#include <stdatomic.h>
#include <unistd.h>

#include "dist/ranks.h"
#include "dist/sync/local.h"

enum { STEPS = 30 };

/* Ranks 0 to n - 1 came to the end with the same bits, and learned. */
static void same_end(const struct rank *r, int n)
{
    for (int i = 0; i < n; i++) {
        if (r[i].st != CT_OK)
            FAIL("rank %d: %s", i, r[i].why);
        ASSERT_INT(0, memcmp(r[0].weights, r[i].weights,
                             r[0].n * sizeof(float)));
    }
}

/* How far apart two runs' weights are, relative to the largest. */
static double apart(const struct rank *a, const struct rank *b)
{
    double most = 0, diff = 0;

    for (size_t i = 0; i < a->n; i++) {
        most = fmax(most, fabs((double)a->weights[i]));
        diff = fmax(diff, fabs((double)a->weights[i] -
                               (double)b->weights[i]));
    }
    return diff / most;
}

TEST(ssp, without_staleness_it_trains_as_one_rank)
{
    static const int counts[] = { 1, 2, 3, 4, 8 };
    struct rank *one;

    ranks_make_data();
    one = ranks_train(1, "", "", 0);
    for (int i = 0; i < 5; i++) {
        ranks_same_as_one(one, ranks_train(counts[i], "", "sync: 'ssp'", 0),
                          counts[i]);
        ranks_same_as_one(one, ranks_train(counts[i], "",
                                           "sync: 'ssp' road: 'ps'", 0),
                          counts[i]);
    }
}

TEST(ssp, dedicated_servers_update_as_one_rank_does)
{
    struct ranks_how how = { .n_ranks = 5, .n_servers = 2,
                             .options = "sync: 'ssp' servers: 2" };
    struct rank *one;

    ranks_make_data();
    one = ranks_train(1, "", "", 0);
    ranks_same_as_one(one, ranks_train_so(&how), 3);
    how.delay_seed = 5;
    ranks_same_as_one(one, ranks_train_so(&how), 3);
}

TEST(ssp, every_rule_and_rate_is_applied_by_servers)
{
    static const char *const more[] = {
        "type: 'Nesterov'", "type: 'Adam' base_lr: 0.001 delta: 0.01",
        "type: 'AdaDelta' delta: 1e-6", "iter_size: 2",
        "lr_policy: 'multistep' gamma: 0.5 stepvalue: 2 stepvalue: 5",
        "warmup_iter: 5 warmup_start_lr: 0.001",
        "regularization_type: 'L1'",
    };

    ranks_make_data();
    for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
        struct rank *one = ranks_train(1, more[i], "", 0);

        ASSERT_OK(one->st);
        ranks_same_as_one(one, ranks_train(2, more[i], "sync: 'ssp'", 0), 2);
    }
}

static atomic_int at[RANKS_MOST];
static atomic_int most_ahead;
static int lead;

/* Rank 1 goes on only when rank 0 is `lead` iterations ahead of it. */
static void watch(const struct rank *r, int iter)
{
    int least = iter, goal = iter + lead < STEPS ? iter + lead : STEPS;

    atomic_store(&at[r->number], iter);
    for (int i = 0; i < 3; i++)
        least = atomic_load(&at[i]) < least ? atomic_load(&at[i]) : least;
    if (iter - least > atomic_load(&most_ahead))
        atomic_store(&most_ahead, iter - least);
    while (r->number == 1 && atomic_load(&at[0]) < goal)
        usleep(100);
}

static struct rank *train_watched(const char *options, int ahead,
                                  unsigned seed)
{
    struct ranks_how how = { .n_ranks = 3, .options = options, .steps = STEPS,
                             .delay_seed = seed, .each = watch };

    for (int i = 0; i < RANKS_MOST; i++)
        atomic_store(&at[i], 0);
    atomic_store(&most_ahead, 0);
    lead = ahead;
    return ranks_train_so(&how);
}

/* A rank that has finished iteration c had the updates before c - s, so the
 * slowest had finished c - s: c + 1 - (c - s) iterations apart.  It looks like
 * one more where the slowest has not come to say so yet. */
TEST(ssp, ranks_stay_within_their_bound_and_end_as_one)
{
    static const char *const options[] = {
        "sync: 'ssp' staleness: 1", "sync: 'ssp' staleness: 3",
        "sync: 'ssp' staleness: 3 road: 'ps'",
    };
    static const int bound[] = { 1, 3, 3 };

    ranks_make_data();
    for (int i = 0; i < 3; i++) {
        struct rank *r = train_watched(options[i], bound[i] + 1,
                                       i == 1 ? 7 : 0);

        same_end(r, 3);
        ASSERT_INT(STEPS, r[2].iter);
        ASSERT(atomic_load(&most_ahead) >= bound[i] + 1);
        ASSERT(atomic_load(&most_ahead) <= bound[i] + 2);
    }
}

TEST(ssp, staleness_trains_nearly_as_well)
{
    struct ranks_how how = { .n_ranks = 3, .options = "sync: 'ssp'",
                             .steps = STEPS, .more = "momentum: 0.5" };
    struct rank *bsp, *ssp;

    ranks_make_data();
    bsp = ranks_train_so(&how);
    how.options = "sync: 'ssp' staleness: 2";
    ssp = ranks_train_so(&how);
    same_end(bsp, 3);
    same_end(ssp, 3);
    ASSERT(apart(bsp, ssp) < 0.2); /* 0 where nobody is held up */
}

TEST(ssp, async_is_unbounded_and_ends_as_one)
{
    struct rank *r, *one;

    ranks_make_data();
    one = ranks_train(1, "", "", 0);
    ranks_same_as_one(one, ranks_train(1, "", "sync: 'async'", 0), 1);
    r = train_watched("sync: 'async'", 7, 0);
    same_end(r, 3);
    ASSERT(atomic_load(&most_ahead) >= 7);
    r = train_watched("sync: 'async' servers: 1", 7, 3);
    same_end(r, 2);
}

static double norm(const struct rank *r)
{
    double sum = 0;

    for (size_t i = 0; i < r->n; i++)
        sum += (double)r->weights[i] * (double)r->weights[i];
    return sqrt(sum);
}

/* A P-th of an update has a P-th of the decay: the weights of 4 ranks shrink
 * as one rank's do, by about 0.95^9, and not by the fourth power of that. */
TEST(ssp, async_decays_weights_as_one_rank)
{
    static const char decay[] = "momentum: 0 weight_decay: 1";
    struct rank *one, *r;

    ranks_make_data();
    one = ranks_train(1, decay, "", 0);
    r   = ranks_train(4, decay, "sync: 'async'", 0);
    same_end(r, 4);
    ASSERT_FLOAT(norm(one), norm(r), 0.1 * norm(one));
}

/* Two ranks, momentum 0.81: a push has 0.9, and half of 0.1 / 0.19 of the rate,
 * and one push of the other rank comes between.  With a bound, two iterations
 * that are missing: the first goes on with 0.81. */
TEST(ssp, own_gradients_stand_for_missing_ones)
{
    struct dist_plan plan = { .n_groups = 2, .staleness = CT_PS_ASYNC };
    struct ct_dist d      = { .trainer.momentum = 0.81f, .plan = &plan };

    ASSERT_FLOAT(0.9, dist_ps_momentum(&d), 1e-6);
    ASSERT_FLOAT(0.5 * 0.1 / 0.19, dist_ps_step(&d, 5), 1e-6);
    plan.staleness = 2;
    d.ps.clock     = 7;
    ASSERT_FLOAT(0.81, dist_ps_momentum(&d), 1e-6);
    ASSERT_FLOAT(1.81, dist_ps_step(&d, 5), 1e-6);
    ASSERT_FLOAT(1, dist_ps_step(&d, 6), 1e-6);
}

TEST(ssp, groups_in_step_train_as_one_rank)
{
    struct rank *one;

    ranks_make_data();
    one = ranks_train(1, "", "", 0);
    ranks_same_as_one(one, ranks_train(4, "", "groups: 2", 0), 4);
    ranks_same_as_one(one, ranks_train(4, "", "groups: 2 reduce: 'ring'", 0),
                      4);
    ranks_same_as_one(one, ranks_train(8, "", "groups: 3 road: 'ps'", 0), 8);
    ranks_same_as_one(one, ranks_train(3, "", "groups: 3", 0), 3);
}

TEST(ssp, groups_out_of_step_end_as_one)
{
    struct ranks_how how = { .n_ranks = 6, .n_servers = 2, .steps = STEPS,
                             .options = "groups: 2 staleness: 2 servers: 2",
                             .delay_seed = 11 };
    struct rank *r;

    ranks_make_data();
    r = ranks_train_so(&how);
    same_end(r, 4);
    ASSERT_INT(STEPS, r[3].iter);
}

TEST(ssp, means_are_frequent_at_first_and_at_the_end)
{
    static const int iter[] = { 0, 3, 4, 6, 7, 9, 10, 94, 95, 99 };
    static const int want[] = { 1, 1, 2, 2, 4, 4, 8, 8, 1, 1 };

    for (int i = 0; i < 10; i++)
        ASSERT_INT(want[i], dist_local_steps(8, 100, iter[i]));
    for (int i = 0; i < 9; i++) /* too few for either */
        ASSERT_INT(8, dist_local_steps(8, 9, i));
}

TEST(ssp, means_of_weights_every_step_are_lock_step)
{
    struct ranks_how how = { .n_ranks = 4, .steps = STEPS,
                             .options = "sync: 'local' local_steps: 4" };
    struct rank *one, *r;

    ranks_make_data();
    one = ranks_train(1, "", "", 0);
    ranks_same_as_one(one, ranks_train(3, "", "sync: 'local' local_steps: 1",
                                       0), 3);
    /* Around a ring, if that is asked for: 2 (P-1) / P of weights, momentum. */
    r = ranks_train(4, "", "sync: 'local' local_steps: 1 reduce: 'ring'", 0);
    ranks_same_as_one(one, r, 4);
    ASSERT((double)r[0].stats.bytes_sent >
           0.99 * RANKS_STEPS * 2 * 1.5 * (double)r[0].n * sizeof(float));
    /* Where 300 iterations are to come, 15 are a warm-up in step. */
    ranks_same_as_one(one, ranks_train(3, "max_iter: 300", "sync: 'local' "
                                       "local_steps: 4", 0), 3);
    r = ranks_train_so(&how);
    same_end(r, 4);
    /* Weights and momentum once in four iterations, and the losses. */
    ASSERT(r[0].stats.bytes_sent <
           STEPS / 4 * 2 * 2 * r[0].n * sizeof(float));
    how.options = "sync: 'bsp'";
    ASSERT(apart(ranks_train_so(&how), r) > 1e-6);
}

TEST(ssp, norms_over_all_slices_are_refused)
{
    struct rank *r;

    ranks_make_data();
    r = ranks_train(2, "clip_gradients: 1", "sync: 'ssp'", 0);
    ASSERT_STATUS(CT_ENOTSUP, r[0].st);
    ASSERT_HAS("clip_gradients", r[0].why);
}

/* Snapshots hold the servers' weights and history; another number of ranks,
 * by another road, goes on from there. */
TEST(ssp, snapshots_resume_elsewhere)
{
    char more[600], state[600];
    struct ranks_how how = { .n_ranks = 4, .more = more, .steps = 5,
                             .options = "sync: 'ssp'" };
    struct rank *one, *r;

    ranks_make_data();
    snprintf(more, sizeof(more), "snapshot_prefix: '%s/s' "
             "snapshot_after_train: true type: 'Adam' base_lr: 0.001",
             test_folder());
    snprintf(state, sizeof(state), "%s/s_iter_5.solverstate", test_folder());
    how.n_ranks = 1;
    how.steps   = 9;
    one         = ranks_train_so(&how);
    how.n_ranks = 4;
    how.steps   = 5;
    same_end(ranks_train_so(&how), 4);
    how.resume = state;
    how.steps  = 4;
    for (int n = 1; n <= 3; n++) {
        how.n_ranks = n;
        how.options = n == 3 ? "road: 'ps'" : "sync: 'ssp'";
        r = ranks_train_so(&how);
        same_end(r, n);
        ASSERT_INT(9, r[0].iter);
        ASSERT(apart(one, r) < 1e-4);
    }
}
