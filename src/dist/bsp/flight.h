/* flight.h - a bucket that is being summed, in slices.
 *
 * The comm thread sums one slice at a time, with CT_DEPTH segments of it in
 * flight (comm/coll/transfer.h).  The next slice is the one that the next
 * forward pass needs first.  So buckets of the first layers overtake those of
 * the last layers, which were sent earlier, and wait for at most two slices. */
#ifndef CT_DIST_BSP_FLIGHT_H
#define CT_DIST_BSP_FLIGHT_H

#include "comm/thread.h"
#include "net/cut.h"

struct ct_dist;
struct ct_net;
struct dist_wire;

/* A slice of a bucket: what the comm thread sums in one job. */
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
    int64_t            first, n; /* floats of the arena */
    struct dist_wire  *wire; /* NULL: no codec */
    uint64_t           ticket; /* see host/direct.c */
    char               name[64]; /* the layers of its gradients, for traces */
};

/* The buckets of a net and their state. */
struct dist_buckets {
    struct ct_cut       cut;
    struct dist_flight *flight; /* one per bucket; owned */
    int                 n_sent; /* buckets sent in this iteration */
};

/* Creates one flight per bucket for the gradients of `net`; frees them. */
CT_MUST_CHECK enum ct_status dist_flights_init(struct ct_dist *d,
                                               const struct ct_net *net);
void dist_flights_fini(struct ct_dist *d);

void dist_flight_start(struct dist_flight *f);
CT_MUST_CHECK enum ct_status dist_flight_wait(struct dist_flight *f);
/* Time that the comm thread spent on it. */
double dist_flight_seconds(const struct dist_flight *f);

/* On the comm thread: sums x over ranks, without a codec, by the plan's
 * algorithm.  The bytes that this sends. */
CT_MUST_CHECK enum ct_status dist_dense_sum(const struct ct_dist *d,
                                            struct ct_comm *c, float *x,
                                            int64_t n);
double dist_dense_sends(const struct ct_dist *d, const struct ct_comm *c,
                        int64_t n);

#endif
