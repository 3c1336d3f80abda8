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

/* Who the ranks are (view.c): made when a view opens, dropped when it closes.
 * Comms and the watch are the comm thread's, while it runs. */
struct dist_view {
    struct ct_comm        *all;    /* every rank */
    struct ct_comm        *comm;   /* those like this one, which train or which
                                    * serve; may be `all` */
    struct ct_comm        *group;  /* that push as one; NULL: none */
    struct ct_comm_thread *thread;
    struct live_watch     *watch;  /* NULL: alone, or it has not begun */
    int                    rank, size; /* of comm */
    int                    all_rank, all_size, local_rank; /* of all; known
                                    * between two views, too */
    bool                   serves; /* this rank, and does not train */
};

/* The process that is a rank of a view. */
struct dist_process {
    uint64_t id;    /* 0: unknown */
    bool     told;  /* a mark tells that it is lost */
    int      pid;
    char     host[64]; /* "": it and pid are unknown */
};

/* The ranks of a view, by number. */
struct dist_crew {
    struct dist_process *process; /* owned */
    int                  n;
};

/* Ranks that come and go (elastic.c): what outlives a view. */
struct dist_elastic {
    const struct elastic_membership *members; /* NULL: ranks stay the same */
    struct elastic_place  place;     /* this rank's, in its view */
    struct dist_crew      crew;      /* of the view; while it is open, `told`
                                      * is the watch's */
    struct dist_crew      crew_before; /* of the last view that marks tell of */
    struct dist_held_back held_back; /* by codecs */
    struct dist_machine   machine;   /* as measured; alpha 0: it was not */
    struct ct_pulse       pulse;     /* of a view of one rank, which has no
                                      * watch */
};

/* Gradients of a host's ranks, in memory that they share (host/direct.c). */
struct dist_host {
    struct ct_shared      *shared;    /* NULL: they share none */
    const struct ct_net   *params_of; /* whose parameters lie there, too, once
                                       * for all ranks; NULL: nobody's */
    struct ct_params_user  user;      /* who updates those */
    double                 seconds;   /* spent in sums */
    struct ct_spare *_Atomic spare;   /* for the next view; owned; NULL: none */
};

/* What layers ask of peers (job.c, feed/root.c). */
struct dist_services {
    struct ct_peers   peers;
    struct ct_feeds   feeds;
    struct dist_root *roots;      /* feeds that rank 0 reads for */
    double           *sums;       /* of every rank; owned */
    size_t            sums_bytes; /* room for one rank */
    size_t           *part_bytes; /* one for each rank; owned */
};

/* What training took (dist.c), in this view and those before. */
struct dist_counts {
    bool     begun;         /* in this view, where it counts from here: */
    uint64_t sent_at_start;
    struct ct_comm_thread_stats at_start;
    uint64_t sent_before;   /* in others */
    double   busy_before;
    double   wait_seconds;
    uint64_t n_exchanges;
};

/* What others than the solver read (report/). */
struct dist_report {
    struct dist_marks  marks;
    pthread_mutex_t    lock;   /* of the census */
    struct dist_census census; /* of the ranks that train */
    char              *records; /* the folder for those of an autopsy; NULL:
                                 * none; owned */
    atomic_uint        n_asked; /* how often these were asked for here */
};

struct dist_decision {
    struct dist_facts facts;
    struct dist_plan  plan;
};

struct ct_dist {
    struct ct_exchange  exchange; /* what the solver sees */
    struct ct_trainer   trainer;  /* what it told when it attached; iter: the
                                   * iteration under way */
    struct ct_net      *net;      /* attached to; borrowed */
    bool               *held;     /* as struct ct_attached has it; owned */
    bool                under_way; /* an iteration: it has begun, and what
                                    * peers wait for is not all sent */
    Caffe__DistributedParameter *options; /* owned */
    const struct dist_facts *facts; /* what the job has */
    const struct dist_plan  *plan;  /* of options and facts */
    struct dist_decision decision;  /* where these two lie; dist_replan() alone
                                     * writes there */
    struct dist_view    view;
    struct dist_elastic elastic;
    struct dist_auto    roads;
    struct dist_factors factors;
    struct dist_buckets buckets;
    struct dist_canonical canonical;
    struct dist_wires   wires;    /* where a codec codes buckets */
    struct dist_host    host;
    struct dist_device_sum device_sum; /* where GPUs sum by themselves */
    struct dist_ps      ps;
    struct ct_ps       *served; /* ps.ps, for the comm thread alone */
    void               *sync_state; /* what a kind of sync/ keeps; owned */
    struct dist_services services;
    struct dist_counts  counts;
    struct dist_report  report;
    bool               *gone;     /* who never came to the end; NULL: all did;
                                   * owned */
};

static inline struct ct_dist *dist_of(struct ct_exchange *x)
{
    return x->state;
}

/* The arenas of `net` in the CPU's memory: its own, or copies of a GPU's. */
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

/* ct_dist_create() over any transport, which it takes over; for tests. */
CT_MUST_CHECK enum ct_status dist_create_over(
    struct ct_transport *transport,
    const Caffe__DistributedParameter *options, struct ct_dist **out);

/* plan/options.c: what `text` says goes before `solver` (may be NULL), and that
 * before the defaults; all as fields of `distributed { }`. */
CT_MUST_CHECK enum ct_status dist_read_options(
    const char *defaults, const Caffe__DistributedParameter *solver,
    const char *text, Caffe__DistributedParameter **out);

/* elastic.c: one among ranks that come and go, with its first place among them;
 * `members` outlives it.  The rest as struct ct_job_ops has it. */
/* Whoever waits for that place may prepare for it; on the same thread. */
struct dist_preparer {
    void (*prepare)(void *arg, const struct ct_expected *e); /* NULL: nobody
                                                              * does */
    void *arg;
};
CT_MUST_CHECK enum ct_status dist_create_elastic(
    const struct elastic_membership *members,
    const Caffe__DistributedParameter *options,
    const struct dist_preparer *preparer, struct ct_dist **out);
/* elastic_job.c: a solver that was alone goes there, as often as views end
 * before it is in one. */
struct dist_entry {
    bool again; /* the whole job was started anew */
    /* Where nobody has parameters, a snapshot since the job began has: when
     * that was, in seconds since 1970, as who is in it knows; NULL: ever. */
    int64_t (*began)(void *arg);
    /* When it is in: waits until training may begin. */
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
CT_MUST_CHECK enum ct_status dist_next_view(struct ct_exchange *x,
                                            struct ct_next_view *out);
CT_MUST_CHECK enum ct_status dist_enter_view(struct ct_exchange *x);
CT_MUST_CHECK enum ct_status dist_check_view(struct ct_exchange *x);
bool dist_expects(struct ct_exchange *x, struct ct_expected *out);
/* While a view opens: notes who its ranks are. */
CT_MUST_CHECK enum ct_status dist_crew_note(struct ct_dist *d);
/* A mark tells that this rank is lost; on any thread. */
void dist_crew_lost(struct ct_dist *d, int rank);
void dist_crews_fini(struct ct_dist *d);
/* dist.c: an exchange over a transport, which it takes over; `place` and
 * `members` may be NULL. */
CT_MUST_CHECK enum ct_status dist_create_at(
    struct ct_transport *transport, const struct elastic_place *place,
    const struct elastic_membership *members,
    const Caffe__DistributedParameter *options, struct ct_dist **out);

/* view.c: opens a view on a transport, which it takes over, also when it fails;
 * closes it.  Another one in its place, between two iterations, on the
 * transport that `open` makes when the old one is closed: the solver has left
 * that (solver_leave_view). */
typedef enum ct_status (*dist_open_fn)(void *arg, struct ct_transport **out);
CT_MUST_CHECK enum ct_status dist_view_open(struct ct_dist *d,
                                            struct ct_transport *t);
void dist_view_close(struct ct_dist *d);
CT_MUST_CHECK enum ct_status dist_change_view(struct ct_dist *d,
                                              dist_open_fn open, void *arg);

/* For a net that is about to go, while the comm thread may work on it: waits
 * for this job of its.  In the middle of an iteration, which then has failed,
 * peers may never come: what does not end soon is called off. */
void dist_await_or_call_off(struct ct_dist *d, struct ct_job *job);

/* The kinds of synchronisation: every rank applies the same mean gradient;
 * servers add up gradients; servers keep parameters.  sync/sync.h has the
 * others. */
extern const struct ct_exchange_ops dist_bsp, dist_servers_sum,
    dist_servers_values;

/* job.c: the exchange of the plan's kind of synchronisation; once attached,
 * which gradients a codec holds back. */
void dist_fill_exchange(struct ct_dist *d);
/* What a rank's facts are by this plan, among so many like it; those alone that
 * follow from it. */
struct ct_exchange_facts dist_facts_of(const Caffe__DistributedParameter *o,
                                       const struct dist_plan *p, int rank,
                                       int n_alike);
CT_MUST_CHECK enum ct_status dist_find_held(struct ct_dist *d);

/* plan/resolve.c: more is known of the job, or other things: a plan of that.
 * Where there is none, facts and plan stay as they are. */
CT_MUST_CHECK enum ct_status dist_replan(struct ct_dist *d,
                                         const struct dist_facts *facts);

/* plan/explain.c: what this job does, and why; once it is attached to a net,
 * also how each parameter travels.  Takes NULL: one rank by itself. */
void dist_explain(const struct ct_dist *d, struct ct_text *out);
/* In a few words, how gradients come together. */
const char *dist_way(const struct ct_dist *d);

/* bsp/bsp.c: frees what it has of a net. */
void dist_bsp_fini(struct ct_dist *d);

/* proof/census.c: programs, MPIs and devices of all ranks fit each other. */
CT_MUST_CHECK enum ct_status dist_selftest(struct ct_dist *d);

/* dist.c: the first rank's bytes to all like this one; as ct_allgather(); both
 * on the comm thread. */
CT_MUST_CHECK enum ct_status dist_broadcast(struct ct_dist *d, void *data,
                                            size_t bytes);
CT_MUST_CHECK enum ct_status dist_gather(struct ct_dist *d, const void *mine,
                                         const size_t *bytes, void *out);

/* dist_gather() of all ranks, those that serve among them. */
CT_MUST_CHECK enum ct_status dist_all_gather(struct ct_dist *d,
                                             const void *mine,
                                             const size_t *bytes, void *out);

/* report/collect.c: as struct ct_job_ops has it. */
CT_MUST_CHECK enum ct_status dist_collect(struct ct_exchange *x,
                                          const void *mine, size_t bytes,
                                          ct_collect_fn take, void *arg);

/* gpu/devices.c: which devices the ranks have; logs it, and sets the facts that
 * follow from it. */
CT_MUST_CHECK enum ct_status dist_devices_meet(struct ct_dist *d,
                                               const struct ct_net *net);
/* dist.c: every rank gets rank 0's parameters, and a GPU its copy. */
CT_MUST_CHECK enum ct_status dist_spread_values(struct ct_dist *d,
                                                const struct ct_net *net);

/* bsp/sweep.c: times ways to sum between hosts, once buckets are made. */
CT_MUST_CHECK enum ct_status dist_sweep(struct ct_dist *d);

/* host/direct.c: inside one host, without the comm thread.  Moves the net's
 * gradients where d->host.shared can sum them, or leaves that NULL. */
CT_MUST_CHECK enum ct_status dist_direct_init(struct ct_dist *d,
                                              struct ct_net *net);
void dist_direct_fini(struct ct_dist *d);
/* Do this net's parameters lie there, once for all ranks? */
bool dist_shares_params_of(const struct ct_dist *d, const struct ct_net *net);
/* Nobody is to wait there any more: this rank fails. */
void dist_direct_abort(struct ct_dist *d);
/* What was posted by this ticket is done; waits for it. */
bool dist_direct_arrived(struct ct_dist *d, uint64_t ticket);
CT_MUST_CHECK enum ct_status dist_direct_wait(struct ct_dist *d,
                                              uint64_t ticket);
/* All ranks are here: they meet in that memory. */
CT_MUST_CHECK enum ct_status dist_direct_meet(struct ct_dist *d);
/* As struct ct_expected has it. */
void dist_direct_reserve(void *dist, int n_ranks, size_t n_floats,
                         int n_arrays);
/* As struct ct_job_ops has it. */
CT_MUST_CHECK enum ct_status dist_share_params(
    struct ct_exchange *x, struct ct_net *net,
    const struct ct_params_user *user, struct ct_shared_params *out);

/* Statistics that ranks keep apart become one on all that train. */
CT_MUST_CHECK enum ct_status dist_settle_statistics(struct ct_dist *d);

/* dist.c: x becomes the sum over the group; traffic is counted from here. */
CT_MUST_CHECK enum ct_status dist_group_sum(struct ct_dist *d, float *x,
                                            int64_t n);
/* x becomes the sum over all ranks, those that serve among them. */
CT_MUST_CHECK enum ct_status dist_all_sum(struct ct_dist *d, float *x,
                                          int64_t n);
/* A meeting of all ranks, those that serve among them. */
CT_MUST_CHECK enum ct_status dist_meet_all(struct ct_dist *d);
void dist_stats_begin(struct ct_dist *d);
/* The view ends. */
void dist_stats_end(struct ct_dist *d);
/* By every comm of this rank since it began; on any thread. */
uint64_t dist_bytes_sent(const struct ct_dist *d);

/* proof/guard.c: do all ranks hold the same parameters? */
CT_MUST_CHECK enum ct_status dist_guard_check(struct ct_dist *d, int iter);

#endif
