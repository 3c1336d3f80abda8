/* recording.h - runs of operations on a GPU.
 *
 * A graph is a run recorded once and replayed.  Between begin and end nothing
 * is done: what is asked of the device is noted down.  A replay does it all
 * with one call, on the same addresses.
 *
 * A beacon sends a number to the host in the middle of a run.
 *
 * The side lane has operations that need not wait for those that follow them:
 * what lies between begin and end of a side runs after everything before it,
 * and beside everything behind it until the join. */
#ifndef CT_DEVICE_RECORDING_H
#define CT_DEVICE_RECORDING_H

#include "cortado/device.h"

struct ct_graph;

CT_MUST_CHECK enum ct_status ct_graph_begin(const struct ct_device *d);
/* Ends the recording; after a failure in between, *out is NULL and the device
 * is as before. */
CT_MUST_CHECK enum ct_status ct_graph_end(const struct ct_device *d,
                                          struct ct_graph **out);
CT_MUST_CHECK enum ct_status ct_graph_launch(struct ct_graph *g);
void ct_graph_destroy(struct ct_graph *g); /* takes NULL */

struct ct_beacon;

/* The sum of x w over n values on the device. */
struct ct_beacon_part {
    const float *x, *w;
    int64_t      n;
};

CT_MUST_CHECK enum ct_status ct_beacon_create(const struct ct_device *d,
                                              struct ct_beacon **out);
void ct_beacon_destroy(struct ct_beacon *b); /* takes NULL */
/* Sends the sum over all parts; *counter, on the device, += 1, or NULL. */
CT_MUST_CHECK enum ct_status ct_beacon_send(struct ct_beacon *b, int n,
                                            const struct ct_beacon_part *part,
                                            uint64_t *counter);
/* What was sent; one call for each send, before the next one. */
CT_MUST_CHECK enum ct_status ct_beacon_wait(struct ct_beacon *b, double *out);

/* On the CPU they do nothing.  What runs aside must not use memory that is
 * given to others before the join.  Sides do not nest. */
CT_MUST_CHECK enum ct_status ct_side_begin(const struct ct_device *d);
CT_MUST_CHECK enum ct_status ct_side_end(const struct ct_device *d);
CT_MUST_CHECK enum ct_status ct_side_join(const struct ct_device *d);

#endif
