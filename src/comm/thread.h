/* thread.h - the comm thread: the one thread that calls the transport.
 *
 * It borrows a ct_comm and runs jobs on it, one at a time.  The compute thread
 * hands jobs in and polls or waits for each.  A job that calls a collective
 * waits for its peers, so ALL RANKS MUST RUN THE SAME COLLECTIVES IN THE SAME
 * ORDER: all hand the same jobs in in the same order, and run them first in,
 * first out, the default, or as rank 0 says (CT_JOBS_AGREED). */
#ifndef CT_COMM_THREAD_H
#define CT_COMM_THREAD_H

#include "comm/comm.h"

struct ct_comm_thread;

typedef enum ct_status (*ct_job_fn)(struct ct_comm *c, void *arg);

/* Owned by the caller, who leaves it alone from submit until it is done.  It
 * can be handed in again then.  Zero it before the first use. */
struct ct_job {
    ct_job_fn run;
    void     *arg;
    int       priority; /* least first; CT_JOBS_AGREED only */
    const char *name;   /* for traces; NULL: it has none.  Borrowed */
    /* The thread's: */
    struct ct_comm_thread *thread;
    struct ct_job         *next;
    uint64_t               number; /* of those handed in, on all ranks */
    enum { CT_JOB_IDLE, CT_JOB_QUEUED, CT_JOB_DONE } state;
    enum ct_status         status;
    double                 seconds; /* how long it ran */
    char                   why[512]; /* of a failure */
};

enum ct_job_order {
    CT_JOBS_FIFO,
    /* Rank 0 takes the most urgent job that it has, then the oldest, and tells
     * the others while the one before still runs (agree.h); they run that one
     * as soon as they have it.  So a job waits for two less urgent ones at
     * most, and nobody waits for the word of rank 0. */
    CT_JOBS_AGREED
};

struct ct_comm_thread_options {
    enum ct_job_order order;
    /* Optional: runs when there is no job, every idle_ns (0: 200 us).  For
     * messages that come unasked.  A failure counts as a job's. */
    ct_job_fn idle;
    void     *idle_arg;
    long      idle_ns;
};

struct ct_comm_thread_stats {
    uint64_t n_jobs, n_failed;
    double   busy_seconds;   /* running jobs */
    uint64_t bytes_sent, bytes_received, n_sent;
    int      waiting_for;    /* the peer that a job waits for; -1: none */
    int      n_queued;
    bool     broken; /* a job has failed, and no other runs */
};

/* Starts the thread.  `c` is its alone until destroy gives it back. */
CT_MUST_CHECK enum ct_status ct_comm_thread_create(
    struct ct_comm *c, const struct ct_comm_thread_options *options,
    struct ct_comm_thread **out);
/* Runs what is queued, then stops.  Takes NULL.  The comm stays: destroy it
 * on the thread that created it. */
void ct_comm_thread_destroy(struct ct_comm_thread *t);

void ct_job_submit(struct ct_comm_thread *t, struct ct_job *job);
bool ct_job_done(struct ct_job *job); /* true for one never handed in */
/* The job's status; its text becomes this thread's ct_last_error().  After a
 * CT_ECOMM the ranks are out of step: every later job fails with the same
 * cause, unrun. */
CT_MUST_CHECK enum ct_status ct_job_wait(struct ct_job *job);
/* Waits for the job, so many seconds at most: is it done by then? */
bool ct_job_done_within(struct ct_job *job, double seconds);
/* Hands in and waits. */
CT_MUST_CHECK enum ct_status ct_job_run(struct ct_comm_thread *t,
                                        ct_job_fn run, void *arg);

/* Until no job is queued or runs. */
void ct_comm_thread_rest(struct ct_comm_thread *t);

/* Behind what is queued jobs run by CT_JOBS_AGREED.  All ranks call it at the
 * same place between the same jobs. */
CT_MUST_CHECK enum ct_status ct_comm_thread_agree(struct ct_comm_thread *t);

/* From one call of `idle` to the next, from now on.  Where that is sooner, the
 * thread looks at once. */
void ct_comm_thread_pace(struct ct_comm_thread *t, long idle_ns);

/* For a rank that has failed and whose peers may not come: its view is over.
 * What is queued fails, unrun, and what runs fails as soon as it waits. */
void ct_comm_thread_call_off(struct ct_comm_thread *t);

struct ct_comm_thread_stats ct_comm_thread_stats(struct ct_comm_thread *t);

#endif
