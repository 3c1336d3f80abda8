/* server.h - inside a server; comm thread only.
 *
 *     push of worker w, slice k --> slot[w] --> sum --> values --> answer
 *
 * A push in another form becomes floats when it has come.  Slots keep it until
 * it is added; with staleness above 0, and without order between workers, it is
 * added at once to the sum of its iteration. */
#ifndef CT_COMM_PS_SERVER_H
#define CT_COMM_PS_SERVER_H

#include "comm/ps/worker_clock.h"
#include "comm/ps/parts.h"

/* Where a worker's push of one slice lands. */
struct ps_slot {
    void *message;
    bool  busy; /* posted, or full */
};

/* A message to one or several workers. */
struct ps_answer {
    struct ps_answer *next;
    void             *message;
    int               refs;  /* sends under way */
    uint64_t          stamp; /* which values it holds; 0: none */
    float             ahead; /* ... and how much of history 0 is taken off */
};

/* What came for one iteration. */
struct ps_sum {
    float *sum;
    float  weight;
    int    n;
};

struct ps_owned {
    int                id;
    size_t             first, n;
    float             *value;   /* NULL in sum mode */
    struct ps_sum     *sum;     /* a ring of staleness + 1; [0] in lock-step */
    struct ps_slot    *slot;    /* one a worker */
    int                n_full;  /* lock-step: slots that are */
    struct ct_ps_clock clock;   /* of the workers, for this slice */
    int64_t            version; /* iterations that are in */
    double             since;   /* ... when; 0: unknown */
    double             usual;   /* seconds from one to the next, lately */
    uint64_t           stamp;   /* changes of the values or sum, from 1 */
    uint64_t           n_applied;
    struct ps_answer  *pool, *current;
};

/* What a worker is to get: from version `need` on, and without waiting once
 * `wish` is there or it is late.  `others`: as many updates will come between
 * this answer and the gradient that is made of it. */
struct ps_want {
    int      k;
    uint32_t what;
    int64_t  need, wish;
    int      others;
    double   late; /* when */
};

/* One worker. */
struct ps_channel {
    int               rank;
    bool              local;
    bool              passed_on; /* another worker gives it its answers */
    uint64_t          n_posted, n_taken; /* pushes */
    struct ct_request request[PS_DEPTH];
    struct ct_ps_pull pull;
    struct ct_request pull_request;
    bool              pull_posted, pulling;
    struct ps_want   *want; /* a ring, oldest first */
    size_t            first_want, n_wants, most_wants;
    int               n_slices; /* rounds: of its latest turn, that came */
    int64_t           clock;    /* rounds: of that turn */
};

struct ps_flight {
    struct ct_request request;
    struct ps_answer *answer;
};

struct ps_server {
    struct ps_owned   *owned;
    int                n_owned;
    struct ps_channel *channel; /* one a worker */
    float             *scratch; /* the longest slice; NULL: no other form */
    struct ps_flight  *flight;
    int                n_flights, most_flights;
    int64_t            round; /* rounds: the current iteration */
    double             since; /* ... its first push came */
    struct ct_ps_mask  mask;  /* ... who was in the one before */
    float             *history; /* scratch: of the longest slice */
};

/* answer.c: what is wanted, as far as it can be given. */
CT_MUST_CHECK enum ct_status ps_want(struct ps_channel *c,
                                     const struct ps_want *want);
CT_MUST_CHECK enum ct_status ps_answer_all(struct ct_ps *p);
/* A message for slice k that nobody reads any more. */
CT_MUST_CHECK enum ct_status ps_answer_free(struct ps_owned *o,
                                            struct ps_answer **out);
void ps_answers_fini(struct ct_ps *p);

#endif
