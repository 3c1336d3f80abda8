/* elastic_run.h - runs trainings whose processes come and go. */
#ifndef CT_APPS_ELASTIC_RUN_H
#define CT_APPS_ELASTIC_RUN_H

#include "agent.h"
#include "command.h"
#include "train_signals.h"

struct elastic_flags {
    const char *elastic; /* MIN:MAX; NULL: the job keeps its size */
    const char *rendezvous, *secret_file;
    double      suspect, orphan;
    double      stall; /* no flag of its own; 0: for ever */
    int         restarts;
    int         most; /* no flag of its own: ranks that can train; 0: any */
    char      **words; /* of the command line, which ends with NULL */
    char      **program; /* that ranks become, with its words; NULL: none */
    const struct signal_flags *signals; /* borrowed; NULL: the usual ones */
};

enum { ELASTIC_RESTARTS = 10 }; /* unless somebody says otherwise */
#define ELASTIC_DEFAULTS { .suspect = 3, .orphan = 60, .stall = 300, \
                           .restarts = -1 }
#define ELASTIC_FLAGS(f)                                              \
    FLAG("elastic", &(f).elastic), FLAG("rendezvous", &(f).rendezvous), \
        FLAG("secret_file", &(f).secret_file),                        \
        FLAG("suspect", &(f).suspect), FLAG("orphan", &(f).orphan),   \
        FLAG("restarts", &(f).restarts)

/* What a process of the job does; the member is the caller's. */
typedef enum ct_status (*elastic_run_fn)(struct elastic_member *m, void *arg);

/* Starts n processes on this machine, each of which runs, or becomes the
 * program, which is handed what it needs (elastic/handed.h); returns the exit
 * status of the whole.  Members must have the same `digest`; training is done
 * after so many iterations: a program says these itself. */
int elastic_run(const struct elastic_flags *f, int n, uint64_t digest,
                int iterations, elastic_run_fn run, void *arg);

#endif
