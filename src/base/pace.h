/* pace.h - how a wait goes on that polls: looks alone, then turns for other
 * threads between looks, then naps, then longer ones.
 *
 * Looks alone find what comes at once; turns keep nobody from working; naps
 * leave the core to others for good. */
#ifndef CT_BASE_PACE_H
#define CT_BASE_PACE_H

#include <stdbool.h>

/* Seconds from the start of the wait. */
struct ct_pace {
    double spin_s;  /* until then it only looks */
    double yield_s; /* until then it yields the core between looks */
    double long_s;  /* until then it naps for nap_ns; 0: for ever */
    long   nap_ns, long_nap_ns;
};

/* True: it is time for a nap, which the caller may take in its own way. */
bool ct_pace_turn(const struct ct_pace *p, double waited);
void ct_pace_nap(const struct ct_pace *p, double waited);

/* Sleeps for a moment, less than a tenth of a millisecond.  The kernel puts who
 * wakes up on a free core, and moves who only runs on late: so threads that
 * were woken by each other on one core come apart. */
void ct_pace_spread(void);

#endif
