/* device_tree.h - the sum up and down a binomial tree over the ranks of a
 * host, in the memory of their GPUs.
 *
 * Each rank has an array on its GPU that its neighbours in the tree read:
 *
 *     up     when all children have said that theirs is complete, a rank adds
 *            them to its own gradients, nearest first, and tells its parent
 *     down   when the parent says so, a rank copies the sum, tells its
 *            children, and goes on when they have read it
 *
 * What is sent are three bytes an edge.  Sums have the order, and so the bits,
 * of the tree through the CPU's memory (comm/coll/tree.c). */
#ifndef CT_DIST_GPU_DEVICE_TREE_H
#define CT_DIST_GPU_DEVICE_TREE_H

#include "comm/comm.h"
#include "cortado/net.h"

struct ct_dist;
struct dist_device_tree; /* of one rank */

/* All ranks.  *out is NULL on all of them where some rank cannot read the
 * memory of another; rank 0 says why. */
CT_MUST_CHECK enum ct_status dist_device_tree_create(
    struct ct_dist *d, const struct ct_net *net,
    struct dist_device_tree **out);
void dist_device_tree_destroy(struct dist_device_tree *t); /* takes NULL */

/* On the comm thread: n floats of the net's gradients become their sum. */
CT_MUST_CHECK enum ct_status dist_device_tree_sum(struct dist_device_tree *t,
                                                  struct ct_comm *c, float *x,
                                                  int64_t n);

#endif
