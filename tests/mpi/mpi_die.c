/* mpi_die.c - a rank that is killed at a chosen moment of its training.
 *
 *     mpiexec -n 3 mpi_die MOMENT PREFIX VICTIM [OPTIONS]
 *     mpi_die resume PREFIX                 are the snapshots whole?
 *
 * MOMENT is start, data, forward, backward, exchange, update, test, snapshot
 * or serving: a thread of the victim reads its pulse and kills the process
 * when it is there; or a number, the milliseconds after which the process
 * dies, in the middle of MPI's start or the self-test.  OPTIONS are those of a
 * solver's `distributed { }`. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/pulse.h"
#include "comm/transport/transports.h"
#include "peers.h"
#include "solver/exchange.h"

static const char *const moments[] = {
    [CT_PULSE_START] = "start",       [CT_PULSE_DATA] = "data",
    [CT_PULSE_FORWARD] = "forward",   [CT_PULSE_BACKWARD] = "backward",
    [CT_PULSE_EXCHANGE] = "exchange", [CT_PULSE_TEST] = "test",
    [CT_PULSE_UPDATE] = "update",     [CT_PULSE_SNAPSHOT] = "snapshot",
    [CT_PULSE_SERVING] = "serving",
};

struct job {
    const char *moment, *prefix;
    int         victim;
};

int command_failed(enum ct_status st)
{
    CT_ERROR("%s", ct_last_error());
    return (int)st == 0 ? EXIT_RUNTIME : EXIT_INPUT;
}

struct killer {
    const struct ct_pulse *pulse;
    int                    phase;
    const char            *prefix;
};

/* A snapshot is written beside training: one of them is there. */
static bool is_time(const struct killer *k, const struct ct_pulse_view *v)
{
    char path[4096];

    if (v->phase != k->phase)
        return false;
    snprintf(path, sizeof(path), "%s_iter_5.solverstate", k->prefix);
    return k->phase == CT_PULSE_START ||
           (v->iter >= 7 && access(path, F_OK) == 0);
}

static void *killer_main(void *arg)
{
    const struct killer *k = arg;
    struct ct_pulse_view v;

    do
        v = ct_pulse_view(k->pulse);
    while (!is_time(k, &v));
    kill(getpid(), SIGKILL);
    return NULL;
}

static int phase_of(const char *moment)
{
    for (int i = 0; i < (int)(sizeof(moments) / sizeof(moments[0])); i++)
        if (moments[i] && strcmp(moments[i], moment) == 0)
            return i;
    return -1;
}

static enum ct_status make_solver(struct ct_dist *d, const char *prefix,
                                  struct ct_solver **out)
{
    const struct ct_solver_options o = { .rank     = ct_dist_rank(d),
                                         .size     = ct_dist_size(d),
                                         .exchange = ct_dist_exchange(d) };
    Caffe__SolverParameter *p = NULL;
    char text[2048];
    enum ct_status st;

    snprintf(text, sizeof(text),
        "net_param { name: 'die' layer { name: 'in' type: 'DummyData' "
        "top: 'x' top: 'y' dummy_data_param { shape { dim: 16 dim: 500 } "
        "shape { dim: 16 } data_filler { type: 'gaussian' } "
        "data_filler { type: 'constant' value: 3 } } }"
        "layer { name: 'fc' type: 'InnerProduct' bottom: 'x' top: 'fc' "
        "inner_product_param { num_output: 100 "
        "weight_filler { type: 'xavier' } } }"
        "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'fc' "
        "bottom: 'y' top: 'loss' } } base_lr: 0.01 lr_policy: 'fixed' "
        "max_iter: 1000000 random_seed: 1 snapshot: 5 test_iter: 6 "
        "test_interval: 5 snapshot_prefix: '%s'", prefix);
    CT_TRY(ct_text_parse(&caffe__solver_parameter__descriptor, text,
                         strlen(text), "die", &p));
    st = ct_solver_create(p, &o, out);
    ct_message_free(p);
    return st;
}

static enum ct_status train(struct ct_dist *d, void *arg)
{
    const struct job *j = arg;
    struct killer k     = { .phase  = phase_of(j->moment),
                            .prefix = j->prefix };
    struct ct_solver *s = NULL;
    pthread_t thread;
    enum ct_status st;

    if (!d)
        return ct_fail(CT_EINVAL, "start it with mpiexec and a moment");
    k.pulse = ct_dist_exchange(d)->facts.pulse;
    if (ct_dist_rank(d) == j->victim && k.phase >= 0 &&
        pthread_create(&thread, NULL, killer_main, &k) != 0)
        return ct_fail(CT_ENOMEM, "no thread");
    st = make_solver(d, j->prefix, &s);
    if (st == CT_OK)
        st = ct_solver_solve(s);
    ct_solver_destroy(s);
    return st;
}

static enum ct_status resume(const char *prefix)
{
    struct ct_solver *s = NULL;
    char *path          = NULL;
    enum ct_status st   = make_solver(NULL, prefix, &s);

    if (st == CT_OK)
        st = ct_solver_newest_snapshot(s, &path);
    if (st == CT_OK)
        st = ct_solver_restore(s, path);
    if (st == CT_OK)
        printf("resumed at iteration %d\n", ct_solver_iter(s));
    ct_solver_destroy(s);
    return st;
}

/* Dies in so many milliseconds, wherever it is then. */
static void die_in(long ms)
{
    const struct itimerval t = { .it_value = { ms / 1000,
                                               ms % 1000 * 1000 } };

    setitimer(ITIMER_REAL, &t, NULL);
}

int main(int argc, char **argv)
{
    struct job job = { argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "die",
                       argc > 3 ? (int)strtol(argv[3], NULL, 10) : -1 };
    const char *text = argc > 4 ? argv[4] : "";
    Caffe__DistributedParameter *options = NULL;
    long ms = strtol(job.moment, NULL, 10);

    if (strcmp(job.moment, "resume") == 0)
        return resume(job.prefix) == CT_OK ? EXIT_DONE
                                           : command_failed(CT_EINVAL);
    if (ct_text_parse(&caffe__distributed_parameter__descriptor, text,
                      strlen(text), "options", &options) != CT_OK)
        return command_failed(CT_EINVAL);
    if (ms > 0 && ct_launched_rank() == job.victim)
        die_in(ms);
    return peers_run(options, train, &job);
}
