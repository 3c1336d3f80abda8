/* tracing.h - the interface of a solver to a trace of all ranks. */
#ifndef CT_SOLVER_TRACING_H
#define CT_SOLVER_TRACING_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/text.h"

/* Owned by the caller, for struct ct_solver_watch.  All ranks have the same
 * values, except for `wanted`. */
struct ct_tracing {
    int  from, count; /* the iterations to trace; from -1: only on request */
    int  planned;     /* `from` of a planned trace that has begun; -1: none */
    /* Any thread or signal handler of any rank may set it: all ranks then trace
     * the next `count` iterations. */
    atomic_bool wanted;
    /* Called on rank 0 when a trace that began at iteration `first` ends.
     * part[r] is the packed trace of rank r (base/trace.h).  A failure is
     * logged, and training continues. */
    enum ct_status (*write)(void *arg, int first, struct ct_text *part,
                            int n_parts);
    void *arg;
    /* Only the solver changes these: */
    bool on;         /* a trace is running */
    int  first, end; /* its iterations */
};

struct ct_pulse;

/* Observers of a solver, for ct_solver_options.watch, which is copied. */
struct ct_solver_watch {
    /* A solver without peers reports its progress here; with peers it uses the
     * pulse of the exchange.  Borrowed; NULL: none. */
    struct ct_pulse *pulse;
    /* Set on all ranks or on none.  Borrowed; NULL: no trace. */
    struct ct_tracing *tracing;
};

#endif
