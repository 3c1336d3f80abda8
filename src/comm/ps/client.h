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

/* A push.  It is kept until it is sent and an answer contains it. */
struct ps_push {
    void   *message; /* owned */
    int64_t clock;   /* its iteration */
    bool    sending; /* the message is still needed for sending */
};

/* A slice as this worker sees it. */
struct ps_local {
    struct ps_push *push;   /* a ring of `depth`; owned */
    uint64_t n_pushed, n_answered;
    void    *staging;       /* memory for the next answer; owned */
    bool     posted;        /* the receive into `staging` is posted */
    struct ct_request pass[PS_FAN]; /* sends of `staging` to other workers */
    int      n_pass;
    void    *fresh;         /* latest answer; owned; NULL if the server does
                             * not keep values */
    int64_t  clock;         /* clock of the latest answer */
    int64_t  holds;         /* that answer contains own pushes before this */
    float   *x;             /* if the server only adds: where answers are
                             * unpacked; borrowed */
};

/* An answer to a push or to a pull that the server still owes. */
struct ps_due {
    int      slice;
    bool     pulled;
    uint32_t what; /* see struct ct_ps_head */
};

struct ps_link {
    int       rank;          /* of the server */
    int       from;          /* rank that sends the answers, usually `rank` */
    int       child[PS_FAN]; /* answers are forwarded to these ranks; -1:
                              * none */
    bool      local;         /* the server is in this process */
    int      *slice;         /* slices of the server, in order; owned */
    int       n;
    /* Numbers of pushes: made; heads being sent; floats being sent; done. */
    uint64_t  n_ready, n_announced, n_sent, n_gone;
    struct ct_request *head; /* a ring of n; owned */
    struct ct_request  send[PS_DEPTH];
    bool               head_gone; /* the head of push n_gone is sent */
    struct ps_due *due; /* a ring; answer i is at i % most_due; owned */
    uint64_t       n_due, n_posted, n_come, most_due;
    struct ct_request receive[PS_DEPTH];
    struct ct_ps_pull pull, pull_sent; /* the latest; the one in flight */
    struct ct_request pull_request;
    bool              pull_due, pull_posted;
};

struct ps_client {
    struct ps_link  *link;  /* per server; owned */
    struct ps_local *local; /* per slice; owned */
    int              depth; /* pushes of a slice that may be unanswered */
    float           *pull_to; /* where a history goes; borrowed; NULL: values
                               * are pulled */
    int              n_pulled; /* slices of the pull that have arrived */
    float           *opened; /* room for two slices, to decode pushes; owned;
                              * NULL: pushes are not encoded */
    double           last_news; /* time of the latest answer */
    struct ct_ps_head latest; /* head of the latest answer for slice 0 */
};

/* The turn of push number `i` of a link: how many pushes of its slice were
 * before it, counted from p->begun. */
static inline int64_t ps_link_turn(const struct ct_ps *p,
                                   const struct ps_link *l, uint64_t i)
{
    return p->begun + (int64_t)(i / (uint64_t)l->n);
}

/* Push number `i` of a link. */
static inline struct ps_push *ps_link_push(struct ps_client *c,
                                           struct ps_link *l, uint64_t i)
{
    struct ps_local *s = &c->local[l->slice[i % (uint64_t)l->n]];

    return &s->push[i / (uint64_t)l->n % (uint64_t)c->depth];
}

/* worker.c; with the lock held: expects one more answer. */
CT_MUST_CHECK enum ct_status ps_client_expect(struct ps_link *l,
                                              struct ps_due due);
/* Without the lock: waits until all slices of a pull have arrived. */
CT_MUST_CHECK enum ct_status ps_client_await_pulled(struct ct_ps *p);

#endif
