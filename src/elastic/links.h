/* links.h - under which addresses this machine is reached, now and then.
 *
 * A process may begin while its machine has no link.  To list addresses takes
 * the system long while somebody makes or ends network namespaces, so a thread
 * of its own does it, and nobody waits for that: not even its end.  It also
 * touches the file that shows others that this process lives; a disk may take
 * long, too. */
#ifndef CT_ELASTIC_LINKS_H
#define CT_ELASTIC_LINKS_H

#include "comm/transport/address.h"
#include "cortado/status.h"

struct links;

/* Called on that thread, with what there is.  Is the file to be touched? */
typedef bool (*links_fn)(void *arg, const struct ct_ip *address, int n);

/* `file` may be NULL. */
CT_MUST_CHECK enum ct_status links_start(links_fn found, void *arg,
                                         const char *file, struct links **out);
/* When this returns, `found` is not called any more.  Takes NULL. */
void links_stop(struct links *l);

#endif
