/* probe.h - what the links and the adding cost, measured at the start.
 *
 *     time of a message of b bytes = alpha + b beta
 *     time to add b bytes to b others = b gamma
 *
 * Rank r measures its link to rank r + 1 (the last one to rank 0) while the
 * other pairs measure theirs, as a ring would use them. */
#ifndef CT_COMM_PROBE_H
#define CT_COMM_PROBE_H

#include "comm/comm.h"

struct ct_link {
    double alpha; /* s a message */
    double beta;  /* s a byte */
};

struct ct_probe {
    double alpha, beta, gamma; /* the worst link's, the slowest rank's */
    int    slow_rank, slow_peer; /* the pair with the worst beta; -1: alone */
    int    n_links;
    struct ct_link *link; /* owned; link[r]: r to r + 1; the same everywhere */
};

/* All ranks call it; all get the same numbers. */
CT_MUST_CHECK enum ct_status ct_comm_probe(struct ct_comm *c,
                                           struct ct_probe *out);
/* Both ends of a link call it in one collective (after ct_comm_begin); `data`
 * holds CT_PROBE_BYTES.  The first end gets the numbers. */
enum { CT_PROBE_BYTES = 16 << 20 };
CT_MUST_CHECK enum ct_status ct_probe_link(struct ct_comm *c, int peer,
                                           bool first, bool brief, char *data,
                                           struct ct_link *out);
void ct_probe_fini(struct ct_probe *p);
/* The same where others wait for it: a few messages, and none that is large, so
 * that it takes a tenth of the time, or less, and is less exact. */
CT_MUST_CHECK enum ct_status ct_comm_probe_briefly(struct ct_comm *c,
                                                   struct ct_probe *out);
/* Seconds that this process takes to add a byte to another. */
CT_MUST_CHECK enum ct_status ct_probe_adding(double *gamma);

/* pairs.c: every pair's link, P/2 of them at a time. */
struct ct_pairs {
    int             size;
    struct ct_link *link; /* owned; link[a * size + b], both ways the same */
    int             slow_rank, slow_peer; /* the worst beta; -1: alone */
};
CT_MUST_CHECK enum ct_status ct_comm_probe_pairs(struct ct_comm *c,
                                                 struct ct_pairs *out);
void ct_pairs_fini(struct ct_pairs *p);
/* Whom a rank meets in a round; -1: nobody.  In the rounds 0 to
 * ct_pairs_rounds() - 1 every two ranks meet once. */
int ct_pairs_rounds(int size);
int ct_pairs_partner(int rank, int size, int round);

#endif
