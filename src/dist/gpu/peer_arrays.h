/* peer_arrays.h - arrays on the devices of a host's ranks that all of them
 * read, without the CPU's memory between (device/peer.h).
 *
 * Ranks tell each other by a byte that an array is complete, or read. */
#ifndef CT_DIST_GPU_PEER_ARRAYS_H
#define CT_DIST_GPU_PEER_ARRAYS_H

#include "comm/comm.h"
#include "device/peer.h"

struct ct_dist;

struct dist_neighbour {
    struct ct_near_address address;
    const float           *x; /* its array; NULL: not open */
};

struct dist_neighbours {
    struct ct_near        *near; /* this rank's array; owned */
    int                    n;
    struct dist_neighbour *of;   /* by rank; owned */
};

/* All ranks: arrays of n floats.  *out is NULL on all of them where some rank
 * cannot read another's, or CORTADO_IMPL=`what`:host asks for it; rank 0 says
 * why. */
CT_MUST_CHECK enum ct_status dist_neighbours_create(
    struct ct_dist *d, const char *what, int64_t n,
    struct dist_neighbours **out);
void dist_neighbours_destroy(struct dist_neighbours *w); /* takes NULL */

/* On the comm thread, with a tag of a collective that has begun. */
CT_MUST_CHECK enum ct_status dist_neighbour_tell(struct ct_comm *c, int rank,
                                                 int tag);
CT_MUST_CHECK enum ct_status dist_neighbour_hear(struct ct_comm *c, int rank,
                                                 int tag);

#endif
