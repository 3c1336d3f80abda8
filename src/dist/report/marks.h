/* marks.h - what happened among the ranks: the latest of it, for whoever asks.
 *
 * Any thread adds, any thread reads.  A reader that is more than a ring behind
 * loses the oldest. */
#ifndef CT_DIST_REPORT_MARKS_H
#define CT_DIST_REPORT_MARKS_H

#include <pthread.h>

#include "cortado/events.h"

enum { DIST_MARKS = 64 };

struct dist_marks {
    pthread_mutex_t lock;
    uint64_t        n; /* ever added */
    struct ct_mark  ring[DIST_MARKS];
};

void dist_marks_init(struct dist_marks *m);
void dist_marks_fini(struct dist_marks *m);
CT_PRINTF(5, 6) void dist_marks_add(struct dist_marks *m,
                                    enum ct_mark_kind kind, int rank, int iter,
                                    const char *fmt, ...);
/* *seen: how many the caller had.  false: there is no other. */
bool dist_marks_next(struct dist_marks *m, uint64_t *seen,
                     struct ct_mark *out);

#endif
