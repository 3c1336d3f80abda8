/* tracing.h - some iterations recorded on all ranks, and what becomes of it. */
#ifndef CT_SOLVER_TRACING_H
#define CT_SOLVER_TRACING_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/text.h"

/* The caller's, for struct ct_solver_watch; the same on all ranks but for
 * `wanted`. */
struct ct_tracing {
    int  from, count; /* the iterations to record; from -1: none by itself */
    int  planned;     /* the `from` of those that are being recorded; -1 */
    /* Set by any thread or signal handler of any rank: the next `count`
     * iterations are recorded on all ranks. */
    atomic_bool wanted;
    /* On rank 0, when the iterations from `first` are over: part[r] has what
     * rank r packed (base/trace.h).  A failure is logged and ends nothing. */
    enum ct_status (*write)(void *arg, int first, struct ct_text *part,
                            int n_parts);
    void *arg;
    /* The solver's: */
    bool on;
    int  first, end; /* what is being recorded */
};

struct ct_pulse;

/* For ct_solver_options.watch, which is copied: who looks on. */
struct ct_solver_watch {
    /* Told where a solver without peers stands; borrowed; NULL: nobody asks.
     * With peers the exchange has one. */
    struct ct_pulse *pulse;
    /* Iterations to record, on all ranks or on none; NULL: none.  Borrowed */
    struct ct_tracing *tracing;
};

#endif
