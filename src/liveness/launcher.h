/* launcher.h - the process that started the ranks of this host.
 *
 * Open MPI's mpirun can miss the end of a rank that dies while it connects to
 * mpirun.  The other ranks are ended, but mpirun does not collect them, and the
 * job hangs.  A launcher hangs in this way if all of its children have ended
 * and one of them is not collected for ten seconds. */
#ifndef CT_LIVENESS_LAUNCHER_H
#define CT_LIVENESS_LAUNCHER_H

#include <stdbool.h>
#include <sys/types.h>

struct live_launcher {
    pid_t pid; /* 0: no known launcher */
    int   fd;  /* readable when it has ended */
};

/* The launcher of process `pid`: the nearest ancestor with a known name. */
struct live_launcher live_launcher_of(pid_t pid);

/* Waits for the launcher's end, at most 30 s, and ends a launcher that hangs.
 * `aborted`: a rank has ended the job.  Then the launcher is also ended if it
 * still runs after 20 s: Open MPI's waits for the answer of a lost host.  The
 * caller must have nothing else to do, because all of its files are closed, so
 * that no reader waits for their end. */
void live_launcher_see_off(const struct live_launcher *l, bool aborted);

#endif
