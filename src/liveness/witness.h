/* witness.h - a process beside a rank that reports how the rank ended.
 *
 * When a rank dies, launchers end the other ranks, some of them at once and
 * with SIGKILL, so survivors may not be able to report the death; and a host
 * with one rank has no survivor.  The witness is a child of the rank.  It
 * sleeps until its parent has ended.  It keeps the parent's connection to the
 * launcher open until it has logged which rank died, in which phase and
 * iteration.
 *
 * A process has at most one witness. */
#ifndef CT_LIVENESS_WITNESS_H
#define CT_LIVENESS_WITNESS_H

struct live_watch;

/* Call it before MPI starts.  Launchers end ranks by SIGTERM.  If SIGTERM has
 * its default action, a handler first tells the witness. */
void live_witness_start(void);
/* Shows the pulse of the rank to the witness.  Takes NULL. */
void live_witness_introduce(struct live_watch *w);
/* The rank ends as planned, or reports its end itself.  On any thread; later
 * calls do nothing. */
void live_witness_dismiss(void);

/* Instead of dismiss, before the rank ends the job: the witness waits for the
 * launcher's end, and ends a launcher that hangs. */
void live_witness_see_abort(void);

#endif
