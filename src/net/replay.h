/* replay.h - recorded passes, for those whose work was recorded with them. */
#ifndef CT_NET_REPLAY_H
#define CT_NET_REPLAY_H

#include "cortado/net.h"

/* Drops all recordings: what was recorded with them may go then.  The next
 * passes record again. */
void ct_net_forget_passes(struct ct_net *net);

#endif
