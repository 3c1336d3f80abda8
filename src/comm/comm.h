/* comm.h - a rank among its peers: sending, waiting, counting.
 *
 * All ranks call the same collectives (coll/coll.h) in the same order; each
 * collective takes tags of its own, so two never mix.  Owned and called by one
 * thread; the members marked atomic may be read by others. */
#ifndef CT_COMM_COMM_H
#define CT_COMM_COMM_H

#include <stdatomic.h>

#include "comm/place.h"
#include "comm/transport.h"

struct ct_allreduce_type;
struct ct_logbook_pen;
struct ct_pulse;
struct ct_shared;

enum {
    CT_TAG_STEPS     = 64,  /* steps of one collective with tags of their own */
    CT_TAG_ROUNDS    = 256, /* consecutive collectives whose tags differ */
    CT_TAG_USER      = CT_TAG_STEPS * CT_TAG_ROUNDS, /* first tag that
                                                      * collectives do not
                                                      * use */
    CT_TAG_END       = 1 << 15,                      /* one past the last tag */
    CT_MOST_CHOICES  = 8
};

/* The algorithm for sums of up to this many bytes. */
struct ct_choice {
    double                          up_to_bytes;
    const struct ct_allreduce_type *type;
};

struct ct_comm {
    struct ct_transport *transport; /* owned */
    int             rank, size;
    struct ct_place place;
    struct ct_group all;   /* every rank */
    struct ct_group local; /* the ranks of this host */
    /* If all hosts have equally many ranks: the ranks with this local number,
     * by host.  Otherwise: the first rank of each host; empty (size 0) on the
     * other ranks. */
    struct ct_group cross;
    int            *numbers; /* storage of place and groups; owned */

    uint32_t sequence;       /* number of collectives begun; equal on all
                              * ranks */
    atomic_uint_least64_t bytes_sent, bytes_received, n_sent;
    double     wait_seconds; /* time spent in ct_comm_wait */
    double     bytes_s;      /* bytes per second that the transport may send,
                              * equal on all ranks; 0: unlimited */
    double     stall_after;  /* seconds of silence that are an error; 0: no
                              * limit */
    atomic_int waiting_for;  /* the awaited peer; -1: none */
    /* Optional: called from time to time, in waits and between collectives; a
     * failure ends the wait. */
    enum ct_status (*tick)(struct ct_comm *c, void *arg);
    void            *tick_arg;
    double           next_tick;
    /* Optional, any thread: checks that a wait reported in `pulse` can still
     * succeed.  If it is set, stall_after is 0. */
    enum ct_status (*judge)(void *arg);
    struct ct_pulse *pulse;  /* waits are reported here; borrowed; NULL: none */
    int              pulse_first; /* the number of this comm's rank 0 in the
                                   * pulse */
    bool             counts; /* `sequence` is published in the pulse */
    /* Records collectives for an autopsy, under the number `channel`; borrowed;
     * NULL: not recorded. */
    struct ct_logbook_pen *pen;
    uint64_t               channel;

    /* Optional: called while ct_comm_wait waits, e.g. to serve other ranks.  It
     * tests its own requests and never waits.  A failure ends the wait. */
    enum ct_status (*background)(void *arg);
    void            *background_arg;

    struct ct_choice choice[CT_MOST_CHOICES]; /* set by ct_allreduce_tune */
    int              n_choices;

    /* coll/shared.h: created at the first use.  If that fails on any rank,
     * place.window_failed is set and it is not tried again. */
    struct ct_shared *_Atomic shared;
    struct ct_spare  *spare; /* for the next window (window.h); owned; NULL:
                              * none */

    void  *staging;      /* grows as collectives need it */
    size_t staging_bytes;
    bool   staging_lost; /* the transport may still write to it */
};

/* Takes ownership of the transport, even if it fails. */
CT_MUST_CHECK enum ct_status ct_comm_create(struct ct_transport *t,
                                            struct ct_comm **out);
void ct_comm_destroy(struct ct_comm *c); /* takes NULL */
/* For a rank that has failed: ends all ranks, so that no peer waits forever. */
void ct_comm_abort(struct ct_comm *c, int code);

/* Every collective starts with this.  `what` is a short name, `bytes` the total
 * size; both are equal on all ranks. */
void ct_comm_begin(struct ct_comm *c, const char *what, uint64_t bytes);
/* A tag for step `step` of the current collective. */
int ct_comm_tag(const struct ct_comm *c, int step);

CT_MUST_CHECK enum ct_status ct_comm_send(struct ct_comm *c, int to, int tag,
                                          const void *data, size_t bytes,
                                          struct ct_request *out);
CT_MUST_CHECK enum ct_status ct_comm_receive(struct ct_comm *c, int from,
                                             int tag, void *data, size_t bytes,
                                             struct ct_request *out);
/* For loops that do not use ct_comm_wait: runs the tick when it is due. */
CT_MUST_CHECK enum ct_status ct_comm_tick(struct ct_comm *c, double now);
/* Is the request done?  For code that waits for several requests.  After a
 * failure the request still exists and must be cancelled. */
CT_MUST_CHECK enum ct_status ct_comm_test(struct ct_comm *c,
                                          struct ct_request *r, bool *done);
/* Polls, then sleeps between polls, until the request is done.  After a failure
 * the request is gone.  `peer` is for messages; -1: all. */
CT_MUST_CHECK enum ct_status ct_comm_wait(struct ct_comm *c, int peer,
                                          struct ct_request *r);
/* See ct_transport_ops.cancel.  If the transport may still write to the staging
 * memory, that is not reused. */
bool ct_comm_cancel(struct ct_comm *c, struct ct_request *r);
/* Sends and receives at the same time, with the same peer or two.  For small
 * messages; large ones go in segments (coll/transfer.h). */
CT_MUST_CHECK enum ct_status ct_comm_exchange(struct ct_comm *c, int to,
                                              const void *out, size_t out_bytes,
                                              int from, void *in,
                                              size_t in_bytes, int tag);
/* Memory for a collective to receive into; valid until the next call. */
CT_MUST_CHECK enum ct_status ct_comm_staging(struct ct_comm *c, size_t bytes,
                                             void *out);

/* y += x */
void ct_comm_add(int64_t n, const float *restrict x, float *restrict y);

#endif
