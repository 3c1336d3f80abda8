/* solver_inner.h - inside a solver; shared by the files of this room. */
#ifndef CT_SOLVER_SOLVER_INNER_H
#define CT_SOLVER_SOLVER_INNER_H

#include "cortado/solver.h"
#include "device/update.h"
#include "net/training.h"
#include "solver/exchange.h"
#include "solver/mirror.h"
#include "solver/tracing.h"

/* The numbers of one update of one parameter.  A rule changes w and its
 * histories in one pass over memory.  g is the raw gradient; gradient() in
 * apply.c scales it and adds the weight decay. */
struct rule_step {
    int64_t n;
    const float *old_w, *old[2]; /* values and histories before the update */
    float  *w, *history[2];      /* and after it; may be the same arrays */
    const float *g;
    float   rate;                /* lr times lr_mult (times LARS) */
    float   scale;               /* of g: clipping, 1 / iter_size */
    float   l2, l1;              /* weight decay times decay_mult */
    float   momentum, momentum2; /* momentum is corrected for warm-up */
    float   delta, rms_decay;
    int     t;                   /* iteration, counted from 1 */
};

/* Two copies of values and histories. */
struct solver_copies {
    const float *from[CT_SHARED_ARRAYS];
    float       *to[CT_SHARED_ARRAYS];
};

struct solver_rule {
    const char *name;
    int         n_history;
    bool        no_momentum; /* a prototxt with momentum is refused */
    bool        adapts; /* updates histories even if the rate is 0 */
    /* Values [from, to) of a step, on one thread. */
    void      (*update)(const struct rule_step *step, int64_t from, int64_t to);
};

/* The numbers of an iteration that all its updates use. */
struct solver_update {
    float rate, momentum;
    float scale;        /* of gradients, by clipping on the CPU */
    float factor;       /* of gradients, as computed on a GPU */
    bool  scaled;       /* `scale` or `factor` is known */
    int   t;            /* iteration, counted from 1; 0: not set */
};

/* Whether the latest update of a parameter is done. */
enum solver_param_state {
    SOLVER_CURRENT,   /* done */
    SOLVER_DUE,       /* not done; the gradient is computed, and its sum over
                       * ranks may not have arrived */
    SOLVER_EARLY,     /* done during the backward pass (early.c) */
    SOLVER_ELSEWHERE  /* each rank of the host updates a part; the exchange
                       * tells when all parts are done */
};

struct solver_remote;
struct solver_snapshot;

enum { SOLVER_MOST_LISTENERS = 8 };

struct solver_listener {
    const struct ct_solver_events *events; /* borrowed, with its argument */
    void *arg;
    bool  inspects; /* it inspects gradients in this iteration */
};

/* A parameter that is updated while its gradient is computed (early.c). */
struct solver_early {
    struct ct_sink    sink;   /* the first member: a sink is cast to this */
    struct ct_solver *solver; /* NULL: this parameter is not updated early */
    int               param;
};

/* The start of an iteration that may have to be repeated.  If ranks train
 * apart: the last point where they met. */
struct solver_mark {
    bool     set;         /* the members below are valid */
    bool     tested;      /* the test before this iteration is done */
    uint64_t n_passes;    /* of the train net */
    bool     back;        /* the next train net starts at n_passes */
    float   *statistics;  /* of the train net; owned */
    enum ct_solver_action asked; /* request that this rank sent with the
                                  * iteration; sent again if it is repeated */
    int      iter, current_step;
    float    last_rate;
    float   *state;       /* parameters, then histories; owned; NULL unless
                           * ranks train apart */
};

/* The test nets. */
struct solver_tests {
    struct ct_net **net; /* n of them; owned */
    int             n;
    uint64_t       *n_batches; /* per net: batches tested by all ranks; owned */
    bool            deals;     /* ranks divide the batches of a test */
    bool            count;     /* tests of rank 0 change statistics */
};

/* How ranks divide a batch (shares.c). */
struct solver_shares {
    double        *weights; /* per rank; owned; NULL: no batch is divided */
    int64_t       *batches; /* per rank: its samples; owned */
    const int64_t *dealt;   /* `batches`, or NULL if all of them are equal */
    bool           measuring; /* a net is being built to measure its speed */
};

/* Updates on a GPU (device_update.c); all NULL on the CPU. */
struct solver_gpu {
    struct ct_update     *update;    /* owned */
    struct ct_update_run *runs;      /* per parameter; owned */
    struct ct_gradients  *gradients; /* owned; NULL: no clipping and no loss
                                      * scale */
    float                 told_scale; /* loss scale that was logged last */
};

/* Which parameters wait for which update (update.c). */
struct solver_due_updates {
    struct solver_update     now;  /* the update that began last */
    struct solver_update     next; /* the update of this iteration; valid if
                                    * its t is iter + 1 */
    enum solver_param_state *state; /* per parameter; owned */
    int                      first, end; /* only these may be due */
    struct solver_early     *early; /* per parameter; owned; NULL: none */
};

/* Values for the log. */
struct solver_shown {
    double *losses;   /* the last average_loss ones; owned */
    double  smoothed; /* their mean */
    double  time;     /* of the last display, or of the start */
    int     iter;     /* at that time */
    double  start_time; /* when this run of iterations began */
    int     start_iter; /* its first iteration */
};

/* The latest snapshot, and the one that is being written (snapshot.c). */
struct solver_snapshots {
    int    iter;     /* of the latest; -1: none */
    double time;     /* when it was taken */
    double patience; /* longest wait for it, in seconds, when the next one is
                      * taken */
    struct solver_snapshot *writing; /* owned; NULL: none */
    struct solver_snapshot *failed;  /* not written, or omitted because the one
                                      * before was still being written; owned;
                                      * NULL: none */
};

/* What the other ranks were doing when this rank joined them. */
enum solver_others {
    SOLVER_OTHERS_BEGIN, /* nothing yet: all ranks start together */
    SOLVER_OTHERS_STEP,  /* ct_solver_step() */
    SOLVER_OTHERS_SOLVE, /* ct_solver_solve() */
    SOLVER_OTHERS_END,   /* nothing more: they are done */
    SOLVER_OTHERS_STOP   /* the job was asked to end, and they part */
};

/* The position of this rank in an elastic job (commit.c).
 *
 * Ranks meet between steps that they all take: a rank that is past a meeting
 * knows that every rank has finished what comes before it. */
struct solver_standing {
    struct solver_mark mark;
    bool has_come;   /* this rank has joined ranks that train, and no call has
                      * begun since */
    bool loose_ends; /* the iteration counts, but what follows it (check,
                      * snapshot, stop) is not finished */
    bool lost;       /* no rank of the next view has the parameters */
    bool half;       /* parameters and position may be partly those of other
                      * ranks: a transfer to this rank has begun */
    bool wrote;      /* this rank wrote the snapshots of the view before */
    bool between;    /* a view has ended and the next has not begun */
    bool moves;      /* this rank leaves a view to enter the next one */
    int  stage;      /* of ct_solver_solve(): index of its current stage */
    int  end;        /* iteration where the requested iterations end */
    bool was_asked;  /* the program has asked this solver for iterations */
    bool whole;      /* ct_solver_solve() is running */
    bool trained;    /* ct_solver_solve() has begun its iterations */
    bool over;       /* all requested work is done except the last meeting */
    bool stops;      /* the job was asked to end before all work was done */
    enum solver_others others;
    int  snapshot;   /* ct_solver_snapshot(): 0: not called, 1: begins after the
                      * next meeting, 2: has begun */
    bool meets;      /* the current run of iterations ends with a meeting */
    int  n_met;      /* meetings that this rank is past */
    int  n_met_before; /* n_met when ct_solver_solve() began */
    bool owes;       /* rank 0 is not past the last meeting of this rank, so
                      * this rank meets once more */
    bool owes_ends;  /* before that, this rank repeats the loose ends, too */
};

/* The connection of this solver and its exchange; empty without peers. */
struct solver_peers {
    struct ct_updater       updater;  /* functions for the exchange */
    struct ct_attached      attached; /* result of the last attach */
    struct ct_shared_params shared;   /* arrays NULL: parameters not shared */
    bool                    shares_params; /* parameters are in memory shared
                                            * in this view or the one before */
    struct ct_mirror       *mirror;   /* owned; NULL: net in CPU memory */
    struct solver_remote   *remote;   /* owned; NULL: no server here updates */
    bool                    exchanged; /* gradients were sent to peers */
    bool                    after_backward; /* gradients leave in one go, after
                                             * backward */
    enum ct_solver_action   agreed;   /* request that all ranks know */
    bool                    trace_agreed; /* the next iterations are traced */
    enum ct_solver_action   pending;  /* request of this rank that is still to
                                       * be sent */
    uint64_t                n_marks;  /* marks that listeners have seen */
};

/* Nets for a likely next view (prepare.c). */
struct solver_preparation;
struct solver_nets {
    struct ct_net *train, **test;
    uint64_t      *tested; /* per test net: batches; owned */
    int            n_test;
};
struct solver_ahead {
    struct solver_preparation *prepared; /* done or running; owned; or NULL */
    struct solver_preparation *dropped;  /* useless, but its thread still runs;
                                          * owned; or NULL */
    struct ct_expected         next;     /* hint to begin with when `dropped`
                                          * has ended */
    bool                       has_next;
    bool               taken;   /* the present nets were prepared */
    struct solver_nets retired; /* those before, until an iteration counts with
                                 * the present ones; owned */
    int                retired_at; /* the iteration then */
    struct ct_expected reserved; /* memory was reserved for this place in a
                                  * view before the present one; `reserve` NULL:
                                  * none */
    int                reserved_at; /* the iteration when that view ended */
};

/* The listeners of a solver (listen.c). */
struct solver_listeners {
    struct solver_listener list[SOLVER_MOST_LISTENERS];
    int                    n;
    bool                   inspecting; /* a listener inspects gradients in this
                                        * iteration */
    double                 iter_time;  /* when the iteration began */
};

struct ct_solver {
    Caffe__SolverParameter  *param; /* owned */
    struct ct_solver_options options; /* its `watch` is NULL: see below */
    struct ct_solver_watch   watch;   /* copy of the one in the options */
    char                   **stages; /* of options; owned, ends with NULL */
    const struct solver_rule *rule;
    struct ct_net           *net;          /* the train net; owned */
    struct ct_buffer        *history[2];   /* counted */
    float                   *histories[2]; /* their floats */
    uint64_t                 seed;
    int                      iter, current_step;
    float                    last_rate; /* of the update before; 0: none */
    double                   loss;      /* of this iteration, over all ranks */
    bool                     last_pass; /* the last of iter_size passes runs:
                                         * its gradients are sent */
    bool                     stop;
    int                      least_packed; /* iterations that make packing pay;
                                            * see packing.c */
    bool                     is_draft; /* see prepare.c */
    struct solver_tests       tests;
    struct solver_shares      shares;
    struct solver_gpu         gpu;
    struct solver_due_updates due;
    struct solver_shown       shown;
    struct solver_snapshots   snapshots;
    struct solver_standing    standing;
    struct solver_peers       peers;
    struct solver_ahead       ahead;
    struct solver_listeners   listeners;
};

/* apply.c: finds a rule by name; NULL: there is none. */
const struct solver_rule *solver_rule_find(const char *name);

/* lr_policy.c: the rate of the current iteration; updates current_step. */
CT_MUST_CHECK enum ct_status solver_rate(struct ct_solver *s, float *out);
CT_MUST_CHECK enum ct_status solver_check_policy(
    const Caffe__SolverParameter *p);

/* device_update.c: gives the loss scale, if there is one, to a net that was
 * built again. */
void solver_device_scale(struct ct_solver *s);
CT_MUST_CHECK enum ct_status solver_device_init(struct ct_solver *s);
/* Updates all parameters in one launch.  s->gpu.runs has the rates, `step` the
 * numbers that all parameters share. */
CT_MUST_CHECK enum ct_status solver_device_update(
    struct ct_solver *s, const struct rule_step *step);
void solver_device_fini(struct ct_solver *s);
/* Writes the loss scale to a snapshot, and reads it back. */
CT_MUST_CHECK enum ct_status solver_loss_scale_save(
    const struct ct_solver *s, const struct ct_keep *keep);
CT_MUST_CHECK enum ct_status solver_loss_scale_restore(
    struct ct_solver *s, const struct ct_keep *keep);
/* Logs the results of solver_device_judge() that are not yet in the log. */
CT_MUST_CHECK enum ct_status solver_device_report(struct ct_solver *s);
/* Computes on the GPU the norm of the gradients, their factor, and whether they
 * are finite. */
CT_MUST_CHECK enum ct_status solver_device_judge(struct ct_solver *s,
                                                 float mean);

/* update.c: sets s->due.next for this iteration, if it is not set. */
CT_MUST_CHECK enum ct_status solver_update_rate(struct ct_solver *s);
/* Begins the update: makes parameters due and increments s->iter. */
CT_MUST_CHECK enum ct_status solver_update_begin(struct ct_solver *s);
/* Updates the parameters that `layer` reads, and clears their diffs for the
 * pass that has begun. */
CT_MUST_CHECK enum ct_status solver_update_layer(struct ct_solver *s,
                                                 int layer);
/* Updates all parameters that are due. */
CT_MUST_CHECK enum ct_status solver_update_all(struct ct_solver *s);
/* Tells the exchange that the update of this iteration is done. */
CT_MUST_CHECK enum ct_status solver_updated(struct ct_solver *s);
/* Whether a parameter is due. */
bool solver_is_due(const struct ct_solver *s);
/* Cancels updates that are not done. */
void solver_update_drop(struct ct_solver *s);

/* apply.c: whether an update changes a parameter or its histories.  With
 * lr_mult 0 the parameter keeps its values, but some rules update its
 * histories, as Caffe does.  Statistics have no histories. */
bool solver_updates(const struct ct_solver *s, int param);
/* The numbers of an update at this rate in the solver's iteration; the numbers
 * of an update of one parameter, where `scale` multiplies the gradient. */
struct solver_update solver_update_at(const struct ct_solver *s, float rate);
struct rule_step solver_rule_step(const struct ct_solver *s, int param,
                                  const struct solver_update *u, float scale);
/* Updates a range; histories are laid out as the arena. */
void solver_apply(const struct ct_solver *s, const struct solver_update *u,
                  float *const *history, const struct ct_update_range *r);
/* The same into another copy: `from` and `to` are values and histories, laid
 * out as the arena.  All of the range is written, also what no rule changes. */
void solver_apply_to(const struct ct_solver *s, const struct solver_update *u,
                     const struct solver_copies *c,
                     const struct ct_update_range *r);
/* The option that needs norms of whole gradients, so that ranges cannot be
 * updated one by one; NULL: none. */
const char *solver_needs_norms(const struct ct_solver *s);

/* early.c: finds the parameters that are updated early.  Begin and end enclose
 * the passes of an iteration. */
CT_MUST_CHECK enum ct_status solver_early_init(struct ct_solver *s);
CT_MUST_CHECK enum ct_status solver_early_begin(struct ct_solver *s);
void solver_early_end(struct ct_solver *s);
void solver_early_fini(struct ct_solver *s);
/* packing.c: pack may change parameters to the layouts of their layers, before
 * an iteration of a run up to `end`.  unpack changes parameters and histories
 * back to Caffe's layout. */
void solver_pack_init(struct ct_solver *s);
CT_MUST_CHECK enum ct_status solver_pack(struct ct_solver *s, int end);
CT_MUST_CHECK enum ct_status solver_unpack(struct ct_solver *s);

/* shared_params.c: asks the exchange for memory that the ranks of the host
 * share (find), and moves parameters and histories there (enter); share does
 * both.  leave copies them to private memory, so that this rank can change
 * them; enter then makes those of the ranks that have them everybody's.
 * Nothing happens without shared memory. */
CT_MUST_CHECK enum ct_status solver_share_params(struct ct_solver *s);
/* Whether this solver can share its parameters. */
bool solver_fits_shared(const struct ct_solver *s);
CT_MUST_CHECK enum ct_status solver_find_shared(struct ct_solver *s);
CT_MUST_CHECK enum ct_status solver_leave_shared(struct ct_solver *s);
CT_MUST_CHECK enum ct_status solver_enter_shared(struct ct_solver *s);
/* Keeps the shared memory as private memory, without a copy, after all other
 * ranks of the host have ended. */
CT_MUST_CHECK enum ct_status solver_keep_alone(struct ct_solver *s);
/* Without an exchange: makes sure that parameters are in private memory. */
CT_MUST_CHECK enum ct_status solver_be_alone(struct ct_solver *s);
void solver_drop_shared(struct ct_solver *s);
/* If there are two copies, the one with the latest update becomes current. */
void solver_swap_shared(struct ct_solver *s);
/* Test nets use the current parameters of the train net. */
CT_MUST_CHECK enum ct_status solver_share_with_tests(struct ct_solver *s);
/* Each rank updates its part, from diffs that the caller has summed. */
CT_MUST_CHECK enum ct_status solver_update_shared(struct ct_solver *s);

/* apply.c: functions with which a server in this process updates
 * parameters. */
CT_MUST_CHECK enum ct_status solver_remote_start(struct ct_solver *s,
                                                 struct ct_updater *out);
void solver_remote_stop(struct ct_solver *s);

/* change_view.c: this rank leaves a view.  solver_leave_view() is for a view
 * whose ranks can be reached, solver_abandon_view() for one that has ended. */
CT_MUST_CHECK enum ct_status solver_leave_view(struct ct_solver *s);
CT_MUST_CHECK enum ct_status solver_abandon_view(struct ct_solver *s);
/* The solver enters the view that its exchange has entered.  `is_new`: the
 * solver was created for this view. */
CT_MUST_CHECK enum ct_status solver_enter_view(struct ct_solver *s,
                                               bool is_new);
/* A solver without an exchange joins the ranks of `x`, and receives parameters
 * and position if they have some.  After a failure it has no exchange again,
 * and its parameters may be partly theirs. */
CT_MUST_CHECK enum ct_status solver_join(struct ct_solver *s,
                                         struct ct_exchange *x);
/* Resets everything that concerns other ranks; keeps what was received from
 * them. */
void solver_forget_others(struct ct_solver *s);
/* All ranks meet after their last step. */
CT_MUST_CHECK enum ct_status solver_meet_last(struct ct_solver *s);
/* Tells the exchange that training ends here, so that this rank can finish when
 * the others are gone. */
void solver_tell_last(struct ct_solver *s);
/* step.c: elastic jobs: all ranks meet.  The view may end when some ranks are
 * past the meeting and others are not.  In the next view the meeting is over if
 * it is over for rank 0.  Otherwise all ranks do what rank 0 still has to do,
 * and meet again (solver_meet_again). */
CT_MUST_CHECK enum ct_status solver_meet(struct ct_solver *s);
CT_MUST_CHECK enum ct_status solver_meet_again(struct ct_solver *s);
/* Meets once, without finishing iterations before. */
CT_MUST_CHECK enum ct_status solver_try_to_meet(struct ct_solver *s);
/* snapshot.c: ct_solver_snapshot() in an elastic job. */
CT_MUST_CHECK enum ct_status solver_snapshot_among(struct ct_solver *s);
/* step.c: runs iterations up to s->standing.end. */
CT_MUST_CHECK enum ct_status solver_go_on(struct ct_solver *s);
/* ct_solver_step(), also for use inside ct_solver_solve(). */
CT_MUST_CHECK enum ct_status solver_step(struct ct_solver *s, int n);
/* Whether this rank has joined ranks that are done.  Then it has nothing to do,
 * and *st is the result. */
bool solver_comes_late(struct ct_solver *s, enum ct_status *st);
/* Elastic jobs: whether some ranks of the view have no parameters yet, so that
 * the solver must first enter it. */
bool solver_comes(const struct ct_solver *s);

/* Which snapshots count: zeroes mean all.  Those of an elastic job have its
 * number: a clock may be set back. */
struct snapshot_origin {
    int64_t job;
    int64_t since; /* seconds since 1970 that others were written at, or
                    * later */
};

/* resume.c: ct_solver_newest_snapshot() among these. */
CT_MUST_CHECK enum ct_status solver_newest_of(const struct ct_solver *s,
                                              struct snapshot_origin from,
                                              char **path);
/* Finds and restores it.  Who was rank 0 before this process may write and
 * remove snapshots meanwhile: then the newest is looked for again.
 * CT_ENOTFOUND: there is none. */
CT_MUST_CHECK enum ct_status solver_resume_newest(struct ct_solver *s,
                                                  struct snapshot_origin from);
/* That of its elastic job, which began then; 0: any one. */
struct snapshot_origin solver_own_origin(const struct ct_exchange *x,
                                         int64_t began);

/* commit.c: for elastic jobs; nothing happens in others.  solver_mark() keeps
 * the start of an iteration, solver_commit() waits until it counts. */
bool solver_commits(const struct ct_solver *s);
CT_MUST_CHECK enum ct_status solver_mark(struct ct_solver *s);
CT_MUST_CHECK enum ct_status solver_commit(struct ct_solver *s);
void solver_mark_fini(struct ct_solver *s);
/* Returns `st`, unless it means that the view has ended.  In that case this
 * rank enters the next view, with or without the iteration that was running;
 * CT_OK: the caller repeats its work. */
CT_MUST_CHECK enum ct_status solver_or_follow(struct ct_solver *s,
                                              enum ct_status st);
/* step.c: completes an iteration that counts: display, update, listeners. */
CT_MUST_CHECK enum ct_status solver_complete(struct ct_solver *s);
/* step.c: attaches the solver and sets the callbacks of its net. */
CT_MUST_CHECK enum ct_status solver_engage(struct ct_solver *s);

/* nets.c: builds the train net and the test nets. */
CT_MUST_CHECK enum ct_status solver_create_nets(struct ct_solver *s);
/* The batch of the train net as its definition has it; 0: unknown.  Of the
 * options phase, level and stages count. */
CT_MUST_CHECK enum ct_status solver_batch_of(
    const Caffe__SolverParameter *p, const struct ct_solver_options *options,
    int64_t *out);
/* Zeros for the train net; those that are there stay. */
CT_MUST_CHECK enum ct_status solver_create_histories(struct ct_solver *s);

/* prepare.c: before an iteration: begins to build nets for the likely next
 * view, on a thread of their own. */
void solver_prepare(struct ct_solver *s);
/* Builds them on this thread; solver_prepare_first() does so for a solver that
 * does not exist yet. */
void solver_prepare_now(struct ct_solver *s, const struct ct_expected *e);
void solver_prepare_first(const Caffe__SolverParameter *param,
                          const struct ct_solver_options *options,
                          const struct ct_expected *e,
                          struct solver_preparation **out);
/* ct_solver_create() with prepared nets; takes ownership of `p`, which may be
 * NULL. */
CT_MUST_CHECK enum ct_status solver_create_prepared(
    const Caffe__SolverParameter *param,
    const struct ct_solver_options *options, struct solver_preparation *p,
    struct ct_solver **out);
/* The solver takes the prepared nets; false: there are none, or they do not fit
 * its view. */
bool solver_take_prepared(struct ct_solver *s);
/* Frees everything that is prepared, and retired nets. */
void solver_prepare_fini(struct ct_solver *s);
/* change_view.c: frees retired nets. */
void solver_drop_retired(struct ct_solver *s);
void solver_preparation_destroy(struct solver_preparation *p); /* takes NULL */

/* step.c: describes the solver to its exchange and gives it the net; nothing
 * happens without an exchange. */
CT_MUST_CHECK enum ct_status solver_attach(struct ct_solver *s);

/* batch_parts.c: if ranks divide a batch, sets the batch sizes of `net` to this
 * rank's part. */
CT_MUST_CHECK enum ct_status solver_divide_batch(struct ct_solver *s,
                                                 Caffe__NetParameter *net,
                                                 struct ct_net_training *t);
/* Logs the samples of an iteration over all ranks, and the epochs of a
 * training. */
void solver_say_samples(const struct ct_solver *s);
/* Warns if a loss is a sum over samples, because ranks average their losses. */
void solver_warn_of_sums(const struct ct_solver *s);

/* Sets this rank's file names in the sources of `net`, or checks that rank 0
 * can read for all. */
CT_MUST_CHECK enum ct_status solver_place_data(const struct ct_exchange *x,
                                               Caffe__NetParameter *net);

/* shares.c: whether ranks have weights; whether these are measured. */
bool solver_has_shares(const struct ct_solver *s);
bool solver_measures_shares(const struct ct_solver *s);
/* Sets s->shares.batches: `whole` samples, divided by the weights. */
CT_MUST_CHECK enum ct_status solver_deal_shares(struct ct_solver *s,
                                                int64_t whole);
/* Least duration of a measurement; tests set it. */
extern double solver_share_seconds;
/* Sets the weights: the samples per second of every rank's `net`, while all
 * ranks work. */
CT_MUST_CHECK enum ct_status solver_time_ranks(struct ct_solver *s,
                                               struct ct_net *net);
void solver_say_shares(const struct ct_solver *s);
/* b_r P / B: the factor of this rank's losses. */
double solver_weight(const struct ct_solver *s);

/* batch_parts.c: samples of one iteration, on this rank and on all; 0:
 * unknown. */
void solver_count_samples(const struct ct_solver *s, int64_t *mine,
                          int64_t *all);

/* listen.c: each function tells the listeners of one kind of event.
 * `inspect`: gradients of the iteration can be read. */
void solver_tell_begin(struct ct_solver *s);
void solver_tell_iteration(struct ct_solver *s, double loss, bool displayed);
CT_MUST_CHECK enum ct_status solver_tell_inspect(struct ct_solver *s);
/* `mean`: one value per output if one_each is set, else one per value of the
 * outputs. */
CT_MUST_CHECK enum ct_status solver_tell_test(struct ct_solver *s, int net,
                                              const double *mean,
                                              bool one_each, double seconds);
void solver_tell_snapshot(struct ct_solver *s, int iter, const char *model,
                          const char *state);
void solver_tell_view(struct ct_solver *s, bool begins);
void solver_tell_stop(struct ct_solver *s, enum ct_status why);

/* step.c: adds a loss to the mean for the log. */
void solver_smooth(struct ct_solver *s, double loss);
/* Fails or warns, as on_nan says, if `loss` is not finite. */
CT_MUST_CHECK enum ct_status solver_check_loss(struct ct_solver *s,
                                               double loss);
static inline bool solver_due(int iter, int interval)
{
    return interval > 0 && iter % interval == 0;
}

/* A seed from 64 random bits.  A seed has 53 bits, because many JSON readers
 * keep numbers as doubles. */
static inline uint64_t solver_seed_of(uint64_t bits)
{
    return bits >> 11;
}

/* step.c: whether peers work on a mirror of the net's arenas. */
bool solver_wants_mirror(const struct ct_solver *s);

/* step.c: where the solver reports its progress; NULL: nowhere. */
struct ct_pulse *solver_pulse(const struct ct_solver *s);
/* change_view.c: nets stop using the pulse of the view, which is freed before
 * they are. */
void solver_leave_pulse(struct ct_solver *s);

/* tracing.c: call them before each iteration and after the last one. */
CT_MUST_CHECK enum ct_status solver_trace_iteration(struct ct_solver *s);
CT_MUST_CHECK enum ct_status solver_trace_over(struct ct_solver *s);
/* The view has ended during a trace.  The iterations of --trace that are left
 * are traced again; a trace that was requested later is lost. */
void solver_trace_drop(struct ct_solver *s);
/* Whether this rank was asked to trace; clears the request. */
bool solver_trace_wanted(const struct ct_solver *s);

/* test.c: sets test net i to its position after n_batches of all ranks. */
CT_MUST_CHECK enum ct_status solver_test_seek(struct ct_solver *s, int i,
                                              uint64_t n_batches);
/* The request of this rank: from the action function, or a snapshot that is
 * due. */
enum ct_solver_action solver_requested(struct ct_solver *s);
/* `note` ends each line. */
void solver_print_outputs(const struct ct_net *net, const char *which,
                          const double *mean, const char *note);

/* snapshot.c: checks that snapshots can be written under snapshot_prefix. */
CT_MUST_CHECK enum ct_status solver_check_writable(const struct ct_solver *s);
/* solver_snapshot_aside() writes a snapshot while training continues; a failure
 * to write it does not end training.  solver_snapshot_last() writes the last
 * one and retries for snapshot_retry seconds.  All ranks call them. */
CT_MUST_CHECK enum ct_status solver_snapshot_aside(struct ct_solver *s);
CT_MUST_CHECK enum ct_status solver_snapshot_last(struct ct_solver *s);
/* Whether snapshot_seconds have passed since the latest one; true on rank 0
 * only. */
bool solver_snapshot_due(struct ct_solver *s);
/* Waits until the snapshot under way is written, at most a minute. */
void solver_snapshot_wait(struct ct_solver *s);
/* Waits until it is written, however long that takes: its thread reads names of
 * the net. */
void solver_snapshot_finish(struct ct_solver *s);
/* After a restore: forgets the latest snapshot and one that failed. */
void solver_snapshot_forget(struct ct_solver *s);
/* Waits without a limit; listeners are not told. */
void solver_snapshot_fini(struct ct_solver *s);

#endif
