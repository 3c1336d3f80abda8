/* pace.h - how a wait that polls pauses: first it spins, then it yields the
 * core between two looks, then it sleeps, then it sleeps longer.
 *
 * A wait that spins finds at once what arrives.  One that yields lets other
 * threads work, and one that sleeps leaves them the core. */
#ifndef CT_BASE_PACE_H
#define CT_BASE_PACE_H

#include <stdbool.h>

/* Seconds from the start of the wait. */
struct ct_pace {
    double spin_s;  /* until then it only looks */
    double yield_s; /* until then it yields the core between looks */
    double long_s;  /* until then it sleeps for nap_ns, then for long_nap_ns; 0:
                     * always for nap_ns */
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
