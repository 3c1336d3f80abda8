/* canonical.h - the same bits for any number of ranks.
 *
 * An iteration is V micro-batches of one shape, whatever P is.  Rank r of P
 * runs those from V r / P up to V (r + 1) / P one after the other, and all
 * gradients are added along one binary tree over the V leaves:
 *
 *     micro-batch   0   1   2   3   4   5   6   7
 *                   +---+   +---+   +---+   +---+
 *                     +-------+       +-------+
 *                         +---------------+
 *     3 ranks       0   0   1   1   1   2   2   2
 *
 * If V is not a power of two, the last branch of a level is incomplete and is
 * passed up unchanged.  A rank adds the complete branches of its micro-batches,
 * at most two per level.  A branch that crosses the border between two ranks
 * is added by the owner of its left half, which receives the right half; rank 0
 * has the final sum.  Servers take one branch per rank, so V must be P times a
 * power of two, or P must be 1.  The riders are added in the same way.  Sums of
 * branches are in CPU memory: gradients of a GPU are copied there after each
 * micro-batch. */
#ifndef CT_DIST_PROOF_CANONICAL_H
#define CT_DIST_PROOF_CANONICAL_H

#include "comm/comm.h"
#include "cortado/net.h"
#include "dist/plan/plan.h"

enum { CANONICAL_MOST_LEVELS = 16 };

/* Micro-batches [index 2^level, (index + 1) 2^level), as far as they exist. */
struct dist_branch {
    int level, index;
};

/* One step of the sum over ranks: a branch moves to another rank and is added
 * to a branch there, or two branches of one rank are added. */
struct dist_handover {
    int from, to;      /* ranks; one of them is this rank */
    int given, taking; /* indices of branches of this rank; -1: none */
};

struct dist_canonical {
    int  parts;     /* V; 0: not canonical */
    int  first, micro; /* first and number of this rank's micro-batches */
    struct dist_branch branch[2 * CANONICAL_MOST_LEVELS]; /* branches added up
                                                           * so far */
    int  n_branches;
    /* Sums of the branches, except that of the last leaf, which is in diff;
     * owned. */
    float *sum[2 * CANONICAL_MOST_LEVELS];
    struct dist_handover *step; /* owned */
    int    n_steps;
    float *diff;    /* the gradient arena; borrowed */
    size_t n;
    const struct ct_device *dev; /* where gradients are computed; if this is a
                                  * GPU, diff is a copy */
    const float            *made; /* the gradients on `dev` */
};

/* The first micro-batch of rank r; that of rank `size` is V. */
int dist_part_first(int V, int size, int r);
/* Does each of `size` ranks have exactly one branch? */
bool dist_canonical_is_even(int V, int size);
CT_MUST_CHECK enum ct_status dist_canonical_init(struct dist_canonical *q,
                                                 int V, int rank, int size);
/* `diff`: the gradients of `net` in CPU memory. */
CT_MUST_CHECK enum ct_status dist_canonical_attach(struct dist_canonical *q,
                                                   const struct ct_net *net,
                                                   float *diff);
void dist_canonical_detach(struct dist_canonical *q);
void dist_canonical_fini(struct dist_canonical *q);

/* After the backward pass of micro-batch k of this rank, except the last: adds
 * its gradient to the sums and clears the arena. */
CT_MUST_CHECK enum ct_status dist_canonical_fold(struct dist_canonical *q,
                                                 int k);
/* After the last micro-batch: replaces n floats of the arena at x by the sum of
 * their branch. */
void dist_canonical_unfold(const struct dist_canonical *q, float *x,
                           int64_t n);
/* dist_canonical_unfold(), then the sum over all ranks. */
CT_MUST_CHECK enum ct_status dist_canonical_sum(struct dist_canonical *q,
                                                struct ct_comm *c, float *x,
                                                int64_t n);

#endif
