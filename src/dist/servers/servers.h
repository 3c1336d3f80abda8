/* servers.h - training through parameter servers: the exchange over comm/ps.
 *
 * Lock-step without a deadline the servers only add up (every rank then
 * updates as with an allreduce, so clipping and layer-wise rates work, and a
 * server has nothing to lose); otherwise they keep values and histories and
 * update with the solver's rule.
 *
 * Ranks push alone or in groups: a group sums its gradients first, its first
 * rank pushes the sum and passes on what comes back. */
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

/* One slice on the way to the group's sum. */
struct dist_slice {
    struct ct_job    job;
    struct ct_dist  *dist;
    int              id;
    int64_t          clock;       /* of the push under way */
    int              ready_after; /* the layer whose backward completes it */
    struct dist_learned *run;         /* owned */
    int              n_runs;
};

enum { DIST_RATES = 64 };

/* From one look at the messages of servers to the next, where somebody waits
 * for them; and at most. */
enum { DIST_POLL_NS = 50000, DIST_CALM_NS = 2000000 };

struct dist_ps {
    struct ct_ps       *ps;
    struct ct_ps_table  table;
    int                *worker_rank, *server_rank;
    struct dist_slice  *slice; /* one a slice of the table */
    float              *scratch; /* the longest slice */
    float              *run; /* the same, the comm thread's, for answers */
    int                 group, group_size;
    bool                root;    /* pushes, for its group */
    float               weight;  /* of this rank's gradient in the mean */
    float               times;   /* the part of `weight` that is still to be
                                  * applied: the loss may have it already */
    float               group_weight;
    int64_t             clock;   /* the iteration under way */
    int                 n_sent;  /* slices of it that left */
    float               rate[DIST_RATES]; /* by iteration, for own pushes */
    double              fetched, usual; /* when; seconds between, lately */
    struct ct_ps_head   latest;  /* what the servers said last */
    struct dist_round  *round;   /* deadline; NULL: none */
    bool                started; /* the servers' values are in force */
    bool                ended;   /* iterations are over, in good order */
    struct ct_updater   updater; /* the solver's, as long as it stays */
    /* The server of slice 0, on the comm thread: */
    double             *loss, *weighs; /* the latest of each pusher */
    int64_t             most_clock, stop_at, snapshot_at,
                        trace_at, traced; /* the latest request met */
};

/* servers.c: away with what it has of a net. */
void dist_ps_fini(struct ct_dist *d);
/* For the comm thread, when it has nothing else to do or waits. */
CT_MUST_CHECK enum ct_status dist_ps_progress(void *dist);
CT_MUST_CHECK enum ct_status dist_ps_idle(struct ct_comm *c, void *dist);

/* servers.c: parts of the exchange that both kinds share. */
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
/* Until the answer of that clock has come for a slice. */
CT_MUST_CHECK enum ct_status dist_ps_await(struct ct_dist *d, int slice,
                                           int64_t clock);

/* For struct ct_ps_config: the solver's updater changes a slice's values. */
CT_MUST_CHECK enum ct_status dist_ps_apply(void *dist,
                                           const struct ct_ps_update *u);

/* setup.c */
CT_MUST_CHECK enum ct_status dist_ps_build(struct ct_dist *d,
                                           struct ct_net *net);
/* On the comm thread, or when that has ended: servers and rounds go. */
void dist_ps_hang_up(struct ct_dist *d);
void dist_ps_unbuild(struct ct_dist *d);
/* The momentum that servers give to updates: none where the codec does. */
float dist_ps_momentum(const struct ct_dist *d);
/* How many times its rate a gradient that this rank pushed in iteration `clock`
 * will have moved parameters until its next one, if all ranks' are like it. */
float dist_ps_step(const struct ct_dist *d, int64_t clock);

/* coded.c: how slices travel coded, where a codec is named. */
CT_MUST_CHECK enum ct_status dist_ps_form(struct ct_dist *d,
                                          const struct ct_net *net,
                                          struct ct_ps_form *out);

/* words.c: requests to stop or snapshot, and losses, on their way through
 * the server of slice 0.  They are read behind iteration `clock`, by a rank
 * whose next one is `next`: more than the one after where it was left out. */
void dist_words_write(const float *rider, float n_ranks, int64_t *words);
bool dist_words_note(void *dist, const struct ct_ps_head *push);
void dist_words_fill(void *dist, struct ct_ps_head *answer);
void dist_words_read(const struct ct_ps_head *h, int64_t clock, int64_t next,
                     float n_ranks, float *rider, int64_t *traced);

#endif
