/* launcher.h - the process that started the ranks of this host.
 *
 * Open MPI's mpirun can miss the end of a rank that dies while it is getting in
 * touch: the others are ended, but nobody collects them, and the job hangs.  A
 * launcher whose children have all ended, and that leaves one uncollected for
 * ten seconds, is deaf. */
#ifndef CT_LIVENESS_LAUNCHER_H
#define CT_LIVENESS_LAUNCHER_H

#include <stdbool.h>
#include <sys/types.h>

struct live_launcher {
    pid_t pid; /* 0: none that we know */
    int   fd;  /* readable when it has ended */
};

/* Of the process `pid`: the nearest ancestor with a launcher's name. */
struct live_launcher live_launcher_of(pid_t pid);

/* Waits for its end, and ends it where it is deaf.  With `aborted`, after a
 * rank has ended the job, also where it stays for 20 s, as Open MPI's does when
 * a host is lost: it waits for that one's answer.  Returns at the latest after
 * 30 s.  For a process that has nothing else to do: closes all its files, so
 * that nobody waits for the end of those. */
void live_launcher_see_off(const struct live_launcher *l, bool aborted);

#endif
