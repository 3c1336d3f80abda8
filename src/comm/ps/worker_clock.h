/* worker_clock.h - the iterations of each worker, and of the slowest one. */
#ifndef CT_COMM_PS_WORKER_CLOCK_H
#define CT_COMM_PS_WORKER_CLOCK_H

#include <stdint.h>

#include "cortado/status.h"

struct ct_ps_clock {
    int      n;
    int64_t *at; /* per worker: number of its iterations; owned */
};

CT_MUST_CHECK enum ct_status ct_ps_clock_init(struct ct_ps_clock *c, int n,
                                              int64_t start);
void ct_ps_clock_fini(struct ct_ps_clock *c);

/* Does nothing if the clock is already at `to` or later. */
void ct_ps_clock_advance(struct ct_ps_clock *c, int worker, int64_t to);
int64_t ct_ps_clock_least(const struct ct_ps_clock *c);

#endif
