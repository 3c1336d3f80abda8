/* cmd_time.c - `cortado time`: how long each layer takes, forward and
 * backward, and what share of the machine's peak that is; with --plan, how
 * blobs lie in memory instead.  The TEST phase has no backward pass. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "device/peak.h"
#include "net_flags.h"
#include "work.h"

struct timing {
    double *forward, *backward; /* seconds, per layer, all iterations */
    double  all_forward, all_backward;
};

static enum ct_status one_pass(struct ct_net *net, struct timing *t)
{
    int n = ct_net_n_layers(net);
    double start, mark;

    start = mark = ct_now();
    for (int i = 0; i < n; i++) {
        double now;

        CT_TRY(ct_net_forward_range(net, i, i + 1, NULL));
        now = ct_now();
        t->forward[i] += now - mark;
        mark = now;
    }
    t->all_forward += mark - start;
    start = mark;
    for (int i = n - 1; i >= 0 && t->backward; i--) {
        double now;

        CT_TRY(ct_net_backward_range(net, i, i));
        now = ct_now();
        t->backward[i] += now - mark;
        mark = now;
    }
    t->all_backward += mark - start;
    return CT_OK;
}

static void print_layer(const struct ct_net *net, int i,
                        const struct timing *t, int n_iter, double peak)
{
    struct ct_layer *l = ct_net_layer(net, i);
    double fwd = t->forward[i] / n_iter;
    double bwd = t->backward ? t->backward[i] / n_iter : 0;
    struct work work  = work_of(net, i);
    char share[2][64] = { "", "" };

    if (work.forward > 0 && fwd > 0)
        snprintf(share[0], sizeof(share[0]), " (%.1f GFLOP/s, %.0f%% of peak)",
                 work.forward / fwd / 1e9, 100 * work.forward / fwd / peak);
    if (work.backward > 0 && bwd > 0)
        snprintf(share[1], sizeof(share[1]), " (%.1f GFLOP/s, %.0f%% of peak)",
                 work.backward / bwd / 1e9, 100 * work.backward / bwd / peak);
    CT_INFO("%10s\tforward: %g ms.%s", l->name, 1e3 * fwd, share[0]);
    if (t->backward)
        CT_INFO("%10s\tbackward: %g ms.%s", l->name, 1e3 * bwd, share[1]);
}

static enum ct_status measure(struct ct_net *net, int n_iter,
                              struct timing *t)
{
    double loss, peak = ct_cpu_peak_flops().best, begin;

    CT_INFO("Performing Forward");
    CT_TRY(ct_net_forward(net, &loss));
    CT_INFO("Initial loss: %g", loss);
    if (t->backward) {
        CT_INFO("Performing Backward");
        CT_TRY(ct_net_backward(net));
    }
    CT_INFO("*** Benchmark begins ***");
    CT_INFO("Testing for %d iterations.", n_iter);
    begin = ct_now();
    for (int i = 0; i < n_iter; i++) {
        double start = ct_now();

        CT_TRY(one_pass(net, t));
        CT_INFO("Iteration: %d forward-backward time: %g ms.", i + 1,
                1e3 * (ct_now() - start));
    }
    CT_INFO("Average time per layer: ");
    for (int i = 0; i < ct_net_n_layers(net); i++)
        print_layer(net, i, t, n_iter, peak);
    CT_INFO("Average Forward pass: %g ms.", 1e3 * t->all_forward / n_iter);
    CT_INFO("Average Backward pass: %g ms.", 1e3 * t->all_backward / n_iter);
    CT_INFO("Average Forward-Backward: %g ms.",
            1e3 * (t->all_forward + t->all_backward) / n_iter);
    CT_INFO("Total Time: %g ms.", 1e3 * (ct_now() - begin));
    CT_INFO("Measured peak: %.1f GFLOP/s on %d thread(s)", peak / 1e9,
            ct_device_cpu_threads());
    CT_INFO("*** Benchmark ends ***");
    return CT_OK;
}

static enum ct_status print_plan(const struct ct_net *net)
{
    char *text = NULL;
    enum ct_status st = ct_net_plan_text(net, &text);

    if (st == CT_OK)
        fputs(text, stdout);
    ct_free(text);
    return st;
}

static enum ct_status run(const struct net_flags *f, int n_iter, bool plan)
{
    bool test = f->phase && strcmp(f->phase, "TEST") == 0;
    struct ct_net_options o = net_flags_options(
        f, test ? CAFFE__PHASE__TEST : CAFFE__PHASE__TRAIN);
    struct ct_net *net = NULL;
    struct timing t = { 0 };
    size_t n;
    enum ct_status st;

    if (f->phase && !test && strcmp(f->phase, "TRAIN") != 0)
        return ct_fail(CT_EINVAL, "--phase is TRAIN or TEST, not '%s'",
                       f->phase);
    o.quiet        = plan;
    o.forward_only = test;
    o.fixed_params = test;
    CT_TRY_GOTO(ct_net_create_file(f->model, &o, &net), st, out);
    if (plan) {
        st = print_plan(net);
        goto out;
    }
    n = (size_t)ct_net_n_layers(net) + 1;
    CT_TRY_GOTO(ct_alloc(n, sizeof(*t.forward), "timing", &t.forward), st,
                out);
    if (!test)
        CT_TRY_GOTO(ct_alloc(n, sizeof(*t.backward), "timing", &t.backward),
                    st, out);
    st = measure(net, n_iter, &t);
out:
    ct_free(t.forward);
    ct_free(t.backward);
    ct_net_destroy(net);
    return st;
}

int cmd_time(int argc, char **argv)
{
    struct net_flags f = { 0 };
    int n_iter = 50;
    bool plan = false;
    const struct flag flags[] = {
        FLAG("model", &f.model),
        FLAG("iterations", &n_iter),
        FLAG("phase", &f.phase),
        FLAG("plan", &plan),
        NET_FLAGS(f),
        FLAG_END,
    };
    bool helped;
    enum ct_status st;

    if (!flags_parse(flags, &argc, argv, &helped))
        return helped ? EXIT_DONE : EXIT_USAGE;
    if (argc != 1 || !f.model || n_iter < 1) {
        fprintf(stderr, "cortado time: %s\n",
                argc != 1  ? "takes flags only"
                : !f.model ? "needs --model, a net to time"
                           : "--iterations must be at least 1");
        return EXIT_USAGE;
    }
    st = net_flags_apply(&f);
    if (st == CT_OK)
        st = run(&f, n_iter, plan);
    net_flags_fini(&f);
    return st == CT_OK ? EXIT_DONE : command_failed(st);
}
