/* witness.h - a process beside a rank that tells how the rank ended.
 *
 * Launchers end the other ranks as soon as they see that one has died, some of
 * them at once and with SIGKILL, so no survivor can be counted on to speak; a
 * rank alone on its host has none.  A child of the rank can: it sleeps until
 * its parent is gone, and holds the parent's connection to the launcher open
 * until it has said who died, where, and in which iteration.
 *
 * A process has one at most. */
#ifndef CT_LIVENESS_WITNESS_H
#define CT_LIVENESS_WITNESS_H

struct live_watch;

/* Before MPI starts.  Where SIGTERM, by which launchers end ranks, would end
 * the process, it does so a little later: it dismisses the witness first. */
void live_witness_start(void);
/* From here on it knows what the rank is at.  Takes NULL. */
void live_witness_introduce(struct live_watch *w);
/* The rank ends in an orderly way, or tells of its end itself; on any thread,
 * and as often as one likes. */
void live_witness_dismiss(void);

/* In place of that, before the rank ends the job: the witness waits for the
 * launcher's end, and ends it where it stays. */
void live_witness_see_abort(void);

#endif
