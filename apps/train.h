/* train.h - a training as `cortado train` was asked for it. */
#ifndef CT_APPS_TRAIN_H
#define CT_APPS_TRAIN_H

#include "dist_flags.h"
#include "elastic_run.h"
#include "net_flags.h"
#include "observe.h"
#include "train_signals.h"

struct hosts;
struct solver_preparation;

struct train_flags {
    struct net_flags       net;
    const char            *solver, *snapshot;
    const char            *on_nan;
    const char            *trace;
    const char            *ranks_word; /* of --ranks; NULL: it was not given */
    int                    ranks, min_ranks;
    double                 auto_seconds; /* to measure each way to divide
                                          * cores; 0: ranks are given */
    double                 measure; /* for so many seconds; 0: train */
    bool                   explain;
    char *const           *words; /* that were given, the command first */
    char                 **chosen_words; /* in their place; NULL, or owned */
    const struct hosts    *hosts; /* that MPI is to start it on; NULL: none */
    struct signal_flags    signals;
    struct dist_flags      dist;
    struct elastic_flags   elastic;
    struct observe_flags   observe;
};

/* Borrowed, where it says nothing else. */
struct train_job {
    struct train_flags     *flags;
    Caffe__SolverParameter *param;  /* the solver in force */
    struct elastic_member  *member; /* NULL: ranks stay the same */
    bool                    draws; /* its seed is the job's */
    int                     reached; /* iterations, before all began again */
    struct solver_preparation *prepared; /* for the place that it is likely to
                                      * get; owned; NULL: nothing */
};

/* Trains as one of d's ranks; d NULL: alone. */
CT_MUST_CHECK enum ct_status train_as_rank(struct train_job *j,
                                           struct ct_dist *d);

/* `cortado launch --mpi`: has MPI train on these hosts (HOST:RANKS,...), with
 * at least so many ranks, as the words of a command line say that begins with
 * `train`; returns the exit code.  restarts < 0: as they say. */
int train_on_hosts(const char *list, int min_ranks, int restarts,
                   char **words);

/* train_elastic.c: trains among processes that come and go, and returns the
 * exit code.  It may change the solver. */
int train_elastic(struct train_job *j);

#endif
