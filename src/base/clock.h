/* clock.h - monotonic time. */
#ifndef CT_BASE_CLOCK_H
#define CT_BASE_CLOCK_H

#include <time.h>

/* Seconds since an arbitrary start; never goes back. */
static inline double ct_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
