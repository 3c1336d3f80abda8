/* status_line.h - how far training is, on one line of a terminal. */
#ifndef CT_APPS_STATUS_LINE_H
#define CT_APPS_STATUS_LINE_H

#include "command.h"

/* Embedded; zero-initialised but for `dist`. */
struct status_line {
    struct ct_dist *dist; /* borrowed; NULL: alone */
    double  last_drawn, last_looked; /* ct_now() */
    double  step;         /* seconds of one, smoothed */
    double *waited;       /* of each rank, at the last look; owned */
    int     n_waited;     /* ranks that it has room for */
    int     slowest;      /* that the others wait for; -1: none stands out */
};

/* For ct_solver_events.iteration, with a status_line as its argument. */
void status_line_draw(const struct ct_iteration *e, void *arg);
/* Wipes it off. */
void status_line_end(struct status_line *s);

#endif
