/* transfer.h - messages in flight, and large transfers in segments.
 *
 * A segment is added while the next one arrives, so additions take no extra
 * time.  No message is larger than a transport can send. */
#ifndef CT_COMM_COLL_TRANSFER_H
#define CT_COMM_COLL_TRANSFER_H

#include "comm/coll/terms.h"
#include "comm/comm.h"

enum {
    CT_SEGMENT_BYTES = 256 << 10,
    CT_DEPTH         = 4 /* segments in flight in one direction */
};

/* Messages to or from one peer with one tag; waits follow their order. */
struct ct_flight {
    struct ct_comm   *comm;
    int               peer, tag;
    int64_t           n_posted, n_done;
    bool              empty[CT_DEPTH]; /* 0 bytes: no message was posted */
    struct ct_request request[CT_DEPTH];
};

void ct_flight_init(struct ct_flight *f, struct ct_comm *c, int peer, int tag);
/* Posts a message; if CT_DEPTH are in flight, waits for the oldest first. */
CT_MUST_CHECK enum ct_status ct_flight_send(struct ct_flight *f,
                                            const void *data, size_t bytes);
CT_MUST_CHECK enum ct_status ct_flight_receive(struct ct_flight *f, void *data,
                                               size_t bytes);
/* Waits until the first `n` posted messages are done. */
CT_MUST_CHECK enum ct_status ct_flight_wait(struct ct_flight *f, int64_t n);
/* After a failure: cancels all messages in flight. */
void ct_flight_cancel(struct ct_flight *f);

struct ct_part {
    int64_t first, n;
};
/* Part i of n things that are divided into `parts` parts; their sizes differ by
 * at most 1. */
struct ct_part ct_part(int64_t n, int64_t parts, int64_t i);

/* A transfer in both directions at the same time, with one peer or with two.  0
 * bytes: no message in that direction. */
struct ct_transfer {
    int         to;
    const void *give;
    size_t      give_bytes;
    int         from;
    void       *take;
    size_t      take_bytes;
    bool        add; /* adds the received floats to `take` */
};
CT_MUST_CHECK enum ct_status ct_transfer(struct ct_comm *c,
                                         const struct ct_transfer *t, int tag);

/* At the root of a tree x becomes the sum; on other ranks x changes, too. */
CT_MUST_CHECK enum ct_status ct_tree_sum(struct ct_comm *c,
                                         const struct ct_tree *t, float *x,
                                         int64_t n, int tag);
/* Copies data of the root to all ranks of a tree.  A rank passes on a piece
 * while the next one arrives. */
CT_MUST_CHECK enum ct_status ct_tree_spread(struct ct_comm *c,
                                            const struct ct_tree *t,
                                            void *data, size_t bytes, int tag);
CT_MUST_CHECK enum ct_status ct_tree_spread_by(struct ct_comm *c,
                                               const struct ct_tree *t,
                                               void *data, size_t bytes,
                                               size_t piece, int tag);

/* The halves of a ring over a group: P-1 steps after which index i of the group
 * has the sum of part i+1, and P-1 steps that send it to all. */
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
struct ct_cost ct_ring_cost(const struct ct_terms *t); /* both halves */

/* Halving and doubling over a group; uses the tags of `step` and step + 1. */
CT_MUST_CHECK enum ct_status ct_halving(struct ct_comm *c,
                                        const struct ct_group *g, float *x,
                                        int64_t n, int step);
double ct_halving_bytes(int me, int size, int64_t n);

#endif
