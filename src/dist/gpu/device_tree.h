/* device_tree.h - a sum along a binomial tree over the ranks of a host, in GPU
 * memory.
 *
 * Each rank has an array on its GPU that its neighbours in the tree read:
 *
 *     up     a rank waits until the arrays of its children are complete, adds
 *            them to its own gradients, nearest first, and notifies its parent
 *     down   a rank waits for its parent, copies the sum, notifies its
 *            children, and continues when they have read it
 *
 * Three bytes are sent per edge.  Sums have the same order, and so the same
 * bits, as those of comm/coll/tree.c in CPU memory. */
#ifndef CT_DIST_GPU_DEVICE_TREE_H
#define CT_DIST_GPU_DEVICE_TREE_H

#include "comm/comm.h"
#include "cortado/net.h"

struct ct_dist;
struct dist_device_tree; /* of one rank */

/* All ranks call it. *out is NULL on all ranks if a rank cannot read another
 * one's memory; rank 0 logs why. */
CT_MUST_CHECK enum ct_status dist_device_tree_create(
    struct ct_dist *d, const struct ct_net *net,
    struct dist_device_tree **out);
void dist_device_tree_destroy(struct dist_device_tree *t); /* takes NULL */

/* On the comm thread: replaces n floats of the net's gradients by their sum. */
CT_MUST_CHECK enum ct_status dist_device_tree_sum(struct dist_device_tree *t,
                                                  struct ct_comm *c, float *x,
                                                  int64_t n);

#endif
