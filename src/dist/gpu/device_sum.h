/* device_sum.h - gradients summed in the memory of GPUs.
 *
 *     nccl   every rank has a GPU of its own: buckets are queued behind the
 *            layers that complete them, on a stream of their own, recorded
 *            with the pass; the CPU waits for none of it
 *     mpi    the MPI says that it takes a GPU's memory: the comm thread hands
 *            it buckets when their layers are done
 *     tree   ranks of one host read each other's memory (device_tree.h)
 *
 * What rides along is summed apart, in the CPU's memory.  --reduce=auto takes
 * NCCL where it can, and otherwise gradients go through the CPU's memory;
 * --reduce=nccl insists; --reduce=mpi and --reduce=tree take the MPI's sum and
 * the tree, by whichever memory they can. */
#ifndef CT_DIST_GPU_DEVICE_SUM_H
#define CT_DIST_GPU_DEVICE_SUM_H

#include "comm/thread.h"
#include "cortado/net.h"
#include "device/nccl.h"

struct ct_dist;

struct dist_device_sum {
    bool             stays;    /* gradients stay in the memory of GPUs */
    struct ct_nccl  *nccl;
    struct dist_device_tree *tree;
    struct ct_job    riders;   /* their sum */
    int              n_queued; /* buckets of the pass that is queued */
};

/* After ranks know of each other's devices: tries the way that the plan names,
 * and tells the plan.  All ranks come to the same. */
CT_MUST_CHECK enum ct_status dist_device_sum_init(struct ct_dist *d,
                                                  const struct ct_net *net);
void dist_device_sum_fini(struct ct_dist *d);

#endif
