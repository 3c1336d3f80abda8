/* spin.c - how long threads that wait for each other keep their core.
 *
 * libgomp's threads look 300,000 times for what they wait for before they
 * sleep, which takes milliseconds.  With cores of their own that is right:
 * waking takes time, most of all that of a virtual core.  With cores that
 * others use, too, the thread that is waited for may have none while others
 * look for it, and two trainings side by side take ten times as long.
 *
 * While libgomp has more threads than the process has cores, it looks a hundred
 * times only (its manual, GOMP_SPINCOUNT).  So where others are seen on our
 * cores, some threads more are made, which sleep; they go when the cores are
 * ours again.  Others are seen by the time for which the calling thread was
 * ready to run and did not, as the system counts it.
 *
 * Who says how to wait (OMP_WAIT_POLICY, GOMP_SPINCOUNT) has it so. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "base/clock.h"
#include "device/cpu/loop.h"

#ifdef _OPENMP
/* Seconds between two looks at how it stands; shares of that for which a
 * thread had no core, from which on they are shared, and no longer are. */
static const double look_s = 0.1, shared = 0.1, ours = 0.02;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t  enough;
    pthread_t       thread;
    pid_t           process; /* that has it; 0: it is not there */
    bool            over;
    int             n; /* threads of it */
} crowd = { .lock = PTHREAD_MUTEX_INITIALIZER,
            .enough = PTHREAD_COND_INITIALIZER };

static void *crowd_run(void *arg)
{
    (void)arg;
    prctl(PR_SET_NAME, CT_CROWD_NAME); /* of those that it makes, too */
#pragma omp parallel num_threads(crowd.n)
    {
        pthread_mutex_lock(&crowd.lock);
        while (!crowd.over)
            pthread_cond_wait(&crowd.enough, &crowd.lock);
        pthread_mutex_unlock(&crowd.lock);
    }
    return NULL;
}

/* With those that compute, one more than there are cores. */
static void crowd_begin(void)
{
    const int idle = omp_get_num_procs() - omp_get_max_threads();

    crowd.n    = 2 + (idle > 0 ? idle : 0);
    crowd.over = false;
    if (pthread_create(&crowd.thread, NULL, crowd_run, NULL) == 0)
        crowd.process = getpid();
}

static void crowd_end(void)
{
    pthread_mutex_lock(&crowd.lock);
    crowd.over = true;
    pthread_cond_broadcast(&crowd.enough);
    pthread_mutex_unlock(&crowd.lock);
    pthread_join(crowd.thread, NULL);
    crowd.process = 0;
}

/* A process that another one has forked off has none of its threads. */
bool ct_cpu_shares_cores(void)
{
    return crowd.process == getpid();
}

__attribute__((destructor)) static void at_end(void)
{
    if (ct_cpu_shares_cores())
        crowd_end();
}

/* Seconds for which this thread waited for a core, ever; false: not known. */
static bool waited(double *out)
{
    unsigned long long ran, delay;
    FILE *file = fopen("/proc/thread-self/schedstat", "r");
    bool known = file && fscanf(file, "%llu %llu", &ran, &delay) == 2;

    if (file)
        fclose(file);
    *out = known ? 1e-9 * (double)delay : 0;
    return known;
}

static bool asked_for(void)
{
    return getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT");
}

void ct_cpu_note_delay(double share)
{
    static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

    if (omp_get_max_threads() == 1 || asked_for() ||
        pthread_mutex_trylock(&turn) != 0)
        return;
    if (!ct_cpu_shares_cores() && share > shared)
        crowd_begin();
    else if (ct_cpu_shares_cores() && share < ours)
        crowd_end();
    pthread_mutex_unlock(&turn);
}

void ct_cpu_look_around(void)
{
    static _Thread_local double last, before;
    const double now = ct_now();
    double delay;

    if (now - last < look_s || omp_get_max_threads() == 1 || !waited(&delay))
        return;
    if (last > 0)
        ct_cpu_note_delay((delay - before) / (now - last));
    last   = now;
    before = delay;
}
#else
bool ct_cpu_shares_cores(void)
{
    return false;
}

void ct_cpu_note_delay(double share)
{
    (void)share;
}

void ct_cpu_look_around(void)
{
}
#endif
