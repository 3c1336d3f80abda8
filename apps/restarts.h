/* restarts.h - how often, and after which pauses, something starts again.
 *
 * Pauses double from one start to the next.  One that has run for ten minutes
 * has run well: the count and the pauses begin anew. */
#ifndef CT_APPS_RESTARTS_H
#define CT_APPS_RESTARTS_H

/* Embedded; zero-initialised: nothing was started yet. */
struct restarts {
    int    n;          /* since one last ran well */
    double began;      /* when the last one started */
    double pause;      /* before the next one, in seconds */
    double next_start; /* 0: none is planned */
};

/* It starts now. */
void restarts_began(struct restarts *r);
/* It has ended. */
void restarts_ended(struct restarts *r);
/* Plans the next start: after `least` seconds the first time, and never after
 * more than `most`.  The caller counts it in `n`. */
void restarts_plan(struct restarts *r, double least, double most);

#endif
