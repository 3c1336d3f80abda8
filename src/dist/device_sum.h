/* device_sum.h - gradients summed in the memory of GPUs.
 *
 *     nccl   every rank has a GPU of its own: buckets are queued behind the
 *            layers that complete them, on a stream of their own, recorded
 *            with the pass; the CPU waits for none of it
 *     mpi    the MPI says that it takes a GPU's memory: the comm thread hands
 *            it buckets when their layers are done
 *
 * What rides along is summed apart, in the CPU's memory.  --reduce=auto takes
 * NCCL where it can, and otherwise gradients go through the CPU's memory;
 * --reduce=nccl insists; --reduce=mpi takes the MPI's sum, by whichever memory
 * it can. */
#ifndef CT_DIST_DEVICE_SUM_H
#define CT_DIST_DEVICE_SUM_H

#include "comm/thread.h"
#include "cortado/net.h"
#include "device/nccl.h"

struct ct_dist;
struct dist_census;

enum dist_device_way { DIST_BY_HOST, DIST_BY_NCCL, DIST_BY_MPI };

struct dist_device_sum {
    enum dist_device_way way;
    bool             wanted;   /* --reduce=nccl */
    struct ct_nccl  *nccl;
    struct ct_job    riders;   /* their sum */
    int              n_queued; /* buckets of the pass that is queued */
};

/* After ranks know of each other's devices: chooses, and gets ready.  All
 * ranks come to the same. */
CT_MUST_CHECK enum ct_status dist_device_sum_init(struct ct_dist *d,
                                                  const struct dist_census *s);
void dist_device_sum_fini(struct ct_dist *d);

/* The gradients that buckets sum: on the GPU or in the CPU's memory.  The
 * first bucket leaves the riders out on a GPU. */
float *dist_device_sum_diff(const struct ct_dist *d, const struct ct_net *net);

/* NCCL, behind the backward pass of `layer`: its buckets are queued. */
CT_MUST_CHECK enum ct_status dist_device_sum_queued(struct ct_dist *d,
                                                    int layer);
/* The riders are set; they leave, once. */
void dist_device_sum_riders(struct ct_dist *d);
/* ... and are there. */
CT_MUST_CHECK enum ct_status dist_device_sum_finish(struct ct_dist *d);

#endif
