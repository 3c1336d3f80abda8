/* probe.h - measures links and additions at the start.
 *
 *     time of a message of b bytes = alpha + b beta
 *     time to add b bytes to b others = b gamma
 *
 * Rank r measures its link to rank r + 1 (the last rank: to rank 0), all pairs
 * at the same time, as a ring uses them. */
#ifndef CT_COMM_PROBE_H
#define CT_COMM_PROBE_H

#include "comm/comm.h"

struct ct_link {
    double alpha; /* seconds per message */
    double beta;  /* seconds per byte */
};

struct ct_probe {
    double alpha, beta, gamma; /* of the worst link and the slowest rank */
    int    slow_rank, slow_peer; /* the pair with the worst beta; -1: alone */
    int    n_links;
    struct ct_link *link; /* link[r]: rank r to r + 1; equal on all ranks;
                           * owned */
};

/* All ranks call it; all get the same numbers. */
CT_MUST_CHECK enum ct_status ct_comm_probe(struct ct_comm *c,
                                           struct ct_probe *out);
/* Both ends of a link call it inside one collective (after ct_comm_begin);
 * `data` has CT_PROBE_BYTES. Only the first end gets the numbers. */
enum { CT_PROBE_BYTES = 16 << 20 };
CT_MUST_CHECK enum ct_status ct_probe_link(struct ct_comm *c, int peer,
                                           bool first, bool brief, char *data,
                                           struct ct_link *out);
void ct_probe_fini(struct ct_probe *p);
/* A brief probe of the links alone, for a time when others wait: few messages
 * and no large ones.  It takes some milliseconds and is less exact. */
CT_MUST_CHECK enum ct_status ct_comm_probe_briefly(struct ct_comm *c,
                                                   struct ct_probe *out);
/* Seconds that this process takes to add a byte to another. */
CT_MUST_CHECK enum ct_status ct_probe_adding(double *gamma);

/* pairs.c: measures the links of all pairs, P/2 at a time. */
struct ct_pairs {
    int             size;
    struct ct_link *link; /* owned; link[a * size + b], both ways the same */
    int             slow_rank, slow_peer; /* the worst beta; -1: alone */
};
CT_MUST_CHECK enum ct_status ct_comm_probe_pairs(struct ct_comm *c,
                                                 struct ct_pairs *out);
void ct_pairs_fini(struct ct_pairs *p);
/* The partner of a rank in a round; -1: none.  In rounds 0 to ct_pairs_rounds()
 * - 1 every pair meets once. */
int ct_pairs_rounds(int size);
int ct_pairs_partner(int rank, int size, int round);

#endif
