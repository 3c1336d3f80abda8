/* solver_inner.h - inside a solver; shared by the files of this room. */
#ifndef CT_SOLVER_SOLVER_INNER_H
#define CT_SOLVER_SOLVER_INNER_H

#include "cortado/solver.h"
#include "device/update.h"
#include "net/training.h"
#include "solver/exchange.h"
#include "solver/mirror.h"
#include "solver/tracing.h"

/* Everything one update of one parameter needs.  Rules change w and their
 * histories in one pass over memory; g is the raw gradient, which
 * rule_gradient() turns into what the rule works on. */
struct rule_step {
    int64_t n;
    float  *w;
    const float *g;
    float  *history[2];
    float   rate;                /* lr times lr_mult (times LARS) */
    float   scale;               /* of g: clipping, 1 / iter_size */
    float   l2, l1;              /* weight decay times decay_mult */
    float   momentum, momentum2; /* momentum already corrected for warm-up */
    float   delta, rms_decay;
    int     t;                   /* iteration, counted from 1 */
};

struct solver_rule {
    const char *name;
    int         n_history;
    bool        no_momentum;     /* refuses one in the prototxt */
    bool        adapts; /* histories are of gradients, whatever the rate */
    void      (*update)(const struct rule_step *s);
};

/* What an update takes from its iteration. */
struct solver_update {
    float rate, momentum;
    float scale;        /* by clipping, on the CPU */
    float factor;       /* of gradients, as a GPU found it */
    bool  scaled;       /* `factor` is known */
    int   t;            /* iteration, counted from 1; 0: it is unknown */
};

/* How a parameter stands to the latest update. */
enum solver_param_state {
    SOLVER_CURRENT,   /* it is done */
    SOLVER_DUE,       /* the gradient is made, and may be under way to peers */
    SOLVER_EARLY,     /* it was done while the gradient was made */
    SOLVER_ELSEWHERE  /* peers do it too, and say when it is done */
};

struct solver_remote;
struct solver_snapshot;

enum { SOLVER_MOST_LISTENERS = 8 };

struct solver_listener {
    const struct ct_solver_events *events; /* borrowed, with its argument */
    void *arg;
    bool  inspects; /* this iteration */
};

/* A parameter that is updated while its gradient is made; see early.c. */
struct solver_early {
    struct ct_sink    sink;   /* first */
    struct ct_solver *solver; /* NULL: not this one */
    int               param;
};

/* Where an iteration began that may have to be done again. */
struct solver_mark {
    bool     set;
    bool     tested;      /* the test before that iteration is done */
    uint64_t n_passes;
    bool     back;        /* the net has yet to go back there */
    float   *statistics;  /* of the train net; owned */
    enum ct_solver_action asked; /* for which it was to tell peers */
    /* Where ranks train apart, of all iterations since they met: */
    int      iter, current_step;
    float    last_rate;
    float   *state;       /* parameters, then histories; owned, or NULL */
};

/* Test nets, and who runs them. */
struct solver_tests {
    struct ct_net **net; /* n of them; owned */
    int             n;
    uint64_t       *n_batches; /* by net: tested so far, over all ranks */
    bool            deals;     /* ranks deal out test batches */
    bool            count;     /* rank 0's tests change statistics */
};

/* How ranks divide a batch (shares.c). */
struct solver_shares {
    double        *weights; /* of ranks; owned; NULL: none divides */
    int64_t       *batches; /* samples of each rank by them; owned */
    const int64_t *dealt;   /* `batches`; NULL: all ranks have as many */
    bool           measuring; /* the net that is being built is timed */
};

/* Updates on a GPU (device_update.c); all NULL on the CPU. */
struct solver_gpu {
    struct ct_update     *update;
    struct ct_update_run *runs;      /* by parameter; owned */
    struct ct_gradients  *gradients; /* NULL: it neither clips nor scales */
    float                 told_scale; /* the loss scale in the log */
};

/* Which parameters wait for which update (update.c). */
struct solver_due_updates {
    struct solver_update     now;  /* the latest that has begun */
    struct solver_update     next; /* of this iteration; see t */
    enum solver_param_state *state; /* by parameter; owned */
    int                      first, end; /* all others are current */
    struct solver_early     *early; /* by parameter; owned; NULL: none */
};

/* What the log shows. */
struct solver_shown {
    double *losses;   /* window of average_loss; owned */
    double  smoothed; /* their mean */
    double  time;     /* when rates are counted from */
    int     iter;
    double  start_time; /* when training began */
    int     start_iter;
};

/* The latest snapshot, and the one that is being written (snapshot.c). */
struct solver_snapshots {
    int    iter;     /* of the latest; -1: none */
    double time;     /* when it was taken */
    double patience; /* seconds that the next one waits for it */
    struct solver_snapshot *writing; /* owned; NULL: none is */
    struct solver_snapshot *failed;  /* or left out; owned; NULL: none */
};

/* What those do to whom this rank has come. */
enum solver_others {
    SOLVER_OTHERS_BEGIN, /* as it does */
    SOLVER_OTHERS_STEP,
    SOLVER_OTHERS_SOLVE,
    SOLVER_OTHERS_END, /* nothing: they are done */
    SOLVER_OTHERS_STOP /* they part: the job was asked to end */
};

/* Where this rank stands among ranks that come and go (commit.c). */
struct solver_standing {
    struct solver_mark mark;
    bool has_come;   /* to ranks that train, just now */
    bool loose_ends; /* the iteration counts, but not all that follows it is
                      * done */
    bool lost;       /* a view came in which nobody has the parameters */
    bool half;       /* this rank has a part of what others had */
    bool wrote;      /* this rank wrote the snapshots of the view before */
    bool between;    /* a view is over, and the next has not begun */
    bool moves;      /* then, it is about to go on in another one */
    int  stage;      /* of a whole training (solve.c) */
    int  end;        /* the iteration where what was asked for ends */
    bool was_asked;  /* this solver was asked for iterations */
    bool whole;      /* by ct_solver_solve() */
    bool trained;    /* ct_solver_solve() has begun with its iterations */
    bool over;       /* all that was asked for is done, but to part */
    bool stops;      /* the job was asked to end before that */
    enum solver_others others;
    int  snapshot;   /* that was asked for: 1: it is to begin when all have met,
                      * 2: it has; 0: none is */
    /* Meetings part what ranks do: all that was before one is done by all who
     * are behind it (solver_meet). */
    bool meets;      /* when it has done what it does now */
    int  n_met;      /* meetings that are over for this rank */
    int  n_met_before; /* a whole training */
    bool owes;       /* rank 0 is still before a meeting that is over here */
    bool owes_ends;  /* it also still has the loose ends before it */
};

/* What this solver and its exchange have of each other; empty alone. */
struct solver_peers {
    struct ct_updater       updater;  /* what the exchange may call */
    struct ct_attached      attached; /* what attach came to */
    struct ct_shared_params shared;   /* arrays of NULL: none */
    bool                    shares_params; /* parameters lie there, or where
                                            * the view before had them */
    struct ct_mirror       *mirror;   /* owned; NULL: a CPU's net */
    struct solver_remote   *remote;   /* owned; NULL: nobody asked */
    bool                    exchanged; /* gradients go to peers */
    bool                    after_backward; /* they leave in one go */
    enum ct_solver_action   agreed;   /* what ranks asked for together */
    bool                    trace_agreed; /* the next ones are recorded */
    enum ct_solver_action   pending;  /* asked for here, not yet told */
    uint64_t                n_marks;  /* of the exchange, told so far */
};

/* Nets for a view that is likely to come (prepare.c). */
struct solver_preparation;
struct solver_ahead {
    struct solver_preparation *prepared; /* or under way; owned; NULL: none */
    struct solver_preparation *dropped;  /* that is still under way; owned */
    struct ct_expected         next;     /* to begin when that is over */
    bool                       has_next;
};

/* Who listens (listen.c). */
struct solver_listeners {
    struct solver_listener list[SOLVER_MOST_LISTENERS];
    int                    n;
    bool                   inspecting; /* some listener, this iteration */
    double                 iter_time;  /* when the iteration began */
};

struct ct_solver {
    Caffe__SolverParameter  *param; /* owned */
    struct ct_solver_options options; /* without `watch`: */
    struct ct_solver_watch   watch;   /* a copy */
    char                   **stages; /* of options; owned, ends with NULL */
    const struct solver_rule *rule;
    struct ct_net           *net;          /* trained; owned */
    struct ct_buffer        *history[2];
    float                   *histories[2]; /* their floats */
    /* The iteration under way. */
    uint64_t                 seed;
    int                      iter, current_step;
    float                    last_rate; /* of the update before; 0: none */
    double                   loss;      /* of all ranks */
    bool                     last_pass; /* of iter_size: gradients leave */
    bool                     stop;
    int                      least_packed; /* iterations; see packing.c */
    bool                     is_draft; /* it has nets and nothing else; see
                                        * prepare.c */
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

/* apply.c: the rule of that name; NULL: there is none. */
const struct solver_rule *solver_rule_find(const char *name);

/* lr_policy.c: the rate of the current iteration; moves current_step on. */
CT_MUST_CHECK enum ct_status solver_rate(struct ct_solver *s, float *out);
CT_MUST_CHECK enum ct_status solver_check_policy(
    const Caffe__SolverParameter *p);

/* device_update.c, which updates all parameters in one launch: a net that was
 * built again gets the scale of losses, where there is one. */
void solver_device_scale(struct ct_solver *s);
CT_MUST_CHECK enum ct_status solver_device_init(struct ct_solver *s);
/* With the rates in s->gpu.runs; `step` has what all share. */
CT_MUST_CHECK enum ct_status solver_device_update(
    struct ct_solver *s, const struct rule_step *step);
void solver_device_fini(struct ct_solver *s);
/* The loss scale into snapshots and out of them. */
CT_MUST_CHECK enum ct_status solver_loss_scale_save(
    const struct ct_solver *s, const struct ct_keep *keep);
CT_MUST_CHECK enum ct_status solver_loss_scale_restore(
    struct ct_solver *s, const struct ct_keep *keep);
/* Logs what GPUs found and nobody has heard of. */
CT_MUST_CHECK enum ct_status solver_device_report(struct ct_solver *s);
/* Looks at the gradients: norm, factor, finite or not. */
CT_MUST_CHECK enum ct_status solver_device_judge(struct ct_solver *s,
                                                 float mean);

/* update.c: the rate and the like of this iteration are known, in
 * s->due.next. */
CT_MUST_CHECK enum ct_status solver_update_rate(struct ct_solver *s);
/* The update of this iteration begins; it counts from here on. */
CT_MUST_CHECK enum ct_status solver_update_begin(struct ct_solver *s);
/* What `layer` reads is updated, and its diffs are cleared for the pass that
 * has begun. */
CT_MUST_CHECK enum ct_status solver_update_layer(struct ct_solver *s,
                                                 int layer);
/* Everything is updated. */
CT_MUST_CHECK enum ct_status solver_update_all(struct ct_solver *s);
/* The exchange hears that the update of this iteration is done. */
CT_MUST_CHECK enum ct_status solver_updated(struct ct_solver *s);
/* Is the update of some parameter still to come? */
bool solver_is_due(const struct ct_solver *s);
/* Updates that are still to come will not be done. */
void solver_update_drop(struct ct_solver *s);

/* apply.c: whether an update changes anything of a parameter.  One with lr_mult
 * 0 stays as it is, but rules that adapt keep its histories, as Caffe's do;
 * statistics have none: ranks may each have their own. */
bool solver_updates(const struct ct_solver *s, int param);
/* What an update at this rate takes from the solver's iteration; and what is
 * the same in every update of a parameter: decay, momentum and the like;
 * scale is that of the gradient. */
struct solver_update solver_update_at(const struct ct_solver *s, float rate);
struct rule_step solver_rule_step(const struct ct_solver *s, int param,
                                  const struct solver_update *u, float scale);
/* The update of a range, with histories that lie as the arena does. */
void solver_apply(const struct ct_solver *s, const struct solver_update *u,
                  float *const *history, const struct ct_update_range *r);
/* What takes a norm over whole gradients and so cannot be done range by range;
 * NULL: nothing. */
const char *solver_needs_norms(const struct ct_solver *s);

/* early.c: finds the parameters; before and after a step's backward pass. */
CT_MUST_CHECK enum ct_status solver_early_init(struct ct_solver *s);
CT_MUST_CHECK enum ct_status solver_early_begin(struct ct_solver *s);
void solver_early_end(struct ct_solver *s);
void solver_early_fini(struct ct_solver *s);
/* packing.c: before an iteration of a run up to `end`: parameters may lie as
 * the layers like them.  In Caffe's order again, with their histories. */
void solver_pack_init(struct ct_solver *s);
CT_MUST_CHECK enum ct_status solver_pack(struct ct_solver *s, int end);
CT_MUST_CHECK enum ct_status solver_unpack(struct ct_solver *s);

/* shared_params.c: asks for one copy of parameters for the host's ranks, and
 * moves there.  Out of it with a copy, to change parameters, and back in, where
 * the host's first rank's become everybody's; nothing happens where there is
 * none. */
CT_MUST_CHECK enum ct_status solver_share_params(struct ct_solver *s);
/* Can its parameters lie there? */
bool solver_fits_shared(const struct ct_solver *s);
/* The first half of that: asks, and moves nothing. */
CT_MUST_CHECK enum ct_status solver_find_shared(struct ct_solver *s);
CT_MUST_CHECK enum ct_status solver_leave_shared(struct ct_solver *s);
CT_MUST_CHECK enum ct_status solver_enter_shared(struct ct_solver *s);
/* Who has left its peers has its own, or there is no memory for them; nothing
 * happens among peers. */
CT_MUST_CHECK enum ct_status solver_be_alone(struct ct_solver *s);
void solver_drop_shared(struct ct_solver *s);
/* The update under way counts: where there are two copies, the next one is
 * current. */
void solver_swap_shared(struct ct_solver *s);
/* Test nets read what the train net has now. */
CT_MUST_CHECK enum ct_status solver_share_with_tests(struct ct_solver *s);
/* With diffs that the caller has summed: each rank its part. */
CT_MUST_CHECK enum ct_status solver_update_shared(struct ct_solver *s);

/* apply.c: lets servers in this process update for all. */
CT_MUST_CHECK enum ct_status solver_remote_start(struct ct_solver *s,
                                                 struct ct_updater *out);
void solver_remote_stop(struct ct_solver *s);

/* change_view.c: this rank leaves the ranks that it trained with, who can be
 * reached; or cannot be reached any more. */
CT_MUST_CHECK enum ct_status solver_leave_view(struct ct_solver *s);
CT_MUST_CHECK enum ct_status solver_abandon_view(struct ct_solver *s);
/* It goes on among others, once the exchange has.  `is_new`: it was not among
 * the old ones, and its solver has just been made. */
CT_MUST_CHECK enum ct_status solver_enter_view(struct ct_solver *s,
                                               bool is_new);
/* A solver that was alone goes on among these: who is new to them gets all
 * that they have.  Where that fails it is alone again, and what it has may be
 * half of theirs. */
CT_MUST_CHECK enum ct_status solver_join(struct ct_solver *s,
                                         struct ct_exchange *x);
/* All that it had to do with others; not what it got from them. */
void solver_forget_others(struct ct_solver *s);
/* All ranks come here, after their last step. */
CT_MUST_CHECK enum ct_status solver_meet_last(struct ct_solver *s);
/* Training ends here: one rank may see the others gone before it is through. */
void solver_tell_last(struct ct_solver *s);
/* step.c: all ranks are here, also where views change: then some may be through
 * and others not.  In the next view it is over for all if it is for rank 0;
 * else all meet again (solver_meet_again).  Before that they do what rank 0 is
 * still at. */
CT_MUST_CHECK enum ct_status solver_meet(struct ct_solver *s);
CT_MUST_CHECK enum ct_status solver_meet_again(struct ct_solver *s);
/* One try of it, without what may be left to do. */
CT_MUST_CHECK enum ct_status solver_try_to_meet(struct ct_solver *s);
/* snapshot.c: ct_solver_snapshot() among ranks that come and go. */
CT_MUST_CHECK enum ct_status solver_snapshot_among(struct ct_solver *s);
/* step.c: one iteration after the other, up to s->standing.end. */
CT_MUST_CHECK enum ct_status solver_go_on(struct ct_solver *s);
/* As ct_solver_step(), as a part of more. */
CT_MUST_CHECK enum ct_status solver_step(struct ct_solver *s, int n);
/* It has come to ranks that are done: there is nothing left to do, and *st says
 * so. */
bool solver_comes_late(struct ct_solver *s, enum ct_status *st);
/* Has this solver been made among ranks that come and go, and has yet to enter
 * their view? */
bool solver_comes(const struct ct_solver *s);

/* resume.c: as ct_solver_newest_snapshot(), of those that were written no
 * earlier than this (seconds since 1970). */
CT_MUST_CHECK enum ct_status solver_newest_since(const struct ct_solver *s,
                                                 int64_t since, char **path);
/* Finds and restores it.  Who was rank 0 before this process may write and
 * remove snapshots meanwhile: then the newest is looked for again.
 * CT_ENOTFOUND: there is none. */
CT_MUST_CHECK enum ct_status solver_resume_newest(struct ct_solver *s,
                                                  int64_t since);

/* commit.c: where ranks come and go, and nothing happens elsewhere: an
 * iteration begins; it counts; a view ended and this rank goes on in the next,
 * with that iteration or before it. */
bool solver_commits(const struct ct_solver *s);
CT_MUST_CHECK enum ct_status solver_mark(struct ct_solver *s);
CT_MUST_CHECK enum ct_status solver_commit(struct ct_solver *s);
void solver_mark_fini(struct ct_solver *s);
/* `st`; where it says that a view has ended, what comes of following, and the
 * caller does anew what it did. */
CT_MUST_CHECK enum ct_status solver_or_follow(struct ct_solver *s,
                                              enum ct_status st);
/* step.c: an iteration that counts is brought to its end. */
CT_MUST_CHECK enum ct_status solver_complete(struct ct_solver *s);
/* step.c: tells the exchange of the solver, and the net of both. */
CT_MUST_CHECK enum ct_status solver_engage(struct ct_solver *s);

/* nets.c: builds the train net and the test nets. */
CT_MUST_CHECK enum ct_status solver_create_nets(struct ct_solver *s);

/* prepare.c: before an iteration: begins to build nets for the view that is
 * likely to come, on a thread of their own. */
void solver_prepare(struct ct_solver *s);
/* The same on this thread; for a solver that is yet to be made. */
void solver_prepare_now(struct ct_solver *s, const struct ct_expected *e);
void solver_prepare_first(const Caffe__SolverParameter *param,
                          const struct ct_solver_options *options,
                          const struct ct_expected *e,
                          struct solver_preparation **out);
/* As ct_solver_create(); takes `p` over, which may be NULL. */
CT_MUST_CHECK enum ct_status solver_create_prepared(
    const Caffe__SolverParameter *param,
    const struct ct_solver_options *options, struct solver_preparation *p,
    struct ct_solver **out);
/* The nets that were prepared become the solver's; false: they do not fit the
 * view that has come, or there are none. */
bool solver_take_prepared(struct ct_solver *s);
/* There is no next view for what is prepared; takes NULL. */
void solver_prepare_fini(struct ct_solver *s);
void solver_preparation_destroy(struct solver_preparation *p);

/* step.c: tells the exchange of the solver and gives it the net; nothing
 * happens alone, or when that is done. */
CT_MUST_CHECK enum ct_status solver_attach(struct ct_solver *s);

/* batch_parts.c: this rank's part of the batch, where ranks divide one. */
CT_MUST_CHECK enum ct_status solver_divide_batch(struct ct_solver *s,
                                                 Caffe__NetParameter *net,
                                                 struct ct_net_training *t);
/* Logs what ranks take together, and how many epochs that makes. */
void solver_say_samples(const struct ct_solver *s);
/* Warns of losses that are sums, which ranks take the mean of. */
void solver_warn_of_sums(const struct ct_solver *s);

/* Tells a net where its data comes from. */
CT_MUST_CHECK enum ct_status solver_place_data(const struct ct_exchange *x,
                                               Caffe__NetParameter *net);

/* shares.c: whether ranks have weights; whether these are measured. */
bool solver_has_shares(const struct ct_solver *s);
bool solver_measures_shares(const struct ct_solver *s);
/* s->shares.batches, by the weights so far, and the exchange's. */
CT_MUST_CHECK enum ct_status solver_deal_shares(struct ct_solver *s,
                                                int64_t whole);
/* How long that is measured, at least; for tests. */
extern double solver_share_seconds;
/* The weights: samples a second of every rank's `net`, all at work. */
CT_MUST_CHECK enum ct_status solver_time_ranks(struct ct_solver *s,
                                               struct ct_net *net);
void solver_say_shares(const struct ct_solver *s);
/* b_r P / B: what this rank's losses are multiplied with. */
double solver_weight(const struct ct_solver *s);

/* batch_parts.c: samples of one iteration, on this rank and on all; 0: they
 * are not known. */
void solver_count_samples(const struct ct_solver *s, int64_t *mine,
                          int64_t *all);

/* listen.c: what happens, to those who listen.  An iteration begins; it is
 * over; gradients may be looked at; and the rest. */
void solver_tell_begin(struct ct_solver *s);
void solver_tell_iteration(struct ct_solver *s, double loss, bool displayed);
CT_MUST_CHECK enum ct_status solver_tell_inspect(struct ct_solver *s);
/* `mean` has a value for each that the outputs hold, or one_each. */
CT_MUST_CHECK enum ct_status solver_tell_test(struct ct_solver *s, int net,
                                              const double *mean,
                                              bool one_each, double seconds);
void solver_tell_snapshot(struct ct_solver *s, int iter, const char *model,
                          const char *state);
void solver_tell_view(struct ct_solver *s, bool begins);
void solver_tell_stop(struct ct_solver *s, enum ct_status why);

/* step.c: a loss joins the mean that the log shows; and must be finite. */
void solver_smooth(struct ct_solver *s, double loss);
CT_MUST_CHECK enum ct_status solver_check_loss(struct ct_solver *s,
                                               double loss);
static inline bool solver_due(int iter, int interval)
{
    return interval > 0 && iter % interval == 0;
}

/* A seed out of 64 random bits.  It has 53, because many readers of JSON hold
 * numbers as doubles. */
static inline uint64_t solver_seed_of(uint64_t bits)
{
    return bits >> 11;
}

/* step.c: peers see copies of what the net has. */
bool solver_wants_mirror(const struct ct_solver *s);

/* step.c: where to say what the solver is at; NULL: nowhere. */
struct ct_pulse *solver_pulse(const struct ct_solver *s);
/* change_view.c: nets tell that of the view nothing more: it goes before they
 * do. */
void solver_leave_pulse(struct ct_solver *s);

/* tracing.c: before an iteration; after the last one; whether this rank has
 * been asked to record, which it forgets. */
CT_MUST_CHECK enum ct_status solver_trace_iteration(struct ct_solver *s);
CT_MUST_CHECK enum ct_status solver_trace_over(struct ct_solver *s);
/* Ranks change in the middle of it: what --trace asked for begins again, as far
 * as it is not over; what was asked for later is lost. */
void solver_trace_drop(struct ct_solver *s);
bool solver_trace_wanted(const struct ct_solver *s);

/* test.c: a request that comes between two batches; how a test net stands
 * after n batches of all ranks. */
CT_MUST_CHECK enum ct_status solver_test_seek(struct ct_solver *s, int i,
                                              uint64_t n_batches);
enum ct_solver_action solver_requested(struct ct_solver *s);
/* `note` ends each line. */
void solver_print_outputs(const struct ct_net *net, const char *which,
                          const double *mean, const char *note);

/* snapshot.c: probe that snapshots can be written where they will be. */
CT_MUST_CHECK enum ct_status solver_check_writable(const struct ct_solver *s);
/* A snapshot between iterations, written while training goes on; where that
 * fails, training goes on as well.  Then the last one, which is tried again for
 * a while.  All ranks call them alike. */
CT_MUST_CHECK enum ct_status solver_snapshot_aside(struct ct_solver *s);
CT_MUST_CHECK enum ct_status solver_snapshot_last(struct ct_solver *s);
/* Whether snapshot_seconds have passed; on rank 0, which speaks for all. */
bool solver_snapshot_due(struct ct_solver *s);
/* Waits for one that is being written, for a minute. */
void solver_snapshot_wait(struct ct_solver *s);
/* After a restore: what was written before says nothing of what follows. */
void solver_snapshot_forget(struct ct_solver *s);
/* Waits for it to the end, and tells nobody. */
void solver_snapshot_fini(struct ct_solver *s);

#endif
