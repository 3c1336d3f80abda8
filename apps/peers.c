/* peers.c - commands that several ranks run together. */
#include "peers.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "comm/transport/transports.h"
#include "dist/report/figures.h"

/* A launcher ends the other ranks soon after one has died, with SIGTERM first:
 * time for a line on who it was.  A launcher that is asked to end the job sends
 * the same, and so does Slurm: time for a snapshot.  All threads leave that
 * signal to this one, which therefore starts before them. */
struct end_watch {
    _Atomic(struct ct_dist *) dist; /* NULL: not joined yet */
    atomic_bool               over;
    bool                      runs;
    pthread_t                 thread;
};

static pthread_mutex_t words_lock = PTHREAD_MUTEX_INITIALIZER;
static void (*words_say)(void *arg);
static void *words_arg;
static bool (*_Atomic end_accept)(void);

void peers_set_last_words(void (*say)(void *arg), void *arg)
{
    pthread_mutex_lock(&words_lock);
    words_say = say;
    words_arg = arg;
    pthread_mutex_unlock(&words_lock);
}

void peers_set_accept(bool (*accept)(void))
{
    atomic_store(&end_accept, accept);
}

/* While the rank works: of all that is known of others, this alone may be
 * asked for on any thread. */
static bool someone_is_gone(const struct ct_dist *d)
{
    return d && dist_has_lost(d);
}

/* A second request ends the rank; so does a death, of which this host may hear
 * a little later than the launcher. */
static void await_end(const struct end_watch *e, const sigset_t *set)
{
    const struct timespec nap = { 0, 50000000 };

    while (!someone_is_gone(atomic_load(&e->dist)) && !atomic_load(&e->over))
        if (sigtimedwait(set, NULL, &nap) == SIGTERM)
            return;
}

static void say_last_words(void)
{
    pthread_mutex_lock(&words_lock);
    if (words_say)
        words_say(words_arg);
    pthread_mutex_unlock(&words_lock);
}

static void *end_main(void *arg)
{
    struct end_watch *e = arg;
    sigset_t set;
    int number;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigwait(&set, &number);
    if (!atomic_load(&e->over) &&
        !someone_is_gone(atomic_load(&e->dist))) {
        bool (*accept)(void) = atomic_load(&end_accept);

        if (accept && accept())
            await_end(e, &set);
    }
    if (atomic_load(&e->over))
        return NULL;
    ct_dist_last_words(atomic_load(&e->dist));
    say_last_words();
    fflush(NULL);
    signal(SIGTERM, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    raise(SIGTERM);
    return NULL;
}

static void end_watch_start(struct end_watch *e)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    e->runs = pthread_create(&e->thread, NULL, end_main, e) == 0;
}

static void end_watch_stop(struct end_watch *e)
{
    if (!e->runs)
        return;
    atomic_store(&e->over, true);
    pthread_kill(e->thread, SIGTERM);
    pthread_join(e->thread, NULL);
}

static enum ct_status joined(struct ct_dist *d,
                             enum ct_status (*run)(struct ct_dist *d,
                                                   void *arg), void *arg)
{
    enum ct_status st;

    if (ct_dist_rank(d) > 0 && ct_log_level() < CT_LOG_ERROR)
        ct_log_set_level(CT_LOG_ERROR);
    if (d)
        CT_INFO("Rank %d of %d on %d host(s)", ct_dist_rank(d),
                ct_dist_size(d), ct_dist_n_hosts(d));
    st = run(d, arg);
    if (st != CT_OK && st != CT_ESTOP)
        return st;
    fflush(NULL); /* rank 0 may end this rank from here on */
    CT_TRY(ct_dist_end(d));
    return st;
}

int peers_run(const Caffe__DistributedParameter *options,
              enum ct_status (*run)(struct ct_dist *d, void *arg), void *arg)
{
    struct end_watch end = { 0 };
    struct ct_dist *d    = NULL;
    int code             = EXIT_DONE;
    enum ct_status st;

    signal(SIGPIPE, SIG_IGN); /* who reads the log may go; we go on */
    if (ct_dist_launched())
        end_watch_start(&end);
    st = ct_dist_create(options, &d);
    atomic_store(&end.dist, d);
    if (st == CT_OK)
        st = joined(d, run, arg);
    end_watch_stop(&end);
    if (st == CT_ESTOP) {
        code = EXIT_STOPPED;
        st   = CT_OK;
    }
    /* What went wrong between ranks names them already. */
    if (st != CT_OK && st != CT_ECOMM && ct_dist_size(d) > 1)
        st = ct_fail_in(st, "rank %d", ct_dist_rank(d));
    if (st != CT_OK) {
        code = command_failed(st);
        ct_dist_abort(d, code);
    }
    fflush(NULL);
    ct_dist_end_without(d, code);
    ct_dist_destroy(d);
    if (ct_transports_left_open()) { /* some MPIs hang in their own end */
        fflush(NULL);
        _exit(code);
    }
    return code;
}
