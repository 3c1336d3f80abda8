/* comm_ranks.h - runs one function on P ranks, each a thread of this process.
 *
 * A rank's thread must not use ASSERT, which leaves by a long jump: it returns
 * a status, and what it found is looked at when all have ended. */
#ifndef CT_TEST_RANKS_H
#define CT_TEST_RANKS_H

#include <pthread.h>

#include "comm/comm.h"
#include "testing/ends.h"
#include "testing/test.h"

enum { MOST_RANKS = 17 };

typedef enum ct_status (*rank_fn)(struct ct_comm *c, void *arg);

struct rank {
    struct ct_transport *transport;
    rank_fn        fn;
    void          *arg;
    pthread_t      thread;
    enum ct_status status;
    char           why[512];
};

static void *rank_main(void *arg)
{
    struct rank *r = arg;
    struct ct_comm *c;

    r->status = ct_comm_create(r->transport, &c);
    if (r->status == CT_OK) {
        c->stall_after = 60;
        r->status      = r->fn(c, r->arg);
        if (r->status != CT_OK) /* so that nobody waits for this rank */
            ct_comm_abort(c, 1);
        snprintf(r->why, sizeof(r->why), "%s", ct_last_error());
        ct_comm_destroy(c);
    }
    return NULL;
}

/* Ends with each rank's status and text in `out`. */
static inline void ranks_try(int P, const struct ct_loopback_options *options,
                             rank_fn fn, void *arg, struct rank *out)
{
    struct ct_transport *end[MOST_RANKS];

    ASSERT(P <= MOST_RANKS);
    ASSERT_OK(test_ends(P, options, end));
    for (int r = 0; r < P; r++) {
        out[r] = (struct rank){ .transport = end[r], .fn = fn, .arg = arg };
        if (pthread_create(&out[r].thread, NULL, rank_main, &out[r]) != 0)
            FAIL("no thread for rank %d", r);
    }
    for (int r = 0; r < P; r++)
        pthread_join(out[r].thread, NULL);
}

static inline void ranks_run(int P, const struct ct_loopback_options *options,
                             rank_fn fn, void *arg)
{
    struct rank rank[MOST_RANKS];

    ranks_try(P, options, fn, arg, rank);
    for (int r = 0; r < P; r++)
        if (rank[r].status != CT_OK)
            FAIL("rank %d of %d: %s", r, P, rank[r].why);
}

#endif
