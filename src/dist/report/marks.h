/* marks.h - a ring of the latest events among the ranks, for monitoring.
 *
 * Any thread may add and read.  A reader that is more than a ring behind loses
 * the oldest events. */
#ifndef CT_DIST_REPORT_MARKS_H
#define CT_DIST_REPORT_MARKS_H

#include <pthread.h>

#include "cortado/events.h"

enum { DIST_MARKS = 64 };

struct dist_marks {
    pthread_mutex_t lock;
    uint64_t        n; /* number of events added so far */
    struct ct_mark  ring[DIST_MARKS];
};

void dist_marks_init(struct dist_marks *m);
void dist_marks_fini(struct dist_marks *m);
CT_PRINTF(5, 6) void dist_marks_add(struct dist_marks *m,
                                    enum ct_mark_kind kind, int rank, int iter,
                                    const char *fmt, ...);
/* *seen: number of events that the caller has read. false: no other event. */
bool dist_marks_next(struct dist_marks *m, uint64_t *seen,
                     struct ct_mark *out);

#endif
