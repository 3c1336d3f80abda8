/* farewell.h - the end of a training that did not wait for slow ranks.
 *
 * Every rank reports to the first server when it reaches the end.  Suspect
 * ranks get `heartbeat` more seconds.  Then the first server tells the others
 * which ranks are gone.  The remaining ranks end the job together: rank 0 tells
 * the launcher to end it, with the exit status of a finished training. */
#ifndef CT_DIST_SERVERS_FAREWELL_H
#define CT_DIST_SERVERS_FAREWELL_H

#include "comm/comm.h"

struct ct_dist;

/* All ranks call it on the comm thread, while servers still answer.  Sets
 * d->gone if a rank did not reach the end. */
CT_MUST_CHECK enum ct_status dist_farewell(struct ct_comm *c, void *dist);
/* A later barrier of the ranks that reached dist_farewell(). */
CT_MUST_CHECK enum ct_status dist_farewell_meet(struct ct_dist *d);

#endif
