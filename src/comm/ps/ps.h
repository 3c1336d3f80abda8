/* ps.h - parameter servers: floats in slices, kept or summed for workers.
 *
 * In each iteration a worker pushes every slice to the slice's server and gets
 * one answer per push.  A server works in one of these modes:
 *
 *     sum      keeps nothing.  When all workers have pushed the slice, adds the
 *              pushes along a binary tree in worker order and answers with the
 *              sum.
 *     values   keeps the slice.  Adds the pushes of all workers for iteration
 *              c, calls apply() to update the values, and increments the
 *              version.  A push of iteration c is answered with the values as
 *              soon as they include every iteration up to c - s.  Staleness
 *              s = 0 is lock-step.
 *     async    values, but each push is applied when it arrives, as 1/P of an
 *              update.
 *     rounds   values with s = 0, but the layer above decides which workers
 *              are part of an iteration (ct_ps_round, ct_ps_close); the others
 *              are late.
 *
 * A process may be a worker, a server or both.  Everything runs on the comm
 * thread, except functions that say otherwise.  ct_ps_progress never waits; the
 * thread calls it when it has no job and while it waits (ct_comm.background).
 */
#ifndef CT_COMM_PS_PS_H
#define CT_COMM_PS_PS_H

#include <pthread.h>

#include "comm/ps/table.h"
#include "comm/ps/ps_message.h"

enum { CT_PS_ASYNC = -1 };

/* Part of a usual iteration that bounded staleness waits for the latest
 * gradients of other workers, which may arrive a moment later.  Workers of
 * similar speed then train on fresh values, and a slow worker delays the others
 * by at most this much. */
#define CT_PS_FRESH 0.5

/* The sum of the pushes of all workers for one slice. */
struct ct_ps_update {
    size_t  first, n;
    int64_t clock; /* its iteration */
    float  *sum;   /* the weighted mean is scale times this; may be changed */
    float   scale;
    float   share; /* part of an update; async: 1 / workers, otherwise 1 */
    float  *value;
};

/* An encoded form of messages.  A payload is at most as long as the floats of
 * its slice.  `turn` counts the pushes of a slice by a worker, from the first
 * iteration on, equally at both ends. */
struct ct_ps_form {
    /* Set all three functions, or none: pushes are floats. */
    size_t (*push_bytes)(void *arg, int slice, int64_t turn);
    /* Worker: encodes the floats x of a slice, times `times`. */
    void (*push)(void *arg, int slice, int64_t turn, float times,
                 const float *x, void *payload);
    /* Server: decodes the payload of a push to x, which may be the payload
     * itself; scratch is as long as the slice. */
    enum ct_status (*open)(void *arg, int slice, int64_t turn,
                           const void *payload, float *scratch, float *x);
    /* Set all three functions, or none.  Only in sum mode, on the comm
     * thread. */
    size_t (*answer_bytes)(void *arg, int slice);
    /* Server: encodes the sum in place. */
    void (*answer)(void *arg, int slice, float *x);
    /* Worker: decodes the payload of an answer. */
    void (*take)(void *arg, int slice, const void *payload, float *x);
    void *arg;
};

/* Equal on all ranks except for the callbacks.  Copied; pointers in it are
 * borrowed. */
struct ct_ps_config {
    struct ct_comm           *comm;
    const struct ct_ps_table *table;
    const int *worker_rank, *server_rank; /* ranks of the comm */
    int        n_workers;
    bool       values, rounds;
    int        staleness; /* only with values; CT_PS_ASYNC: unlimited */
    /* Momentum of the updates: the next update is history 0 times this, plus a
     * gradient. 0: unknown.  If it is known, answers look ahead (answer.c),
     * which needs `read`. */
    float      momentum;
    int64_t    clock;     /* the first iteration */
    float      fold;      /* rounds: weight of a late push per iteration of
                           * delay */
    /* Seconds without an answer that are an error, if the comm has no judge; 0:
     * no limit. */
    double     stall;
    struct ct_ps_form form;
    /* Server with values: applies one update; reads a history of a slice for a
     * pull. */
    enum ct_status (*apply)(void *arg, const struct ct_ps_update *u);
    enum ct_status (*read)(void *arg, int64_t history, size_t first, size_t n,
                           float *out);
    /* Server of slice 0: note: a push has arrived (returns true if answers
     * change); fill: fills in the words of an answer. */
    bool (*note)(void *arg, const struct ct_ps_head *push);
    void (*fill)(void *arg, struct ct_ps_head *answer);
    /* Worker, called from time to time by any thread that waits: has the comm
     * thread failed? */
    enum ct_status (*health)(void *arg);
    void *arg;
};

struct ps_server;
struct ps_client;

struct ct_ps {
    struct ct_ps_config config;
    int64_t             begun; /* the first iteration, from which turns are
                                * counted */
    int                 worker, i_server; /* number of this worker and server;
                                           * -1: this rank is none */
    struct ps_server   *server;
    struct ps_client   *client;
    pthread_mutex_t     lock; /* protects the client and the members below */
    pthread_cond_t      news;
    enum ct_status      failed; /* status of ct_ps_progress, if it failed */
    char                why[512];
};

/* Any thread, before the comm thread calls ct_ps_progress. */
CT_MUST_CHECK enum ct_status ct_ps_create(const struct ct_ps_config *config,
                                          struct ct_ps **out);
/* After the last ct_ps_progress; cancels active requests. */
void ct_ps_destroy(struct ct_ps *p); /* takes NULL */

/* This rank's number among the workers; -1: not a worker.  Is it a server? */
int ct_ps_worker(const struct ct_ps *p);
bool ct_ps_serves(const struct ct_ps *p);

/* Comm thread. */
CT_MUST_CHECK enum ct_status ct_ps_progress(void *ps);

/* Sets the values on both sides to x, as of iteration `clock`.  No rank may
 * train meanwhile. */
void ct_ps_reset(struct ct_ps *p, const float *x, int64_t clock);

/* ---- The server's side; comm thread. ---- */

/* Copies the values that it keeps to the whole array x. */
void ct_ps_values(struct ct_ps *p, float *x);
/* The smallest version of the slices that it keeps. */
int64_t ct_ps_version(struct ct_ps *p);

/* rounds: the workers whose pushes are complete for the current iteration, and
 * those whose pushes belong to an earlier one. */
struct ct_ps_round {
    int64_t           clock;
    struct ct_ps_mask got, late;
    double            since; /* time of the first push; 0: none yet */
};
void ct_ps_round(struct ct_ps *p, struct ct_ps_round *out);
/* Ends the iteration with the workers in `in`. */
CT_MUST_CHECK enum ct_status ct_ps_close(struct ct_ps *p,
                                         const struct ct_ps_mask *in);
/* Answers late workers, so that they continue with the current iteration; if
 * config.fold is above 0, their pushes count in it. */
CT_MUST_CHECK enum ct_status ct_ps_rejoin(struct ct_ps *p,
                                          const struct ct_ps_mask *late);

/* ---- The worker's side; any one thread at a time. ---- */

/* Pushes a slice of x, the whole array; copies it.  In sum mode the answer is
 * written to x.  Waits while too many pushes are unanswered. */
struct ct_ps_weight {
    float times; /* factor of the floats */
    float of;    /* weight of the push in the mean */
};
CT_MUST_CHECK enum ct_status ct_ps_push(struct ct_ps *p, int slice,
                                        int64_t clock,
                                        const struct ct_ps_weight *weight,
                                        float *x, const int64_t *words);
/* ct_ps_push for the comm thread itself; it makes progress while it waits. */
CT_MUST_CHECK enum ct_status ct_ps_push_here(struct ct_ps *p, int slice,
                                             int64_t clock,
                                             const struct ct_ps_weight *weight,
                                             float *x, const int64_t *words);
/* Waits until the answer includes all iterations before `clock`; sum mode:
 * until the push of iteration clock - 1 is answered. */
CT_MUST_CHECK enum ct_status ct_ps_await(struct ct_ps *p, int slice,
                                         int64_t clock);
/* Waits for `clock`, or for answers to all pushes, or until ct_now() is
 * `until`, whichever comes first. */
CT_MUST_CHECK enum ct_status ct_ps_await_until(struct ct_ps *p, int slice,
                                               int64_t clock, double until);
/* ct_ps_await for the comm thread itself; it makes progress while it waits. */
CT_MUST_CHECK enum ct_status ct_ps_await_here(struct ct_ps *p, int slice,
                                              int64_t clock);
/* Would ct_ps_await return without waiting? */
bool ct_ps_has(struct ct_ps *p, int slice, int64_t clock);
/* Values: copies the newest answer of the slice to out. */
void ct_ps_take(struct ct_ps *p, int slice, float *out);
/* Values: calls `add` for each push of this worker that the newest answer does
 * not include, oldest first; async: always for the newest one. x is the pushed
 * slice as the server sees it. */
typedef void (*ct_ps_own_fn)(void *arg, int64_t clock, size_t first, size_t n,
                             const float *x);
CT_MUST_CHECK enum ct_status ct_ps_own(struct ct_ps *p, int slice,
                                       ct_ps_own_fn add, void *arg);
/* Values: reads all slices as of iteration `clock`, or with history >= 0 that
 * history of all slices. */
CT_MUST_CHECK enum ct_status ct_ps_pull(struct ct_ps *p, int64_t clock,
                                        int history, float *out);
/* The head of the newest answer for slice 0. */
struct ct_ps_head ct_ps_latest(struct ct_ps *p);

#endif
