/* supervise.h - jobs of fixed size that start again when they fail. */
#ifndef CT_APPS_SUPERVISE_H
#define CT_APPS_SUPERVISE_H

#include <stdint.h>

#include "hosts.h"
#include "train_signals.h"

/* All of it borrowed. */
struct supervised {
    const struct hosts        *hosts;
    char *const               *words;    /* the command and its own */
    const char                *prefix;   /* of its snapshots */
    const char                *snapshot; /* that it was asked to begin from */
    const struct signal_flags *signals;
    int                        restarts, min_ranks;
};

/* --snapshot=auto, or auto@SECONDS: the newest that was written since then. */
bool snapshot_is_auto(const char *word, int64_t *since);

/* Has MPI run the job on those of its hosts that answer, at least min_ranks
 * ranks.  When it fails, and nobody asked it to end, it starts again from its
 * newest snapshot, so many times, after pauses that grow; the log says why in a
 * line.  *code: what it exited with at last. */
CT_MUST_CHECK enum ct_status supervise(const struct supervised *s, int *code);

#endif
