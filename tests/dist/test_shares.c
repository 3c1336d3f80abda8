/* test_shares.c - ranks that take unequal parts of a batch train as one rank
 * with all of it, by every road. */
#include <string.h>

#include "dist/ranks.h"

/* Of a batch of RANKS_BATCH on all ranks together. */
static void is_as_one(const struct rank *one, int n, const char *more,
                      const char *options)
{
    ranks_same_as_one(one, ranks_train(n, more, options, 0), n);
}

TEST(shares, a_global_batch_is_divided_and_weighted_by_samples)
{
    static const int counts[] = { 2, 5, 7 };
    struct rank *one;

    ranks_make_data();
    ranks_insert("layer { name: 'o' type: 'Dropout' bottom: 'c' top: 'c' }");
    ranks_batch(RANKS_BATCH);
    one = ranks_train(1, "", "", 0);
    for (int i = 0; i < 3; i++) /* 24 is 5 5 5 5 4 and 4 4 4 3 3 3 3 */
        is_as_one(one, counts[i], "", "batch: 'global'");
    ranks_batch(3);
    ranks_refuse("cannot be divided",
                 ranks_train(4, "", "batch: 'global'", 0), 4);
}

TEST(shares, ranks_that_only_serve_have_none_of_a_global_batch)
{
    struct ranks_how how = { .n_ranks = 4, .n_servers = 1,
                             .options = "road: 'ps' servers: 1 "
                                        "batch: 'global'" };
    struct rank *one;

    ranks_make_data();
    ranks_batch(25); /* 9 8 8 */
    one = ranks_train(1, "", "", 0);
    ranks_same_as_one(one, ranks_train_so(&how), 3);
}

TEST(shares, only_layers_that_are_trained_count)
{
    struct rank *one;

    ranks_make_data();
    ranks_insert("layer { name: 't' type: 'HDF5Data' top: 't' include { "
                 "phase: TEST } hdf5_data_param { batch_size: 7 } }");
    ranks_batch(RANKS_BATCH);
    one = ranks_train(1, "", "", 0);
    is_as_one(one, 2, "", "batch: 'global'");
    ranks_insert("layer { name: 't' type: 'HDF5Data' top: 't' "
                 "hdf5_data_param { batch_size: 7 } }");
    ranks_refuse("one batch_size", ranks_train(2, "", "batch: 'global'", 0),
                 2);
}

TEST(shares, ranks_of_unequal_weight_train_as_one_by_every_road)
{
    static const char *const ways[] = {
        "", "reduce: 'shared'", "reduce: 'ring'", "reduce: 'tree'",
        "road: 'factors'", "road: 'factors' reduce: 'ring'", "road: 'ps'",
        "road: 'sharded'", "road: 'ps' deadline: 60",
        "sync: 'ssp' staleness: 0", "overlap: false", "sync_bn: true",
    };
    struct rank *one;
    char options[96];

    ranks_make_data();
    ranks_insert("layer { name: 'o' type: 'Dropout' bottom: 'c' top: 'c' }");
    one = ranks_train(1, "", "", 0);
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        if (strstr(ways[i], "sync_bn") && !ranks_alike(1))
            continue; /* refused: devices are of one kind there */
        snprintf(options, sizeof(options), "shares: '5:1:2' %s", ways[i]);
        is_as_one(one, 3, "", options);
        snprintf(options, sizeof(options), "shares: '1:9' %s", ways[i]);
        is_as_one(one, 2, "", options);
    }
}

TEST(shares, factors_in_16_bits_have_unequal_rows)
{
    struct rank *even, *r;

    ranks_make_data();
    even = ranks_train(3, "", "road: 'factors' compress: 'bf16'", 0);
    r    = ranks_train(3, "", "road: 'factors' compress: 'bf16' "
                              "shares: '1:3:2'", 0);
    for (int i = 0; i < 3; i++) {
        ASSERT_OK(r[i].st);
        if (ranks_alike(i))
            ASSERT_INT(0, memcmp(r[0].weights, r[i].weights,
                                 r[0].n * sizeof(float)));
    }
    for (int i = 0; i < RANKS_STEPS; i++)
        ASSERT_FLOAT(even->loss[i], r->loss[i], 2e-2 * even->loss[i]);
}

/* Samples of a rank's batch, at the end. */
static int64_t batch[RANKS_MOST];

static void note_batch(const struct rank *r, int iter)
{
    if (iter == 1)
        batch[r->number] = ct_net_io(r->net, 0).top[0]->shape.dim[0];
}

static void train_noting(int n, const char *options)
{
    struct rank *r = ranks_train_so(&(struct ranks_how){
        .n_ranks = n, .more = "", .options = options, .each = note_batch });

    for (int i = 0; i < n; i++)
        ASSERT_OK(r[i].st);
}

TEST(shares, they_are_rounded_and_none_is_nothing)
{
    ranks_make_data(); /* 24 samples in all */
    train_noting(3, "shares: '5:1:2'");
    ASSERT_INT(15, batch[0]);
    ASSERT_INT(3, batch[1]);
    ASSERT_INT(6, batch[2]);
    train_noting(3, "shares: '1:1:100'");
    ASSERT_INT(1, batch[0]);
    ASSERT_INT(1, batch[1]);
    ASSERT_INT(22, batch[2]);
    train_noting(4, "shares: '1:1:1:1'");
    ASSERT_INT(6, batch[3]);
}

TEST(shares, they_follow_measured_speeds)
{
    struct rank *one;

    ranks_make_data();
    one = ranks_train(1, "", "", 0);
    is_as_one(one, 2, "", "shares: 'speed'");
    train_noting(3, "shares: 'speed'");
    ASSERT_INT(24, batch[0] + batch[1] + batch[2]);
}

TEST(shares, what_cannot_be_is_refused)
{
    ranks_make_data();
    ranks_refuse("even, speed, or", ranks_train(3, "", "shares: '2:1'", 0),
                 3);
    ranks_refuse("even, speed, or", ranks_train(2, "", "shares: '2:0'", 0),
                 2);
    ranks_refuse("even, speed, or", ranks_train(2, "", "shares: 'fast'", 0),
                 2);
    ranks_refuse("--data=shared", ranks_train(2, "", "shares: 'speed' "
                                              "data: 'root'", 0), 2);
    ranks_refuse("local", ranks_train(2, "", "shares: '2:1' sync: 'local'",
                                      0), 2);
}
