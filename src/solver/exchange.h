/* exchange.h - how a solver shares its gradients with its peers.
 *
 * A solver alone has none of this.  With peers, dist/ fills the table and the
 * solver calls it at these points of an iteration, on every rank alike:
 *
 *     fetch        before an iteration's first forward pass
 *     begin        before the last backward pass; what rides along is set
 *     queued       on a GPU, while that pass is queued: behind each layer's
 *                  backward
 *     layer_done   after each layer's backward in that pass
 *     wait         before parameter i is updated: the sum over ranks of its
 *                  diff is there when this returns, where `summed` says
 *     finish       what rode along has arrived
 *     updated      after the update
 *     end          when the iterations that were asked for are over
 *
 * Who updates is a choice.  Every rank does, with the sum of gradients; or
 * each rank its part of the one copy that its host has (`house`), as soon as
 * all have sent their gradients of it; or servers do, each its part of the
 * parameters for all (`remote`), and fetch brings the outcome.
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
    /* *found: there is one of that name; it has n numbers or this fails. */
    enum ct_status (*get)(void *arg, const char *name, int64_t n, float *x,
                          bool *found);
    void *arg;
};

/* What servers ask of the solver in their process, on the comm thread. */
struct ct_remote_step {
    size_t first, n; /* floats of the arena */
    int    iter;
    float *value;    /* n of them, to be changed; NULL: the net's own */
    const float *sum; /* of gradients; scale times it is their mean */
    float  scale;
    float  share;    /* of an update, in time: see remote.c */
};
struct ct_updater {
    void *arg;
    /* From the iteration that the solver stands at; it stands still. */
    void (*begin)(void *arg);
    enum ct_status (*update)(void *arg, const struct ct_remote_step *u);
    float *history[2]; /* as the arena lies; NULL: none */
    int    n_history;
};

/* One copy of parameters and histories for all ranks of a host, and a solver
 * that lives there.  Called on its thread, or on threads that it waits for. */
enum { CT_HOUSE_MOST = 3 };
struct ct_tenant {
    int   n_arrays; /* as the arena lies: values, then histories; 0: it wants
                     * none, so nobody gets any */
    void *arg;
    /* Floats [first, first + n) of the arena, by this iteration's rule. */
    void (*update)(void *arg, size_t first, size_t n, const float *sum);
    /* Before updates end for good: the solver takes a copy and leaves. */
    void (*evict)(void *arg);
};
struct ct_house {
    struct ct_buffer *array[CT_HOUSE_MOST]; /* zeros; the tenant drops them */
    bool              fills; /* this rank's values are to be everybody's */
};

struct ct_exchange {
    int   rank, size;
    /* The solver's; set before attach, iter before each begin. */
    int      iter_size, iter;
    int      max_iter; /* where training is to end; 0: not known */
    uint64_t seed;
    float    momentum, clip; /* clip 0: none */
    float    rate;  /* of the latest update */
    struct ct_updater updater;
    struct ct_mirror *mirror; /* NULL: the net is in the CPU's memory */
    bool     queues_sums;    /* `queued` has gradients summed on the GPU, and
                                layer_done needs none of them */
    bool     keeps_history;  /* works on the updater's histories */
    size_t   bucket_bytes;   /* of gradients that travel together; 0: any */
    float    scale; /* sum times scale is the mean gradient */
    double   loss_scale; /* the same for the loss */
    bool     own_data, root_data; /* SOURCE_RANK; rank 0 reads for all */
    bool     global_batch; /* batch_size is that of all ranks together */
    const char *shares;    /* of a batch: "even", "speed" or weights; or NULL */
    /* The solver's, once its net is made: samples of every rank in a pass, or
     * NULL where all have as many.  Losses are weighted by them. */
    const int64_t *batches;
    /* Canonical training: micro-batches a rank runs in an iteration; 0: it
     * has iter_size passes.  fold() takes in the gradient of each but the
     * last, and clears it. */
    int      micro;
    enum ct_status (*fold)(struct ct_exchange *x, int k);
    /* NULL: no.  Gradients of such a parameter are held back; they have been
     * clipped and have gathered momentum before they arrive, so the solver
     * clips nothing and gives them none. */
    bool (*holds_back)(struct ct_exchange *x, int param);
    void *state;
    bool  remote; /* servers update; the solver must not */
    /* finish sets these for a rank that was left behind: the iteration that
     * the others are at (0: this one), and that its samples count for nothing
     * and are to be drawn again. */
    int   ahead;
    bool  again;
    /* When training starts: every rank gets rank 0's parameters. */
    enum ct_status (*attach)(struct ct_exchange *x, struct ct_net *net);
    /* The net is about to go; nothing happens where it is not attached. */
    void (*detach)(struct ct_exchange *x, const struct ct_net *net);
    /* Optional, on every rank alike, when the solver is made: arrays of NULL
     * where ranks keep copies of their own.  In the house, `wait` returns when
     * all ranks have updated their parts of parameter i. */
    enum ct_status (*house)(struct ct_exchange *x, struct ct_net *net,
                            const struct ct_tenant *tenant,
                            struct ct_house *out);
    enum ct_status (*meet)(struct ct_exchange *x); /* all ranks are here */
    enum ct_status (*begin)(struct ct_exchange *x);
    enum ct_status (*queued)(struct ct_exchange *x, int layer); /* or NULL */
    enum ct_status (*layer_done)(struct ct_exchange *x, int layer);
    enum ct_status (*wait)(struct ct_exchange *x, int param);
    enum ct_status (*finish)(struct ct_exchange *x);
    /* Where the sum for parameter i lies, for reading; -1: for what rides
     * along.  NULL: in place of the rank's own. */
    const float *(*summed)(struct ct_exchange *x, int param);
    bool lazy;
    /* With lazy: would `wait` return at once? */
    bool (*ready)(struct ct_exchange *x, int param);
    /* Before a test or a snapshot of iteration `iter`: parameters become
     * those of all updates before it, and statistics that ranks keep apart
     * (BatchNorm's) become one, on every rank; with `history` also the
     * history, on rank 0. */
    enum ct_status (*settle)(struct ct_exchange *x, int iter, bool history);
    /* Optional: what all ranks hold; rank 0 puts.  And back, by each rank,
     * when the net is attached. */
    enum ct_status (*save)(struct ct_exchange *x, const struct ct_keep *keep);
    enum ct_status (*restore)(struct ct_exchange *x,
                              const struct ct_keep *keep);
    /* Optional, to the next blank: NULL where there is nothing to do.  After a
     * snapshot is written. */
    enum ct_status (*resume)(struct ct_exchange *x);
    enum ct_status (*fetch)(struct ct_exchange *x, int iter);
    enum ct_status (*updated)(struct ct_exchange *x, int iter);
    enum ct_status (*end)(struct ct_exchange *x, int iter);
    /* On a rank that serves and does not train, in place of all that: until
     * the others have reached iteration `end`, or stop before it. */
    enum ct_status (*serve)(struct ct_exchange *x, int end, int *iter);

    /* Proves that all ranks hold the same parameters, or names the layer
     * where they part. */
    enum ct_status (*check)(struct ct_exchange *x, int iter);
    int guard_interval; /* iterations from one check to the next; 0: never */
    /* Everyone's bytes on every rank, in the order of ranks: bytes[r] from
     * rank r.  `mine` may be its place in out already. */
    enum ct_status (*gather)(struct ct_exchange *x, const void *mine,
                             const size_t *bytes, void *out);
    /* Every rank's bytes, one rank after the other, to `take` on rank 0; all
     * ranks call it at the same place.  NULL where there is one rank. */
    enum ct_status (*collect)(struct ct_exchange *x, const void *mine,
                              size_t bytes, ct_collect_fn take, void *arg);
    /* Ranks hold the same parameters at a test, so they deal out its batches;
     * otherwise rank 0 tests by itself. */
    bool deal_tests;
    const struct ct_peers *peers; /* for layers of the train net; NULL: no */
    struct ct_pulse *pulse; /* to say where this rank stands; NULL: no */
    /* Optional: what happened among the ranks, in order.  *seen counts those
     * that the caller had; false: there is no other. */
    bool (*next_mark)(struct ct_exchange *x, uint64_t *seen,
                      struct ct_mark *out);
};

/* `each` bytes of every rank, on all ranks; and the mean of a number. */
CT_MUST_CHECK enum ct_status ct_exchange_gather(struct ct_exchange *x,
                                                const void *mine, size_t each,
                                                void *out);
CT_MUST_CHECK enum ct_status ct_exchange_mean(struct ct_exchange *x,
                                              double *value);

#endif
