/* train.c - trains a net, watches it, and stops when it is good enough.
 *
 *     train SOLVER.prototxt ACCURACY
 *
 * Prints a line per test.  Once the output `accuracy` of a test reaches
 * ACCURACY, training stops after the current iteration, with a snapshot. */
#include <cortado/log.h>
#include <cortado/solver.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct watch {
    double wanted, best; /* accuracies */
    double loss;         /* of the latest iteration */
    int    n_iterations;
};

/* The functions below are called on the thread that trains: training waits
 * for them. */
static void on_iteration(const struct ct_iteration *e, void *arg)
{
    struct watch *w = arg;

    w->loss = e->loss;
    w->n_iterations++;
}

static void on_test(const struct ct_test_result *e, void *arg)
{
    struct watch *w = arg;

    for (int i = 0; i < e->n_outputs; i++)
        if (strcmp(e->output[i].name, "accuracy") == 0) {
            printf("iteration %d: accuracy %.3f, loss %.4f\n", e->iter,
                   e->output[i].value, w->loss);
            if (e->output[i].value > w->best)
                w->best = e->output[i].value;
        }
    fflush(stdout);
}

static void on_snapshot(const struct ct_snapshot_files *e, void *arg)
{
    (void)arg;
    printf("wrote %s\n", e->model);
}

/* Asked once per iteration. */
static enum ct_solver_action good_enough(void *arg)
{
    const struct watch *w = arg;

    return w->best >= w->wanted ? CT_ACTION_STOP : CT_ACTION_NONE;
}

static const struct ct_solver_events events = {
    .iteration = on_iteration,
    .test      = on_test,
    .snapshot  = on_snapshot,
};

static enum ct_status train(const char *path, struct watch *w)
{
    struct ct_solver_options options = { .action = good_enough, .arg = w };
    struct ct_solver *solver         = NULL;
    enum ct_status st;

    CT_TRY(ct_solver_create_file(path, &options, &solver));
    st = ct_solver_listen(solver, &events, w);
    if (st == CT_OK)
        st = ct_solver_solve(solver);
    ct_solver_destroy(solver);
    return st == CT_ESTOP ? CT_OK : st; /* it stopped because we asked */
}

int main(int argc, char **argv)
{
    struct watch w = { 0 };

    if (argc != 3) {
        fprintf(stderr, "usage: train SOLVER.prototxt ACCURACY\n");
        return 1;
    }
    w.wanted = strtod(argv[2], NULL);
    ct_log_set_level(CT_LOG_WARNING);
    if (train(argv[1], &w) != CT_OK) {
        fprintf(stderr, "train: %s\n", ct_last_error());
        return 2;
    }
    printf("%d iterations, best accuracy %.3f\n", w.n_iterations, w.best);
    return w.best >= w.wanted ? 0 : 3;
}
