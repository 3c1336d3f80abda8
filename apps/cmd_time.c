/* cmd_time.c - `cortado time`: how long each layer takes, forward and
 * backward, and what share of the CPU's peak that is; with --plan, how blobs
 * lie in memory instead.  The TEST phase has no backward pass.
 *
 * Layers that run as one have one time, the first one's; of the others it is
 * said where they run. */
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
    double  peak; /* operations a second; 0: not known */
    bool    above; /* a share above 100 % was printed */
    const struct ct_device *dev;
};

/* A layer is done when its device is. */
static enum ct_status layer_done(const struct timing *t, double *now)
{
    CT_TRY(t->dev->ops->sync(t->dev));
    *now = ct_now();
    return CT_OK;
}

static enum ct_status one_pass(struct ct_net *net, struct timing *t)
{
    int n = ct_net_n_layers(net);
    double start, mark;

    start = mark = ct_now();
    for (int i = 0; i < n; i++) {
        double now;

        CT_TRY(ct_net_forward_range(net, i, i + 1, NULL));
        CT_TRY(layer_done(t, &now));
        t->forward[i] += now - mark;
        mark = now;
    }
    t->all_forward += mark - start;
    start = mark;
    for (int i = n - 1; i >= 0 && t->backward; i--) {
        double now;

        CT_TRY(ct_net_backward_range(net, i, i));
        CT_TRY(layer_done(t, &now));
        t->backward[i] += now - mark;
        mark = now;
    }
    t->all_backward += mark - start;
    return CT_OK;
}

/* What layers first .. last took, and their work: they run as one. */
static double seconds_of(const double *per_layer, int first, int last)
{
    double sum = 0;

    for (int i = first; i <= last; i++)
        sum += per_layer[i];
    return sum;
}

static struct work group_work(const struct ct_net *net, int first, int last)
{
    struct work all = { 0, 0 };

    for (int i = first; i <= last; i++) {
        const struct work one = work_of(net, i);

        all.forward += one.forward;
        all.backward += one.backward;
    }
    return all;
}

static void print_pass(const char *name, const char *pass, double seconds,
                       double flops, struct timing *t)
{
    const double rate = seconds > 0 ? flops / seconds : 0;
    char share[64] = "";

    if (rate > 0 && t->peak > 0)
        snprintf(share, sizeof(share), " (%.1f GFLOP/s, %.0f%% of peak)",
                 rate / 1e9, 100 * rate / t->peak);
    else if (rate > 0)
        snprintf(share, sizeof(share), " (%.1f GFLOP/s)", rate / 1e9);
    t->above |= t->peak > 0 && rate > t->peak;
    CT_INFO("%10s\t%s: %g ms.%s", name, pass, 1e3 * seconds, share);
}

static void print_layer(const struct ct_net *net, int i, struct timing *t,
                        int n_iter)
{
    const char *name = ct_net_layer(net, i)->name;
    const int first = ct_net_group_first(net, i);
    const int last  = ct_net_group_last(net, i);
    const struct work work = group_work(net, first, last);

    if (i > first) {
        const char *where = ct_net_layer(net, first)->name;

        CT_INFO("%10s\tforward: in %s.", name, where);
        if (t->backward)
            CT_INFO("%10s\tbackward: in %s.", name, where);
        return;
    }
    print_pass(name, "forward", seconds_of(t->forward, first, last) / n_iter,
               work.forward, t);
    if (t->backward)
        print_pass(name, "backward",
                   seconds_of(t->backward, first, last) / n_iter,
                   work.backward, t);
}

/* What whoever reads the figures must know about them. */
static void print_notes(const struct timing *t)
{
    if (t->above)
        CT_INFO("More than 100%% of peak: GFLOP count the products of the "
                "definition, and Winograd's convolutions make fewer; the peak "
                "is float32's, and products of bfloat16 are faster.");
    if (t->peak > 0)
        CT_INFO("Measured peak: %.1f GFLOP/s on %d thread(s)", t->peak / 1e9,
                ct_device_cpu_threads());
    if (t->backward)
        CT_INFO("Layers ran one by one, without updates: `cortado bench` "
                "times whole steps.");
}

static enum ct_status measure(struct ct_net *net, int n_iter,
                              struct timing *t)
{
    double loss, begin;

    t->peak = t->dev->kind == CT_CPU ? ct_cpu_peak_flops().best : 0;
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
        print_layer(net, i, t, n_iter);
    CT_INFO("Average Forward pass: %g ms.", 1e3 * t->all_forward / n_iter);
    CT_INFO("Average Backward pass: %g ms.", 1e3 * t->all_backward / n_iter);
    CT_INFO("Average Forward-Backward: %g ms.",
            1e3 * (t->all_forward + t->all_backward) / n_iter);
    CT_INFO("Total Time: %g ms.", 1e3 * (ct_now() - begin));
    print_notes(t);
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
    struct timing t = { .dev = f->device };
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
