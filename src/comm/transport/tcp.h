/* tcp.h - the transport of elastic jobs, over sockets.
 *
 * The ranks of an MPI job are fixed at its start.  Here a process has one end
 * for its whole life, and opens one transport after the other on it.  Each is
 * for one view: a numbered list of processes, on which the caller has agreed.
 * If a rank is lost, only messages to and from it fail.
 *
 * An address contains a random key.  A process that connects must prove that it
 * has the key, so only processes that know the address of an end can use it:
 * keep addresses secret. */
#ifndef CT_COMM_TCP_H
#define CT_COMM_TCP_H

#include "comm/transport.h"

/* The end of this process; it listens on one port.  Used by one thread at a
 * time. */
struct ct_tcp;
struct ct_ip;

CT_MUST_CHECK enum ct_status ct_tcp_create(struct ct_tcp **out);
void ct_tcp_destroy(struct ct_tcp *e); /* takes NULL; no view may be open */
/* The address of this end, for other processes; borrowed. */
const void *ct_tcp_address(const struct ct_tcp *e, size_t *bytes);
/* Adds the addresses that the machine has now to the address of this end.  Not
 * while a view is being opened. */
void ct_tcp_learn_addresses(struct ct_tcp *e, const struct ct_ip *now,
                            int n_now);

struct ct_tcp_view {
    uint32_t           number; /* greater than that of all earlier views */
    int                rank, size;
    const void *const *address; /* per rank */
    const size_t      *address_bytes;
    const int         *host; /* as in struct ct_transport; copied */
};

/* Opens the transport of one view; that of the view before must be destroyed.
 * Each view has its own connections, so messages of different views never
 * match.
 *
 * If the connection to a peer breaks, only requests with this peer fail, and
 * the error names it.  `abort` does the same as `over`: other ranks are not
 * told.  After `cancel` or a failed test the buffer is free.  `destroy` does
 * not wait for other ranks; if the view is not over, it waits until everything
 * that was sent has left this host. */
CT_MUST_CHECK enum ct_status ct_tcp_open(struct ct_tcp *e,
                                         const struct ct_tcp_view *v,
                                         struct ct_transport **out);

#endif
