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
 * Where V is no power of two the last branch of a level is short and goes up
 * as it is.  A rank adds up the whole branches that it has, at most two of a
 * level; those that end at a rank's border go between ranks, the right one to
 * the owner of the left one, up to rank 0, which has the sum.  Servers take one
 * branch a rank: there V is P times a power of two, or P is 1.  The loss and
 * the requests that ride in front of the gradients go the same way.  Sums of
 * branches lie in the CPU's memory: a GPU's gradients are copied there after
 * each micro-batch. */
#ifndef CT_DIST_PROOF_CANONICAL_H
#define CT_DIST_PROOF_CANONICAL_H

#include "comm/comm.h"
#include "cortado/net.h"
#include "dist/plan/plan.h"

enum { CANONICAL_MOST_LEVELS = 16 };

/* Micro-batches [index 2^level, (index + 1) 2^level), of those that there
 * are. */
struct dist_branch {
    int level, index;
};

/* A branch goes from one rank to another, whose branch it completes; or stays
 * on a rank whose two branches become one when others have come to them. */
struct dist_handover {
    int from, to;      /* ranks; this one is one of them */
    int given, taking; /* branches of this rank, in their order; -1: none */
};

struct dist_canonical {
    int  parts;     /* V; 0: not canonical */
    int  first, micro; /* this rank's micro-batches */
    struct dist_branch branch[2 * CANONICAL_MOST_LEVELS]; /* made so far */
    int  n_branches;
    /* Their sums, but for the last leaf's, which lies in diff; owned. */
    float *sum[2 * CANONICAL_MOST_LEVELS];
    struct dist_handover *step; /* owned */
    int    n_steps;
    float *diff;    /* the arena that they are of; borrowed */
    size_t n;
    const struct ct_device *dev; /* where gradients are made; diff has copies
                                  * of them, where that is a GPU */
    const float            *made; /* there */
};

/* The first micro-batch of rank r; that of rank `size` is V. */
int dist_part_first(int V, int size, int r);
/* Does every one of so many ranks have one branch? */
bool dist_canonical_is_even(int V, int size);
CT_MUST_CHECK enum ct_status dist_canonical_init(struct dist_canonical *q,
                                                 int V, int rank, int size);
/* `diff` is where peers see the gradients of `net`. */
CT_MUST_CHECK enum ct_status dist_canonical_attach(struct dist_canonical *q,
                                                   const struct ct_net *net,
                                                   float *diff);
void dist_canonical_detach(struct dist_canonical *q);
void dist_canonical_fini(struct dist_canonical *q);

/* After the backward pass of this rank's micro-batch k, one but the last: its
 * gradient joins the sums, and the arena is clear for the next. */
CT_MUST_CHECK enum ct_status dist_canonical_fold(struct dist_canonical *q,
                                                 int k);
/* Of the last: n floats of the arena from x become the sum of its branch. */
void dist_canonical_unfold(const struct dist_canonical *q, float *x,
                           int64_t n);
/* dist_canonical_unfold(), then the sum over all ranks. */
CT_MUST_CHECK enum ct_status dist_canonical_sum(struct dist_canonical *q,
                                                struct ct_comm *c, float *x,
                                                int64_t n);

#endif
