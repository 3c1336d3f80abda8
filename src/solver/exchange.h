/* exchange.h - how a solver exchanges gradients with other ranks.
 *
 * A solver that trains alone has no exchange.  Otherwise its exchange has facts
 * about the job, one table of functions for the kind of synchronisation (in
 * step, servers, means of weights), and one table that all kinds share.  They
 * are constant within a view.  The solver describes itself when it attaches.
 * `finish` returns the result of an iteration.  Every rank calls, in this
 * order:
 *
 *     fetch        before the first forward pass of an iteration
 *     begin        before the last backward pass, after the riders are set
 *     queued       on a GPU: after each layer's backward is queued
 *     layer_done   after each layer's backward in that pass
 *     finish       waits for the sums of the riders
 *     wait         before the update of parameter i: waits for the sum of its
 *                  gradient over ranks
 *     updated      after the update
 *     settle       before parameters are read by others, and at the end
 *
 * There are three ways to update.  Every rank updates all parameters with the
 * summed gradient.  Or the ranks of a host share one copy of the parameters,
 * and each rank updates a part of it once all ranks have sent their gradients.
 * Or servers update, each a part of the parameters (`remote`), and `fetch` gets
 * the result.
 *
 * With `lazy`, a parameter is updated when the next forward pass reaches its
 * layer, so its gradient may travel until then.
 *
 * The riders are the first floats of the gradient arena: each rank's loss and
 * its requests to snapshot, to trace or to stop.  They are summed together with
 * the gradients.
 *
 * If the net is on a GPU, the exchange works on copies of its arenas in CPU
 * memory (`mirror`).  The solver copies gradients there before layer_done, and
 * copies their sums back after wait.  It calls begin before the forward pass
 * and sets the loss before layer_done. */
#ifndef CT_SOLVER_EXCHANGE_H
#define CT_SOLVER_EXCHANGE_H

#include "cortado/events.h"
#include "cortado/net.h"

struct ct_feeds;
struct ct_mirror;
struct ct_pulse;

enum ct_rider {
    CT_RIDER_LOSS,
    CT_RIDER_SNAPSHOT,
    CT_RIDER_TRACE,
    CT_RIDER_STOP
};

/* Receives the data of one rank.  A time of that rank's monotonic clock plus
 * clock_offset ns is rank 0's time, with an error of at most clock_error. */
typedef enum ct_status (*ct_collect_fn)(void *arg, int rank, const void *data,
                                        size_t bytes, int64_t clock_offset,
                                        int64_t clock_error);

/* Saves named arrays of numbers in a snapshot and reads them back. */
struct ct_keep {
    enum ct_status (*put)(void *arg, const char *name, int64_t n,
                          const float *x);
    /* On rank 0: rank `rank` writes its own numbers to its own file. */
    enum ct_status (*elsewhere)(void *arg, int rank);
    /* *found: the snapshot has an array of this name.  Fails if it has not n
     * numbers. */
    enum ct_status (*get)(void *arg, const char *name, int64_t n, float *x,
                          bool *found);
    void *arg;
};

/* A range of the parameters to be updated. */
struct ct_update_range {
    size_t first, n;  /* floats of the arena */
    float *value;     /* the n values to be changed; NULL: the net's own */
    const float *sum; /* sum of gradients; their mean is scale times this */
    float  scale;
    float  share;     /* part of an update's rate and momentum, e.g. 1/P for one
                       * of P gradients; 1: all of it */
    const float *rate; /* NULL: the rate of the iteration times the parameter's
                        * lr_mult */
};

/* The functions of the solver that a server in its process calls, on the comm
 * thread. */
struct ct_updater {
    void *arg;
    /* Updates begin at the solver's current iteration.  The solver does not
     * train during this call. */
    void (*begin)(void *arg);
    enum ct_status (*update)(void *arg, int iter,
                             const struct ct_update_range *r);
    float *history[2]; /* laid out as the arena; NULL: none */
    int    n_history;
};

/* A solver that uses one copy of parameters and histories together with the
 * other ranks of its host.  Called on the solver's thread, or on threads that
 * it waits for. */
enum { CT_SHARED_ARRAYS = 3 };
struct ct_params_user {
    int   n_arrays; /* values, then histories, each laid out as the arena; 0:
                     * this solver cannot share, so no rank does */
    const float *values; /* where its values lie, if others may share them from
                          * the view before; NULL otherwise */
    void *arg;
    /* Updates floats [first, first + n) of the arena by this iteration's
     * rule. */
    void (*update)(void *arg, size_t first, size_t n, const float *sum);
    /* Called before the shared copy is dropped.  The solver takes a private
     * copy, or keeps reading the shared one until it has another view. */
    void (*leave)(void *arg);
};
struct ct_shared_params {
    struct ct_buffer *array[CT_SHARED_ARRAYS]; /* zeroed; dropped by the user */
    /* With `commits`, otherwise NULL: updates are written here.  When the
     * iteration commits, the solver swaps both. */
    struct ct_buffer *next[CT_SHARED_ARRAYS];
    /* `array` is where values and histories of all ranks lie already. */
    bool kept;
};

/* How ranks divide a batch. */
enum ct_shares {
    CT_SHARES_EVEN,
    CT_SHARES_GIVEN, /* by weights that the user gives */
    CT_SHARES_SPEED  /* by the measured speed of the ranks */
};

/* The job as a solver sees it. */
struct ct_exchange_facts {
    int      rank, size;
    bool     serves;        /* this rank does not train; see ops->serve */
    float    scale;         /* the mean gradient is the sum times this */
    double   loss_scale;    /* the mean loss is the sum times this */
    bool     own_data, root_data; /* own_data: each rank has its own files
                                   * (SOURCE_RANK); root_data: rank 0 reads for
                                   * all ranks */
    bool     global_batch;  /* batch_size is the sum over all ranks */
    enum ct_shares shares;
    const char *weights;    /* CT_SHARES_GIVEN: one per rank, as in "2:1:1" */
    int      parts;         /* canonical training: micro-batches of all ranks
                             * per iteration; 0: not canonical, iter_size
                             * passes */
    int      micro, first_part; /* canonical training: number of micro-batches
                                 * of this rank, and the first of them */
    bool     remote;        /* servers update; the solver must not */
    bool     commits;       /* elastic; see job->commit */
    bool     apart;         /* with `commits`: ranks have different weights
                             * between two meetings, and an iteration counts
                             * only after the next meeting; see job->counts */
    int      n_full;        /* ranks 0 to n_full - 1 have the parameters of the
                             * job so far; 0: no rank has them */
    int      n_have;        /* ranks 0 to n_have - 1 give the others what they
                             * have: n_full, or rank 0 if no rank has more than
                             * what all begin with */
    int64_t  job;           /* number of the elastic job; 0: it is none */
    bool     keeps_history; /* the exchange changes the solver's histories */
    bool     holds_back;    /* parts of some gradients are held back; see struct
                             * ct_attached */
    bool     whole;         /* the solver gets complete mean gradients */
    bool     sums_in_layers; /* layers of a train net sum over ranks during a
                              * pass */
    bool     deal_tests;    /* ranks hold the same parameters at a test and
                             * divide its batches; otherwise rank 0 tests
                             * alone */
    size_t   bucket_bytes;  /* size of buckets of gradients; 0: any */
    int      guard_interval; /* iterations between two checks; 0: no checks */
    const struct ct_peers *peers; /* for layers of the train net; NULL: none */
    const struct ct_feeds *feeds; /* for data sources of the train net; NULL:
                                   * none */
    struct ct_pulse *pulse; /* reports the progress of this rank; NULL: none */
};

/* A solver as the exchange sees it. */
struct ct_trainer {
    int      iter_size, iter;
    int      max_iter; /* last iteration; 0: unknown */
    uint64_t seed;
    float    momentum, clip; /* clip 0: none */
    struct ct_updater updater;
    struct ct_mirror *mirror; /* NULL: the net is in CPU memory */
    /* Samples per pass of every rank; NULL: equal on all ranks.  Losses are
     * weighted by them. */
    const int64_t *batches;
};

/* Result of attach. */
struct ct_attached {
    bool lazy;        /* updates may wait for the next forward pass */
    bool queues_sums; /* `queued` sums gradients on the GPU; layer_done does not
                       * need them */
    bool sums_apart;  /* sums are not written to the net's gradients */
    /* By parameter: parts of its gradient are held back.  NULL: none.  Such a
     * gradient has been clipped and has momentum already, so the solver applies
     * neither.  Borrowed. */
    const bool *held;
};

/* Result of an iteration. */
struct ct_answer {
    double loss; /* mean over ranks */
    bool   snapshot, trace, stop; /* requested by at least one rank */
    /* For a rank that missed the deadline: the iteration of the other ranks (0:
     * this one); its samples did not count and must be drawn again. */
    int    ahead;
    bool   again;
};

/* Why ranks settle. */
enum ct_settle {
    CT_SETTLE_TEST,     /* all updates are applied to the parameters, and
                         * statistics of layers are averaged, on every rank */
    CT_SETTLE_SNAPSHOT, /* the same, and rank 0 gets all histories */
    CT_SETTLE_WRITTEN,  /* the snapshot is on disk */
    CT_SETTLE_CHECK,    /* checks that all ranks hold the same parameters; names
                         * the first layer that differs */
    CT_SETTLE_END       /* the requested iterations are done */
};

/* A kind of synchronisation.  All members are set. */
struct ct_exchange;
struct ct_exchange_ops {
    const char *name;
    /* Called when training starts and before later calls of step.  The first
     * call copies rank 0's parameters to every rank. */
    enum ct_status (*attach)(struct ct_exchange *x, struct ct_net *net,
                             const struct ct_trainer *t,
                             struct ct_attached *out);
    /* The net will be destroyed.  Does nothing if it is not attached. */
    void (*detach)(struct ct_exchange *x, const struct ct_net *net);
    enum ct_status (*fetch)(struct ct_exchange *x, int iter);
    enum ct_status (*begin)(struct ct_exchange *x, int iter);
    /* Canonical training: adds the gradient of micro-batch k, except the last
     * one, to the sum of this rank and clears it. */
    enum ct_status (*fold)(struct ct_exchange *x, int k);
    enum ct_status (*queued)(struct ct_exchange *x, int layer);
    enum ct_status (*layer_done)(struct ct_exchange *x, int layer);
    enum ct_status (*finish)(struct ct_exchange *x, struct ct_answer *out);
    /* With lazy: would `wait` return without waiting? */
    bool (*ready)(struct ct_exchange *x, int param);
    /* *sum: the sum, read-only.  With shared parameters: returns when all ranks
     * have updated their parts of the parameter. */
    enum ct_status (*wait)(struct ct_exchange *x, int param,
                           const float **sum);
    /* The update of iteration iter - 1 was done with this rate. */
    enum ct_status (*updated)(struct ct_exchange *x, int iter, float rate);
    enum ct_status (*settle)(struct ct_exchange *x, int iter,
                             enum ct_settle why);
    /* Writes state that ranks keep between iterations to a snapshot
     * (keep->put), or reads it back when the net is attached (keep->get).  Rank
     * 0 writes what is small or common; each rank writes its own large
     * arrays. */
    enum ct_status (*keep)(struct ct_exchange *x, const struct ct_keep *keep);
    /* Replaces all other calls on a rank that serves and does not train.
     * Returns when the others have reached iteration `end` or stop earlier. */
    enum ct_status (*serve)(struct ct_exchange *x, int end, int *iter);
};

/* The view that follows one that has ended. */
struct ct_next_view {
    int  base; /* number of iterations that count; the same for all ranks */
    bool full; /* this rank has their result; otherwise it receives
                * everything */
    bool lost; /* no rank has it: the caller restarts from a snapshot */
};

/* The probable facts of this rank in the next view. */
struct ct_expected {
    struct ct_exchange_facts facts; /* valid for nets and their data;
                                     * size 0: the last hint is withdrawn */
    bool                     shares; /* the ranks of a host share parameters */
    /* Whether this net will have to keep the factors of gradients; NULL: it
     * will not. */
    bool (*keeps_factors)(const struct ct_net *net, int n_ranks);
    uint64_t                 hint;  /* number of the hint */
    /* This rank is prepared, or will not be.  Any thread; also after that view
     * has come or was dropped. */
    void (*prepared)(void *arg, uint64_t hint);
    void *arg;
    /* Reserves shared memory for gradients of n_floats floats and `n_arrays`
     * arrays of parameters and histories; n_ranks 0: frees it.  Any thread,
     * before `prepared`.  NULL: another rank does it. */
    void (*reserve)(void *owner, int n_ranks, size_t n_floats, int n_arrays);
    void *owner;
};

/* Functions that all kinds share. */
struct ct_job_ops {
    enum ct_status (*meet)(struct ct_exchange *x); /* a barrier */
    /* Called when the solver is created.  Arrays stay NULL if every rank keeps
     * its own copy. */
    enum ct_status (*share)(struct ct_exchange *x, struct ct_net *net,
                            const struct ct_params_user *user,
                            struct ct_shared_params *out);
    /* With `commits`, for a rank that is alone: makes the values of this net,
     * which ranks shared in the view before, private without a copy.  They and
     * their histories stay where they are; *diff is memory for gradients, for
     * the caller to drop; the rest of the shared memory is given back.  False:
     * others may still write there. */
    bool (*keep_alone)(struct ct_exchange *x, const struct ct_net *net,
                       struct ct_buffer **diff);
    /* Gathers bytes[r] bytes from each rank r on every rank, in rank order.
     * `mine` may point into `out`. */
    enum ct_status (*gather)(struct ct_exchange *x, const void *mine,
                             const size_t *bytes, void *out);
    /* Rank 0's bytes on every rank, including ranks that serve. */
    enum ct_status (*broadcast)(struct ct_exchange *x, void *data,
                                size_t bytes);
    /* Rank 0's bytes on every rank that trains. */
    enum ct_status (*spread)(struct ct_exchange *x, void *data, size_t bytes);
    /* Ranks that have the parameters (facts.n_have) give the others
     * these bytes, of which they have the same. */
    enum ct_status (*supply)(struct ct_exchange *x, void *data, size_t bytes);
    /* Passes the bytes of every rank, in rank order, to `take` on rank 0.  All
     * ranks call it at the same point. */
    enum ct_status (*collect)(struct ct_exchange *x, const void *mine,
                              size_t bytes, ct_collect_fn take, void *arg);
    /* The next event among the ranks. *seen counts the events that the caller
     * has read; false: no other event. */
    bool (*next_mark)(struct ct_exchange *x, uint64_t *seen,
                      struct ct_mark *out);
    /* With `commits`: an iteration begins that may have to be repeated.  Called
     * before gradients are computed. */
    enum ct_status (*mark)(struct ct_exchange *x);
    /* With `commits`, in a new view: this rank has the parameters after `iter`
     * iterations. */
    enum ct_status (*hold)(struct ct_exchange *x, int iter);
    /* With `commits`, after finish: returns when every rank has all sums of the
     * iteration.  State that outlives the iteration must not change earlier. */
    enum ct_status (*commit)(struct ct_exchange *x, int iter);
    /* With `apart`: number of iterations that count.  Later ones differ between
     * ranks, and all ranks go back to this one when the view ends. */
    int (*counts)(struct ct_exchange *x);
    /* With `commits`: training ends after `iter` iterations.  A rank that has
     * them can end without the others. */
    void (*last)(struct ct_exchange *x, int iter);
    /* With `commits`, after CT_ECOMM: next_view waits for the next view;
     * enter_view enters it once the solver is detached, and changes `facts`. */
    enum ct_status (*next_view)(struct ct_exchange *x,
                                struct ct_next_view *out);
    enum ct_status (*enter_view)(struct ct_exchange *x);
    /* With `commits`, at any time: CT_ECOMM if the view has ended, so the
     * iteration is useless. */
    enum ct_status (*check)(struct ct_exchange *x);
    /* In an elastic job, before a view's ranks share what they have: whether
     * they fit together.  CT_ECOMM: another one does not, and ends. */
    enum ct_status (*fit)(struct ct_exchange *x,
                          const struct ct_device *device);
    /* With `commits`, on a rank that cannot train in its view, for reason `st`:
     * is that because of another one, which ends?  Then next_view gives another
     * view. */
    bool (*goes_on)(struct ct_exchange *x, enum ct_status st);
    /* With `commits`, before an iteration: a hint about the next view; false:
     * no hint that was not returned before. */
    bool (*expects)(struct ct_exchange *x, struct ct_expected *out);
};

struct ct_exchange {
    struct ct_exchange_facts      facts;
    const struct ct_exchange_ops *ops;
    const struct ct_job_ops      *job;
    void                         *state;
};

/* The result of an iteration from riders that were summed over ranks. */
struct ct_answer ct_answer_of(const struct ct_exchange *x, const float *rider);

/* Gathers `each` bytes of every rank on all ranks; the mean of a number over
 * ranks. */
CT_MUST_CHECK enum ct_status ct_exchange_gather(struct ct_exchange *x,
                                                const void *mine, size_t each,
                                                void *out);
CT_MUST_CHECK enum ct_status ct_exchange_mean(struct ct_exchange *x,
                                              double *value);

#endif
