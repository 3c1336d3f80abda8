/* watch.h - who waits for whom, and who is gone.
 *
 * Every rank keeps a pulse (base/pulse.h).  Ranks of one host map each other's
 * and can read them whatever the other does, also after it died; ranks that
 * rank 0 cannot map send theirs to it once a second, on the comm thread, and
 * are told how long ago the one that all wait for moved on.  A thread of its
 * own looks at them from the moment that ranks begin to meet, so nothing here
 * waits for a transport:
 *
 *     a rank waits for `heartbeat` s   rank 0 logs for whom, where that one
 *                                      is and since when
 *     a process ends early             its witness, or a survivor of its host,
 *                                      logs its name and where it was; the
 *                                      job fails
 *     nothing moves for `stall` s      the job fails with that text
 *
 * Where ranks come and go there is a watch for each view.  Their members see
 * processes end and go on without them: there the watch tells of waits alone,
 * and a stall ends the view. */
#ifndef CT_LIVENESS_WATCH_H
#define CT_LIVENESS_WATCH_H

#include "base/pulse.h"
#include "comm/thread.h"

struct live_watch;

/* Whom to watch.  What it points to is borrowed and outlives the watch. */
struct live_watch_config {
    struct ct_comm        *all;     /* every rank */
    struct ct_comm        *alike;   /* those that train, or serve, as this one;
                                     * often the same */
    struct ct_comm        *group;   /* inside of `alike`; NULL: none */
    struct ct_comm_thread *thread;  /* whose comms these are */
    int                    n_train; /* ranks from this one on serve */
    double                 stall, heartbeat; /* seconds; stall 0: for ever */
    uint32_t               view;    /* of ranks that come and go, whose ends
                                     * others see; 0: they stay the same */
    const char            *folder;  /* for records; NULL: none, or as
                                     * live_watch_keep() says later */
    /* On the watching thread: a rank has died; the bytes that this one has
     * sent; how often records were asked for here. */
    void (*lost)(void *arg, int rank, int iter, const char *text);
    uint64_t (*sent)(const void *arg);
    unsigned (*asked)(const void *arg);
    /* Host and process of a rank, before the ranks have met.  False: nobody
     * knows.  May be NULL. */
    bool (*who)(void *arg, int rank, char *host, size_t bytes, int *pid);
    void *arg;
};

/* All ranks call it; the comm thread runs.  The ranks meet.  Where they come
 * and go nobody waits for that: it is the comm thread's next job, during which
 * each makes its nets. */
CT_MUST_CHECK enum ct_status live_watch_create(
    const struct live_watch_config *config, struct live_watch **out);
/* Before this rank ends the job: time for the witness of a dead one. */
void live_watch_hear_out(struct live_watch *w); /* takes NULL */
/* The thread ends; the rank is expected to end soon. */
void live_watch_stop(struct live_watch *w);
/* When the comm thread has ended.  Takes NULL. */
void live_watch_destroy(struct live_watch *w);

/* This rank's, to write to; NULL for NULL. */
struct ct_pulse *live_watch_pulse(struct live_watch *w);

/* What is known of a rank; false: nothing. */
struct live_look {
    struct ct_pulse_view view; /* times are of this host's clock */
    char host[64];
    int  pid;
    bool gone;
};
bool live_watch_look(const struct live_watch *w, int rank,
                     struct live_look *out); /* takes NULL */

/* Has a rank been seen to die, or left?  On any thread.  Takes NULL. */
bool live_watch_has_lost(const struct live_watch *w);

/* From here on a process beside this one tells of its end, not a survivor.
 * Gives what that process maps to see the pulse (pulse_page.h); -1 for NULL. */
int live_watch_show(struct live_watch *w);

/* Records of the last collectives, for an autopsy: where they go; now, of this
 * rank and of those of its host that cannot do it any more.  When
 * config->asked says more than before, all ranks of this host write theirs.
 * Both take NULL. */
CT_MUST_CHECK enum ct_status live_watch_keep(struct live_watch *w,
                                             const char *folder);
void live_watch_record(const struct live_watch *w, const char *why);

/* For a process that is being ended: says who of this host is gone, or else
 * where it stands itself and who was heard of last. */
void live_watch_last_words(struct live_watch *w);

#endif
