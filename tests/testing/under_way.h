/* under_way.h - a transport in front of another that sees what is under way. */
#ifndef CT_TESTS_TESTING_UNDER_WAY_H
#define CT_TESTS_TESTING_UNDER_WAY_H

#include <stdatomic.h>

#include "comm/transport.h"

/* Of the messages that one rank has sent and that have not arrived; those of
 * less than `least` bytes do not count. */
struct under_way {
    size_t        least;
    atomic_int    n, most;
    atomic_size_t bytes, most_bytes;
    atomic_int    most_tags; /* that differ, at one time */
};

/* Takes `inner` over; `seen` stays the caller's. */
CT_MUST_CHECK enum ct_status under_way_create(struct ct_transport *inner,
                                              struct under_way *seen,
                                              struct ct_transport **out);

#endif
