/* test_join.c - which transport a job without a launcher joins by. */
#include "cortado/dist.h"
#include "testing/test.h"

TEST(join, alone_there_is_nothing_to_join)
{
    struct ct_dist *d = NULL;

    ASSERT_OK(ct_dist_open("", NULL, "", &d));
    ASSERT(!d);
    ASSERT_OK(ct_dist_open("", NULL, "transport: 'alone'", &d));
    ASSERT(!d);
}

TEST(join, a_transport_that_is_named_is_used_by_one_rank_too)
{
    struct ct_dist *d = NULL;

    ASSERT_OK(ct_dist_open("", NULL, "transport: 'loopback'", &d));
    ASSERT(d);
    ASSERT_INT(1, ct_dist_size(d));
    ASSERT_INT(0, ct_dist_rank(d));
    ASSERT(!ct_dist_exchange(d)); /* it trains as it would by itself */
    ct_dist_destroy(d);
}

TEST(join, an_unknown_transport_is_refused_with_the_known_ones)
{
    struct ct_dist *d = NULL;

    ASSERT_STATUS(CT_EINVAL, ct_dist_open("", NULL, "transport: 'pigeon'", &d));
    ASSERT_HAS("--transport=pigeon", ct_last_error());
    ASSERT_HAS("loopback", ct_last_error());
    ASSERT(!d);
}
