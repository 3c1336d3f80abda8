/* launch.h - `--ranks=N` by hand: the same command again, N times. */
#ifndef CT_APPS_LAUNCH_H
#define CT_APPS_LAUNCH_H

#include "cortado/status.h"

/* Has the launcher of the MPI that the program is linked to run the same
 * command line on `n` ranks of this machine, and waits for it; signals go to
 * the ranks.  *code: what it exits with. */
CT_MUST_CHECK enum ct_status launch_ranks(int n, int *code);

/* Before an error is printed.  Ranks that were started together usually meet
 * the same one: rank 0 speaks at once and its end ends the job; the others
 * wait some seconds, and speak if they are still there. */
void launch_await_turn(void);

#endif
