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
    CT_TAG_STEPS     = 64,  /* steps that one collective may tell apart */
    CT_TAG_ROUNDS    = 256, /* collectives in a row whose tags differ */
    CT_TAG_USER      = CT_TAG_STEPS * CT_TAG_ROUNDS, /* first free one */
    CT_TAG_END       = 1 << 15,                      /* behind the last */
    CT_MOST_CHOICES  = 8
};

/* Up to this many bytes, sum with this. */
struct ct_choice {
    double                          up_to_bytes;
    const struct ct_allreduce_type *type;
};

struct ct_comm {
    struct ct_transport *transport; /* owned */
    int             rank, size;
    struct ct_place place;
    struct ct_group all;   /* every rank */
    struct ct_group local; /* those on this host */
    /* Even hosts: those with this local number, by host.  Uneven ones: the
     * first rank of each host; empty (size 0) on the others. */
    struct ct_group cross;
    int            *numbers; /* owned: what place and groups point into */

    uint32_t sequence;       /* collectives begun, on every rank the same */
    atomic_uint_least64_t bytes_sent, bytes_received, n_sent;
    double     wait_seconds; /* spent in ct_comm_wait */
    double     bytes_s;      /* what its transport may send a second, on all
                              * ranks alike; 0: as fast as it goes */
    double     stall_after;  /* seconds of silence that are an error; 0: none */
    atomic_int waiting_for;  /* the peer that is waited for; -1: none */
    /* Optional: runs now and then, in waits and between collectives; a
     * failure ends the wait. */
    enum ct_status (*tick)(struct ct_comm *c, void *arg);
    void            *tick_arg;
    double           next_tick;
    /* Optional, of any thread: whether a wait that `pulse` was told of can
     * still end well.  stall_after is 0 then. */
    enum ct_status (*judge)(void *arg);
    struct ct_pulse *pulse;  /* told of waits; borrowed; NULL: none */
    int              pulse_first; /* what it calls rank 0 of this comm */
    bool             counts; /* the pulse follows its `sequence` */
    /* Notes collectives for an autopsy, under this comm's number; borrowed;
     * NULL: nobody does. */
    struct ct_logbook_pen *pen;
    uint64_t               channel;

    /* Optional: what goes on while ct_comm_wait waits, such as serving others.
     * It tests requests of its own and never waits.  A failure ends the
     * wait. */
    enum ct_status (*background)(void *arg);
    void            *background_arg;

    struct ct_choice choice[CT_MOST_CHOICES]; /* made by ct_allreduce_tune */
    int              n_choices;

    /* coll/shared.h: made by the first who asks.  If that fails on any rank,
     * place.window_failed is set and nobody asks again. */
    struct ct_shared *_Atomic shared;
    struct ct_spare  *spare; /* for the next window that it makes (window.h);
                              * owned; NULL: none */

    void  *staging;      /* grows to what collectives ask for */
    size_t staging_bytes;
    bool   staging_lost; /* the transport may still write there */
};

/* Takes the transport over, also when it fails. */
CT_MUST_CHECK enum ct_status ct_comm_create(struct ct_transport *t,
                                            struct ct_comm **out);
void ct_comm_destroy(struct ct_comm *c); /* takes NULL */
/* For a rank that cannot go on: ends all, so that no peer waits for ever. */
void ct_comm_abort(struct ct_comm *c, int code);

/* Every collective starts with this.  `what` is a few words, `bytes` the size
 * of it all; both are the same on all ranks. */
void ct_comm_begin(struct ct_comm *c, const char *what, uint64_t bytes);
/* A tag for step `step` of the collective that just began. */
int ct_comm_tag(const struct ct_comm *c, int step);

CT_MUST_CHECK enum ct_status ct_comm_send(struct ct_comm *c, int to, int tag,
                                          const void *data, size_t bytes,
                                          struct ct_request *out);
CT_MUST_CHECK enum ct_status ct_comm_receive(struct ct_comm *c, int from,
                                             int tag, void *data, size_t bytes,
                                             struct ct_request *out);
/* In a loop that waits for something else than ct_comm_wait: runs the tick
 * when it is due. */
CT_MUST_CHECK enum ct_status ct_comm_tick(struct ct_comm *c, double now);
/* Is it done?  For those who wait for several things at once.  After a failure
 * the request is still there, to be cancelled. */
CT_MUST_CHECK enum ct_status ct_comm_test(struct ct_comm *c,
                                          struct ct_request *r, bool *done);
/* Polls, then naps between polls, until the request is done.  After a failure
 * the request is gone.  `peer` is for the message; -1: all. */
CT_MUST_CHECK enum ct_status ct_comm_wait(struct ct_comm *c, int peer,
                                          struct ct_request *r);
/* See ct_transport_ops.cancel; keeps staging memory that it loses. */
bool ct_comm_cancel(struct ct_comm *c, struct ct_request *r);
/* Both at once, to and from different peers or the same.  Small messages: a
 * big one goes in segments, coll/transfer.h. */
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
