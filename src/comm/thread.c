/* thread.c - a list of jobs under one lock, and the thread that runs them. */
#include "comm/thread.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/trace.h"
#include "comm/agree.h"
#include "comm/logbook.h"
#include "cortado/log.h"

enum { IDLE_NS = 200000, LOOK_NS = 50000000, SLACK_NS = 1000 };

struct ct_comm_thread {
    struct ct_comm               *comm; /* borrowed; only the thread uses it */
    struct ct_comm_thread_options options;
    pthread_t                     thread;
    struct ct_agree               agree; /* only the thread uses it */
    /* `lock` protects the members below. */
    pthread_mutex_t lock;
    pthread_cond_t  work, done;
    enum ct_job_order order;
    struct ct_job  *first; /* queued jobs, oldest first; borrowed */
    uint64_t        n_handed_in;
    bool            knows; /* `next` is valid */
    uint64_t        next;  /* number of the next job; CT_JOBS_AGREED */
    bool            stop;  /* the thread ends after the queued jobs */
    bool            runs;  /* a job is running */
    int             n_waiting;  /* threads that wait for a job */
    enum ct_status  broken; /* not CT_OK: later jobs fail with it */
    char            why[512]; /* text of that failure */
    struct ct_comm_thread_stats stats;
};

/* With `lock` held. */
static void jobs_append(struct ct_comm_thread *t, struct ct_job *job)
{
    struct ct_job **at = &t->first;

    while (*at)
        at = &(*at)->next;
    job->next   = NULL;
    job->number = t->n_handed_in++;
    *at         = job;
    t->stats.n_queued++;
}

/* With `lock` held. */
static struct ct_job *jobs_most_urgent(const struct ct_comm_thread *t)
{
    struct ct_job *best = t->first;

    for (struct ct_job *j = best; j; j = j->next)
        if (j->priority < best->priority)
            best = j;
    return best;
}

/* With `lock` held: removes the job from the queue; NULL: it is not there. */
static struct ct_job *jobs_take(struct ct_comm_thread *t, uint64_t number)
{
    struct ct_job **at = &t->first, *job;

    while (*at && (*at)->number != number)
        at = &(*at)->next;
    job = *at;
    if (job) {
        *at = job->next;
        t->stats.n_queued--;
    }
    return job;
}

/* With `lock` held. */
static void jobs_finish(struct ct_comm_thread *t, struct ct_job *job,
                        enum ct_status st)
{
    job->status = st;
    job->state  = CT_JOB_DONE;
    t->stats.n_jobs++;
    t->stats.n_failed += st != CT_OK;
    t->stats.busy_seconds += job->seconds;
    pthread_cond_broadcast(&t->done);
}

static const char *name_of(const struct ct_job *job)
{
    return job->name ? job->name : "exchange";
}

/* Runs a job and records it in the logbook and the trace.  A job that began a
 * collective is the same exchange on all ranks; other jobs concern only this
 * rank and a server. */
static enum ct_status run_noted(struct ct_comm *c, struct ct_job *job)
{
    const uint64_t start    = ct_trace_begin();
    const uint32_t sequence = c->sequence;
    const uint64_t sent     = atomic_load(&c->bytes_sent);
    enum ct_status st;

    if (c->pen)
        c->pen->label = job->name;
    st = job->run(c, job->arg);
    if (c->pen) {
        ct_logbook_pen_end(c->pen, st);
        c->pen->label = NULL;
    }
    ct_trace_end_about(start, CT_TRACE_REDUCE, name_of(job),
                       (struct ct_trace_about){
                           .bytes = (int64_t)(atomic_load(&c->bytes_sent) -
                                              sent),
                           .exchange = c->sequence == sequence ? 0
                                                               : sequence + 1,
                           .job = job->number + 1 });
    return st;
}

/* With `lock` held, which is released while the job runs. */
static void jobs_run(struct ct_comm_thread *t, struct ct_job *job)
{
    enum ct_status st = t->broken;
    double start      = ct_now();

    job->seconds = 0;
    if (st != CT_OK) {
        memcpy(job->why, t->why, sizeof(job->why));
        jobs_finish(t, job, st);
        return;
    }
    t->runs = true;
    pthread_mutex_unlock(&t->lock);
    st           = run_noted(t->comm, job);
    job->seconds = ct_now() - start;
    pthread_mutex_lock(&t->lock);
    t->runs = false;
    if (st != CT_OK)
        snprintf(job->why, sizeof(job->why), "%s", ct_last_error());
    if (st == CT_ECOMM) {
        t->broken = st;
        memcpy(t->why, job->why, sizeof(t->why));
    }
    jobs_finish(t, job, st);
}

/* With `lock` held: later jobs fail with `st` and the text of
 * ct_last_error(). */
static void thread_break(struct ct_comm_thread *t, enum ct_status st)
{
    t->broken = st;
    snprintf(t->why, sizeof(t->why), "%s", ct_last_error());
}

/* With `lock` held: waits for a signal, at most `ns` nanoseconds. */
static void await_news(struct ct_comm_thread *t, long ns)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += ns;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&t->work, &t->lock, &until);
}

/* With `lock` held: waits for a job or the stop, or for a moment; calls `idle`
 * meanwhile. */
static void jobs_await(struct ct_comm_thread *t)
{
    const uint64_t seen = t->n_handed_in;
    enum ct_status st;

    if (!t->options.idle || t->broken != CT_OK) {
        if (t->first) /* the view may end before the agreed job is submitted */
            await_news(t, LOOK_NS);
        else
            pthread_cond_wait(&t->work, &t->lock);
        return;
    }
    pthread_mutex_unlock(&t->lock);
    st = t->options.idle(t->comm, t->options.idle_arg);
    pthread_mutex_lock(&t->lock);
    if (st != CT_OK)
        thread_break(t, st);
    if (t->n_handed_in == seen && !t->stop && t->broken == CT_OK)
        await_news(t, t->options.idle_ns > 0 ? t->options.idle_ns : IDLE_NS);
}

/* With `lock` held, which is released during messages: if a job is queued,
 * finds out the number of the next job.  Rank 0 chooses and sends it. */
static void jobs_agree(struct ct_comm_thread *t)
{
    struct ct_job *best = jobs_most_urgent(t);
    enum ct_status st;
    uint64_t next;

    if (!best || t->knows || t->broken != CT_OK)
        return;
    next = best->number;
    pthread_mutex_unlock(&t->lock);
    st = t->comm->rank == 0 ? ct_agree_tell(&t->agree, next)
                            : ct_agree_hear(&t->agree, &next);
    pthread_mutex_lock(&t->lock);
    if (st != CT_OK) {
        thread_break(t, st);
        return;
    }
    t->next  = next;
    t->knows = true;
}

/* With `lock` held: the job to run, or NULL: none yet. */
static struct ct_job *jobs_next(struct ct_comm_thread *t)
{
    struct ct_job *job;

    if (t->order == CT_JOBS_FIFO || t->broken != CT_OK)
        return t->first ? jobs_take(t, t->first->number) : NULL;
    jobs_agree(t);
    job = t->knows ? jobs_take(t, t->next) : NULL;
    if (!job && t->first && t->broken == CT_OK &&
        ct_transport_check(t->comm->transport) != CT_OK)
        thread_break(t, CT_ECOMM);
    if (t->broken != CT_OK)
        return jobs_next(t);
    if (!job)
        return NULL;
    t->knows = false;
    /* Rank 0 sends the number of the job after this one now, so that others get
     * it while this one runs. */
    if (t->comm->rank == 0)
        jobs_agree(t);
    return job;
}

static void *thread_main(void *arg)
{
    struct ct_comm_thread *t = arg;

    ct_trace_thread("comm");
    /* Sleeps between polls are shorter than the kernel's usual slack. */
    prctl(PR_SET_TIMERSLACK, (unsigned long)SLACK_NS, 0, 0, 0);
    pthread_mutex_lock(&t->lock);
    for (;;) {
        struct ct_job *job = jobs_next(t);

        if (job)
            jobs_run(t, job);
        else if (t->stop)
            break;
        else
            jobs_await(t);
    }
    pthread_mutex_unlock(&t->lock);
    if (t->broken == CT_OK &&
        ct_transport_check(t->comm->transport) == CT_OK &&
        ct_agree_end(&t->agree) != CT_OK)
        CT_WARN("%s", ct_last_error());
    return NULL;
}

enum ct_status ct_comm_thread_create(
    struct ct_comm *c, const struct ct_comm_thread_options *options,
    struct ct_comm_thread **out)
{
    struct ct_comm_thread *t;
    pthread_condattr_t attr;

    CT_TRY(ct_alloc(1, sizeof(*t), "comm thread", &t));
    t->comm = c;
    if (options)
        t->options = *options;
    t->order = t->options.order;
    ct_agree_init(&t->agree, c);
    pthread_mutex_init(&t->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&t->work, &attr);
    pthread_cond_init(&t->done, &attr);
    pthread_condattr_destroy(&attr);
    if (pthread_create(&t->thread, NULL, thread_main, t) != 0) {
        pthread_cond_destroy(&t->done);
        pthread_cond_destroy(&t->work);
        pthread_mutex_destroy(&t->lock);
        ct_free(t);
        return ct_fail(CT_ENOMEM, "cannot start the comm thread");
    }
    *out = t;
    return CT_OK;
}

void ct_comm_thread_destroy(struct ct_comm_thread *t)
{
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    t->stop = true;
    pthread_cond_signal(&t->work);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->thread, NULL);
    /* All jobs are done, but threads that waited may still be in
     * ct_job_wait(). */
    pthread_mutex_lock(&t->lock);
    while (t->n_waiting > 0)
        pthread_cond_wait(&t->work, &t->lock);
    pthread_mutex_unlock(&t->lock);
    pthread_cond_destroy(&t->done);
    pthread_cond_destroy(&t->work);
    pthread_mutex_destroy(&t->lock);
    ct_free(t);
}

void ct_job_submit(struct ct_comm_thread *t, struct ct_job *job)
{
    const uint64_t start = ct_trace_begin();
    uint64_t number;

    pthread_mutex_lock(&t->lock);
    CT_ASSERT(job->state != CT_JOB_QUEUED);
    job->thread = t;
    job->state  = CT_JOB_QUEUED;
    job->status = CT_OK;
    job->why[0] = '\0';
    jobs_append(t, job);
    number = job->number;
    pthread_cond_signal(&t->work);
    pthread_mutex_unlock(&t->lock);
    ct_trace_end_about(start, CT_TRACE_SEND, name_of(job),
                       (struct ct_trace_about){ .job = number + 1 });
}

bool ct_job_done(struct ct_job *job)
{
    bool done;

    if (!job->thread)
        return true;
    pthread_mutex_lock(&job->thread->lock);
    done = job->state != CT_JOB_QUEUED;
    pthread_mutex_unlock(&job->thread->lock);
    return done;
}

/* With `lock` held. */
static void waited(struct ct_comm_thread *t)
{
    if (--t->n_waiting == 0 && t->stop)
        pthread_cond_signal(&t->work);
}

enum ct_status ct_job_wait(struct ct_job *job)
{
    struct ct_comm_thread *t = job->thread;
    uint64_t start = 0;
    enum ct_status st;

    if (!t)
        return CT_OK;
    pthread_mutex_lock(&t->lock);
    if (job->state == CT_JOB_QUEUED)
        start = ct_trace_begin();
    t->n_waiting++;
    while (job->state == CT_JOB_QUEUED)
        pthread_cond_wait(&t->done, &t->lock);
    st = job->status;
    waited(t);
    pthread_mutex_unlock(&t->lock);
    ct_trace_end_about(start, CT_TRACE_WAIT, name_of(job),
                       (struct ct_trace_about){ .job = job->number + 1 });
    return st == CT_OK ? CT_OK : ct_fail(st, "%s", job->why);
}

bool ct_job_done_within(struct ct_job *job, double seconds)
{
    struct ct_comm_thread *t = job->thread;
    struct timespec until;
    bool done;

    if (!t)
        return true;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(1e9 * (seconds - floor(seconds)));
    until.tv_sec += (time_t)seconds + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&t->lock);
    t->n_waiting++;
    while (job->state == CT_JOB_QUEUED &&
           pthread_cond_timedwait(&t->done, &t->lock, &until) == 0)
        ;
    done = job->state != CT_JOB_QUEUED;
    waited(t);
    pthread_mutex_unlock(&t->lock);
    return done;
}

void ct_comm_thread_pace(struct ct_comm_thread *t, long idle_ns)
{
    pthread_mutex_lock(&t->lock);
    if (idle_ns < t->options.idle_ns)
        pthread_cond_signal(&t->work);
    t->options.idle_ns = idle_ns;
    pthread_mutex_unlock(&t->lock);
}

void ct_comm_thread_call_off(struct ct_comm_thread *t)
{
    struct ct_transport *transport = t->comm->transport;

    if (transport->ops->over)
        transport->ops->over(transport);
    pthread_mutex_lock(&t->lock);
    if (t->broken == CT_OK) {
        t->broken = CT_ECOMM;
        snprintf(t->why, sizeof(t->why), "rank %d has failed before",
                 t->comm->rank);
    }
    pthread_cond_signal(&t->work);
    pthread_mutex_unlock(&t->lock);
}

enum ct_status ct_job_run(struct ct_comm_thread *t, ct_job_fn run, void *arg)
{
    struct ct_job job = { .run = run, .arg = arg };

    ct_job_submit(t, &job);
    return ct_job_wait(&job);
}

void ct_comm_thread_rest(struct ct_comm_thread *t)
{
    pthread_mutex_lock(&t->lock);
    while (t->first || t->runs)
        pthread_cond_wait(&t->done, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

static enum ct_status agree_job(struct ct_comm *c, void *arg)
{
    struct ct_comm_thread *t = arg;

    (void)c;
    pthread_mutex_lock(&t->lock);
    t->order = CT_JOBS_AGREED;
    pthread_mutex_unlock(&t->lock);
    return CT_OK;
}

enum ct_status ct_comm_thread_agree(struct ct_comm_thread *t)
{
    return ct_job_run(t, agree_job, t);
}

struct ct_comm_thread_stats ct_comm_thread_stats(struct ct_comm_thread *t)
{
    struct ct_comm_thread_stats s;

    pthread_mutex_lock(&t->lock);
    s        = t->stats;
    s.broken = t->broken != CT_OK;
    pthread_mutex_unlock(&t->lock);
    s.bytes_sent     = atomic_load(&t->comm->bytes_sent);
    s.bytes_received = atomic_load(&t->comm->bytes_received);
    s.n_sent         = atomic_load(&t->comm->n_sent);
    s.waiting_for    = atomic_load(&t->comm->waiting_for);
    return s;
}
