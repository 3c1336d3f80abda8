/* client.h - inside the worker's side.
 *
 *     push --> message --> link of its server --> ... --> answer --> fresh
 *
 * A link connects a worker to one server.  Both ends count messages, so a link
 * knows the slice of its next answer.  The lock of struct ct_ps protects
 * everything except buffers of active requests. */
#ifndef CT_COMM_PS_CLIENT_H
#define CT_COMM_PS_CLIENT_H

#include "comm/ps/parts.h"

/* A push: kept until it is sent, and until the values hold it. */
struct ps_push {
    void   *message;
    int64_t clock;
    bool    sending;
};

struct ps_local {
    struct ps_push *push;   /* a ring of `depth` */
    uint64_t n_pushed, n_answered;
    void    *staging;       /* the next answer lands here */
    bool     posted;        /* the receive of it is */
    struct ct_request pass[PS_FAN]; /* sends of it to other workers */
    int      n_pass;
    void    *fresh;         /* values: the newest answer; else NULL */
    int64_t  clock;         /* what the newest answer holds */
    int64_t  holds;         /* own pushes before this are in it */
    float   *x;             /* sum: where the answer goes */
};

/* An answer that is due: to a push, or to a pull. */
struct ps_due {
    int      slice;
    bool     pulled;
    uint32_t what; /* as its head says */
};

struct ps_link {
    int       rank;
    int       from;          /* who sends the answers: usually rank */
    int       child[PS_FAN]; /* to whom they are passed on; -1: nobody */
    bool      local;
    int      *slice; /* its slices, in order */
    int       n;
    /* Pushes: handed in; heads posted; floats posted; sent. */
    uint64_t  n_ready, n_announced, n_sent, n_gone;
    struct ct_request *head; /* a ring of n */
    struct ct_request  send[PS_DEPTH];
    bool               head_gone; /* of the oldest push under way */
    struct ps_due *due; /* a ring; answer number i is in place i % most_due */
    uint64_t       n_due, n_posted, n_come, most_due;
    struct ct_request receive[PS_DEPTH];
    struct ct_ps_pull pull, pull_sent; /* the newest; under way */
    struct ct_request pull_request;
    bool              pull_due, pull_posted;
};

struct ps_client {
    struct ps_link  *link;  /* one a server */
    struct ps_local *local; /* one a slice */
    int              depth; /* pushes of a slice that may be unanswered */
    float           *pull_to; /* a history; NULL: values */
    int              n_pulled; /* slices of the pull that have come */
    float           *opened; /* values in another form: two slices */
    double           last_news;
    struct ct_ps_head latest;
};

/* Which push of its slice number `i` of a link is. */
static inline int64_t ps_link_turn(const struct ct_ps *p,
                                   const struct ps_link *l, uint64_t i)
{
    return p->begun + (int64_t)(i / (uint64_t)l->n);
}

/* The push that is number `i` of a link. */
static inline struct ps_push *ps_link_push(struct ps_client *c,
                                           struct ps_link *l, uint64_t i)
{
    struct ps_local *s = &c->local[l->slice[i % (uint64_t)l->n]];

    return &s->push[i / (uint64_t)l->n % (uint64_t)c->depth];
}

/* worker.c; with the lock held: one more answer will come. */
CT_MUST_CHECK enum ct_status ps_client_expect(struct ps_link *l,
                                              struct ps_due due);
/* Without the lock: until all slices of a pull have come. */
CT_MUST_CHECK enum ct_status ps_client_await_pulled(struct ct_ps *p);

#endif
