/* watch_inner.h - shared by the files of a watch.
 *
 *     watch.c       beginning, end, and the watching thread
 *     meeting.c     ranks learn where the pulses of the others are
 *     blame.c       finds the rank that others wait for, and judges waits
 *     heartbeat.c   ranks whose pulse rank 0 cannot map send it as messages */
#ifndef CT_LIVENESS_WATCH_INNER_H
#define CT_LIVENESS_WATCH_INNER_H

#include <pthread.h>

#include "liveness/lifeline.h"
#include "liveness/pulse_page.h"
#include "liveness/watch.h"

enum { LIVE_SILENT_US = 3000000 }; /* a rank without a beat for this long is
                                    * silent */

/* What a rank tells the others about itself at the start. */
struct live_card {
    char     host[64];
    int32_t  pid, fd;
    uint64_t nonce;
};

struct live_seat {
    struct live_card  card;
    struct live_page *page;  /* mapped; NULL: another host */
    struct ct_pulse   copy;  /* on rank 0, without `page`: the last message */
    int               pidfd; /* of its process; owned; -1: none */
    struct live_line  line;  /* if it is on another host */
    bool              like;  /* it trains if this rank trains, and serves if
                              * this rank serves */
    atomic_bool       gone;
    atomic_bool       heard; /* on rank 0: `copy` is valid */
    /* Only the comm thread of rank 0 uses these: */
    bool              posted, answering;
    struct ct_request request, answer;
    struct ct_pulse_view wire; /* the message; times are ages */
    uint64_t          moved;   /* the answer, an age */
};

struct live_watch {
    struct live_watch_config config;
    int             rank, size, fd; /* among all ranks; fd: of `mine` */
    uint64_t        stall, warn; /* us */
    struct live_page *mine;
    struct live_seat    *seat; /* per rank; owned.  Before `met`, only the comm
                                * thread reads seats of other ranks; with
                                * config.who other threads read their cards */
    atomic_bool     met;
    struct ct_job   meeting; /* of the ranks, on the comm thread */
    bool           *remote; /* per rank: it sends its pulse to rank 0; owned */
    /* Only the comm thread uses these: */
    bool              sending, hearing;
    struct ct_request sent, answer;
    struct ct_pulse_view out;
    uint64_t          next_send;
    uint64_t          age;   /* answer of rank 0: how long ago the awaited rank
                              * made progress */
    atomic_uint_least64_t moved; /* that time; 0: no answer yet */
    atomic_uint_least64_t answered; /* time of the last answer */
    /* Only the watching thread uses these: */
    pthread_t thread;
    bool      runs;
    int       wake;
    int       listener;      /* on rank 0: for lines; -1: none */
    struct live_offer offer; /* its addresses */
    uint64_t  next_warn; /* duration of a wait, in us, that is logged next */
    uint64_t  next_record; /* duration that makes ranks write records */
    unsigned  n_asked;     /* requests for records on this host */
    bool      counts_all;  /* n_asked counts all ranks of the host; false: only
                            * this one, before ranks have met */
    struct ct_logbook_pen pen; /* the comm thread uses it */
    atomic_bool lost;             /* a rank has died */
    atomic_bool told;             /* the comm thread knows it */
    atomic_uint_least64_t came_by; /* when that thread last judged */
    pthread_mutex_t lock;
    char            why[512]; /* describes the death; under `lock` */
    uint64_t        lost_at;
};

struct ct_pulse_view live_view_of(const struct live_watch *w, int rank);
/* "rank 2 (pid 77 on node3)". */
const char *live_name_of(const struct live_watch *w, int rank, char *text,
                         size_t bytes);

/* Whether this rank knows `rank`.  Before ranks have met, it knows only
 * itself. */
static inline bool live_knows(const struct live_watch *w, int rank)
{
    return rank == w->rank || atomic_load(&w->met);
}

/* In an elastic job: whether a rank has left this view for the next one.  Its
 * pulse of this view stops then, and nobody waits for it here. */
static inline bool live_has_gone_on(const struct live_watch *w, int rank)
{
    return w->config.view > 0 && rank != w->rank && !w->seat[rank].gone &&
           live_view_of(w, rank).phase == CT_PULSE_LEAVING;
}

static inline uint64_t live_since(uint64_t then, uint64_t now)
{
    return now > then ? now - then : 0;
}

/* blame.c: the longest wait of all known ranks. */
uint64_t live_longest_wait(const struct live_watch *w, uint64_t now);
/* Writes which rank is awaited and what it does. */
void live_explain(const struct live_watch *w, uint64_t waited, uint64_t now,
                  char *out, size_t bytes);
/* How long ago the awaited rank made progress. */
uint64_t live_age_of_move(const struct live_watch *w, uint64_t now);
/* Whether this rank logs for all: it is rank 0, or on its host, and the ranks
 * before it are gone or silent. */
bool live_speaks(const struct live_watch *w, uint64_t now);
/* Fails if a wait cannot succeed any more.  For ct_comm.judge. */
CT_MUST_CHECK enum ct_status live_judge(void *watch);

/* meeting.c, on the comm thread: all ranks meet. */
CT_MUST_CHECK enum ct_status live_meet_job(struct ct_comm *c, void *watch);

/* heartbeat.c, on the comm thread.  live_tick(), for ct_comm.tick, sends and
 * receives pulses, then judges.  live_heartbeat_end() cancels requests; false:
 * the transport may still use memory of the watch. */
CT_MUST_CHECK enum ct_status live_tick(struct ct_comm *c, void *watch);
bool live_heartbeat_end(struct live_watch *w);

#endif
