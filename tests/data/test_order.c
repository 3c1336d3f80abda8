/* test_order.c - permutations, shards, positions. */
#include "base/mem.h"
#include "data/order.h"
#include "testing/test.h"

TEST(order, sequential_counts_and_wraps)
{
    struct ct_order o;

    ct_order_init(&o, 1, 5, false);
    for (int64_t p = 0; p < 23; p++) {
        struct ct_sample at = ct_order_at(&o, p);

        ASSERT_INT(p / 5, at.epoch);
        ASSERT_INT(p % 5, at.index);
    }
}

TEST(order, shuffle_is_a_permutation_for_every_length)
{
    static const int64_t lengths[] = { 1,  2,  3,   4,   5,    15,   16,  17,
                                       63, 64, 100, 255, 1000, 4097, 60000 };

    for (size_t k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++) {
        int64_t n           = lengths[k];
        unsigned char *seen = ct_calloc((size_t)n, 1, "seen");
        struct ct_order o;

        ct_order_init(&o, 42, n, true);
        for (int64_t p = 3 * n; p < 4 * n; p++) {
            struct ct_sample at = ct_order_at(&o, p);

            ASSERT_INT(3, at.epoch);
            ASSERT(at.index >= 0 && at.index < n);
            ASSERT_INT(0, seen[at.index]++);
        }
        ct_free(seen);
    }
}

/* Every sample should be equally likely first: 4000 epochs over 10 samples
 * put about 400 on each; 5 standard deviations are 95. */
TEST(order, first_sample_is_evenly_spread_over_epochs)
{
    int count[10] = { 0 };
    struct ct_order o;

    ct_order_init(&o, 7, 10, true);
    for (int64_t e = 0; e < 4000; e++)
        count[ct_order_at(&o, 10 * e).index]++;
    for (int i = 0; i < 10; i++)
        ASSERT(count[i] > 305 && count[i] < 495);
}

TEST(order, seeds_and_epochs_give_other_permutations)
{
    struct ct_order a, b, c;
    int other_seed = 0, other_epoch = 0;

    ct_order_init(&a, 1, 100, true);
    ct_order_init(&b, 2, 100, true);
    ct_order_init(&c, 1, 100, true);
    for (int64_t p = 0; p < 100; p++) {
        ASSERT_INT(ct_order_at(&a, p).index, ct_order_at(&c, p).index);
        other_seed += ct_order_at(&a, p).index != ct_order_at(&b, p).index;
        other_epoch += ct_order_at(&a, p).index !=
                       ct_order_at(&a, p + 100).index;
    }
    ASSERT(other_seed > 80 && other_epoch > 80);
}

/* Ranks of different speed: rank r takes batch[r] of every step. */
static struct ct_shard uneven_shard(int rank, int size, const int64_t *batch)
{
    struct ct_shard s = { .count = batch[rank], .share = 1 };

    for (int r = 0; r < size; r++) {
        s.first += r < rank ? batch[r] : 0;
        s.step += batch[r];
    }
    return s;
}

TEST(order, shards_cover_every_position_once)
{
    static const int ranks[]      = { 1, 2, 3, 4, 7 };
    static const int64_t uneven[] = { 3, 1, 4, 1, 5, 2, 6 };

    for (int k = 0; k < 5; k++)
        for (int way = 0; way < 2; way++) {
            int seen[1024] = { 0 };
            int64_t step = 0;

            for (int r = 0; r < ranks[k]; r++) {
                struct ct_shard s =
                    way ? uneven_shard(r, ranks[k], uneven)
                        : ct_shard_even(r, ranks[k], 5, 2);

                step = s.step / s.share;
                for (int64_t t = 0; t < 6; t++)
                    for (int64_t i = 0; i < s.count; i++)
                        seen[ct_shard_position(&s, 9, t, i)]++;
            }
            for (int64_t p = 0; p < 1024; p++)
                ASSERT_INT(p >= 9 && p < 9 + 6 * step, seen[p]);
        }
}

/* Two ranks for three steps, then three ranks from the same cursor on. */
TEST(order, change_of_ranks_keeps_each_sample_once_an_epoch)
{
    int seen[60] = { 0 };
    struct ct_order o;

    ct_order_init(&o, 11, 60, true);
    for (int r = 0; r < 2; r++) {
        struct ct_shard s = ct_shard_even(r, 2, 6, 1);

        for (int64_t t = 0; t < 3; t++)
            for (int64_t i = 0; i < 6; i++)
                seen[ct_order_at(&o, ct_shard_position(&s, 0, t, i)).index]++;
    }
    for (int r = 0; r < 3; r++) {
        struct ct_shard s = ct_shard_even(r, 3, 4, 1);

        for (int64_t t = 0; t < 2; t++)
            for (int64_t i = 0; i < 4; i++)
                seen[ct_order_at(&o, ct_shard_position(&s, 36, t, i)).index]++;
    }
    for (int i = 0; i < 60; i++)
        ASSERT_INT(1, seen[i]);
}

TEST(order, local_sources_carry_the_rank)
{
    char *source;

    ASSERT_OK(ct_order_source(CT_DATA_LOCAL, "train_lmdb", 3, &source));
    ASSERT_STR("train_lmdb_3", source);
    ct_free(source);
    ASSERT_OK(ct_order_source(CT_DATA_SHARED, "train_lmdb", 3, &source));
    ASSERT_STR("train_lmdb", source);
    ct_free(source);
}
