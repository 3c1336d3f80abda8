/* servers.h - training through parameter servers: the exchange over comm/ps.
 *
 * With ranks in step and no deadline, servers only add up gradients.  Every
 * rank then updates as with an allreduce, so clipping and layer-wise rates
 * work, and servers have no state.  Otherwise servers keep values and histories
 * and update with the solver's rule.
 *
 * A rank pushes alone or in a group.  A group sums its gradients first; its
 * first rank pushes the sum and forwards the answer to the others. */
#ifndef CT_DIST_SERVERS_SERVERS_H
#define CT_DIST_SERVERS_SERVERS_H

#include "comm/ps/ps.h"
#include "comm/thread.h"
#include "cortado/net.h"
#include "solver/exchange.h"

struct ct_dist;
struct dist_round;

/* A run of learned floats inside a slice. */
struct dist_learned {
    size_t first, n;
    float  lr_mult;
};

/* One slice of the arena, with the job that sums it over the group. */
struct dist_slice {
    struct ct_job    job;
    struct ct_dist  *dist;
    int              id;
    int64_t          clock;       /* of the current push */
    int              ready_after; /* the layer whose backward completes it */
    struct dist_learned *run;         /* owned */
    int              n_runs;
};

enum { DIST_RATES = 64 };

/* Time between two polls of server messages while a rank waits for them; the
 * longest time between two polls. */
enum { DIST_POLL_NS = 50000, DIST_CALM_NS = 2000000 };

struct dist_ps {
    struct ct_ps       *ps;
    struct ct_ps_table  table;
    int                *worker_rank, *server_rank;
    struct dist_slice  *slice; /* one per slice of the table */
    float              *scratch; /* as long as the longest slice */
    float              *run; /* the same, for answers; only the comm thread uses
                              * it */
    int                 group, group_size;
    bool                root;    /* this rank pushes for its group */
    float               weight;  /* weight of this rank's gradient in the
                                  * mean */
    float               times;   /* the factor of `weight` that is not yet in
                                  * the gradient; the loss may have been scaled
                                  * by the other */
    float               group_weight;
    int64_t             clock;   /* the current iteration */
    int                 n_sent;  /* slices of it that were sent */
    float               rate[DIST_RATES]; /* by iteration, for pushes of this
                                           * rank */
    double              fetched, usual; /* time of the last fetch; mean seconds
                                         * between two */
    struct ct_ps_head   latest;  /* head of the last answer */
    struct dist_round  *round;   /* NULL: no deadline */
    bool                started; /* the servers' values are valid */
    bool                ended;   /* training ended normally */
    struct ct_updater   updater; /* the attached solver's */
    /* On the server of slice 0; only the comm thread uses these: */
    double             *loss, *weighs; /* the last loss and its weight of each
                                        * pusher */
    int64_t             most_clock, stop_at, snapshot_at,
                        trace_at, traced; /* traced: the last trace request that
                                           * was answered */
};

/* servers.c: frees all state that belongs to the net. */
void dist_ps_fini(struct ct_dist *d);
/* For the comm thread, while it waits or has no job. */
CT_MUST_CHECK enum ct_status dist_ps_progress(void *dist);
CT_MUST_CHECK enum ct_status dist_ps_idle(struct ct_comm *c, void *dist);

/* servers.c: functions of the exchange that both kinds use. */
CT_MUST_CHECK enum ct_status dist_ps_attach(struct ct_exchange *x,
                                            struct ct_net *net,
                                            const struct ct_trainer *t,
                                            struct ct_attached *out);
void dist_ps_detach(struct ct_exchange *x, const struct ct_net *net);
CT_MUST_CHECK enum ct_status dist_ps_begin(struct ct_exchange *x, int iter);
CT_MUST_CHECK enum ct_status dist_ps_layer_done(struct ct_exchange *x,
                                                int layer);
CT_MUST_CHECK enum ct_status dist_ps_fold(struct ct_exchange *x, int k);
CT_MUST_CHECK enum ct_status dist_ps_serve(struct ct_exchange *x, int end,
                                           int *iter);
/* Waits for the answer to the push of iteration `clock` of a slice. */
CT_MUST_CHECK enum ct_status dist_ps_await(struct ct_dist *d, int slice,
                                           int64_t clock);

/* For struct ct_ps_config: the solver's updater changes a slice's values. */
CT_MUST_CHECK enum ct_status dist_ps_apply(void *dist,
                                           const struct ct_ps_update *u);

/* setup.c */
CT_MUST_CHECK enum ct_status dist_ps_build(struct ct_dist *d,
                                           struct ct_net *net);
/* Frees servers and rounds.  On the comm thread, or after it has ended. */
void dist_ps_hang_up(struct ct_dist *d);
void dist_ps_unbuild(struct ct_dist *d);
/* The momentum that servers apply; 0 if the codec applies it. */
float dist_ps_momentum(const struct ct_dist *d);
/* The factor of its rate by which a gradient that this rank pushed in iteration
 * `clock` will have moved the parameters at its next push, if all ranks push
 * the same. */
float dist_ps_step(const struct ct_dist *d, int64_t clock);

/* coded.c: the encoded form of slices; without a codec, floats. */
CT_MUST_CHECK enum ct_status dist_ps_form(struct ct_dist *d,
                                          const struct ct_net *net,
                                          struct ct_ps_form *out);

/* words.c: losses and requests to stop or snapshot in messages of the server of
 * slice 0.  They are read after iteration `clock` by a rank whose next
 * iteration is `next`, which is larger than clock + 1 if the rank was late. */
void dist_words_write(const float *rider, float n_ranks, int64_t *words);
bool dist_words_note(void *dist, const struct ct_ps_head *push);
void dist_words_fill(void *dist, struct ct_ps_head *answer);
void dist_words_read(const struct ct_ps_head *h, int64_t clock, int64_t next,
                     float n_ranks, float *rider, int64_t *traced);

#endif
