/* simulate.h - a discrete-event simulation of tasks that wait for each other
 * and for things that do one at a time: a compute thread, a link's two
 * directions, a server.
 *
 * A task starts when every task before it has ended (and its delay has
 * passed) and when all it uses are free.  The most urgent goes first, then who
 * became ready first, then who was added first; a task that still waits for
 * its other resource lets the next one pass. */
#ifndef CT_DIST_MODEL_SIMULATE_H
#define CT_DIST_MODEL_SIMULATE_H

#include "cortado/status.h"

struct sim;

CT_MUST_CHECK enum ct_status sim_create(struct sim **out);
void sim_destroy(struct sim *s); /* takes NULL */

/* Numbers from 0 up.  Where memory ends, sim_run() says so. */
int sim_resource(struct sim *s);
/* `delay`: from its end until those after it may start, as a message's
 * latency.  a, b: resources; -1: none. */
int sim_task(struct sim *s, double seconds, double delay, int a, int b);
/* Least first; 0 where nothing is said. */
void sim_urgency(struct sim *s, int task, int urgency);
void sim_after(struct sim *s, int task, int before);

/* Once.  CT_EINVAL: some tasks wait for each other in a circle. */
CT_MUST_CHECK enum ct_status sim_run(struct sim *s);
double sim_start(const struct sim *s, int task);
double sim_end(const struct sim *s, int task); /* without the delay */

#endif
