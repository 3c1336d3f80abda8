/* replay.h - recorded passes, for code whose work is recorded with them. */
#ifndef CT_NET_REPLAY_H
#define CT_NET_REPLAY_H

#include "cortado/net.h"

/* Drops all recordings, so that objects whose work they contain can be freed.
 * Later passes record again. */
void ct_net_forget_passes(struct ct_net *net);

#endif
