/* pace.c - how a wait goes on that polls. */
#include "base/pace.h"

#include <sched.h>
#include <time.h>

bool ct_pace_turn(const struct ct_pace *p, double waited)
{
    if (waited < p->spin_s)
        return false;
    if (waited >= p->yield_s)
        return true;
    sched_yield();
    return false;
}

void ct_pace_nap(const struct ct_pace *p, double waited)
{
    const bool is_long = p->long_s > 0 && waited > p->long_s;
    const struct timespec nap = { 0, is_long ? p->long_nap_ns : p->nap_ns };

    nanosleep(&nap, NULL);
}

void ct_pace_spread(void)
{
    const struct timespec moment = { 0, 1 };

    nanosleep(&moment, NULL);
}
