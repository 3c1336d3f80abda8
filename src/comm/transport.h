/* transport.h - what collectives need to move bytes between ranks.
 *
 * Messages between two ranks with the same tag arrive in the order in which
 * they were sent; messages with different tags may overtake each other.  Only
 * one thread, the comm thread, calls a transport.  To add a transport, write
 * another table of functions and a line in transport/transports.def. */
#ifndef CT_COMM_TRANSPORT_H
#define CT_COMM_TRANSPORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cortado/status.h"

struct ct_transport;
struct ct_transport_type;

/* A message in flight.  Only the transport reads the words.  Valid from send or
 * receive until test reports it done or it is cancelled. */
struct ct_request {
    uint64_t word[4];
};

struct ct_transport_ops {
    const char *name;
    /* The buffer must not change until the request is done.  Tags are 0 to
     * 32767.  A message may wait until its receive is posted. */
    enum ct_status (*send)(struct ct_transport *t, int to, int tag,
                           const void *data, size_t bytes,
                           struct ct_request *out);
    enum ct_status (*receive)(struct ct_transport *t, int from, int tag,
                              void *data, size_t bytes,
                              struct ct_request *out);
    /* Makes progress. *done: this message is done and the request is gone.  A
     * message of another size is CT_ECOMM. After a failure the request still
     * exists and must be cancelled. */
    enum ct_status (*test)(struct ct_transport *t, struct ct_request *r,
                           bool *done);
    /* Cancels a request, once.  False: the buffer may still be read or written,
     * so it must not be freed or reused until the process ends. */
    bool (*cancel)(struct ct_transport *t, struct ct_request *r);
    /* Ends every rank of the job.  Does not return if ranks are processes;
     * otherwise every later test fails. */
    void (*abort)(struct ct_transport *t, int code);
    /* All ranks call it after the last request. */
    void (*destroy)(struct ct_transport *t);
    /* Optional: the library's own sum of x over all ranks, in place.  All ranks
     * call it in the same order; test reports when it is done. */
    enum ct_status (*sum)(struct ct_transport *t, float *x, int64_t n,
                          struct ct_request *out);
    /* Optional, any thread: ends the view on this rank.  Every later send,
     * receive and test fails with CT_ECOMM, and waits end. destroy may follow
     * without the other ranks. */
    void (*over)(struct ct_transport *t);
    /* Optional: makes progress on work without a request, such as
     * connections. */
    void (*progress)(struct ct_transport *t);
};

struct ct_transport {
    const struct ct_transport_ops *ops;
    const struct ct_transport_type *type; /* transport/transports.h */
    int        rank, size;
    const int *host; /* host[r]: number of the machine of rank r; NULL: all
                      * ranks are on one */
    bool       threads; /* ranks are threads of one process */
    const atomic_bool *is_over; /* see ops->over; NULL: never over */
};

/* CT_ECOMM if the view is over.  Any thread. */
CT_MUST_CHECK enum ct_status ct_transport_check(const struct ct_transport *t);
/* Call it from time to time while there is nothing to wait for. */
static inline void ct_transport_progress(struct ct_transport *t)
{
    if (t->ops->progress)
        t->ops->progress(t);
}

/* transport/loopback.c: `size` ranks in this process, one thread each. out[r]
 * is the end of rank r; the last one destroyed frees the shared state. */
struct ct_loopback_options {
    const int *host;       /* NULL: all on one machine; copied */
    unsigned   delay_seed; /* not 0: random delays; messages with other tags
                            * overtake */
};
CT_MUST_CHECK enum ct_status ct_loopback_create(
    int size, const struct ct_loopback_options *options,
    struct ct_transport **out);

/* transport/subset.c: ranks [first, first + size) of `inner` as a transport of
 * their own; this rank is one of them.  `inner` is borrowed. */
CT_MUST_CHECK enum ct_status ct_subset_create(struct ct_transport *inner,
                                              int first, int size,
                                              struct ct_transport **out);

/* transport/limit.c: limits `inner` to `bytes_s` sent bytes per second.  Takes
 * ownership of `inner` on success.  `now` is the clock in seconds; NULL: the
 * system's. */
CT_MUST_CHECK enum ct_status ct_limit_create(struct ct_transport *inner,
                                             double bytes_s,
                                             double (*now)(void *arg),
                                             void *arg,
                                             struct ct_transport **out);
/* Bytes that it may send at once; see comm/rate.h. */
double ct_limit_tokens(struct ct_transport *t);

#endif
