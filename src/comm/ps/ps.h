/* ps.h - parameter servers: floats in slices, kept or summed for workers.
 *
 * Each iteration a worker pushes every slice to the slice's server and gets
 * one answer for each push.  What a server does with pushes is one of:
 *
 *     sum      nothing is kept.  When the slice has come from all workers it
 *              is added up along a binary tree in worker order, and the sum is
 *              the answer.
 *     values   the server keeps the slice.  What came from all workers for
 *              iteration c is added up, apply() changes the values with it,
 *              and version c becomes c + 1.  A push of iteration c is
 *              answered with the values as soon as they hold every iteration
 *              up to c - s: staleness s = 0 is lock-step.
 *     async    values, where every push is applied by itself when it comes, as
 *              a P-th of an update.
 *     rounds   values with s = 0, where the layer above says who is in an
 *              iteration (ct_ps_round, ct_ps_close); the rest is late.
 *
 * A process may be worker, server or both.  All of it but the functions marked
 * so runs on the comm thread: ct_ps_progress moves everything along, never
 * waits, and is called whenever that thread has nothing else to do or waits
 * for something (ct_comm.background). */
#ifndef CT_COMM_PS_PS_H
#define CT_COMM_PS_PS_H

#include <pthread.h>

#include "comm/ps/table.h"
#include "comm/ps/ps_message.h"

enum { CT_PS_ASYNC = -1 };

/* Of a usual iteration: how long bounded staleness waits for the others' latest
 * gradients, which would be in the values a moment later.  Ranks that are about
 * as fast as each other then train on fresh values, and one that is held up
 * holds the others up by this much at most. */
#define CT_PS_FRESH 0.5

/* What came from all workers for one slice. */
struct ct_ps_update {
    size_t  first, n;
    int64_t clock; /* the iteration it belongs to */
    float  *sum;   /* scale times sum is the weighted mean; may be changed */
    float   scale;
    float   share; /* of an update; async: 1 / workers, otherwise 1 */
    float  *value;
};

/* Another form of what travels.  A payload has room for the floats of its
 * slice, and no more.  `turn` counts a worker's pushes of a slice, from the
 * iteration that all began with; both ends know it. */
struct ct_ps_form {
    /* All of these, or none: a push is floats then. */
    size_t (*push_bytes)(void *arg, int slice, int64_t turn);
    /* Worker: the slice's floats x, times `times`, become a payload. */
    void (*push)(void *arg, int slice, int64_t turn, float times,
                 const float *x, void *payload);
    /* A push's payload becomes floats; x may be the payload, and scratch is
     * as long as the slice. */
    enum ct_status (*open)(void *arg, int slice, int64_t turn,
                           const void *payload, float *scratch, float *x);
    /* All of these, or none; in sum mode alone, on the comm thread. */
    size_t (*answer_bytes)(void *arg, int slice);
    /* Server: the sum becomes an answer's payload, in its place. */
    void (*answer)(void *arg, int slice, float *x);
    /* Worker: an answer's payload becomes floats. */
    void (*take)(void *arg, int slice, const void *payload, float *x);
    void *arg;
};

/* All ranks have the same but for the callbacks.  Copied; what it points to is
 * borrowed. */
struct ct_ps_config {
    struct ct_comm           *comm;
    const struct ct_ps_table *table;
    const int *worker_rank, *server_rank; /* ranks of the comm */
    int        n_workers;
    bool       values, rounds;
    int        staleness; /* values only; CT_PS_ASYNC: any */
    /* Of the updates: history 0 is the latest one, and the next one is so much
     * of it, and a gradient.  0: unknown.  Answers then look ahead (answer.c),
     * which needs `read`. */
    float      momentum;
    int64_t    clock;     /* the first iteration */
    float      fold;      /* rounds: share of a late push an iteration later */
    /* s without an answer that are an error, where the comm has no judge; 0:
     * none. */
    double     stall;
    struct ct_ps_form form;
    /* Server, values: apply one update; a history of a slice for a pull. */
    enum ct_status (*apply)(void *arg, const struct ct_ps_update *u);
    enum ct_status (*read)(void *arg, int64_t history, size_t first, size_t n,
                           float *out);
    /* Server of slice 0: a push has come (true: answers differ from now on);
     * words of an answer are wanted. */
    bool (*note)(void *arg, const struct ct_ps_head *push);
    void (*fill)(void *arg, struct ct_ps_head *answer);
    /* Worker, any thread that waits, now and then: is the comm thread well? */
    enum ct_status (*health)(void *arg);
    void *arg;
};

struct ps_server;
struct ps_client;

struct ct_ps {
    struct ct_ps_config config;
    int64_t             begun; /* the iteration that turns count from */
    int                 worker, i_server; /* -1: this rank is none */
    struct ps_server   *server;
    struct ps_client   *client;
    pthread_mutex_t     lock; /* the client's, and what follows */
    pthread_cond_t      news;
    enum ct_status      failed; /* progress has */
    char                why[512];
};

/* On any thread, before the comm thread calls ct_ps_progress. */
CT_MUST_CHECK enum ct_status ct_ps_create(const struct ct_ps_config *config,
                                          struct ct_ps **out);
/* When the comm thread leaves it alone; takes back what is under way. */
void ct_ps_destroy(struct ct_ps *p); /* takes NULL */

/* This rank's number among the workers; -1: it is none.  Does it serve? */
int ct_ps_worker(const struct ct_ps *p);
bool ct_ps_serves(const struct ct_ps *p);

/* Comm thread. */
CT_MUST_CHECK enum ct_status ct_ps_progress(void *ps);

/* Values, on both sides, become x's, as of iteration `clock`; while all ranks
 * stand still. */
void ct_ps_reset(struct ct_ps *p, const float *x, int64_t clock);

/* ---- The server's side; comm thread. ---- */

/* The values that it keeps, into the whole array x. */
void ct_ps_values(struct ct_ps *p, float *x);
/* The least version among the slices it keeps. */
int64_t ct_ps_version(struct ct_ps *p);

/* rounds: which workers' pushes have come whole for the current iteration,
 * and whose belong to one that is over. */
struct ct_ps_round {
    int64_t           clock;
    struct ct_ps_mask got, late;
    double            since; /* of the first; 0: none yet */
};
void ct_ps_round(struct ct_ps *p, struct ct_ps_round *out);
/* Ends the iteration with those `in` it. */
CT_MUST_CHECK enum ct_status ct_ps_close(struct ct_ps *p,
                                         const struct ct_ps_mask *in);
/* Answers those who are late, so that they go on with the current iteration;
 * where config.fold is above 0 what they pushed counts in it. */
CT_MUST_CHECK enum ct_status ct_ps_rejoin(struct ct_ps *p,
                                          const struct ct_ps_mask *late);

/* ---- The worker's side; any one thread at a time. ---- */

/* A slice is ready: x (the whole array) is copied from.  In sum mode the
 * answer is written over it.  Waits while too many are under way. */
struct ct_ps_weight {
    float times; /* what the floats are multiplied by */
    float of;    /* what the push then counts in the mean */
};
CT_MUST_CHECK enum ct_status ct_ps_push(struct ct_ps *p, int slice,
                                        int64_t clock,
                                        const struct ct_ps_weight *weight,
                                        float *x, const int64_t *words);
/* ct_ps_push for the comm thread itself, which goes on with its work. */
CT_MUST_CHECK enum ct_status ct_ps_push_here(struct ct_ps *p, int slice,
                                             int64_t clock,
                                             const struct ct_ps_weight *weight,
                                             float *x, const int64_t *words);
/* Until the answer holds all iterations before `clock`; sum mode: until the
 * push of iteration clock - 1 is answered. */
CT_MUST_CHECK enum ct_status ct_ps_await(struct ct_ps *p, int slice,
                                         int64_t clock);
/* Waits for `clock` or for answers to all pushes, whichever comes first, and no
 * longer than until the time `until` of ct_now(). */
CT_MUST_CHECK enum ct_status ct_ps_await_until(struct ct_ps *p, int slice,
                                               int64_t clock, double until);
/* ct_ps_await for the comm thread itself, which goes on with its work. */
CT_MUST_CHECK enum ct_status ct_ps_await_here(struct ct_ps *p, int slice,
                                              int64_t clock);
/* Without waiting: would ct_ps_await return at once? */
bool ct_ps_has(struct ct_ps *p, int slice, int64_t clock);
/* Values: the newest answer's, n floats of the slice, into out. */
void ct_ps_take(struct ct_ps *p, int slice, float *out);
/* Values: calls `add` for each push of this worker's that the newest answer
 * does not hold, oldest first, and async for the newest in any case.  x is
 * the pushed slice as the server sees it. */
typedef void (*ct_ps_own_fn)(void *arg, int64_t clock, size_t first, size_t n,
                             const float *x);
CT_MUST_CHECK enum ct_status ct_ps_own(struct ct_ps *p, int slice,
                                       ct_ps_own_fn add, void *arg);
/* Values: all slices as of iteration `clock`; or, history >= 0, that history
 * of all slices, into out. */
CT_MUST_CHECK enum ct_status ct_ps_pull(struct ct_ps *p, int64_t clock,
                                        int history, float *out);
/* The head of the newest answer for slice 0. */
struct ct_ps_head ct_ps_latest(struct ct_ps *p);

#endif
