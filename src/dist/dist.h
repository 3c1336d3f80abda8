/* dist.h - inside a rank's distributed engine. */
#ifndef CT_DIST_DIST_H
#define CT_DIST_DIST_H

#include "comm/coll/coll.h"
#include "comm/coll/shared.h"
#include "comm/thread.h"
#include "cortado/dist.h"
#include "dist/auto.h"
#include "dist/bucket.h"
#include "dist/canonical.h"
#include "dist/compress/wire.h"
#include "dist/factors.h"
#include "solver/exchange.h"

/* A bucket on its way. */
struct dist_flight {
    struct ct_job   job;
    struct ct_dist *dist;
    float          *x;
    int64_t         n;
    struct dist_wire *wire; /* NULL: it is summed as it is */
    uint64_t        ticket; /* direct.c */
};

struct dist_root;
struct dist_watch;

struct ct_dist {
    struct ct_exchange      exchange; /* what the solver sees */
    Caffe__DistributedParameter *options; /* owned */
    struct ct_comm         *comm;     /* the comm thread's, while it runs */
    struct ct_comm_thread  *thread;
    struct dist_watch      *watch;    /* NULL: alone */
    const struct ct_allreduce_type *reduce; /* NULL: by size */
    struct ct_net          *net;      /* attached to; borrowed */
    enum dist_road          road;
    struct dist_auto        roads;
    struct dist_factors     factors;
    struct dist_buckets     buckets;
    struct dist_canonical   canonical;
    struct dist_wires       wires;    /* where a codec codes buckets */
    struct dist_flight     *flight;   /* one a bucket */
    int                     n_sent;   /* buckets handed in this iteration */
    struct ct_shared       *direct;   /* direct.c; NULL: by the comm thread */
    double                  direct_seconds;
    int                     rank, size, n_hosts;
    struct ct_peers         peers;    /* what layers see */
    struct dist_root       *roots;    /* feeds that rank 0 reads for */
    double                 *sums;     /* of all ranks, for peers */
    size_t                  sums_bytes, *part_bytes; /* of one; per rank */
    double                  wait_seconds;
    struct ct_comm_thread_stats at_start; /* when training began */
    uint64_t                n_exchanges;
};

/* The same over any transport, which it takes over; for tests. */
CT_MUST_CHECK enum ct_status dist_create_over(
    struct ct_transport *transport,
    const Caffe__DistributedParameter *options, struct ct_dist **out);

/* bsp.c: fills the exchange: every rank applies the same mean gradient. */
void dist_bsp_init(struct ct_dist *d);
void dist_bsp_fini(struct ct_dist *d);

/* selftest.c: programs, MPIs and devices of all ranks fit each other. */
CT_MUST_CHECK enum ct_status dist_selftest(struct ct_dist *d);

/* dist.c: as ct_allgather(), on the comm thread. */
CT_MUST_CHECK enum ct_status dist_gather(struct ct_dist *d, const void *mine,
                                         const size_t *bytes, void *out);

/* direct.c: inside one host, without the comm thread.  Moves the net's
 * gradients where d->direct can sum them, or leaves it NULL. */
CT_MUST_CHECK enum ct_status dist_direct_init(struct ct_dist *d,
                                              struct ct_net *net);
void dist_direct_fini(struct ct_dist *d);
/* The first n_ready buckets are complete. */
CT_MUST_CHECK enum ct_status dist_direct_layer_done(struct ct_dist *d,
                                                    int n_ready);
CT_MUST_CHECK enum ct_status dist_direct_wait(struct ct_dist *d, int bucket);

/* guard.c: do all ranks hold the same parameters? */
CT_MUST_CHECK enum ct_status dist_guard_check(struct ct_dist *d, int iter);

#endif
