/* thread.h - the comm thread: the one thread that calls the transport.
 *
 * It borrows a ct_comm and runs jobs on it, one at a time.  The compute thread
 * submits jobs and polls or waits for each.  A job that calls a collective
 * waits for its peers, so ALL RANKS MUST RUN THE SAME COLLECTIVES IN THE SAME
 * ORDER.  All ranks submit the same jobs in the same order and run them first
 * in, first out (the default), or in the order that rank 0 chooses
 * (CT_JOBS_AGREED). */
#ifndef CT_COMM_THREAD_H
#define CT_COMM_THREAD_H

#include "comm/comm.h"

struct ct_comm_thread;

typedef enum ct_status (*ct_job_fn)(struct ct_comm *c, void *arg);

/* Owned by the caller, who must not touch it from submit until it is done.  It
 * can be submitted again then.  Zero it before the first use. */
struct ct_job {
    ct_job_fn run;
    void     *arg;
    int       priority; /* least first; CT_JOBS_AGREED only */
    const char *name;   /* for traces; NULL: none.  Borrowed */
    /* Used by the comm thread: */
    struct ct_comm_thread *thread;
    struct ct_job         *next;
    uint64_t               number; /* counts submitted jobs; equal on all
                                    * ranks */
    enum { CT_JOB_IDLE, CT_JOB_QUEUED, CT_JOB_DONE } state;
    enum ct_status         status;
    double                 seconds; /* how long it ran */
    char                   why[512]; /* text of a failure */
};

enum ct_job_order {
    CT_JOBS_FIFO,
    /* Rank 0 takes its most urgent job, then the oldest, and sends its number
     * while the previous job still runs (agree.h).  The other ranks run that
     * job as soon as they have it.  So a job waits for at most two less urgent
     * ones, and no rank waits for a message of rank 0. */
    CT_JOBS_AGREED
};

struct ct_comm_thread_options {
    enum ct_job_order order;
    /* Optional: runs every idle_ns (0: 200 us) while there is no job, to
     * receive unexpected messages.  A failure counts as that of a job. */
    ct_job_fn idle;
    void     *idle_arg;
    long      idle_ns;
};

struct ct_comm_thread_stats {
    uint64_t n_jobs, n_failed;
    double   busy_seconds;   /* time in jobs */
    uint64_t bytes_sent, bytes_received, n_sent;
    int      waiting_for;    /* the peer that the current job waits for; -1:
                              * none */
    int      n_queued;
    bool     broken; /* a job has failed; later jobs fail without running */
};

/* Starts the thread.  Only the thread may use `c` until destroy. */
CT_MUST_CHECK enum ct_status ct_comm_thread_create(
    struct ct_comm *c, const struct ct_comm_thread_options *options,
    struct ct_comm_thread **out);
/* Runs the queued jobs, then stops.  Takes NULL. Does not destroy the comm: do
 * that on the thread that created it. */
void ct_comm_thread_destroy(struct ct_comm_thread *t);

void ct_job_submit(struct ct_comm_thread *t, struct ct_job *job);
bool ct_job_done(struct ct_job *job); /* true for a job that was never
                                       * submitted */
/* Waits for the job and returns its status; its error text becomes this
 * thread's ct_last_error().  After CT_ECOMM the ranks are out of step: every
 * later job fails with the same cause and does not run. */
CT_MUST_CHECK enum ct_status ct_job_wait(struct ct_job *job);
/* Waits at most `seconds` for the job; true: it is done. */
bool ct_job_done_within(struct ct_job *job, double seconds);
/* Submits a job and waits for it. */
CT_MUST_CHECK enum ct_status ct_job_run(struct ct_comm_thread *t,
                                        ct_job_fn run, void *arg);

/* Waits until no job is queued or runs. */
void ct_comm_thread_rest(struct ct_comm_thread *t);

/* After the queued jobs, later ones run by CT_JOBS_AGREED. All ranks call it at
 * the same point between the same jobs. */
CT_MUST_CHECK enum ct_status ct_comm_thread_agree(struct ct_comm_thread *t);

/* Sets the time between two calls of `idle`.  If it becomes shorter, the thread
 * calls it at once. */
void ct_comm_thread_pace(struct ct_comm_thread *t, long idle_ns);

/* For a rank that has failed and whose peers may never answer: ends its view.
 * Queued jobs fail without running; the running one fails at its next wait. */
void ct_comm_thread_call_off(struct ct_comm_thread *t);

struct ct_comm_thread_stats ct_comm_thread_stats(struct ct_comm_thread *t);

#endif
