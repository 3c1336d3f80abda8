/* farewell.h - the end of a training that did not wait for everyone.
 *
 * Every rank tells the first server that it has come to the end.  Ranks that
 * are suspect by then have `heartbeat` seconds to come as well.  After that the
 * first server tells the others who is gone.  Those who came end the job
 * together: rank 0 tells the launcher to end it, with the exit status of a
 * training that finished. */
#ifndef CT_DIST_SERVERS_FAREWELL_H
#define CT_DIST_SERVERS_FAREWELL_H

#include "comm/comm.h"

struct ct_dist;

/* All ranks, on the comm thread, while servers still answer.  Sets d->gone
 * where a rank did not come. */
CT_MUST_CHECK enum ct_status dist_farewell(struct ct_comm *c, void *dist);
/* A later meeting of those who came to dist_farewell(). */
CT_MUST_CHECK enum ct_status dist_farewell_meet(struct ct_dist *d);

#endif
