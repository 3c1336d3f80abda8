/* test_sync_bn.c - BatchNorm over the samples of all ranks: k ranks at batch
 * B/k train as one at batch B, statistics included. */
#include "dist/ranks.h"

/* In place, so that the backward pass reads a kept copy; with the Scale and
 * the ReLU that a net runs as one with it. */
static const char in_place[] =
    "layer { name: 'bn' type: 'BatchNorm' bottom: 'c' top: 'c' }"
    "layer { name: 's' type: 'Scale' bottom: 'c' top: 'c' "
    "  scale_param { bias_term: true } }";

TEST(sync_bn, k_ranks_with_batch_norm_train_as_one)
{
    static const int counts[] = { 2, 3, 4, 8 };
    struct rank *one;

    ranks_make_data();
    ranks_insert(in_place);
    one = ranks_train(1, "", "", 0);
    ASSERT_OK(one->st);
    for (int i = 0; i < 4; i++)
        ranks_same_as_one(one, ranks_train(counts[i], "",
                                           "sync_bn: true bucket_bytes: 4096",
                                           0), counts[i]);
}

/* The test above can fail: without it ranks see other statistics. */
TEST(sync_bn, statistics_are_each_ranks_own_without_it)
{
    struct rank *one, *r;
    double most = 0;

    ranks_make_data();
    ranks_insert(in_place);
    one = ranks_train(1, "", "", 0);
    r   = ranks_train(4, "", "", 0);
    ASSERT_OK(r->st);
    for (int k = 0; k < RANKS_STEPS; k++)
        most = fmax(most, fabs(one->loss[k] - r->loss[k]));
    ASSERT(most > 1e-3);
}

/* Only rank 0 tests where passes leave something behind; what its BatchNorm
 * has seen there counts for all. */
TEST(sync_bn, statistics_of_tests_are_everybodys)
{
    static const char counts[] =
        "layer { name: 'bn' type: 'BatchNorm' bottom: 'c' top: 'c' "
        "  batch_norm_param { use_global_stats: false } }";
    const char *const tests = "test_iter: 2 test_interval: 3";
    static const char *const options[] = { "sync_bn: true batch: 'global'",
                                           "canonical: true parts: 4 "
                                           "batch: 'global'" };

    for (int i = 0; i < 2; i++) {
        struct rank *one;

        ranks_make_data();
        ranks_batch(RANKS_BATCH);
        ranks_insert(counts);
        one = ranks_train(1, tests, i ? options[i] : "", 0);
        ASSERT_OK(one->st);
        ranks_same_as_one(one, ranks_train(2, tests, options[i], 0), 2);
        ranks_same_as_one(one, ranks_train(4, tests, options[i], 0), 4);
    }
}

/* PSPNet's BN has parameters and statistics in one layer. */
static const char psp[] =
    "layer { name: 'bn' type: 'BN' bottom: 'c' top: 'c' "
    "  param { lr_mult: 1 } param { lr_mult: 2 } "
    "  param { lr_mult: 1 } param { lr_mult: 1 } "
    "  bn_param { slope_filler { value: 1 } momentum: 0.8 } }";

TEST(sync_bn, k_ranks_with_bn_train_as_one)
{
    struct rank *one;

    ranks_make_data();
    ranks_insert(psp);
    one = ranks_train(1, "", "", 0);
    ASSERT_OK(one->st);
    ranks_same_as_one(one, ranks_train(2, "", "sync_bn: true", 0), 2);
    ranks_same_as_one(one, ranks_train(4, "", "sync_bn: true", 0), 4);
}
