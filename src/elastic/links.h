/* links.h - lists the addresses of this machine from time to time.
 *
 * A process may start before its machine has a network link.  Listing addresses
 * is slow while network namespaces are created or destroyed, so a separate
 * thread does it, and no other thread waits for it, not even at its end.  The
 * same thread touches the file that shows that this process is alive, because a
 * disk may be slow, too. */
#ifndef CT_ELASTIC_LINKS_H
#define CT_ELASTIC_LINKS_H

#include "comm/transport/address.h"
#include "cortado/status.h"

struct links;

/* Called on that thread with the current addresses.  Returns whether to touch
 * the file. */
typedef bool (*links_fn)(void *arg, const struct ct_ip *address, int n);

/* `file` may be NULL. */
CT_MUST_CHECK enum ct_status links_start(links_fn found, void *arg,
                                         const char *file, struct links **out);
/* `found` is not called after this returns.  Takes NULL. */
void links_stop(struct links *l);

#endif
