/* test_bsp.c - ranks as threads of one process: k ranks at batch B/k train as
 * one rank at batch B, whatever the way to sum, and stay equal. */
#include <stdlib.h>

#include "dist/ranks.h"

TEST(bsp, k_ranks_at_a_kth_of_the_batch_train_as_one)
{
    static const int counts[] = { 2, 3, 4, 8 };
    struct rank *one;

    ranks_make_data();
    one = ranks_train(1, "", "", 0);
    ASSERT_OK(one->st);
    ASSERT(one->loss[RANKS_STEPS - 1] < one->loss[0]);
    for (int i = 0; i < 4; i++)
        ranks_same_as_one(one, ranks_train(counts[i], "",
                                           "bucket_bytes: 4096", 0),
                          counts[i]);
}

TEST(bsp, every_way_to_sum_trains_alike)
{
    static const char *const ways[] = { "reduce: 'ring'", "reduce: 'halving'",
                                        "reduce: 'tree'",
                                        "reduce: 'hierarchical'",
                                        "reduce: 'shared'" };
    struct rank *one;

    ranks_make_data();
    one = ranks_train(1, "", "", 0);
    for (int i = 0; i < 5; i++)
        ranks_same_as_one(one, ranks_train(3, "", ways[i], 0), 3);
}

/* Messages wait and overtake, so ranks are ready for different slices when
 * rank 0 chooses. */
TEST(bsp, slices_in_any_order_train_as_one)
{
    static const int counts[] = { 2, 3, 7, 8 };
    static const char *const cuts[] = {
        "reduce: 'ring' bucket_bytes: 4096 slice_bytes: 1000",
        "reduce: 'tree' bucket_bytes: 0 slice_bytes: 512 road: 'factors'",
        "reduce: 'ring' slice_bytes: 0" };
    struct rank *one;

    ranks_make_data();
    for (int k = 0; k < 4; k++) {
        ranks_batch(RANKS_BATCH / 8 * counts[k]);
        one = ranks_train(1, "", "", 0);
        ranks_batch(RANKS_BATCH / 8);
        for (int i = 0; i < 3; i++)
            ranks_same_as_one(one, ranks_train_so(&(struct ranks_how){
                                       .n_ranks    = counts[k],
                                       .options    = cuts[i],
                                       .delay_seed = 5 }),
                              counts[k]);
    }
}

TEST(bsp, clipping_micro_batches_and_no_overlap_keep_to_it)
{
    const char *clip = "clip_gradients: 0.05";
    struct rank *one;

    ranks_make_data();
    one = ranks_train(1, clip, "", 0);
    ranks_same_as_one(one, ranks_train(4, clip, "", 0), 4);
    one = ranks_train(1, "iter_size: 2", "", 0);
    ranks_same_as_one(one, ranks_train(2, "iter_size: 2", "overlap: false", 0),
                      2);
}

TEST(bsp, factors_give_the_gradient_that_sums_give)
{
    struct rank *one;

    ranks_make_data();
    one = ranks_train(1, "", "", 0);
    for (int n = 2; n <= 4; n++)
        ranks_same_as_one(one, ranks_train(n, "", "road: 'factors'", 0), n);
    one = ranks_train(1, "clip_gradients: 0.05", "", 0);
    ranks_same_as_one(one, ranks_train(2, "clip_gradients: 0.05",
                           "road: 'factors'", 0),
                2);
}

static char impl_before[128];

static void set_back(void *unused)
{
    (void)unused;
    if (impl_before[0])
        (void)setenv("CORTADO_IMPL", impl_before, 1);
    else
        (void)unsetenv("CORTADO_IMPL");
}

/* Also where ranks could read each other's. */
static void send_factors(void)
{
    const char *impl = getenv("CORTADO_IMPL");
    char both[160];

    snprintf(impl_before, sizeof(impl_before), "%s", impl ? impl : "");
    snprintf(both, sizeof(both), "%s%sfactors:host", impl_before,
             impl ? "," : "");
    test_defer(set_back, NULL);
    ASSERT(setenv("CORTADO_IMPL", both, 1) == 0);
}

/* g is 5 x 128 from 6 samples a rank: 6 x 133 floats to each of 3 peers. */
TEST(bsp, factors_send_the_formulas_bytes)
{
    struct rank *dense, *fact;
    double saved;

    ranks_make_data();
    send_factors();
    dense = ranks_train(4, "", "road: 'allreduce' reduce: 'ring'", 0);
    fact = ranks_train(4, "", "road: 'factors' reduce: 'ring'", 0);
    ASSERT_OK(fact[1].st);
    saved = ((double)dense[1].stats.bytes_sent -
             (double)fact[1].stats.bytes_sent) / RANKS_STEPS;
    /* Dense sends 2 3/4 640 floats for it. */
    ASSERT_FLOAT(4 * (2 * 0.75 * 640 - 3 * 6 * 133), saved, 1e-6);
}

TEST(bsp, a_rank_that_drifts_is_caught_with_its_layer)
{
    struct rank *r;

    ranks_make_data();
    r = ranks_train(3, "", "guard_interval: 1 reduce: 'ring'", 4);
    ASSERT_STATUS(CT_ECOMM, r[0].st);
    ASSERT_HAS("rank 2", r[0].why);
    ASSERT_HAS("layer c", r[0].why);
}

TEST(bsp, bytes_on_the_wire_are_those_of_the_formula)
{
    struct rank *r;
    double floats;

    ranks_make_data();
    r = ranks_train(4, "", "road: 'allreduce' reduce: 'ring' "
                    "bucket_bytes: 1073741824", 0);
    ASSERT_OK(r[1].st);
    floats = 2.0 * 3 / 4 * (double)r[1].n; /* 2 (P-1)/P n an exchange */
    ASSERT_FLOAT(RANKS_STEPS * floats * sizeof(float),
                 (double)r[1].stats.bytes_sent, 1e-6);
    ASSERT_INT(RANKS_STEPS, r[1].stats.n_exchanges);
}

TEST(bsp, in_shared_memory_a_rank_writes_each_gradient_once)
{
    struct rank *r;

    ranks_make_data();
    r = ranks_train(4, "", "road: 'allreduce'", 0);
    ASSERT_OK(r[1].st);
    ASSERT_FLOAT(RANKS_STEPS * (double)r[1].n * sizeof(float),
                 (double)r[1].stats.bytes_sent, 1e-6);
}

/* To the bit, whatever the road and the rule: an update that is put off into
 * the next forward pass is the same update. */
TEST(bsp, updates_put_off_give_the_same_bits)
{
    static const char *const solvers[] = { "", "clip_gradients: 0.05",
                                           "iter_size: 2",
                                           "warmup_iter: 4",
                                           "type: 'Adam' momentum2: 0.99" };
    static const char *const roads[] = {
        "bucket_bytes: 4096 road: 'allreduce'",
        "bucket_bytes: 4096 road: 'allreduce' reduce: 'ring'",
        "road: 'factors' guard_interval: 4" };

    ranks_make_data();
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < 3; k++) {
            struct rank *each = ranks_train(3, solvers[i], roads[k], 0);
            struct rank *once = ranks_train_at_once(3, solvers[i], roads[k]);

            for (int r = 0; r < 3; r++) {
                ASSERT_OK(each[r].st);
                ASSERT_OK(once[r].st);
                ASSERT_INT(0, memcmp(each[r].weights, once[r].weights,
                                     once[r].n * sizeof(float)));
            }
        }
}

TEST(bsp, an_unknown_way_to_sum_is_refused)
{
    struct rank *r;

    ranks_make_data();
    r = ranks_train(2, "", "reduce: 'shout'", 0);
    ASSERT_STATUS(CT_EINVAL, r[0].st);
    ASSERT_HAS("shout", r[0].why);
}
