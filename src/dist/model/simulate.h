/* simulate.h - a discrete-event simulation of tasks that wait for each other
 * and for resources that do one task at a time: a compute thread, a direction
 * of a link, a server.
 *
 * A task starts when every task before it has ended (and its delay has passed)
 * and all its resources are free.  The most urgent task goes first, then the
 * one that became ready first, then the one that was added first.  A task that
 * waits for its other resource lets later ones pass. */
#ifndef CT_DIST_MODEL_SIMULATE_H
#define CT_DIST_MODEL_SIMULATE_H

#include "cortado/status.h"

struct sim;

CT_MUST_CHECK enum ct_status sim_create(struct sim **out);
void sim_destroy(struct sim *s); /* takes NULL */

/* Return numbers from 0 up. sim_run() reports if memory ran out. */
int sim_resource(struct sim *s);
/* `delay`: time between its end and the start of the tasks after it, e.g. the
 * latency of a message. a, b: resources; -1: none. */
int sim_task(struct sim *s, double seconds, double delay, int a, int b);
/* Least first; 0 by default. */
void sim_urgency(struct sim *s, int task, int urgency);
void sim_after(struct sim *s, int task, int before);

/* Call it once.  CT_EINVAL: tasks wait for each other in a cycle. */
CT_MUST_CHECK enum ct_status sim_run(struct sim *s);
double sim_start(const struct sim *s, int task);
double sim_end(const struct sim *s, int task); /* without the delay */

#endif
