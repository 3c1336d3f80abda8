/* queue.h - a bounded queue of pointers between threads.
 *
 * Any number of producers and consumers.  Closing wakes everybody: pops give
 * what is left, then fail; pushes fail at once. */
#ifndef CT_BASE_QUEUE_H
#define CT_BASE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>

#include "cortado/status.h"

struct ct_queue;

CT_MUST_CHECK enum ct_status ct_queue_create(size_t capacity,
                                             struct ct_queue **out);
void ct_queue_destroy(struct ct_queue *q); /* takes NULL */

/* Waits for room; false when the queue is closed. */
bool ct_queue_push(struct ct_queue *q, void *item);
/* Waits for an item; false when the queue is closed and empty. */
bool ct_queue_pop(struct ct_queue *q, void *out);
void ct_queue_close(struct ct_queue *q);

#endif
