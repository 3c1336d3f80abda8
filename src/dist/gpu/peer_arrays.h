/* peer_arrays.h - arrays on the devices of a host's ranks that all of them
 * read, without the CPU's memory between (device/peer.h).
 *
 * Ranks tell each other by a byte that an array is complete, or read. */
#ifndef CT_DIST_GPU_PEER_ARRAYS_H
#define CT_DIST_GPU_PEER_ARRAYS_H

#include "comm/comm.h"
#include "device/peer.h"

struct ct_dist;

struct dist_peer_array {
    struct ct_peer_address address;
    const float           *x; /* its array; NULL: not open */
};

struct dist_peer_arrays {
    struct ct_peer_memory  *memory; /* this rank's array; owned */
    int                     n;
    struct dist_peer_array *of;     /* by rank; owned */
};

/* All ranks: arrays of n floats.  *out is NULL on all of them where some rank
 * cannot read another's, or CORTADO_IMPL=`what`:host asks for it; rank 0 says
 * why. */
CT_MUST_CHECK enum ct_status dist_peer_arrays_create(
    struct ct_dist *d, const char *what, int64_t n,
    struct dist_peer_arrays **out);
void dist_peer_arrays_destroy(struct dist_peer_arrays *w); /* takes NULL */

/* On the comm thread, with a tag of a collective that has begun. */
CT_MUST_CHECK enum ct_status dist_peer_tell(struct ct_comm *c, int rank,
                                                 int tag);
CT_MUST_CHECK enum ct_status dist_peer_hear(struct ct_comm *c, int rank,
                                                 int tag);

#endif
