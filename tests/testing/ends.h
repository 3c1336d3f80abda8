/* ends.h - a transport for each rank of a test, in this process.
 *
 * Usually loopback.  With CORTADO_TEST_TRANSPORT=tcp they are ends of sockets,
 * which know no delays. */
#ifndef CT_TESTING_ENDS_H
#define CT_TESTING_ENDS_H

#include "comm/transport.h"

/* As ct_loopback_create. */
CT_MUST_CHECK enum ct_status test_ends(
    int size, const struct ct_loopback_options *options,
    struct ct_transport **out);
/* Are they sockets? */
bool test_ends_are_sockets(void);

#endif
