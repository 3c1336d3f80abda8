/* graph.h - a run of operations on a GPU, recorded once and replayed.
 *
 * Between begin and end nothing is done: what is asked of the device is noted
 * down.  A replay does it all with one call, on the same addresses. */
#ifndef CT_DEVICE_GRAPH_H
#define CT_DEVICE_GRAPH_H

#include "cortado/device.h"

struct ct_graph;

CT_MUST_CHECK enum ct_status ct_graph_begin(const struct ct_device *d);
/* Ends the recording; after a failure in between, *out is NULL and the device
 * is as before. */
CT_MUST_CHECK enum ct_status ct_graph_end(const struct ct_device *d,
                                          struct ct_graph **out);
CT_MUST_CHECK enum ct_status ct_graph_launch(struct ct_graph *g);
void ct_graph_destroy(struct ct_graph *g); /* takes NULL */

#endif
