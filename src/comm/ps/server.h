/* server.h - inside a server; comm thread only.
 *
 *     head of a push, worker w, slice k --> may it come? --> slot[w]
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

/* Workers for which a server has memory: a slice of each is under way or held,
 * or a whole turn of each where that counts as one (rounds). */
enum { PS_PLACES = 4 };

/* Partial sums that a slice may have: as many as a number of workers has
 * bits. */
enum { PS_MOST_PARTS = 33 };

/* Where a worker's push of one slice lands. */
struct ps_slot {
    void *message; /* NULL: none is under way */
    bool  full;    /* it has come, and is not added yet */
};

/* A message to one or several workers. */
struct ps_answer {
    struct ps_answer *next;
    void             *message;
    int               refs;  /* sends under way */
    uint64_t          stamp; /* which values it holds; 0: none */
    float             ahead; /* how much of history 0 is taken off them */
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
    /* Lock-step: workers from 0 on that are added, and their sums, from the
     * longest run of workers to the shortest. */
    int                n_added, n_parts;
    void              *part[PS_MOST_PARTS];
    float              weight;
    struct ct_ps_clock clock;   /* of the workers, for this slice */
    int64_t            version; /* iterations that are in */
    double             since;   /* when the latest came in; 0: unknown */
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
    /* Pushes: heads asked for, heads that came; floats asked for, taken. */
    uint64_t           n_asked, n_announced, n_posted, n_taken;
    struct ct_ps_head *head; /* a ring of most_heads */
    struct ct_request *head_request;
    struct ct_request  request[PS_DEPTH];
    int                n_flights; /* answers on their way to it */
    struct ct_ps_pull pull;
    struct ct_request pull_request;
    bool              pull_posted, pulling;
    struct ps_want   *want; /* a ring, oldest first */
    size_t            first_want, n_wants, most_wants;
    int               n_slices; /* rounds: of its latest turn, that came */
    int64_t           clock;    /* rounds: of that turn */
    enum { PS_OUTSIDE, PS_IN_PART, PS_IN_WHOLE } place; /* rounds */
};

struct ps_flight {
    struct ct_request request;
    int               worker;
    struct ps_answer *answer;
};

struct ps_server {
    struct ps_owned   *owned;
    int                n_owned;
    struct ps_channel *channel; /* one a worker */
    uint64_t           most_heads;
    void              *spare; /* messages that nobody uses, as long as the
                               * longest slice; each begins with a pointer to
                               * the next */
    int                n_out, most_out; /* messages in use; how many may be,
                                         * but for those that must come */
    double             moved; /* when floats came last */
    int                n_place[3]; /* rounds: workers by place */
    float             *scratch; /* the longest slice; NULL: no other form */
    struct ps_flight  *flight;
    int                n_flights, most_flights;
    int64_t            round; /* rounds: the current iteration */
    double             since; /* when the first push of `round` came */
    struct ct_ps_mask  mask;  /* who was in the round before */
    float             *history; /* scratch: of the longest slice */
};

static inline bool ps_in_order(const struct ct_ps_config *c)
{
    return !c->values || c->staleness == 0;
}

static inline int ps_ring_size(const struct ct_ps_config *c)
{
    return c->values && c->staleness > 0 ? c->staleness + 1 : 1;
}

/* intake.c: what comes in, as far as there is room for it. */
CT_MUST_CHECK enum ct_status ps_intake_init(struct ct_ps *p);
void ps_intake_fini(struct ct_ps *p);
/* The message of a slot is added: others may use it. */
void ps_give_back(struct ps_server *s, void *message);
void ps_empty_slot(struct ps_server *s, struct ps_slot *slot);

/* The layer above changes the values of a slice with a sum. */
CT_MUST_CHECK enum ct_status ps_apply(struct ct_ps *p, struct ps_owned *o,
                                      float *sum, float scale, int64_t clock);

/* adding.c: slot w of slice k is full. */
CT_MUST_CHECK enum ct_status ps_add_push(struct ct_ps *p, int k, int w);

/* server.c: a pull of worker w, where one has come. */
CT_MUST_CHECK enum ct_status ps_take_pull(struct ct_ps *p, int w);

/* answer.c: what is wanted, as far as it can be given. */
CT_MUST_CHECK enum ct_status ps_want(struct ps_channel *c,
                                     const struct ps_want *want);
CT_MUST_CHECK enum ct_status ps_answer_all(struct ct_ps *p);
/* A message for slice k that nobody reads any more. */
CT_MUST_CHECK enum ct_status ps_answer_free(struct ps_owned *o,
                                            struct ps_answer **out);
void ps_answers_fini(struct ct_ps *p);

#endif
