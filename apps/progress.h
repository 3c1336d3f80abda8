/* progress.h - how far a long job is.
 *
 * A line that is drawn over itself on a terminal, Caffe's log lines
 * ("Processed 1000 files.") elsewhere.  SIGINT and SIGTERM end the job, which
 * then cleans up behind itself. */
#ifndef CT_APPS_PROGRESS_H
#define CT_APPS_PROGRESS_H

#include <stdbool.h>

#include "data/onlooker.h"

struct progress {
    struct ct_watch watch; /* to hand to the job */
    int64_t         every; /* log lines; 0: none */
    int64_t         done, logged;
    bool            live;
    double          start, last_drawn;
};

void progress_start(struct progress *p, int64_t every);
/* Clears the line; logs the last count when it was not. */
void progress_end(struct progress *p, enum ct_status st);

#endif
