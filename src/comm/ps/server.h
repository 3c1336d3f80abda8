/* server.h - inside a server; comm thread only.
 *
 *     head of a push, worker w, slice k --> is there room? --> slot[w]
 *     slot[w] --> sum --> values --> answer
 *
 * A worker announces a push by its head and sends the floats when the server
 * has room for them, so the memory of a server does not grow with the number of
 * workers (intake.c).  An encoded push is decoded when it has arrived.  A push
 * is added as soon as the order of additions allows it (adding.c,
 * intake.c). */
#ifndef CT_COMM_PS_SERVER_H
#define CT_COMM_PS_SERVER_H

#include "comm/ps/worker_clock.h"
#include "comm/ps/parts.h"

/* Workers for which a server has memory: for one slice of each, or, with
 * rounds, for a whole turn of each. */
enum { PS_PLACES = 4 };

/* Most partial sums of a slice: as many as a number of workers has bits. */
enum { PS_MOST_PARTS = 33 };

/* A worker's push of one slice. */
struct ps_slot {
    void *message; /* owned; NULL: no push is being received or kept */
    bool  full;    /* it has arrived and is not added yet */
};

/* A message to one or several workers. */
struct ps_answer {
    struct ps_answer *next;
    void             *message; /* owned */
    int               refs;  /* sends in flight */
    uint64_t          stamp; /* of the values in it; 0: none */
    float             ahead; /* factor of history 0 in the prediction */
};

/* The sum of the pushes of one iteration. */
struct ps_sum {
    float *sum; /* owned */
    float  weight;
    int    n; /* number of pushes */
};

/* A slice of this server. */
struct ps_owned {
    int                id;
    size_t             first, n;
    float             *value;   /* owned; NULL if the server only adds */
    struct ps_sum     *sum;     /* a ring of staleness + 1; in step only [0];
                                 * owned */
    struct ps_slot    *slot;    /* per worker; owned */
    /* In step: workers 0 to n_added - 1 are added; their partial sums, from the
     * longest run of workers to the shortest. */
    int                n_added, n_parts;
    void              *part[PS_MOST_PARTS];
    float              weight;
    struct ct_ps_clock clock;   /* of the workers, for this slice */
    int64_t            version; /* number of iterations in it */
    double             since;   /* time of the last one; 0: unknown */
    double             usual;   /* usual seconds between two */
    uint64_t           stamp;   /* counts changes of the values or the sum, from
                                 * 1 */
    uint64_t           n_applied;
    struct ps_answer  *pool, *current; /* pool: all answers, owned; current:
                                        * that of the latest state */
};

/* An answer that a worker waits for.  The version must be at least `need`.  It
 * is sent when the version is `wish`, or at time `late`.  `others`: number of
 * updates between this answer and the gradient that is computed from it. */
struct ps_want {
    int      k; /* index of the slice in ps_server.owned */
    uint32_t what; /* see struct ct_ps_head */
    int64_t  need, wish;
    int      others;
    double   late;
};

/* The connection to one worker. */
struct ps_channel {
    int               rank;
    bool              local;     /* the worker is in this process */
    bool              passed_on; /* another worker forwards answers to it */
    /* Numbers of pushes: receives of heads posted, heads received; receives of
     * floats posted, floats received. */
    uint64_t           n_asked, n_announced, n_posted, n_taken;
    struct ct_ps_head *head; /* a ring of most_heads; owned */
    struct ct_request *head_request; /* a ring, too; owned */
    struct ct_request  request[PS_DEPTH];
    int                n_flights; /* answers in flight */
    struct ct_ps_pull pull;
    struct ct_request pull_request;
    bool              pull_posted, pulling;
    struct ps_want   *want; /* a ring, oldest first; owned */
    size_t            first_want, n_wants, most_wants;
    int               n_slices; /* rounds: slices of its latest turn that have
                                 * arrived */
    int64_t           clock;    /* rounds: iteration of that turn */
    enum { PS_OUTSIDE, PS_IN_PART, PS_IN_WHOLE } place; /* rounds */
};

/* An answer that is being sent. */
struct ps_flight {
    struct ct_request request;
    int               worker;
    struct ps_answer *answer;
};

struct ps_server {
    struct ps_owned   *owned; /* its slices; owned */
    int                n_owned;
    struct ps_channel *channel; /* per worker; owned */
    uint64_t           most_heads;
    void              *spare; /* unused messages, long enough for every slice;
                               * each begins with a pointer to the next;
                               * owned */
    int                n_out, most_out; /* messages in use; their limit, which
                                         * does not hold for pushes that must be
                                         * accepted */
    double             moved; /* time when floats arrived last */
    int                n_place[3]; /* rounds: number of workers per place */
    float             *scratch; /* of the longest slice, to decode pushes;
                                 * owned; NULL: pushes are not encoded */
    struct ps_flight  *flight; /* owned */
    int                n_flights, most_flights;
    int64_t            round; /* rounds: the current iteration */
    double             since; /* time of the first push of `round` */
    struct ct_ps_mask  mask;  /* workers in the round before */
    float             *history; /* scratch of the longest slice; owned */
};

/* Whether pushes are added in the order of workers. */
static inline bool ps_in_order(const struct ct_ps_config *c)
{
    return !c->values || c->staleness == 0;
}

static inline int ps_ring_size(const struct ct_ps_config *c)
{
    return c->values && c->staleness > 0 ? c->staleness + 1 : 1;
}

/* intake.c: receives pushes when there is room for them. */
CT_MUST_CHECK enum ct_status ps_intake_init(struct ct_ps *p);
void ps_intake_fini(struct ct_ps *p);
/* A message that was added can be used again; the same for that of a slot. */
void ps_give_back(struct ps_server *s, void *message);
void ps_empty_slot(struct ps_server *s, struct ps_slot *slot);

/* Calls the config's function that updates the values of a slice from a sum. */
CT_MUST_CHECK enum ct_status ps_apply(struct ct_ps *p, struct ps_owned *o,
                                      float *sum, float scale, int64_t clock);

/* adding.c: adds the push in slot w of slice k, which has arrived. */
CT_MUST_CHECK enum ct_status ps_add_push(struct ct_ps *p, int k, int w);

/* server.c: handles a pull of worker w, if one has arrived. */
CT_MUST_CHECK enum ct_status ps_take_pull(struct ct_ps *p, int w);

/* answer.c: adds a want of a worker; sends all answers that can be sent. */
CT_MUST_CHECK enum ct_status ps_want(struct ps_channel *c,
                                     const struct ps_want *want);
CT_MUST_CHECK enum ct_status ps_answer_all(struct ct_ps *p);
/* *out: an answer of the slice that is not being sent. */
CT_MUST_CHECK enum ct_status ps_answer_free(struct ps_owned *o,
                                            struct ps_answer **out);
void ps_answers_fini(struct ct_ps *p);

#endif
