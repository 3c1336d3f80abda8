/* test_join.c - which transport a job without a launcher joins by, and how
 * ranks part. */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "comm/transport.h"
#include "cortado/dist.h"
#include "dist/engine.h"
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

/* A job of one rank that trains and one that serves, which comes late to its
 * end. */
static atomic_bool server_came;

struct parting {
    struct ct_transport *transport;
    pthread_t            thread;
    enum ct_status       st;
    bool                 saw_server; /* had come when this one left */
};

static enum ct_status part(struct parting *p)
{
    Caffe__DistributedParameter o = CAFFE__DISTRIBUTED_PARAMETER__INIT;
    const bool serves             = p->transport->rank == 1;
    struct ct_dist *d             = NULL;
    enum ct_status st;

    o.has_servers = true;
    o.servers     = 1;
    o.road        = (char *)"ps";
    CT_TRY(dist_create_over(p->transport, &o, &d));
    if (serves) {
        nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
        atomic_store(&server_came, true);
    }
    st            = ct_dist_end(d);
    p->saw_server = atomic_load(&server_came);
    ct_dist_destroy(d);
    return st;
}

static void *part_main(void *arg)
{
    struct parting *p = arg;

    p->st = part(p);
    return NULL;
}

TEST(join, nobody_leaves_before_a_rank_that_serves)
{
    struct ct_transport *t[2];
    struct parting p[2] = { { 0 } };

    ASSERT_OK(ct_loopback_create(2, NULL, t));
    for (int r = 0; r < 2; r++) {
        p[r].transport = t[r];
        ASSERT_INT(0, pthread_create(&p[r].thread, NULL, part_main, &p[r]));
    }
    for (int r = 0; r < 2; r++) {
        pthread_join(p[r].thread, NULL);
        ASSERT_OK(p[r].st);
        ASSERT(p[r].saw_server);
    }
}
