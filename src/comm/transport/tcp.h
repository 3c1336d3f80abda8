/* tcp.h - ranks that come and go, over sockets of our own.
 *
 * MPI fixes its ranks when they start.  Here a process has one end for its
 * whole life, and opens one transport after another on it, each for one view:
 * a numbered list of processes, which the caller has agreed upon.  Whoever is
 * lost is an error of its own messages; the others go on.
 *
 * An address carries a random key.  Whoever connects must show it, so an end
 * listens only to those who were told its address: keep addresses secret. */
#ifndef CT_COMM_TCP_H
#define CT_COMM_TCP_H

#include "comm/transport.h"

/* This process's end: it listens on one port.  Used by one thread at a time. */
struct ct_tcp;
struct ct_ip;

CT_MUST_CHECK enum ct_status ct_tcp_create(struct ct_tcp **out);
void ct_tcp_destroy(struct ct_tcp *e); /* takes NULL; no view is open */
/* What others need to reach this end; borrowed. */
const void *ct_tcp_address(const struct ct_tcp *e, size_t *bytes);
/* Addresses that the machine has now come to it.  Not while a view is being
 * opened. */
void ct_tcp_learn_addresses(struct ct_tcp *e, const struct ct_ip *now,
                            int n_now);

struct ct_tcp_view {
    uint32_t           number; /* greater than that of any view before */
    int                rank, size;
    const void *const *address; /* by rank */
    const size_t      *address_bytes;
    const int         *host; /* as in struct ct_transport; copied */
};

/* The transport of one view; the one before is destroyed.  Each view has
 * connections of its own, so messages of another view never match.
 *
 * A peer whose connection breaks fails the requests with it, by name, and no
 * others.  `abort` is `over`: no other rank hears of it.  `cancel` and a test
 * that fails let go of the buffer at once.  `destroy` does not wait for the
 * others, but where all went well for what was sent to have left this host. */
CT_MUST_CHECK enum ct_status ct_tcp_open(struct ct_tcp *e,
                                         const struct ct_tcp_view *v,
                                         struct ct_transport **out);

#endif
