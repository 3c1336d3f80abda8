/* exchange.h - how a solver shares its gradients with its peers.
 *
 * A solver alone has none of this.  With peers it gets an exchange: facts about
 * the job, which it reads; one table of functions for the kind of
 * synchronisation (in step, servers, means of weights) and one that all kinds
 * share, which it calls.  Neither changes while a view lasts.  The solver
 * describes itself when it attaches, and `finish` returns what came of an
 * iteration.  On every rank alike:
 *
 *     fetch        before an iteration's first forward pass
 *     begin        before the last backward pass; what rides along is set
 *     queued       on a GPU, while that pass is queued: behind each layer's
 *                  backward
 *     layer_done   after each layer's backward in that pass
 *     finish       what rode along has arrived
 *     wait         before parameter i is updated: the sum over ranks of its
 *                  gradient is there when this returns
 *     updated      after the update
 *     settle       before others look at parameters, and when all is over
 *
 * Who updates is a choice.  Every rank does, with the sum of gradients; or
 * each rank its part of the one copy that its host has (shared parameters), as
 * soon as all have sent their gradients of it; or servers do, each its part of
 * the parameters for all (`remote`), and fetch brings the outcome.
 *
 * With `lazy`, parameters are updated when the next forward pass comes to
 * their layer, so that gradients may still be under way until then.
 *
 * Four numbers ride along with the gradients, in the first floats of the
 * gradient arena: each rank's loss and its requests to snapshot, to trace or
 * to stop.
 *
 * Where the net lies on a GPU, all of this is about the copies of its arenas
 * in the CPU's memory that `mirror` has; the solver brings gradients there
 * before layer_done, and their sums back after wait.  On a GPU begin comes
 * before the forward pass, and the loss rides along only at layer_done. */
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

/* What came from a rank; clock_offset ns added to a time of its host's
 * monotonic clock is rank 0's time, with an error of clock_error at most. */
typedef enum ct_status (*ct_collect_fn)(void *arg, int rank, const void *data,
                                        size_t bytes, int64_t clock_offset,
                                        int64_t clock_error);

/* Where numbers that ranks keep between iterations go in a snapshot, under a
 * name, and come back from. */
struct ct_keep {
    enum ct_status (*put)(void *arg, const char *name, int64_t n,
                          const float *x);
    /* On rank 0: another rank puts numbers of its own, to a file of its own. */
    enum ct_status (*elsewhere)(void *arg, int rank);
    /* *found: there is one of that name; it has n numbers or this fails. */
    enum ct_status (*get)(void *arg, const char *name, int64_t n, float *x,
                          bool *found);
    void *arg;
};

/* A part of the parameters that is to be updated. */
struct ct_update_range {
    size_t first, n;  /* floats of the arena */
    float *value;     /* n of them, to be changed; NULL: the net's own */
    const float *sum; /* of gradients; scale times it is their mean */
    float  scale;
    float  share;     /* of an update, in time; 1: all of it */
    const float *rate; /* NULL: the update's, as the parameter takes it */
};

/* What servers ask of the solver in their process, on the comm thread. */
struct ct_updater {
    void *arg;
    /* From the iteration that the solver stands at; it stands still. */
    void (*begin)(void *arg);
    enum ct_status (*update)(void *arg, int iter,
                             const struct ct_update_range *r);
    float *history[2]; /* as the arena lies; NULL: none */
    int    n_history;
};

/* One copy of parameters and histories for all ranks of a host, and a solver
 * that uses it.  Called on its thread, or on threads that it waits for. */
enum { CT_SHARED_ARRAYS = 3 };
struct ct_params_user {
    int   n_arrays; /* as the arena lies: values, then histories; 0: it wants
                     * none, so nobody gets any */
    void *arg;
    /* Floats [first, first + n) of the arena, by this iteration's rule. */
    void (*update)(void *arg, size_t first, size_t n, const float *sum);
    /* Before updates end for good: the solver takes a copy and leaves, or goes
     * on reading what there is until it has another view. */
    void (*leave)(void *arg);
};
struct ct_shared_params {
    struct ct_buffer *array[CT_SHARED_ARRAYS]; /* zeros; the user drops them */
    /* With `commits`, else NULL: updates go here until the iteration commits;
     * then the solver swaps both. */
    struct ct_buffer *next[CT_SHARED_ARRAYS];
};

/* The job as a solver sees it. */
struct ct_exchange_facts {
    int      rank, size;
    bool     serves;        /* this rank does not train: see ops->serve */
    float    scale;         /* sum times scale is the mean gradient */
    double   loss_scale;    /* the same for the loss */
    bool     own_data, root_data; /* SOURCE_RANK; rank 0 reads for all */
    bool     global_batch;  /* batch_size is that of all ranks together */
    const char *shares;     /* of a batch: "even", "speed", weights; or NULL */
    int      parts;         /* canonical training: micro-batches of all ranks
                             * in an iteration; 0: it has iter_size passes */
    int      micro, first_part; /* canonical training: how many micro-batches
                                 * this rank runs, and the first of them */
    bool     remote;        /* servers update; the solver must not */
    bool     commits;       /* ranks come and go: see job->commit */
    bool     apart;         /* with `commits`: ranks train apart until they
                             * meet, and iterations count from then on, see
                             * job->counts */
    int      n_full;        /* the first so many ranks have the parameters,
                             * and the others get them; 0: rank 0 alone */
    bool     keeps_history; /* the exchange works on the solver's histories */
    bool     holds_back;    /* some gradients are; see struct ct_attached */
    bool     whole;         /* the solver gets mean gradients, all of them */
    bool     sums_in_layers; /* layers of a train net sum over ranks in a
                              * pass */
    bool     deal_tests;    /* ranks hold the same parameters at a test, so
                             * they deal out its batches; otherwise rank 0
                             * tests by itself */
    size_t   bucket_bytes;  /* of gradients that travel together; 0: any */
    int      guard_interval; /* iterations from one check to the next; 0: no */
    const struct ct_peers *peers; /* for layers of the train net; NULL: no */
    const struct ct_feeds *feeds; /* for its sources; NULL: no */
    struct ct_pulse *pulse; /* to say where this rank stands; NULL: no */
};

/* A solver as the exchange sees it. */
struct ct_trainer {
    int      iter_size, iter;
    int      max_iter; /* where training is to end; 0: not known */
    uint64_t seed;
    float    momentum, clip; /* clip 0: none */
    struct ct_updater updater;
    struct ct_mirror *mirror; /* NULL: the net is in the CPU's memory */
    /* Samples of every rank in a pass, or NULL where all have as many.  Losses
     * are weighted by them. */
    const int64_t *batches;
};

/* What attach came to. */
struct ct_attached {
    bool lazy;        /* updates may wait for the next forward pass */
    bool queues_sums; /* `queued` has gradients summed on the GPU, and
                         layer_done needs none of them */
    bool sums_apart;  /* the net's gradients stay this rank's own */
    /* By parameter, or NULL: no.  Gradients of such a parameter are held back;
     * they have been clipped and have gathered momentum before they arrive, so
     * the solver clips nothing and gives them none.  Borrowed. */
    const bool *held;
};

/* What an iteration came to. */
struct ct_answer {
    double loss; /* the mean over ranks */
    bool   snapshot, trace, stop; /* some rank asked for it */
    /* For a rank that was left behind: the iteration that the others are at
     * (0: this one), and that its samples count for nothing and are to be
     * drawn again. */
    int    ahead;
    bool   again;
};

/* Why ranks settle. */
enum ct_settle {
    CT_SETTLE_TEST,     /* parameters become those of all updates so far, and
                         * statistics that ranks keep apart become one, on
                         * every rank */
    CT_SETTLE_SNAPSHOT, /* the same, and rank 0 gets all histories */
    CT_SETTLE_WRITTEN,  /* that snapshot is on disk */
    CT_SETTLE_CHECK,    /* proves that all ranks hold the same parameters, or
                         * names the layer where they part */
    CT_SETTLE_END       /* the iterations that were asked for are over */
};

/* A kind of synchronisation; complete. */
struct ct_exchange;
struct ct_exchange_ops {
    const char *name;
    /* When training starts, and again before later steps: every rank gets
     * rank 0's parameters, the first time. */
    enum ct_status (*attach)(struct ct_exchange *x, struct ct_net *net,
                             const struct ct_trainer *t,
                             struct ct_attached *out);
    /* The net is about to go; nothing happens where it is not attached. */
    void (*detach)(struct ct_exchange *x, const struct ct_net *net);
    enum ct_status (*fetch)(struct ct_exchange *x, int iter);
    enum ct_status (*begin)(struct ct_exchange *x, int iter);
    /* Canonical training: takes in the gradient of micro-batch k, any but the
     * last, and clears it. */
    enum ct_status (*fold)(struct ct_exchange *x, int k);
    enum ct_status (*queued)(struct ct_exchange *x, int layer);
    enum ct_status (*layer_done)(struct ct_exchange *x, int layer);
    enum ct_status (*finish)(struct ct_exchange *x, struct ct_answer *out);
    /* With lazy: would `wait` return at once? */
    bool (*ready)(struct ct_exchange *x, int param);
    /* *sum: where the sum lies, for reading.  With shared parameters it
     * returns when all ranks have updated their parts of the parameter. */
    enum ct_status (*wait)(struct ct_exchange *x, int param,
                           const float **sum);
    /* The update of iteration iter - 1 is done, by this rate. */
    enum ct_status (*updated)(struct ct_exchange *x, int iter, float rate);
    enum ct_status (*settle)(struct ct_exchange *x, int iter,
                             enum ct_settle why);
    /* What all ranks hold, into a snapshot (keep->put: what is small or all
     * ranks' by rank 0, large things of a rank by itself), or back, by each
     * rank, when the net is attached. */
    enum ct_status (*keep)(struct ct_exchange *x, const struct ct_keep *keep);
    /* On a rank that serves and does not train, in place of all that: until
     * the others have reached iteration `end`, or stop before it. */
    enum ct_status (*serve)(struct ct_exchange *x, int end, int *iter);
};

/* The view that follows when one is over. */
struct ct_next_view {
    int  base; /* iterations that count, for every rank of it */
    bool full; /* this rank has them; else it gets all anew */
    bool lost; /* nobody has: whoever made the solver begins again, from a
                * snapshot */
};

/* How the facts of this rank are likely to be in the next view. */
struct ct_expected {
    struct ct_exchange_facts facts; /* what they say of nets and their data;
                                     * size 0: none is likely any more */
    bool                     shares; /* a host's ranks share parameters */
    uint64_t                 hint;  /* its number */
    /* This rank is prepared for that, or will not be; on any thread, also when
     * that view has come or never will. */
    void (*prepared)(void *arg, uint64_t hint);
    void *arg;
    /* On any thread, before that: memory that ranks will share, for gradients
     * of so many floats and `n_arrays` for parameters and histories; for no
     * ranks: it is given back.  NULL: it is not this rank's to make. */
    void (*reserve)(void *owner, int n_ranks, size_t n_floats, int n_arrays);
    void *owner;
};

/* What all kinds have. */
struct ct_job_ops {
    enum ct_status (*meet)(struct ct_exchange *x); /* all ranks are here */
    /* When the solver is made: arrays of NULL where ranks keep copies of their
     * own. */
    enum ct_status (*share)(struct ct_exchange *x, struct ct_net *net,
                            const struct ct_params_user *user,
                            struct ct_shared_params *out);
    /* Everyone's bytes on every rank, in the order of ranks: bytes[r] from
     * rank r.  `mine` may be its place in out already. */
    enum ct_status (*gather)(struct ct_exchange *x, const void *mine,
                             const size_t *bytes, void *out);
    /* Rank 0's bytes become those of all ranks, also of those that serve. */
    enum ct_status (*broadcast)(struct ct_exchange *x, void *data,
                                size_t bytes);
    /* Rank 0's bytes on every rank that trains. */
    enum ct_status (*spread)(struct ct_exchange *x, void *data, size_t bytes);
    /* Every rank's bytes, one rank after the other, to `take` on rank 0; all
     * ranks call it at the same place. */
    enum ct_status (*collect)(struct ct_exchange *x, const void *mine,
                              size_t bytes, ct_collect_fn take, void *arg);
    /* What happened among the ranks, in order.  *seen counts those that the
     * caller had; false: there is no other. */
    bool (*next_mark)(struct ct_exchange *x, uint64_t *seen,
                      struct ct_mark *out);
    /* With `commits`, before gradients are made: an iteration begins that may
     * have to be done again. */
    enum ct_status (*mark)(struct ct_exchange *x);
    /* With `commits`, in a new view: this rank has the parameters of `iter`
     * iterations. */
    enum ct_status (*hold)(struct ct_exchange *x, int iter);
    /* With `commits`, after finish: returns when every rank has all sums of the
     * iteration.  Nothing that outlives it may change before. */
    enum ct_status (*commit)(struct ct_exchange *x, int iter);
    /* With `apart`: iterations that count.  Since then each rank has weights
     * of its own, and all go back there where a view ends. */
    int (*counts)(struct ct_exchange *x);
    /* With `commits`: training ends after so many iterations, as it turns out.
     * Who has them needs no others to end. */
    void (*last)(struct ct_exchange *x, int iter);
    /* With `commits`, after a CT_ECOMM: waits for the next view, and enters it
     * once the solver is detached.  That changes `facts`. */
    enum ct_status (*next_view)(struct ct_exchange *x,
                                struct ct_next_view *out);
    enum ct_status (*enter_view)(struct ct_exchange *x);
    /* With `commits`, at any moment of an iteration: CT_ECOMM when the view is
     * over, so that there is no sense in going on with it. */
    enum ct_status (*check)(struct ct_exchange *x);
    /* With `commits`, before an iteration: a hint of the next view; false:
     * there is none that this did not give. */
    bool (*expects)(struct ct_exchange *x, struct ct_expected *out);
};

struct ct_exchange {
    struct ct_exchange_facts      facts;
    const struct ct_exchange_ops *ops;
    const struct ct_job_ops      *job;
    void                         *state;
};

/* The answer that riders give which have been summed over ranks. */
struct ct_answer ct_answer_of(const struct ct_exchange *x, const float *rider);

/* `each` bytes of every rank, on all ranks; and the mean of a number. */
CT_MUST_CHECK enum ct_status ct_exchange_gather(struct ct_exchange *x,
                                                const void *mine, size_t each,
                                                void *out);
CT_MUST_CHECK enum ct_status ct_exchange_mean(struct ct_exchange *x,
                                              double *value);

#endif
