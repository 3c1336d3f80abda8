/* watch.h - finds out which ranks wait for which, and which have died.
 *
 * Every rank keeps a pulse (base/pulse.h).  Ranks of one host map each other's
 * pulses and can read them at any time, even after the other has died.  Ranks
 * whose pulse rank 0 cannot map send it to rank 0 once per second, on the comm
 * thread.  Rank 0 answers how long ago the awaited rank made progress.  The
 * watch has a thread of its own, which starts before ranks meet, so it does not
 * depend on a transport:
 *
 *     a rank waits for `heartbeat` s   rank 0 logs which rank it waits for,
 *                                      in which phase that rank is, and since
 *                                      when
 *     a process ends early             its witness, or a survivor of its host,
 *                                      logs its name and phase; the job fails
 *     no progress for `stall` s        the job fails with the same text
 *
 * In an elastic job each view has a watch.  The members see themselves when a
 * process ends, and continue without it.  So the watch only reports waits, and
 * a stall ends the view. */
#ifndef CT_LIVENESS_WATCH_H
#define CT_LIVENESS_WATCH_H

#include "base/pulse.h"
#include "comm/thread.h"

struct live_watch;

/* Options of a watch.  All pointers are borrowed and outlive the watch. */
struct live_watch_config {
    struct ct_comm        *all;     /* every rank */
    struct ct_comm        *alike;   /* the ranks that train if this one trains,
                                     * or those that serve if this one serves;
                                     * may be `all` */
    struct ct_comm        *group;   /* a part of `alike`; NULL: none */
    struct ct_comm_thread *thread;  /* the comm thread of these comms */
    int                    n_train; /* ranks n_train and above serve */
    double                 stall, heartbeat; /* seconds; stall 0: no limit */
    double                 brief;   /* the same as stall, once the ranks have
                                     * met, if all wait for each other and none
                                     * is at work; 0: stall */
    uint32_t               view;    /* of an elastic job; 0: not elastic */
    const char            *folder;  /* for records; NULL: none, unless
                                     * live_watch_keep() sets it */
    /* Called on the watching thread.  lost: a rank has died.  sent: returns the
     * bytes that this rank has sent.  asked: returns the number of requests for
     * records so far. */
    void (*lost)(void *arg, int rank, int iter, const char *text);
    uint64_t (*sent)(const void *arg);
    unsigned (*asked)(const void *arg);
    /* Host and process of a rank, for messages before the ranks have met.
     * False: unknown.  May be NULL. */
    bool (*who)(void *arg, int rank, char *host, size_t bytes, int *pid);
    void *arg;
};

/* All ranks call it, while the comm thread runs.  The ranks meet.  In elastic
 * jobs nobody waits for that: the meeting is the next job of the comm thread,
 * and each rank makes its nets meanwhile. */
CT_MUST_CHECK enum ct_status live_watch_create(
    const struct live_watch_config *config, struct live_watch **out);
/* Call it before this rank ends the job.  If a rank of this host has died,
 * waits a moment, so that its witness can report the death. */
void live_watch_hear_out(struct live_watch *w); /* takes NULL */
/* Stops the watching thread; the end of this rank is not reported then. */
void live_watch_stop(struct live_watch *w);
/* Call it after the comm thread has ended.  Takes NULL. */
void live_watch_destroy(struct live_watch *w);

/* The pulse of this rank, to write to; NULL for NULL. */
struct ct_pulse *live_watch_pulse(struct live_watch *w);

struct live_look {
    struct ct_pulse_view view; /* times are those of this host's clock */
    char host[64];
    int  pid;
    bool gone;
};
/* Copies what is known of a rank; false: nothing.  Takes NULL. */
bool live_watch_look(const struct live_watch *w, int rank,
                     struct live_look *out);

/* Whether a rank has died or left.  On any thread.  Takes NULL. */
bool live_watch_has_lost(const struct live_watch *w);

/* From now on a witness reports the end of this process, and survivors do not.
 * Returns the file that the witness maps to see the pulse (pulse_page.h); -1
 * for NULL. */
int live_watch_show(struct live_watch *w);

/* Records of the last collectives, for an autopsy.  keep sets their folder.
 * record writes those of this rank, and of ranks of this host that cannot write
 * them any more.  If config->asked returns more than before, all ranks of this
 * host write theirs.  Both take NULL. */
CT_MUST_CHECK enum ct_status live_watch_keep(struct live_watch *w,
                                             const char *folder);
void live_watch_record(const struct live_watch *w, const char *why);

/* For a process that is ended by a signal: logs which rank of this host has
 * died; if none has, its own phase and the last news of ranks of other
 * hosts. */
void live_watch_last_words(struct live_watch *w);

#endif
