/* edges.h - places where rounding, not arithmetic, decides what comes out. */
#ifndef CT_TESTS_RANDOM_EDGES_H
#define CT_TESTS_RANDOM_EDGES_H

#include <stdbool.h>

#include "cortado/net.h"

/* Whether this layer stands at an edge with the bottoms that it has; right
 * before its forward.  No net is drawn that does in its first pass. */
bool edge_is_near(const struct ct_net *net, int layer);

/* Of a loss that chooses what counts: whether it might have chosen otherwise.
 * Also after the pass, where bottoms are kept. */
bool edge_turns_choice(const struct ct_net *net, int layer);

#endif
