/* cortado/dist.h - training with peers: what is sent, when, by which road.
 *
 * Started by mpirun, every process is a rank; started by hand it is alone and
 * pays nothing.  One training loop serves both: give ct_dist_exchange() to the
 * solver's options. */
#ifndef CT_DIST_H
#define CT_DIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cortado/events.h"
#include "cortado/proto.h"
#include "cortado/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ct_dist;
struct ct_exchange;

/* True when a launcher such as mpirun started this process. */
CT_API bool ct_dist_launched(void);

/* Joins the peers that the launcher started.  Alone: *out is NULL.  The
 * options are copied; NULL: the defaults.  Fails on all ranks when their
 * programs or MPIs differ; *out is then there, to be aborted.
 *
 * Where MPI has not started yet the process gets a child, which sleeps and
 * tells the log who it was if this rank is killed; a SIGTERM that would end
 * this process lets it know first. */
CT_API CT_MUST_CHECK enum ct_status ct_dist_create(
    const Caffe__DistributedParameter *options, struct ct_dist **out);
/* ct_dist_create() with options as text, "road: 'factors' overlap: false"; for
 * bindings, which do not know how messages lie in memory.  What `text` says
 * goes before the `distributed { }` of the solver file (may be NULL), and that
 * before the defaults. */
CT_API CT_MUST_CHECK enum ct_status ct_dist_open(const char *defaults,
                                                 const char *solver,
                                                 const char *text,
                                                 struct ct_dist **out);
/* The road that was asked for, "auto" and so on; "allreduce" for NULL. */
CT_API const char *ct_dist_road(const struct ct_dist *d);
/* All ranks call it, when their solvers are gone.  Takes NULL. */
CT_API void ct_dist_destroy(struct ct_dist *d);
/* For a rank that fails: ends every rank, so that nobody waits for ever. */
CT_API void ct_dist_abort(struct ct_dist *d, int code);

/* For a rank that a signal is about to end, on any thread: logs which of its
 * peers is gone, and where it was; or where this rank stands, if none is.
 * Takes NULL, before the peers are there. */
CT_API void ct_dist_last_words(struct ct_dist *d);

/* All ranks call it: where each keeps a record of its last collectives when
 * the job fails, when ranks wait for long, or when it is asked for; it makes
 * the folder and removes records of an earlier job.  `cortado autopsy` reads
 * them.  Takes NULL. */
CT_API CT_MUST_CHECK enum ct_status ct_dist_keep_records(struct ct_dist *d,
                                                         const char *folder);
/* Asks for the records of all ranks of this host; on any thread or in a
 * handler of signals.  Takes NULL. */
CT_API void ct_dist_ask_records(struct ct_dist *d);

CT_API int ct_dist_rank(const struct ct_dist *d); /* 0 for NULL */
/* Ranks that train, all but dedicated servers; 1 for NULL. */
CT_API int ct_dist_size(const struct ct_dist *d);
/* Machines that the ranks are on. */
CT_API int ct_dist_n_hosts(const struct ct_dist *d);
/* This rank's number among those of its machine. */
CT_API int ct_dist_local_rank(const struct ct_dist *d);

/* Rank 0's bytes become everyone's. */
CT_API CT_MUST_CHECK enum ct_status ct_dist_broadcast(struct ct_dist *d,
                                                      void *data,
                                                      size_t bytes);
/* x becomes the sum over ranks. */
CT_API CT_MUST_CHECK enum ct_status ct_dist_sum(struct ct_dist *d, float *x,
                                                int64_t n);
/* Fails on every rank, naming one that differs, unless `digest` is the same
 * everywhere; `what` is for the message. */
CT_API CT_MUST_CHECK enum ct_status ct_dist_same(struct ct_dist *d,
                                                 const char *what,
                                                 uint64_t digest);

/* The last meeting of all ranks, before each is destroyed: nobody leaves while
 * another is still at work, however long that takes.  It fails when a rank has
 * died or gives no sign of life.  With a deadline, ranks that never came to the
 * end of the training are not waited for. */
CT_API CT_MUST_CHECK enum ct_status ct_dist_end(struct ct_dist *d);
/* Behind ct_dist_end, as the last thing that a process does: where a rank never
 * came, rank 0 ends the job and that rank with it; the launcher reports `code`.
 * Does nothing where all came.  Takes NULL. */
CT_API void ct_dist_end_without(struct ct_dist *d, int code);

/* Fails unless all ranks read the same nets and, where they share it, the same
 * data: compares digests of the prototxts that the solver names and of their
 * databases' size and first and last key. */
CT_API CT_MUST_CHECK enum ct_status ct_dist_same_inputs(
    struct ct_dist *d, const Caffe__SolverParameter *solver);

/* For struct ct_solver_options.  NULL for NULL, and for a rank without others,
 * which trains as it would by itself.  Borrowed from d. */
CT_API struct ct_exchange *ct_dist_exchange(struct ct_dist *d);

/* What has travelled since training began, and how much of it backward did
 * not hide. */
struct ct_dist_stats {
    uint64_t bytes_sent, n_exchanges;
    double   comm_seconds; /* the comm thread was busy */
    double   wait_seconds; /* the solver waited for gradients */
};
CT_API struct ct_dist_stats ct_dist_stats(const struct ct_dist *d);

/* How a rank is doing.  What grows is counted since the job began. */
struct ct_rank_state {
    int      rank, pid;
    char     host[64], device[104]; /* device: "cpu", "GPU 1: NVIDIA H200" */
    bool     serves;      /* and does not train */
    bool     gone;        /* it has died or left */
    int      iter;
    char     phase[16];   /* "forward", "exchange", ... */
    char     layer[48];   /* of that phase; may be empty */
    double   moved_ago;   /* seconds since it went on to this */
    double   waiting;     /* seconds that it waits for a peer; 0: it does not */
    int      waiting_for; /* which; -1: for all, or none */
    double   waited;      /* seconds that its solver waited for peers */
    uint64_t bytes_sent, memory, device_memory;
    int64_t  samples;     /* of a pass, where ranks have shares; else 0 */
};

/* On any thread, without a message.  Rank 0 knows all ranks; another those of
 * its host.  false: nothing is known of this one, or d is NULL. */
CT_API bool ct_dist_rank_state(struct ct_dist *d, int rank,
                               struct ct_rank_state *out);
/* Processes of the job, those that serve among them; 1 for NULL. */
CT_API int ct_dist_n_ranks(const struct ct_dist *d);

#ifdef __cplusplus
}
#endif
#endif
