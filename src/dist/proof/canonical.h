/* canonical.h - the same bits for any number of ranks.
 *
 * An iteration is V micro-batches of one shape, whatever P is.  Rank r of P
 * runs m = V / P of them one after the other, and all gradients are added
 * along one binary tree over the V leaves:
 *
 *     micro-batch   0   1   2   3   4   5   6   7
 *                   +---+   +---+   +---+   +---+
 *                     +-------+       +-------+
 *                         +---------------+
 *
 * The lower log2 m levels are inside of a rank, the upper ones between ranks,
 * in the order of ranks: by messages along that tree, or in servers, which add
 * up along it.  Where V is no power of two the last branch of a level is short
 * and waits for the next.  A rank has one branch: V is P times a power of two,
 * or P is 1.  The loss and the
 * requests that ride in front of the gradients go the same way.  A rank keeps
 * log2 m sums besides the gradient, in the CPU's memory: a GPU's gradients are
 * copied there after each micro-batch. */
#ifndef CT_DIST_PROOF_CANONICAL_H
#define CT_DIST_PROOF_CANONICAL_H

#include "comm/comm.h"
#include "cortado/net.h"
#include "dist/plan.h"

enum { CANONICAL_MOST_LEVELS = 16 };

struct dist_canonical {
    int    micro;    /* m; 0: not canonical */
    int    n_levels; /* log2 m */
    float *level[CANONICAL_MOST_LEVELS]; /* sum of 2^i leaves; owned */
    float *diff;     /* the arena that they are of; borrowed */
    size_t n;
    const struct ct_device *dev; /* where gradients are made; diff has copies
                                  * of them, where that is a GPU */
    const float            *made; /* there */
};

/* Can V micro-batches be dealt out to so many ranks? */
bool dist_canonical_deals(int V, int size);
void dist_canonical_init(struct dist_canonical *q, const struct dist_plan *p);
/* `diff` is where peers see the gradients of `net`. */
CT_MUST_CHECK enum ct_status dist_canonical_attach(struct dist_canonical *q,
                                                   const struct ct_net *net,
                                                   float *diff);
void dist_canonical_fini(struct dist_canonical *q);

/* After the backward pass of micro-batch k, one but the last: its gradient
 * joins the sums, and the arena is clear for the next. */
CT_MUST_CHECK enum ct_status dist_canonical_fold(struct dist_canonical *q,
                                                 int k);
/* Of the last: n floats of the arena from x become this rank's sum. */
void dist_canonical_unfold(const struct dist_canonical *q, float *x,
                           int64_t n);
/* The same, then the sum over all ranks. */
CT_MUST_CHECK enum ct_status dist_canonical_sum(struct dist_canonical *q,
                                                struct ct_comm *c, float *x,
                                                int64_t n);

#endif
