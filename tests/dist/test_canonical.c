/* test_canonical.c - the same bits for 1 to 8 ranks; and a batch that
 * all ranks share, also where it does not divide evenly. */
#include <stdlib.h>

#include "dist/ranks.h"

/* What could depend on the ranks: draws and running statistics. */
static const char layers[] =
    "layer { name: 'bn' type: 'BatchNorm' bottom: 'c' top: 'c' "
    "  batch_norm_param { moving_average_fraction: 0.9 } }"
    "layer { name: 's' type: 'Scale' bottom: 'c' top: 'c' "
    "  scale_param { bias_term: true } }"
    "layer { name: 'o' type: 'Dropout' bottom: 'c' top: 'c' }";

static void same_bits(const char *more, const char *options)
{
    struct rank *one = ranks_train(1, more, options, 0);

    if (one->st != CT_OK)
        FAIL("%s", one->why);
    ASSERT(one->loss[RANKS_STEPS - 1] < one->loss[0]);
    for (int n = 2; n <= 8; n++) {
        struct rank *r = ranks_train(n, more, options, 0);

        for (int i = 0; i < n; i++) {
            if (r[i].st != CT_OK)
                FAIL("rank %d of %d: %s", i, n, r[i].why);
            for (int k = 0; k < RANKS_STEPS; k++)
                ASSERT_FLOAT(one->loss[k], r[i].loss[k], 0);
            ASSERT_INT(0, memcmp(one->weights, r[i].weights,
                                 one->n * sizeof(float)));
        }
    }
}

TEST(canonical, any_number_of_ranks_gives_the_same_bits)
{
    ranks_make_data();
    ranks_insert(layers);
    ranks_batch(3);
    same_bits("", "canonical: true parts: 8 bucket_bytes: 4096");
}

/* Statistics beside parameters in one layer; clipping counts the latter. */
TEST(canonical, bn_keeps_to_it)
{
    ranks_make_data();
    ranks_insert("layer { name: 'bn' type: 'BN' bottom: 'c' top: 'c' "
                 "  bn_param { slope_filler { value: 1 } } }");
    ranks_batch(3);
    same_bits("clip_gradients: 2", "canonical: true parts: 8");
}

TEST(canonical, clipping_and_a_global_batch_keep_to_it)
{
    ranks_make_data();
    ranks_insert(layers);
    ranks_batch(48);
    same_bits("clip_gradients: 2",
              "canonical: true parts: 16 batch: 'global'");
}

/* A test takes statistics as they are: the mean of three equal ones would
 * round. */
TEST(canonical, tests_in_between_leave_statistics_alone)
{
    ranks_make_data();
    ranks_insert(layers);
    ranks_batch(3);
    same_bits("test_iter: 1 test_interval: 2", "canonical: true parts: 8");
}

/* Sums by messages, and in servers, which add up along the same tree whoever
 * they are; 12 micro-batches on 1, 3 and 6 ranks. */
TEST(canonical, servers_and_other_numbers_of_ranks_keep_to_it)
{
    static const struct {
        int parts, workers, servers;
        const char *road;
    } job[] = {
        { 8, 1, 0, "ps" },         { 8, 2, 0, "ps" },
        { 8, 4, 0, "ps" },         { 8, 8, 0, "ps" },
        { 8, 2, 0, "sharded" },    { 8, 4, 0, "sharded" },
        { 8, 2, 1, "ps" },         { 8, 4, 2, "sharded" },
        { 12, 3, 0, "allreduce" }, { 12, 6, 0, "allreduce" },
        { 12, 1, 0, "ps" },        { 12, 3, 0, "ps" },
        { 12, 3, 0, "sharded" },   { 12, 6, 1, "ps" },
        { 14, 7, 0, "allreduce" }, { 14, 7, 0, "ps" },
        { 13, 2, 0, "allreduce" }, { 13, 5, 0, "allreduce" },
        { 13, 8, 0, "allreduce" },
    };
    struct rank *one = NULL;

    ranks_make_data();
    ranks_insert(layers);
    ranks_batch(3);
    for (size_t k = 0; k < sizeof(job) / sizeof(job[0]); k++) {
        char options[128];
        struct rank *r;

        snprintf(options, sizeof(options), "canonical: true parts: %d",
                 job[k].parts);
        if (k == 0 || job[k].parts != job[k - 1].parts)
            one = ranks_train(1, "", options, 0);
        ASSERT_OK(one->st);
        snprintf(options, sizeof(options), "canonical: true parts: %d "
                 "road: '%s' servers: %d", job[k].parts, job[k].road,
                 job[k].servers);
        r = ranks_train_so(&(struct ranks_how){
            .n_ranks   = job[k].workers + job[k].servers,
            .n_servers = job[k].servers, .options = options });
        for (int i = 0; i < job[k].workers; i++) {
            if (r[i].st != CT_OK)
                FAIL("%s, rank %d: %s", options, i, r[i].why);
            for (int t = 0; t < RANKS_STEPS; t++)
                ASSERT_FLOAT(one->loss[t], r[i].loss[t], 0);
            ASSERT_INT(0, memcmp(one->weights, r[i].weights,
                                 one->n * sizeof(float)));
        }
    }
}

static void forget(void *unused)
{
    (void)unused;
    unsetenv("CORTADO_IMPL");
}

/* As on a GPU, whose gradients reach the CPU in copies. */
TEST(canonical, copies_of_gradients_give_the_same_bits)
{
    ranks_make_data();
    ranks_insert(layers);
    ranks_batch(3);
    test_defer(forget, NULL);
    ASSERT(setenv("CORTADO_IMPL", "mirror:copy", 1) == 0);
    same_bits("", "canonical: true parts: 8 bucket_bytes: 4096");
}

/* Without it, in the same setting, sums depend on P. */
TEST(canonical, other_sums_differ_in_their_last_bits)
{
    struct rank *one, *four;

    ranks_make_data();
    one  = ranks_train(1, "", "", 0);
    four = ranks_train(4, "", "", 0);
    ASSERT_OK(four->st);
    ASSERT(memcmp(one->weights, four->weights, one->n * sizeof(float)) != 0);
}

TEST(canonical, it_trains_as_one_rank_with_the_whole_batch)
{
    struct rank *one;

    ranks_make_data();
    one = ranks_train(1, "", "", 0);
    ranks_batch(RANKS_BATCH);
    ranks_same_as_one(one, ranks_train(2, "", "canonical: true parts: 4 "
                                       "batch: 'global'", 0), 2);
}

TEST(canonical, what_cannot_be_is_refused)
{
    ranks_make_data();
    ranks_refuse("needs parts", ranks_train(2, "", "canonical: true", 0), 2);
    ranks_refuse("their number at least",
                 ranks_train(3, "", "canonical: true parts: 2", 0), 3);
    ranks_refuse("power of two",
                 ranks_train(2, "", "canonical: true parts: 12 road: 'ps'", 0),
                 2);
    ranks_refuse("power of two",
                 ranks_train(3, "", "canonical: true parts: 8 "
                             "road: 'sharded'", 0), 3);
    ranks_refuse("compress", ranks_train(2, "", "canonical: true parts: 8 "
                                         "compress: 'fp16'", 0), 2);
    ranks_refuse("in step", ranks_train(2, "", "canonical: true parts: 8 "
                                        "sync: 'ssp'", 0), 2);
    ranks_refuse("iter_size", ranks_train(2, "iter_size: 2", "canonical: true "
                                          "parts: 8", 0), 2);
    ranks_refuse("shares", ranks_train(2, "", "canonical: true parts: 8 "
                                       "shares: '2:1'", 0), 2);
}
