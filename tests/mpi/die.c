/* die.c - a rank that is killed at a chosen moment of its training.
 *
 *     mpiexec -n 3 mpi_die MOMENT PREFIX    MOMENT: start data forward
 *                                           backward exchange test snapshot
 *     mpi_die resume PREFIX                 are the snapshots whole?
 *
 * A thread of the victim reads its pulse and kills the process when it is at
 * the moment.  Rank 1 is the victim; rank 0, who writes, of a snapshot. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/pulse.h"
#include "peers.h"
#include "solver/exchange.h"

static const char *const moments[] = {
    [CT_PULSE_START] = "start",       [CT_PULSE_DATA] = "data",
    [CT_PULSE_FORWARD] = "forward",   [CT_PULSE_BACKWARD] = "backward",
    [CT_PULSE_EXCHANGE] = "exchange", [CT_PULSE_TEST] = "test",
    [CT_PULSE_SNAPSHOT] = "snapshot",
};

struct job {
    const char *moment, *prefix;
};

int command_failed(enum ct_status st)
{
    CT_ERROR("%s", ct_last_error());
    return (int)st == 0 ? EXIT_RUNTIME : EXIT_INPUT;
}

struct killer {
    const struct ct_pulse *pulse;
    int                    phase;
};

static void *killer_main(void *arg)
{
    const struct killer *k = arg;
    struct ct_pulse_view v;

    do
        v = ct_pulse_view(k->pulse);
    while (v.phase != k->phase || (v.iter < 7 && k->phase != CT_PULSE_START));
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
    struct killer k     = { .phase = phase_of(j->moment) };
    struct ct_solver *s = NULL;
    pthread_t thread;
    enum ct_status st;

    if (!d || k.phase < 0)
        return ct_fail(CT_EINVAL, "start it with mpiexec and a moment");
    k.pulse = ct_dist_exchange(d)->pulse;
    if (ct_dist_rank(d) == (k.phase == CT_PULSE_SNAPSHOT ? 0 : 1) &&
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

int main(int argc, char **argv)
{
    struct job job = { argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "die" };

    if (strcmp(job.moment, "resume") == 0)
        return resume(job.prefix) == CT_OK ? EXIT_DONE
                                           : command_failed(CT_EINVAL);
    return peers_run(NULL, train, &job);
}
