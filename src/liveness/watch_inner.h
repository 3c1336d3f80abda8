/* watch_inner.h - what the files of a watch share.
 *
 *     watch.c       beginning, end, and the thread that looks
 *     meeting.c     ranks learn where the others' pulses are
 *     blame.c       who is waited for, and whether a wait can still end well
 *     heartbeat.c   pulses of ranks that rank 0 cannot map, as messages */
#ifndef CT_LIVENESS_WATCH_INNER_H
#define CT_LIVENESS_WATCH_INNER_H

#include <pthread.h>

#include "liveness/lifeline.h"
#include "liveness/pulse_page.h"
#include "liveness/watch.h"

enum { LIVE_SILENT_US = 3000000 }; /* without a beat for so long: silent */

/* What a rank tells the others at the start. */
struct live_card {
    char     host[64];
    int32_t  pid, fd;
    uint64_t nonce;
};

struct live_seat {
    struct live_card  card;
    struct live_page *page;  /* mapped; NULL: not of this host */
    struct ct_pulse   copy;  /* of one that is not, on rank 0 */
    int               pidfd; /* -1: none */
    struct live_line  line;  /* to a rank of another host */
    bool              like;  /* it trains, or serves, as this rank does */
    atomic_bool       gone;
    atomic_bool       heard; /* a message came, on rank 0 */
    /* The comm thread's, on rank 0: */
    bool              posted, answering;
    struct ct_request request, answer;
    struct ct_pulse_view wire; /* times are ages */
    uint64_t          moved;   /* likewise: what it is answered */
};

struct live_watch {
    struct live_watch_config config;
    int             rank, size, fd; /* among all, those that serve too */
    uint64_t        stall, warn; /* us */
    struct live_page *mine;
    struct live_seat    *seat; /* before `met`, other threads than the comm
                                * thread read this rank's alone, and cards
                                * where config.who is there */
    atomic_bool     met;
    struct ct_job   meeting; /* of the ranks, on the comm thread */
    bool           *remote; /* per rank: rank 0 hears of it by messages */
    /* The comm thread's: */
    bool              sending, hearing;
    struct ct_request sent, answer;
    struct ct_pulse_view out;
    uint64_t          next_send;
    uint64_t          age;   /* what rank 0 answers: since somebody moved */
    atomic_uint_least64_t moved; /* by that; 0: it has not answered */
    atomic_uint_least64_t answered; /* when it last did */
    /* The watching thread's: */
    pthread_t thread;
    bool      runs;
    int       wake;
    int       listener;      /* rank 0's, for lines; -1: none */
    struct live_offer offer; /* where that is */
    uint64_t  next_warn; /* us of waiting at which the next line comes */
    uint64_t  next_record; /* likewise: records for an autopsy */
    unsigned  n_asked;     /* requests for these, of all of this host */
    bool      counts_all;  /* that is so; before they have met, of this rank */
    struct ct_logbook_pen pen; /* the comm thread's */
    atomic_bool lost;
    atomic_bool told;             /* the comm thread knows of it */
    atomic_uint_least64_t came_by; /* when that thread last judged */
    pthread_mutex_t lock;
    char            why[512]; /* of `lost` */
    uint64_t        lost_at;
};

struct ct_pulse_view live_view_of(const struct live_watch *w, int rank);
/* "rank 2 (pid 77 on node3)". */
const char *live_name_of(const struct live_watch *w, int rank, char *text,
                         size_t bytes);

/* Before ranks have met, this one knows of no other. */
static inline bool live_knows(const struct live_watch *w, int rank)
{
    return rank == w->rank || atomic_load(&w->met);
}

/* Where ranks come and go, those are no longer waited for in this view that
 * have left it for the next: their pulse stands still here. */
static inline bool live_has_gone_on(const struct live_watch *w, int rank)
{
    return w->config.view > 0 && rank != w->rank && !w->seat[rank].gone &&
           live_view_of(w, rank).phase == CT_PULSE_LEAVING;
}

static inline uint64_t live_since(uint64_t then, uint64_t now)
{
    return now > then ? now - then : 0;
}

/* blame.c: how long the rank that has waited longest, of those seen, has
 * waited; for whom, in words; how long ago the one that all wait for moved
 * on. */
uint64_t live_longest_wait(const struct live_watch *w, uint64_t now);
void live_explain(const struct live_watch *w, uint64_t waited, uint64_t now,
                  char *out, size_t bytes);
uint64_t live_age_of_move(const struct live_watch *w, uint64_t now);
/* Rank 0, or who comes after it on its host, speaks for all. */
bool live_speaks(const struct live_watch *w, uint64_t now);
/* Can a wait still end well?  For ct_comm.judge. */
CT_MUST_CHECK enum ct_status live_judge(void *watch);

/* meeting.c, on the comm thread: all ranks meet. */
CT_MUST_CHECK enum ct_status live_meet_job(struct ct_comm *c, void *watch);

/* heartbeat.c, on the comm thread: sends and hears pulses, then judges; for
 * ct_comm.tick.  And gives up what is under way: false where the transport may
 * still read or write there. */
CT_MUST_CHECK enum ct_status live_tick(struct ct_comm *c, void *watch);
bool live_heartbeat_end(struct live_watch *w);

#endif
