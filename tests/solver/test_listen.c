/* test_listen.c - listeners hear what happens, once, with the log's numbers. */
#include <stdlib.h>

#include "solver_test.h"
#include "testing/files.h"

#define NET                                                                  \
    "net_param { layer { name: 'x' type: 'DummyData' top: 'x' top: 'y' "     \
    "  dummy_data_param { shape { dim: 6 dim: 10 } shape { dim: 6 dim: 2 } " \
    "  data_filler { type: 'gaussian' } data_filler { value: 1 } } }"        \
    "layer { name: 'a' type: 'InnerProduct' bottom: 'x' top: 'a' "           \
    "  inner_product_param { num_output: 2 "                                 \
    "  weight_filler { type: 'xavier' } } }"                                 \
    "layer { name: 'l' type: 'EuclideanLoss' bottom: 'a' bottom: 'y' "       \
    "  top: 'l' loss_weight: 0.5 } } random_seed: 3 "                        \
    "base_lr: 0.1 lr_policy: 'step' gamma: 0.5 stepsize: 2 "

/* What one run has told. */
struct heard {
    struct ct_solver   *solver;
    int                 n_iterations, n_tests, n_snapshots, n_stops;
    struct ct_iteration last;
    double              losses[8], rates[8];
    double              tested, weight;
    char                tested_name[16], state[256];
    enum ct_status      why;
    int                 inspect_at, inspected;
    double              gradient; /* sum of absolute values, of layer a */
    float               scale;
};

static void on_iteration(const struct ct_iteration *e, void *arg)
{
    struct heard *h = arg;

    ASSERT_INT(h->n_iterations, e->iter);
    ASSERT_INT(e->iter + 1, ct_solver_iter(h->solver));
    h->losses[e->iter] = e->loss;
    h->rates[e->iter]  = e->rate;
    h->last            = *e;
    h->n_iterations++;
}

static void on_test(const struct ct_test_result *e, void *arg)
{
    struct heard *h = arg;

    ASSERT_INT(1, e->n_outputs);
    ASSERT_INT(2 * h->n_tests, e->iter);
    snprintf(h->tested_name, sizeof(h->tested_name), "%s", e->output[0].name);
    h->tested = e->output[0].value;
    h->weight = e->output[0].weight;
    h->n_tests++;
}

static void on_snapshot(const struct ct_snapshot_files *e, void *arg)
{
    struct heard *h = arg;

    ASSERT_INT(4, e->iter);
    snprintf(h->state, sizeof(h->state), "%s", e->state);
    h->n_snapshots++;
}

static void on_stop(int iter, enum ct_status why, void *arg)
{
    struct heard *h = arg;

    (void)iter;
    h->why = why;
    h->n_stops++;
}

static bool wants(int iter, void *arg)
{
    return iter == ((struct heard *)arg)->inspect_at;
}

static void on_inspect(struct ct_solver *s, int iter, void *arg)
{
    struct heard *h         = arg;
    const struct ct_blob *w = ct_net_param(ct_solver_net(s), 0)->blob;

    ASSERT_INT(h->inspect_at, iter);
    for (int64_t i = 0; i < w->count; i++)
        h->gradient += fabs((double)ct_diff(w)[i]);
    h->scale = ct_solver_gradient_scale(s, 0);
    h->inspected++;
}

static const struct ct_solver_events events = {
    on_iteration, on_test, on_snapshot, NULL, on_stop, wants, on_inspect,
    NULL,
};

static struct ct_solver *solver(const char *words, struct heard *h)
{
    char text[4096];

    snprintf(text, sizeof(text), NET "%s", words);
    h->solver     = solver_of(text);
    h->inspect_at = -1;
    ASSERT_OK(ct_solver_listen(h->solver, &events, h));
    return h->solver;
}

TEST(listen, iterations_come_with_loss_rate_and_samples)
{
    struct heard h      = { 0 };
    struct ct_solver *s = solver("max_iter: 5 average_loss: 2 display: 4 "
                                 "iter_size: 3 "
                                 "snapshot_after_train: false", &h);

    ASSERT_OK(ct_solver_solve(s));
    ASSERT_INT(5, h.n_iterations);
    ASSERT_INT(1, h.n_stops);
    ASSERT_INT(CT_OK, h.why);
    ASSERT_INT(18, (int)h.last.samples);
    ASSERT(h.last.displayed);
    ASSERT_FLOAT(0.1, h.rates[1], 1e-7);
    ASSERT_FLOAT(0.05, h.rates[2], 1e-7);
    ASSERT_FLOAT(0.025, h.rates[4], 1e-7);
    ASSERT_FLOAT((h.losses[3] + h.losses[4]) / 2, h.last.smoothed, 1e-6);
    ASSERT(h.losses[3] != h.losses[4] && h.last.seconds > 0);
    ASSERT_FLOAT(0, h.last.seconds_left, 0);
}

TEST(listen, tests_and_snapshots_come_with_their_results)
{
    struct heard h = { 0 };
    char words[512];
    struct ct_solver *s;

    snprintf(words, sizeof(words), "max_iter: 4 test_iter: 1 "
             "test_interval: 2 snapshot_prefix: '%s'", test_path("s"));
    s = solver(words, &h);
    ASSERT_OK(ct_solver_solve(s));
    ASSERT_INT(3, h.n_tests);
    ASSERT_HAS("l", h.tested_name);
    ASSERT_FLOAT(0.5, h.weight, 0);
    ASSERT(h.tested > 0);
    ASSERT_INT(1, h.n_snapshots);
    ASSERT_HAS("s_iter_4.solverstate", h.state);
}

/* Alone such a gradient is never stored; who asks for it finds it. */
TEST(listen, inspect_sees_gradients_that_are_otherwise_not_stored)
{
    for (int at = -1; at < 4; at += 4) {
        struct heard h = { 0 };
        struct ct_solver *s;
        const struct ct_blob *w;
        double stored = 0;

        setenv("CORTADO_IMPL", "update:early", 1);
        s = solver("max_iter: 4 snapshot_after_train: false", &h);
        unsetenv("CORTADO_IMPL");
        h.inspect_at = at;
        ASSERT_OK(ct_solver_solve(s));
        w = ct_net_param(ct_solver_net(s), 0)->blob;
        for (int64_t i = 0; i < w->count; i++)
            stored += fabs((double)ct_diff(w)[i]);
        ASSERT_INT(at >= 0, h.inspected);
        ASSERT_INT(at >= 0, stored > 0);
        ASSERT_INT(at >= 0, h.gradient > 0);
        ASSERT_FLOAT(at >= 0 ? 1 : 0, h.scale, 0);
    }
}

TEST(listen, looking_on_changes_no_parameter)
{
    struct heard h[2]      = { { 0 }, { 0 } };
    struct ct_solver *s[2];

    for (int i = 0; i < 2; i++) {
        setenv("CORTADO_IMPL", "update:early", 1);
        s[i] = solver("max_iter: 4 snapshot_after_train: false "
                      "momentum: 0.9", &h[i]);
        unsetenv("CORTADO_IMPL");
        h[i].inspect_at = i ? 2 : -1;
        ASSERT_OK(ct_solver_solve(s[i]));
    }
    for (size_t i = 0; i < ct_net_arena_count(ct_solver_net(s[0])); i++)
        ASSERT_FLOAT(ct_net_arena_data(ct_solver_net(s[0]))[i],
                     ct_net_arena_data(ct_solver_net(s[1]))[i], 2e-6);
}

TEST(listen, a_ninth_listener_is_refused)
{
    struct heard h      = { 0 };
    struct ct_solver *s = solver("max_iter: 1 snapshot_after_train: false",
                                 &h);

    for (int i = 1; i < 8; i++)
        ASSERT_OK(ct_solver_listen(s, &events, &h));
    ASSERT_STATUS(CT_EINVAL, ct_solver_listen(s, &events, &h));
}
