/* test_collect.c - every rank's bytes come to rank 0, and clocks are compared
 * where ranks are on several hosts.  The ranks are threads of one process, so
 * the true difference of their clocks is 0. */
#include <pthread.h>
#include <stdlib.h>

#include "dist/ranks.h"

enum { RANKS = 5 };

struct worker {
    struct ct_transport *transport;
    enum ct_status       st;
    bool                 seen[RANKS];
    int64_t              offset[RANKS], error[RANKS];
    int                  n_taken;
};

/* Rank r sends 1000 r + 1 bytes of the value r. */
static enum ct_status take(void *arg, int rank, const void *data,
                           size_t bytes, int64_t offset, int64_t error)
{
    struct worker *w      = arg;
    const unsigned char *x = data;

    if (rank < 0 || rank >= RANKS || bytes != (size_t)(1000 * rank + 1))
        return ct_fail(CT_ECOMM, "rank %d sent %zu bytes", rank, bytes);
    for (size_t i = 0; i < bytes; i++)
        if (x[i] != rank)
            return ct_fail(CT_ECOMM, "byte %zu of rank %d", i, rank);
    w->seen[rank]   = true;
    w->offset[rank] = offset;
    w->error[rank]  = error;
    w->n_taken++;
    return CT_OK;
}

static void *run(void *arg)
{
    static unsigned char data[RANKS][1000 * RANKS];
    struct worker *w   = arg;
    struct ct_dist *d  = NULL;
    const int rank     = w->transport->rank;

    memset(data[rank], rank, sizeof(data[rank]));
    w->st = dist_create_over(w->transport, NULL, &d);
    for (int i = 0; w->st == CT_OK && i < 2; i++)
        w->st = dist_collect(&d->exchange, data[rank],
                             (size_t)(1000 * rank + 1), take, w);
    ct_dist_destroy(d);
    return NULL;
}

static struct worker *collect(const int *host)
{
    static struct worker w[RANKS];
    struct ct_loopback_options o = { .host = host };
    struct ct_transport *t[RANKS];
    pthread_t thread[RANKS];

    memset(w, 0, sizeof(w));
    ASSERT_OK(test_ends(RANKS, &o, t));
    for (int r = 0; r < RANKS; r++) {
        w[r].transport = t[r];
        ASSERT(pthread_create(&thread[r], NULL, run, &w[r]) == 0);
    }
    for (int r = 0; r < RANKS; r++)
        pthread_join(thread[r], NULL);
    for (int r = 0; r < RANKS; r++)
        ASSERT_OK(w[r].st);
    for (int r = 1; r < RANKS; r++)
        ASSERT_INT(0, w[r].n_taken);
    ASSERT_INT(2 * RANKS, w[0].n_taken);
    return w;
}

TEST(collect, ranks_of_one_host_have_one_clock)
{
    const struct worker *w = collect(NULL);

    for (int r = 0; r < RANKS; r++) {
        ASSERT(w[0].seen[r]);
        ASSERT_INT(0, w[0].offset[r]);
        ASSERT_INT(0, w[0].error[r]);
    }
}

TEST(collect, clocks_of_other_hosts_are_known_within_an_error)
{
    static const int host[RANKS] = { 0, 0, 1, 1, 2 };
    const struct worker *w       = collect(host);

    ASSERT_INT(0, w[0].error[1]);
    for (int r = 2; r < RANKS; r++) {
        ASSERT(w[0].error[r] > 0);
        ASSERT(llabs(w[0].offset[r]) <= w[0].error[r]);
        ASSERT(w[0].error[r] < 10000000000); /* no time of day or of work */
    }
}
