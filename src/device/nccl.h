/* nccl.h - sums over ranks by NCCL, in the memory of their GPUs.
 *
 * Every rank has a GPU of its own.  Sums run on a stream of their own: each
 * follows what was queued on the device before it and runs next to what is
 * queued after.  All ranks ask for the same sums in the same order.  Creating
 * one is collective; sums may be recorded in a graph.
 *
 * The library is opened when it is first asked for. */
#ifndef CT_DEVICE_NCCL_H
#define CT_DEVICE_NCCL_H

#include "cortado/device.h"

struct ct_nccl;

/* What makes ranks one group: rank 0's, on all of them. */
struct ct_nccl_id {
    char byte[128];
};

/* CT_OK, or why it cannot be used here. */
CT_MUST_CHECK enum ct_status ct_nccl_available(void);
CT_MUST_CHECK enum ct_status ct_nccl_new_id(struct ct_nccl_id *out);
CT_MUST_CHECK enum ct_status ct_nccl_create(const struct ct_device *d,
                                            const struct ct_nccl_id *id,
                                            int rank, int size,
                                            struct ct_nccl **out);
/* Takes NULL.  After a failure, its own or a peer's, sums that wait for others
 * are given up. */
void ct_nccl_destroy(struct ct_nccl *n);

/* Queued: x, on the device, becomes the sum over ranks. */
CT_MUST_CHECK enum ct_status ct_nccl_sum(struct ct_nccl *n, float *x,
                                         int64_t count);
/* Queued: what the device does from now on follows the sums so far. */
CT_MUST_CHECK enum ct_status ct_nccl_join(struct ct_nccl *n);
/* Whether the sums under way can still come: a lost peer or link is an error
 * that names this rank and its device. */
CT_MUST_CHECK enum ct_status ct_nccl_check(struct ct_nccl *n);

#endif
