/* transport.h - the little that collectives need to move bytes between ranks.
 *
 * Messages between two ranks with one tag arrive in the order they were sent;
 * with other tags they may overtake.  A transport belongs to the one thread
 * that calls it (the comm thread); it knows nothing of nets.  Another
 * transport is another table of these, and a line in
 * transport/transports.def. */
#ifndef CT_COMM_TRANSPORT_H
#define CT_COMM_TRANSPORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cortado/status.h"

struct ct_transport;
struct ct_transport_type;

/* A message on its way; the words belong to the transport.  It lives from
 * send or receive until test says done or fails, or until it is cancelled. */
struct ct_request {
    uint64_t word[4];
};

struct ct_transport_ops {
    const char *name;
    /* The buffer stays as it is until the request is done.  Tags are 0 to
     * 32767.  A message may have to wait until its receive is posted. */
    enum ct_status (*send)(struct ct_transport *t, int to, int tag,
                           const void *data, size_t bytes,
                           struct ct_request *out);
    enum ct_status (*receive)(struct ct_transport *t, int from, int tag,
                              void *data, size_t bytes,
                              struct ct_request *out);
    /* Moves messages along; true once this one is done, and then the request
     * is gone.  A message of another size than was asked for is CT_ECOMM.
     * After a failure the request is still there, to be given up. */
    enum ct_status (*test)(struct ct_transport *t, struct ct_request *r,
                           bool *done);
    /* Give a request up, once.  False: its buffer may still be read or written
     * and must be left alone, not freed, until the process ends. */
    bool (*cancel)(struct ct_transport *t, struct ct_request *r);
    /* End every rank of the job; does not come back where ranks are
     * processes.  Elsewhere every later test fails. */
    void (*abort)(struct ct_transport *t, int code);
    /* After the last request; all ranks call it. */
    void (*destroy)(struct ct_transport *t);
    /* Optional: the library's own sum of x over all ranks, in place.  All
     * ranks call it in the same order; it is done when test says so. */
    enum ct_status (*sum)(struct ct_transport *t, float *x, int64_t n,
                          struct ct_request *out);
    /* Optional, on any thread: this view is over.  From then on every send,
     * receive and test fails with CT_ECOMM, on this rank alone; nothing waits
     * any more.  destroy may follow without the others. */
    void (*over)(struct ct_transport *t);
    /* Optional: moves along what takes no request, such as connections. */
    void (*progress)(struct ct_transport *t);
};

struct ct_transport {
    const struct ct_transport_ops *ops;
    const struct ct_transport_type *type; /* transport/transports.h */
    int        rank, size;
    const int *host; /* host[r]: a number for the machine that rank r is on;
                        NULL: all are on one */
    bool       threads; /* of one process: ranks see each other's memory */
    const atomic_bool *is_over; /* see ops->over; NULL: it never is */
};

/* CT_ECOMM when its view is over.  On any thread. */
CT_MUST_CHECK enum ct_status ct_transport_check(const struct ct_transport *t);
/* Where there is nothing to wait for, now and then. */
static inline void ct_transport_progress(struct ct_transport *t)
{
    if (t->ops->progress)
        t->ops->progress(t);
}

/* transport/loopback.c: `size` ranks inside this process, one thread each.
 * out[r] is rank r's end; the last one destroyed frees what they share. */
struct ct_loopback_options {
    const int *host;       /* NULL: all on one machine; copied */
    unsigned   delay_seed; /* not 0: messages wait and overtake (other tags) */
};
CT_MUST_CHECK enum ct_status ct_loopback_create(
    int size, const struct ct_loopback_options *options,
    struct ct_transport **out);

/* transport/subset.c: `size` ranks from `first` on, this one among them, as if
 * they were all.  `inner` stays the caller's and outlives it. */
CT_MUST_CHECK enum ct_status ct_subset_create(struct ct_transport *inner,
                                              int first, int size,
                                              struct ct_transport **out);

/* transport/limit.c: `inner`, which it takes over when it succeeds, sending
 * `bytes_s` a second at most.  `now` is the clock in seconds; NULL: the
 * system's. */
CT_MUST_CHECK enum ct_status ct_limit_create(struct ct_transport *inner,
                                             double bytes_s,
                                             double (*now)(void *arg),
                                             void *arg,
                                             struct ct_transport **out);
/* Bytes that such a transport may send at once; comm/rate.h. */
double ct_limit_tokens(struct ct_transport *t);

#endif
