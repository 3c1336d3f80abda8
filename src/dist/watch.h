/* watch.h - who waits for whom, and who is gone.
 *
 * Every rank keeps a pulse (base/pulse.h).  Ranks of one host map each other's
 * and can read them whatever the other does, also after it died; ranks that
 * rank 0 cannot map send theirs to it once a second, on the comm thread, and
 * are told how long ago the one that all wait for moved on.  A thread of its
 * own looks at them, so nothing here waits for a transport:
 *
 *     a rank waits for `heartbeat` s   rank 0 logs for whom, where that one
 *                                      is and since when
 *     a process ends early             its witness, or a survivor of its host,
 *                                      logs its name and where it was; the
 *                                      job fails
 *     nothing moves for `stall` s      the job fails with that text        */
#ifndef CT_DIST_WATCH_H
#define CT_DIST_WATCH_H

#include "base/pulse.h"
#include "comm/comm.h"

struct ct_dist;
struct dist_watch;

/* All ranks call it; the comm thread runs. */
CT_MUST_CHECK enum ct_status dist_watch_create(struct ct_dist *d,
                                               struct dist_watch **out);
/* Before this rank ends the job: time for the witness of a dead one. */
void dist_watch_hear_out(struct dist_watch *w); /* takes NULL */
/* The thread ends; the rank is expected to end soon. */
void dist_watch_stop(struct dist_watch *w);
/* When the comm thread has ended.  Takes NULL. */
void dist_watch_destroy(struct dist_watch *w);

/* This rank's, to write to; NULL for NULL. */
struct ct_pulse *dist_watch_pulse(struct dist_watch *w);

/* What is known of a rank; false: nothing. */
struct dist_look {
    struct ct_pulse_view view; /* times are of this host's clock */
    char host[64];
    int  pid;
    bool gone;
};
bool dist_watch_look(const struct dist_watch *w, int rank,
                     struct dist_look *out); /* takes NULL */

/* From here on a process beside this one tells of its end, not a survivor.
 * Gives what that process maps to see the pulse (page.h); -1 for NULL. */
int dist_watch_show(struct dist_watch *w);

/* Records of the last collectives, for an autopsy: where they go; now, of this
 * rank and of those of its host that cannot do it any more; soon, of all ranks
 * of this host, also from a handler of signals.  All take NULL. */
CT_MUST_CHECK enum ct_status dist_watch_keep(struct dist_watch *w,
                                             const char *folder);
void dist_watch_record(const struct dist_watch *w, const char *why);
void dist_watch_ask(struct dist_watch *w);

/* For a process that is being ended: says who of this host is gone, or else
 * where it stands itself and who was heard of last. */
void dist_watch_last_words(struct dist_watch *w);

#endif
