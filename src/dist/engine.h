/* engine.h - inside a rank's distributed engine. */
#ifndef CT_DIST_ENGINE_H
#define CT_DIST_ENGINE_H

#include "base/pulse.h"
#include "comm/coll/coll.h"
#include "comm/coll/shared.h"
#include "comm/thread.h"
#include "cortado/dist.h"
#include "data/feed.h"
#include "dist/bsp/roads.h"
#include "dist/bsp/bucket.h"
#include "dist/proof/canonical.h"
#include "dist/codec/coded_bucket.h"
#include "dist/codec/residuals.h"
#include "dist/gpu/device_sum.h"
#include "dist/bsp/factors.h"
#include "dist/report/figures.h"
#include "dist/bsp/flight.h"
#include "dist/report/marks.h"
#include "dist/plan/plan.h"
#include "dist/servers/servers.h"
#include "dist/proof/census.h"
#include "elastic/membership.h"
#include "solver/exchange.h"
#include "solver/mirror.h"

struct ct_solver;
struct dist_root;
struct live_watch;

/* The ranks of the current view and what is made from them (view.c).  Created
 * when a view opens, dropped when it closes.  While the comm thread runs, it
 * alone uses the comms and the watch. */
struct dist_view {
    struct ct_comm        *all;    /* every rank */
    struct ct_comm        *comm;   /* the ranks with the same role as this one:
                                    * all that train, or all that serve; may be
                                    * `all` */
    struct ct_comm        *group;  /* the ranks that push to servers as one;
                                    * NULL: no groups */
    struct ct_comm_thread *thread;
    struct live_watch     *watch;  /* NULL: a single rank, or not started */
    int                    rank, size; /* of comm */
    int                    all_rank, all_size, local_rank; /* of all; they stay
                                    * valid between two views */
    bool                   serves; /* this rank serves and does not train */
    size_t                *part_bytes; /* dist_gather_each()'s, one per rank of
                                    * comm; owned */
};

/* The process behind a rank of a view. */
struct dist_process {
    uint64_t id;    /* 0: unknown */
    bool     told;  /* its loss has been reported by a mark */
    int      pid;
    char     host[64]; /* "": host and pid are unknown */
};

/* The processes of a view, by rank. */
struct dist_crew {
    struct dist_process *process; /* owned */
    int                  n;
};

/* Elastic jobs (elastic.c): what survives a change of view. */
struct dist_elastic {
    const struct elastic_membership *members; /* NULL: the job is not elastic */
    struct elastic_place  place;     /* of this process in the current view */
    struct dist_crew      crew;      /* processes of the current view; while it
                                      * is open, the watch owns `told` */
    struct dist_crew      crew_before; /* processes of the last view that marks
                                        * have reported */
    struct dist_held_back held_back; /* values that codecs carry over to the
                                      * next view */
    struct dist_machine   machine;   /* measured link and compute speeds; alpha
                                      * 0: not measured */
    double _Atomic        adding, multiplying; /* seconds a byte, and
                                      * operations a second of the CPU, measured
                                      * by the thread that prepares a view; 0:
                                      * not measured */
    bool                  unfit;     /* this process does not fit the others
                                      * (proof/misfits.c) */
    bool                  holds;     /* its solver has, or had, the parameters
                                      * of the job */
    struct ct_pulse       pulse;     /* of a view of one rank, which has no
                                      * watch */
    uint64_t              roads;     /* a hash of the roads that rank 0 logged
                                      * last; 0: none */
};

/* Shared memory of a host's ranks that may outlive a view (host/store.c).  It
 * is the last one that was made.  The parameters may still be in an older one,
 * if a view ended before they were copied. */
struct dist_store {
    struct ct_window *window;   /* NULL: none */
    int64_t           stride;   /* floats of an array */
    int64_t           rows;     /* floats for factors */
    int               n_arrays, n_copies;
};

/* Gradients of the ranks of a host in shared memory (host/direct.c). */
struct dist_host {
    struct dist_store      store;     /* of parameters */
    struct ct_shared      *shared;    /* NULL: no shared memory */
    const struct ct_net   *params_of; /* the net whose parameters are in the
                                       * shared memory as well, once for all
                                       * ranks; NULL: none */
    struct ct_params_user  user;      /* updates those parameters */
    double                 seconds;   /* time spent in sums */
    struct ct_spare *_Atomic spare;   /* memory reserved for the next view;
                                       * owned; NULL: none */
};

/* Services that layers use to reach other ranks (job.c, feed/root.c). */
struct dist_services {
    struct ct_peers   peers;
    struct ct_feeds   feeds;
    struct dist_root *roots;      /* feeds that rank 0 reads for all ranks */
    double           *sums;       /* values of every rank; owned */
    size_t            sums_bytes; /* allocated bytes per rank */
};

/* Traffic and time of training (dist.c), in this view and in earlier ones. */
struct dist_counts {
    bool     begun;         /* training has begun in this view; the next two
                             * members are the counters at that moment */
    uint64_t sent_at_start;
    struct ct_comm_thread_stats at_start;
    uint64_t sent_before;   /* bytes sent in earlier views */
    double   busy_before;
    double   wait_seconds;
    uint64_t n_exchanges;
};

/* What monitoring reads (report/). */
struct dist_report {
    struct dist_marks  marks;
    pthread_mutex_t    lock;   /* protects the census */
    struct dist_census census; /* of the ranks that train */
    char              *records; /* the folder of autopsy records; NULL: none;
                                 * owned */
    atomic_uint        n_asked; /* how often this process asked for records */
};

struct dist_decision {
    struct dist_facts facts;
    struct dist_plan  plan;
};

struct ct_dist {
    struct ct_exchange  exchange; /* the solver's interface to this rank's
                                   * engine */
    struct ct_trainer   trainer;  /* what the solver said when it attached;
                                   * iter: the current iteration */
    struct ct_net      *net;      /* the attached net; borrowed */
    bool               *held;     /* see struct ct_attached; owned */
    bool                under_way; /* an iteration has begun and this rank has
                                    * not yet sent all that peers wait for */
    Caffe__DistributedParameter *options; /* owned */
    const struct dist_facts *facts; /* ranks, hosts and devices of the job */
    const struct dist_plan  *plan;  /* made from options and facts */
    struct dist_decision decision;  /* storage of facts and plan; only
                                     * dist_replan() writes to it */
    struct dist_view    view;
    struct dist_elastic elastic;
    struct dist_auto    roads;
    struct dist_factors factors;
    struct dist_buckets buckets;
    struct dist_canonical canonical;
    struct dist_wires   wires;    /* buckets that a codec encodes */
    struct dist_host    host;
    struct dist_device_sum device_sum; /* sums in GPU memory */
    struct dist_ps      ps;
    struct ct_ps       *served; /* ps.ps as the comm thread sees it */
    void               *sync_state; /* state of a kind of sync/; owned */
    struct dist_services services;
    struct dist_counts  counts;
    struct dist_report  report;
    bool               *gone;     /* by rank: did not reach the end of training;
                                   * NULL: all did; owned */
};

static inline struct ct_dist *dist_of(struct ct_exchange *x)
{
    return x->state;
}

/* The value and gradient arenas of `net` in CPU memory: the net's own, or the
 * copies of a net on a GPU. */
static inline float *dist_data(const struct ct_dist *d,
                               const struct ct_net *net)
{
    return ct_mirror_data(d->trainer.mirror, net);
}

static inline float *dist_diff(const struct ct_dist *d,
                               const struct ct_net *net)
{
    return ct_mirror_diff(d->trainer.mirror, net);
}

/* ct_dist_create() on any transport; takes ownership of it.  For tests. */
CT_MUST_CHECK enum ct_status dist_create_over(
    struct ct_transport *transport,
    const Caffe__DistributedParameter *options, struct ct_dist **out);

/* plan/options.c: merges three sets of `distributed { }` fields.  `text`
 * overrides `solver` (may be NULL), which overrides `defaults`. */
CT_MUST_CHECK enum ct_status dist_read_options(
    const char *defaults, const Caffe__DistributedParameter *solver,
    const char *text, Caffe__DistributedParameter **out);

/* elastic.c: joins an elastic job and waits for a first place in a view.
 * `members` must outlive the result. dist_mark() to dist_expects() implement
 * struct ct_job_ops. */
/* Called for likely places while a process waits, on the same thread. */
struct dist_preparer {
    void (*prepare)(void *arg, const struct ct_expected *e); /* NULL: none */
    void *arg;
};
CT_MUST_CHECK enum ct_status dist_create_elastic(
    const struct elastic_membership *members,
    const Caffe__DistributedParameter *options,
    const struct dist_preparer *preparer, struct ct_dist **out);
/* elastic_job.c: takes a solver that was alone into an elastic job.  Tries
 * again each time a view ends before the solver is in it. */
struct dist_entry {
    bool again; /* the whole job was restarted */
    /* When the job began, in seconds since 1970, according to its members.  If
     * no member has parameters, snapshots since then are valid.  NULL:
     * snapshots of any age are. */
    int64_t (*began)(void *arg);
    /* Called when the solver is in the view; waits until training may begin. */
    enum ct_status (*begin)(void *arg, int iter);
    void *arg;
};
CT_MUST_CHECK enum ct_status dist_enter_elastic(
    const struct elastic_membership *members, const struct dist_entry *how,
    const Caffe__DistributedParameter *options, struct ct_solver *s,
    struct ct_dist **out);
CT_MUST_CHECK enum ct_status dist_mark(struct ct_exchange *x);
CT_MUST_CHECK enum ct_status dist_hold(struct ct_exchange *x, int iter);
CT_MUST_CHECK enum ct_status dist_commit(struct ct_exchange *x, int iter);
void dist_last(struct ct_exchange *x, int iter);
/* Do these options go together, for any number of ranks? */
CT_MUST_CHECK enum ct_status dist_check_elastic(
    const Caffe__DistributedParameter *o);
/* The most ranks that can train with these options, which may be NULL, and a
 * net of this batch (0: unknown); 0: any number. */
int dist_most_ranks(const Caffe__DistributedParameter *o, int64_t batch);
CT_MUST_CHECK enum ct_status dist_next_view(struct ct_exchange *x,
                                            struct ct_next_view *out);
CT_MUST_CHECK enum ct_status dist_enter_view(struct ct_exchange *x);
CT_MUST_CHECK enum ct_status dist_check_view(struct ct_exchange *x);
bool dist_goes_on(struct ct_exchange *x, enum ct_status st);
/* A process could not come in, for reason `st`: does it ask for another place?
 * `d` may be NULL. */
bool dist_asks_again(const struct elastic_membership *m,
                     const struct ct_dist *d, enum ct_status st);
/* proof/misfits.c: implements struct ct_job_ops. */
CT_MUST_CHECK enum ct_status dist_fit(struct ct_exchange *x,
                                      const struct ct_device *device);
bool dist_expects(struct ct_exchange *x, struct ct_expected *out);
/* Records the processes of a view while it opens. */
CT_MUST_CHECK enum ct_status dist_crew_note(struct ct_dist *d);
/* A mark has reported the loss of this rank; any thread. */
void dist_crew_lost(struct ct_dist *d, int rank);
void dist_crews_fini(struct ct_dist *d);
/* dist.c: creates the engine on a transport and takes ownership of it. `place`
 * and `members` may be NULL. */
CT_MUST_CHECK enum ct_status dist_create_at(
    struct ct_transport *transport, const struct elastic_place *place,
    const struct elastic_membership *members,
    const Caffe__DistributedParameter *options, struct ct_dist **out);

/* view.c: dist_view_open() takes ownership of the transport, even if it fails.
 * dist_change_view() closes the current view and opens another one on the
 * transport that `open` returns.  Call it between two iterations, after the
 * solver has left (solver_leave_view). */
typedef enum ct_status (*dist_open_fn)(void *arg, struct ct_transport **out);
CT_MUST_CHECK enum ct_status dist_view_open(struct ct_dist *d,
                                            struct ct_transport *t);
void dist_view_close(struct ct_dist *d);
CT_MUST_CHECK enum ct_status dist_change_view(struct ct_dist *d,
                                              dist_open_fn open, void *arg);

/* Waits for a job of the comm thread before its net is destroyed.  If an
 * iteration has failed, peers may never answer: a job that does not end soon is
 * cancelled. */
void dist_await_or_call_off(struct ct_dist *d, struct ct_job *job);

/* The kinds of synchronisation: all ranks apply the same mean gradient; servers
 * add up gradients; servers keep parameters. sync/sync.h has the others. */
extern const struct ct_exchange_ops dist_bsp, dist_servers_sum,
    dist_servers_values;

/* job.c: sets up d->exchange for the plan's kind of synchronisation; after
 * attach, finds the gradients that a codec holds back. */
void dist_fill_exchange(struct ct_dist *d);
/* The facts of a rank that follow from the plan, with n_alike ranks of the same
 * role. */
struct ct_exchange_facts dist_facts_of(const Caffe__DistributedParameter *o,
                                       const struct dist_plan *p, int rank,
                                       int n_alike);
CT_MUST_CHECK enum ct_status dist_find_held(struct ct_dist *d);

/* plan/resolve.c: makes a plan from other facts.  On failure facts and plan
 * stay unchanged. */
CT_MUST_CHECK enum ct_status dist_replan(struct ct_dist *d,
                                         const struct dist_facts *facts);

/* plan/explain.c: describes what the job does and why; after attach, also how
 * each parameter travels.  Takes NULL: a single rank. */
void dist_explain(const struct ct_dist *d, struct ct_text *out);
/* How gradients are combined, in a few words. */
const char *dist_way(const struct ct_dist *d);

/* bsp/bsp.c: frees all state that belongs to the net. */
void dist_bsp_fini(struct ct_dist *d);

/* proof/census.c: checks that programs, MPI libraries and devices of all ranks
 * are compatible. */
CT_MUST_CHECK enum ct_status dist_selftest(struct ct_dist *d);

/* dist.c: collectives of view.comm, run on the comm thread: rank 0's bytes on
 * every rank; ct_allgather(); the same with `each` bytes from every rank. */
CT_MUST_CHECK enum ct_status dist_broadcast(struct ct_dist *d, void *data,
                                            size_t bytes);
CT_MUST_CHECK enum ct_status dist_gather(struct ct_dist *d, const void *mine,
                                         const size_t *bytes, void *out);
CT_MUST_CHECK enum ct_status dist_gather_each(struct ct_dist *d,
                                              const void *mine, size_t each,
                                              void *out);

/* report/collect.c: implements struct ct_job_ops. */
CT_MUST_CHECK enum ct_status dist_collect(struct ct_exchange *x,
                                          const void *mine, size_t bytes,
                                          ct_collect_fn take, void *arg);

/* gpu/devices.c: exchanges the devices of all ranks, logs them, and replans
 * with these facts. */
CT_MUST_CHECK enum ct_status dist_devices_meet(struct ct_dist *d,
                                               const struct ct_net *net);
/* dist.c: copies rank 0's parameters to all ranks, and to their GPUs. */
CT_MUST_CHECK enum ct_status dist_spread_values(struct ct_dist *d,
                                                const struct ct_net *net);

/* bsp/sweep.c: times the ways to sum between hosts; buckets must exist. */
CT_MUST_CHECK enum ct_status dist_sweep(struct ct_dist *d);

/* host/direct.c: sums inside one host, without the comm thread.  Moves the
 * net's gradients into d->host.shared; leaves that NULL if it is not
 * possible. */
CT_MUST_CHECK enum ct_status dist_direct_init(struct ct_dist *d,
                                              struct ct_net *net);
void dist_direct_fini(struct ct_dist *d);
/* Are this net's parameters in the shared memory, once for all ranks? */
bool dist_shares_params_of(const struct ct_dist *d, const struct ct_net *net);
/* Wakes all ranks that wait in the shared memory: this rank has failed. */
void dist_direct_abort(struct ct_dist *d);
/* Is the posted work of this ticket done? dist_direct_wait() waits for it. */
bool dist_direct_arrived(struct ct_dist *d, uint64_t ticket);
CT_MUST_CHECK enum ct_status dist_direct_wait(struct ct_dist *d,
                                              uint64_t ticket);
/* A barrier in the shared memory. */
CT_MUST_CHECK enum ct_status dist_direct_meet(struct ct_dist *d);
/* Implements struct ct_expected. */
void dist_direct_reserve(void *dist, int n_ranks, size_t n_floats,
                         int n_arrays);
/* host/store.c: finds memory for parameters, histories, gradients and factors,
 * and makes d->host.shared in it; leaves that NULL if not all ranks can share.
 * Without windows: CT_ENOTSUP. */
CT_MUST_CHECK enum ct_status dist_store_open(
    struct ct_dist *d, const struct ct_net *net,
    const struct ct_params_user *user, struct ct_shared_params *out);
void dist_store_drop(struct ct_dist *d); /* buffers in it stay valid */
/* Seconds until a lost rank's memory is left to it; tests set it.  The kernel
 * may release the lock of a process a moment after others have certified its
 * end.  A process that has left ends when it is done: nobody waits for it. */
extern double dist_store_patience;
/* Implements struct ct_job_ops. */
bool dist_store_keep(struct ct_exchange *x, const struct ct_net *net,
                     struct ct_buffer **diff);
/* Implements struct ct_job_ops. */
CT_MUST_CHECK enum ct_status dist_share_params(
    struct ct_exchange *x, struct ct_net *net,
    const struct ct_params_user *user, struct ct_shared_params *out);

/* Averages the statistics of layers over all ranks that train. */
CT_MUST_CHECK enum ct_status dist_settle_statistics(struct ct_dist *d);

/* dist.c: x becomes the sum over the group. */
CT_MUST_CHECK enum ct_status dist_group_sum(struct ct_dist *d, float *x,
                                            int64_t n);
/* x becomes the sum over all ranks, including those that serve. */
CT_MUST_CHECK enum ct_status dist_all_sum(struct ct_dist *d, float *x,
                                          int64_t n);
/* A barrier of all ranks, including those that serve. */
CT_MUST_CHECK enum ct_status dist_meet_all(struct ct_dist *d);
/* Start and end of what ct_dist_stats() counts in this view. */
void dist_stats_begin(struct ct_dist *d);
void dist_stats_end(struct ct_dist *d);
/* Bytes that all comms of this rank have sent; any thread. */
uint64_t dist_bytes_sent(const struct ct_dist *d);

/* proof/guard.c: checks that all ranks hold the same parameters. */
CT_MUST_CHECK enum ct_status dist_guard_check(struct ct_dist *d, int iter);

#endif
