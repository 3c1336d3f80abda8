/* device_sum.h - gradients summed in GPU memory.
 *
 *     nccl   every rank has its own GPU.  Sums of buckets are queued on a
 *            separate stream after the layers that complete them, and recorded
 *            with the pass.  The CPU does not wait for them
 *     mpi    MPI accepts GPU memory.  The comm thread passes buckets to it when
 *            their layers are done
 *     tree   ranks of one host read each other's GPU memory (device_tree.h)
 *
 * Riders are summed separately, in CPU memory.  --reduce=auto uses NCCL if it
 * is available, otherwise gradients go through CPU memory.  --reduce=nccl fails
 * without NCCL.  --reduce=mpi and --reduce=tree use GPU memory if possible,
 * otherwise CPU memory. */
#ifndef CT_DIST_GPU_DEVICE_SUM_H
#define CT_DIST_GPU_DEVICE_SUM_H

#include "comm/thread.h"
#include "cortado/net.h"
#include "device/nccl.h"

struct ct_dist;

struct dist_device_sum {
    bool             stays;    /* gradients are summed in GPU memory */
    struct ct_nccl  *nccl;
    struct dist_device_tree *tree;
    struct ct_job    riders;   /* the job that sums the riders */
    int              n_queued; /* buckets queued in the current pass */
};

/* Tries the plan's way when the devices of all ranks are known, and replans
 * with the result, which is the same on all ranks. */
CT_MUST_CHECK enum ct_status dist_device_sum_init(struct ct_dist *d,
                                                  const struct ct_net *net);
void dist_device_sum_fini(struct ct_dist *d);

#endif
