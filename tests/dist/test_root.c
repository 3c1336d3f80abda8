/* test_root.c - rank 0 reads for all: ranks get the samples that they would
 * have read, and train as one rank does. */
#include "dist/ranks.h"

static void train_as_one(const char *path, const char *words)
{
    struct rank *one;

    ranks_source_db(path, words);
    one = ranks_train(1, "", "", 0);
    if (one->st != CT_OK)
        FAIL("%s", one->why);
    for (int n = 2; n <= 4; n++)
        ranks_same_as_one(one, ranks_train(n, "", "data: 'root'", 0), n);
    ranks_same_as_one(one, ranks_train(4, "", "data: 'root' road: 'ps'", 0),
                      4);
    ranks_same_as_one(one, ranks_train(3, "", "data: 'root' road: 'sharded'",
                                       0), 3);
}

TEST(root, ranks_get_the_samples_they_would_have_read)
{
    const char *path;

    ranks_make_data();
    path = ranks_make_db("train_lmdb");
    train_as_one(path, "");
    train_as_one(path, "shuffle: true prefetch: 1");
}

TEST(root, unequal_parts_of_a_batch_of_all_ranks_come_out_right)
{
    struct rank *one;

    ranks_make_data();
    ranks_source_db(ranks_make_db("train_lmdb"), "");
    ranks_batch(RANKS_BATCH);
    one = ranks_train(1, "", "", 0);
    ranks_same_as_one(one, ranks_train(5, "", "data: 'root' batch: 'global'",
                                       0), 5);
}

TEST(root, sources_that_cannot_be_sent_are_refused)
{
    ranks_make_data();
    ranks_refuse("HDF5Data", ranks_train(2, "", "data: 'root'", 0), 2);
}

TEST(root, a_source_that_is_not_there_ends_all_ranks)
{
    ranks_make_data();
    ranks_source_db("/no/such/lmdb", "");
    ranks_refuse("/no/such/lmdb", ranks_train(3, "", "data: 'root'", 0), 3);
}
