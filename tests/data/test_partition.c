/* test_partition.c - databases dealt out to ranks. */
#include <sys/stat.h>

#include "data/db_records.h"
#include "data/partition.h"
#include "testing/files.h"

TEST(partition, records_are_dealt_out_in_turn)
{
    static const char *const backends[] = { "lmdb", "leveldb" };

    for (int b = 0; b < 2; b++) {
        const char *path   = records_made(backends[b], backends[b], 7, 2, 0);
        const char *prefix = test_path(test_format("%s_part", backends[b]));
        const struct records *all = records_of(backends[b], path);
        int64_t count[3];

        ASSERT_OK(ct_partition_db(backends[b], path, 3, prefix, NULL, count));
        for (int k = 0; k < 3; k++) {
            const struct records *r =
                records_of(backends[b], test_format("%s_%d", prefix, k));

            ASSERT_INT(k == 0 ? 3 : 2, r->n);
            ASSERT_INT(r->n, count[k]);
            for (int i = 0; i < r->n; i++) {
                ASSERT(records_same(all->key[3 * i + k], r->key[i]));
                ASSERT(records_same(all->value[3 * i + k], r->value[i]));
            }
        }
    }
}

TEST(partition, taken_name_is_refused_before_anything_is_made)
{
    const char *path = records_made("lmdb", "db", 7, 2, 0);
    int64_t count[3];

    ASSERT(mkdir(test_path("part_2"), 0777) == 0);
    ASSERT_STATUS(CT_EEXIST, ct_partition_db("lmdb", path, 3,
                                             test_path("part"), NULL, count));
    ASSERT_HAS("part_2", ct_last_error());
    ASSERT_INT(2, records_n_files());
}

static enum ct_status stop_at_five(void *arg, int64_t done, int64_t total)
{
    (void)arg;
    ASSERT_INT(7, total);
    return done == 5 ? ct_fail(CT_ESTOP, "enough") : CT_OK;
}

TEST(partition, stopped_in_a_later_part_no_part_is_left)
{
    const struct ct_watch watch = { stop_at_five, NULL };
    const char *path            = records_made("lmdb", "db", 7, 2, 0);
    int64_t count[3];

    ASSERT_STATUS(CT_ESTOP, ct_partition_db("lmdb", path, 3,
                                            test_path("part"), &watch, count));
    ASSERT_INT(1, records_n_files());
}

TEST(partition, every_part_gets_a_record)
{
    const char *path = records_made("lmdb", "db", 2, 2, 0);
    int64_t count[3];

    ASSERT_STATUS(CT_EINVAL, ct_partition_db("lmdb", path, 3,
                                             test_path("part"), NULL, count));
    ASSERT_HAS("too few for 3", ct_last_error());
    ASSERT_STATUS(CT_EINVAL, ct_partition_db("lmdb", path, 0,
                                             test_path("part"), NULL, count));
}
