/* test_selftest.c - ranks that do not fit together are named. */
#include "data/db.h"
#include "dist/proof/census.h"
#include "testing/files.h"

static struct dist_seat seat(const char *host, const char *device)
{
    struct dist_seat s = { .version = "1", .mpi = "M 4", .level = "multiple",
                           .cores = 2, .threads = 1 };

    snprintf(s.host, sizeof(s.host), "%s", host);
    snprintf(s.device, sizeof(s.device), "%s", device);
    return s;
}

TEST(selftest, ranks_that_are_alike_may_train)
{
    struct dist_seat s[] = { seat("a", "cpu"), seat("a", "cpu"),
                             seat("b", "GPU 0"), seat("a", "GPU 0") };
    struct dist_census c = { 4, s };
    const char *host;
    int threads, cores;

    ASSERT_OK(dist_census_check(&c));
    ASSERT(dist_census_crowded(&c, &host, &threads, &cores));
    ASSERT_INT(3, threads);
    ASSERT_INT(2, cores);
    ASSERT_STR("a", host);
    c.n = 2;
    ASSERT(!dist_census_crowded(&c, &host, &threads, &cores));
}

TEST(selftest, ranks_may_share_a_gpu_and_it_is_known)
{
    struct dist_seat s[] = { seat("a", "cpu"), seat("b", "GPU 1"),
                             seat("b", "GPU 1"), seat("b", "GPU 0") };
    struct dist_census c = { 4, s };

    s[1].uuid.byte[3] = s[2].uuid.byte[3] = 7; /* s[3]'s are zeros */
    ASSERT_OK(dist_census_check(&c));
    ASSERT(dist_census_gpus(&c));
    ASSERT_INT(-1, dist_census_shares(&c, 0));
    ASSERT_INT(-1, dist_census_shares(&c, 1));
    ASSERT_INT(1, dist_census_shares(&c, 2));
    ASSERT_INT(-1, dist_census_shares(&c, 3));
    ASSERT(!dist_census_own_gpus(&c));
    c.seat = s + 2;
    c.n    = 2;
    ASSERT(dist_census_own_gpus(&c));
    ASSERT(!dist_census_unlike(&c));
    snprintf(s[3].model, sizeof(s[3].model), "another");
    ASSERT(dist_census_unlike(&c));
    c.seat = s;
    c.n    = 1;
    ASSERT(!dist_census_gpus(&c));
}

TEST(selftest, unlike_versions_are_named)
{
    struct dist_seat s[] = { seat("a", "cpu"), seat("b", "GPU 1"),
                             seat("b", "GPU 1") };
    struct dist_census c = { 3, s };

    ASSERT_OK(dist_census_check(&c));
    s[1].scaled = 1;
    ASSERT_STATUS(CT_EINVAL, dist_census_check(&c));
    ASSERT_HAS("rank 1 scales its losses for fp16 and rank 0 does not",
               ct_last_error());
    s[1].scaled = 0;
    snprintf(s[2].mpi, sizeof(s[2].mpi), "M 5");
    ASSERT_STATUS(CT_EINVAL, dist_census_check(&c));
    ASSERT_HAS("rank 2 on b has M 5", ct_last_error());
    snprintf(s[1].version, sizeof(s[1].version), "2");
    ASSERT_STATUS(CT_EINVAL, dist_census_check(&c));
    ASSERT_HAS("rank 1 on b has 2", ct_last_error());
}

static void make_db(const char *name, int n)
{
    struct ct_db *db;

    ASSERT_OK(ct_db_open("lmdb", test_path(name), CT_DB_NEW, &db));
    for (int i = 0; i < n; i++) {
        const char *key = test_format("%08d", i);

        ASSERT_OK(ct_db_put(db, (struct ct_bytes){ key, 8 },
                            (struct ct_bytes){ "x", 1 }));
    }
    ASSERT_OK(ct_db_commit(db));
    ct_db_close(db);
}

static void digest(const char *db, const char *layer, bool shared,
                   uint64_t *nets, uint64_t *data)
{
    Caffe__SolverParameter *p = NULL;
    const char *path = test_path("net.prototxt");
    const char *text = test_format("layer { name: '%s' type: 'Data' top: 'x' "
        "data_param { source: '%s' backend: LMDB batch_size: 1 } }", layer,
        test_path(db));

    test_write(path, text, strlen(text));
    text = test_format("net: '%s'", path);
    ASSERT_OK(ct_text_parse(&caffe__solver_parameter__descriptor, text,
                            strlen(text), "test", &p));
    ASSERT_OK(dist_input_digest(p, shared, nets, data));
    ct_message_free(p);
}

TEST(selftest, nets_and_databases_have_digests_of_their_own)
{
    uint64_t nets[4], data[4];

    make_db("three", 3);
    make_db("four", 4);
    digest("three", "d", true, &nets[0], &data[0]);
    digest("three", "d", true, &nets[1], &data[1]);
    ASSERT(nets[0] == nets[1] && data[0] == data[1] && data[0] != 0);
    digest("three", "e", true, &nets[2], &data[2]);
    ASSERT(nets[0] != nets[2] && data[0] == data[2]);
    digest("four", "d", true, &nets[3], &data[3]);
    ASSERT(data[0] != data[3]);
    digest("four", "d", false, &nets[3], &data[3]);
    ASSERT(data[3] == 0);
}
