/* flight.h - a bucket on its way, in slices.
 *
 * The comm thread sums one slice at a time, CT_DEPTH segments of it under way
 * (comm/coll/transfer.h), and takes the one next that is needed first in the
 * next forward pass.  So what the first layers wait for overtakes the long
 * row of the last ones, whose buckets came before it, and waits for two
 * slices at most. */
#ifndef CT_DIST_BSP_FLIGHT_H
#define CT_DIST_BSP_FLIGHT_H

#include "comm/thread.h"
#include "net/cut.h"

struct ct_dist;
struct ct_net;
struct dist_wire;

/* A slice of a bucket: what the comm thread sums in one go. */
struct dist_bucket_slice {
    struct ct_job       job;
    struct dist_flight *flight;
    float              *x;
    int64_t             n;
};

struct dist_flight {
    struct dist_bucket_slice *slice; /* owned */
    int                n_slices;
    struct ct_dist    *dist;
    float             *x;
    int64_t            first, n; /* of the arena */
    struct dist_wire  *wire; /* NULL: it is summed as it is */
    uint64_t           ticket; /* direct.c */
    char               name[64]; /* the layers whose gradients it has */
};

/* The buckets of a net, and how they fare. */
struct dist_buckets {
    struct ct_cut       cut;
    struct dist_flight *flight; /* one for each; owned */
    int                 n_sent; /* handed in this iteration */
};

/* One for each bucket, with the gradients of `net`; and away with them. */
CT_MUST_CHECK enum ct_status dist_flights_init(struct ct_dist *d,
                                               const struct ct_net *net);
void dist_flights_fini(struct ct_dist *d);

void dist_flight_start(struct dist_flight *f);
CT_MUST_CHECK enum ct_status dist_flight_wait(struct dist_flight *f);
/* That the comm thread spent on it. */
double dist_flight_seconds(const struct dist_flight *f);

/* On the comm thread: x becomes its sum over ranks, as it is, by the way of the
 * plan; and the bytes that this sends. */
CT_MUST_CHECK enum ct_status dist_dense_sum(const struct ct_dist *d,
                                            struct ct_comm *c, float *x,
                                            int64_t n);
double dist_dense_sends(const struct ct_dist *d, const struct ct_comm *c,
                        int64_t n);

#endif
