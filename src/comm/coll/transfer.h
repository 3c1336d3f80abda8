/* transfer.h - messages under way, and big transfers cut into segments.
 *
 * What is added while the next segment arrives costs no time, and no message
 * grows beyond what a transport takes. */
#ifndef CT_COMM_COLL_TRANSFER_H
#define CT_COMM_COLL_TRANSFER_H

#include "comm/coll/terms.h"
#include "comm/comm.h"

enum {
    CT_SEGMENT_BYTES = 256 << 10,
    CT_DEPTH         = 4 /* segments under way in one direction */
};

/* Messages to or from one peer with one tag, waited for in order. */
struct ct_flight {
    struct ct_comm   *comm;
    int               peer, tag;
    int64_t           n_posted, n_done;
    bool              empty[CT_DEPTH]; /* no bytes: nothing was posted */
    struct ct_request request[CT_DEPTH];
};

void ct_flight_init(struct ct_flight *f, struct ct_comm *c, int peer, int tag);
/* When CT_DEPTH are under way, waits for the oldest first. */
CT_MUST_CHECK enum ct_status ct_flight_send(struct ct_flight *f,
                                            const void *data, size_t bytes);
CT_MUST_CHECK enum ct_status ct_flight_receive(struct ct_flight *f, void *data,
                                               size_t bytes);
/* Until the first `n` posted are done. */
CT_MUST_CHECK enum ct_status ct_flight_wait(struct ct_flight *f, int64_t n);
/* Gives up what is under way: after a failure. */
void ct_flight_cancel(struct ct_flight *f);

/* Part i of n things in `parts` parts that differ by one at most. */
struct ct_part {
    int64_t first, n;
};
struct ct_part ct_part(int64_t n, int64_t parts, int64_t i);

/* A transfer both ways at once, to and from the same peer or two.  No bytes:
 * no message that way. */
struct ct_transfer {
    int         to;
    const void *give;
    size_t      give_bytes;
    int         from;
    void       *take;
    size_t      take_bytes;
    bool        add; /* floats: take += what comes; else take = */
};
CT_MUST_CHECK enum ct_status ct_transfer(struct ct_comm *c,
                                         const struct ct_transfer *t, int tag);

/* x = the sum over a tree, at its root; the others' x is changed. */
CT_MUST_CHECK enum ct_status ct_tree_sum(struct ct_comm *c,
                                         const struct ct_tree *t, float *x,
                                         int64_t n, int tag);
/* From the root of a tree to all in it. */
CT_MUST_CHECK enum ct_status ct_tree_spread(struct ct_comm *c,
                                            const struct ct_tree *t,
                                            void *data, size_t bytes, int tag);

/* Parts of a ring over a group, for who builds on it: P-1 steps that leave
 * index i of the group with the sum of part i+1, then P-1 that spread it. */
enum ct_ring_part {
    CT_RING_SCATTER = 1,
    CT_RING_GATHER  = 2,
    CT_RING_BOTH    = 3
};
CT_MUST_CHECK enum ct_status ct_ring(struct ct_comm *c,
                                     const struct ct_group *g, float *x,
                                     int64_t n, enum ct_ring_part part,
                                     int tag);
double ct_ring_bytes(int me, int size, int64_t n, enum ct_ring_part part);
struct ct_cost ct_ring_cost(const struct ct_terms *t); /* of both parts */

/* Halving and doubling over a group; takes tags from `step` on. */
CT_MUST_CHECK enum ct_status ct_halving(struct ct_comm *c,
                                        const struct ct_group *g, float *x,
                                        int64_t n, int step);
double ct_halving_bytes(int me, int size, int64_t n);

#endif
