/* peer_arrays.h - GPU arrays of the ranks of a host, which all of them read
 * directly, without a copy in CPU memory (device/peer.h).
 *
 * A rank sends one byte to say that an array is complete, or has been read. */
#ifndef CT_DIST_GPU_PEER_ARRAYS_H
#define CT_DIST_GPU_PEER_ARRAYS_H

#include "comm/comm.h"
#include "device/peer.h"

struct ct_dist;

struct dist_peer_array {
    struct ct_peer_address address;
    const float           *x; /* the rank's array; NULL: not open */
};

struct dist_peer_arrays {
    struct ct_peer_memory  *memory; /* this rank's array; owned */
    int                     n;
    struct dist_peer_array *of;     /* by rank; owned */
};

/* All ranks call it: creates arrays of n floats. *out is NULL on all ranks if a
 * rank cannot read another one's array or CORTADO_IMPL=`what`:host forbids it;
 * rank 0 logs why. */
CT_MUST_CHECK enum ct_status dist_peer_arrays_create(
    struct ct_dist *d, const char *what, int64_t n,
    struct dist_peer_arrays **out);
void dist_peer_arrays_destroy(struct dist_peer_arrays *w); /* takes NULL */

/* Send and receive the byte; on the comm thread, with a tag of the current
 * collective. */
CT_MUST_CHECK enum ct_status dist_peer_tell(struct ct_comm *c, int rank,
                                                 int tag);
CT_MUST_CHECK enum ct_status dist_peer_hear(struct ct_comm *c, int rank,
                                                 int tag);

#endif
