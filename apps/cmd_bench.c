/* cmd_bench.c - `cortado bench`: how fast a net trains, as JSON.
 *
 * Whole training steps are timed: forward, backward and the update by SGD
 * with momentum and weight decay.  With --layers each layer is timed inside
 * those steps as well, and other_s is what is left of a step: clearing the
 * gradients and the update.  All times are medians over the steps.
 *
 * A layer's bytes are what it cannot but move: operands once, results once.
 * "updates" stands where a layer's weights are updated while their gradient is
 * made, in the time of its backward pass.
 *
 *     { "net": "LeNet", "threads": 1, "steps": 812, "step_s": 0.0123, ...
 *       "layers": [ { "name": "conv1", "type": "Convolution", ... }, ... ] }
 *
 * step_cpu_s is the time of all threads on a core, which tells more than
 * step_s where other processes want the cores too; --cpu takes it for layers.
 *
 * The learning rate is tiny: the net is timed, not trained. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "device/peak.h"
#include "net_flags.h"
#include "work.h"

enum { WARM_UP = 2, LEAST_STEPS = 3, MOST_STEPS = 10000 };

struct bench {
    struct ct_solver *solver;
    struct ct_net    *net; /* the solver's */
    int               n_steps, step;
    double           *step_s, *cpu_s; /* n_steps each */
    double           *layer_s; /* 2 layers x n_steps: forward, backward */
    double           *other_s; /* n_steps: a step without its layers */
    bool             *updates; /* per layer: in its backward pass */
    bool              on_cores; /* layer times, else on the wall */
    double            mark, step_start, cpu_start;
    const struct ct_device *dev; /* NULL: the CPU */
};

static double cpu_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* Sorts what it is given. */
static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof(*x), by_value);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

static double *layer_row(const struct bench *b, int layer, bool backward)
{
    return b->layer_s + (size_t)(2 * layer + backward) * (size_t)b->n_steps;
}

/* A layer is done when its device is. */
static double layer_now(const struct bench *b)
{
    if (b->dev)
        (void)b->dev->ops->sync(b->dev);
    return b->on_cores ? cpu_now() : ct_now();
}

static enum ct_status layer_begins(struct ct_net *net, int layer, void *arg)
{
    struct bench *b = arg;

    (void)net, (void)layer;
    b->mark = layer_now(b);
    return CT_OK;
}

static enum ct_status forward_ends(struct ct_net *net, int layer, void *arg)
{
    struct bench *b = arg;

    (void)net;
    layer_row(b, layer, false)[b->step] = layer_now(b) - b->mark;
    return CT_OK;
}

static enum ct_status backward_ends(struct ct_net *net, int layer, void *arg)
{
    struct bench *b = arg;

    layer_row(b, layer, true)[b->step] = layer_now(b) - b->mark;
    b->updates[layer] = ct_net_layer(net, layer)->sink != NULL;
    return CT_OK;
}

/* After every step; what is not measured has no place yet. */
static void step_ends(const struct ct_iteration *e, void *arg)
{
    struct bench *b = arg;
    double now = ct_now(), cpu = cpu_now(), layers = 0;

    (void)e;
    if (!b->step_s)
        return;
    b->step_s[b->step] = now - b->step_start;
    b->cpu_s[b->step]  = cpu - b->cpu_start;
    for (int i = 0; b->layer_s && i < ct_net_n_layers(b->net); i++)
        layers += layer_row(b, i, false)[b->step] +
                  layer_row(b, i, true)[b->step];
    b->other_s[b->step] =
        (b->on_cores ? b->cpu_s : b->step_s)[b->step] - layers;
    b->step_start = now;
    b->cpu_start  = cpu;
    b->step++;
}

/* Asked during every step, whether it is the last. */
static enum ct_solver_action enough(void *arg)
{
    const struct bench *b = arg;

    return b->step_s && b->step + 1 == b->n_steps ? CT_ACTION_STOP
                                                  : CT_ACTION_NONE;
}

static const struct ct_solver_events events = { .iteration = step_ends };

static enum ct_status create_solver(const struct net_flags *f, struct bench *b)
{
    Caffe__SolverParameter p;
    struct ct_solver_options o = { .device   = f->device,
                                   .level    = f->level,
                                   .stage    = f->stages,
                                   .n_stage  = f->n_stages,
                                   .action   = enough,
                                   .arg      = b };
    char policy[] = "fixed";

    caffe__solver_parameter__init(&p);
    p.net           = (char *)(uintptr_t)f->model; /* copied */
    p.lr_policy     = policy;
    p.base_lr       = 1e-6f;
    p.momentum      = 0.9f;
    p.weight_decay  = 0.0005f;
    p.random_seed   = 1;
    p.test_interval = 0;
    CT_TRY(ct_solver_create(&p, &o, &b->solver));
    return ct_solver_listen(b->solver, &events, b);
}

/* The first steps make what later ones use again; the last of them tells how
 * many fit into the time. */
static enum ct_status warm_up(struct bench *b, double seconds, int n_steps)
{
    double start = 0, n;

    for (int i = 0; i < WARM_UP; i++) {
        start = ct_now();
        CT_TRY(ct_solver_step(b->solver, 1));
    }
    n          = seconds / (ct_now() - start);
    b->n_steps = n_steps > 0         ? n_steps
                 : n > MOST_STEPS    ? MOST_STEPS
                 : n > LEAST_STEPS   ? (int)n
                                     : LEAST_STEPS;
    return CT_OK;
}

static enum ct_status measure(struct bench *b, bool layers)
{
    const struct ct_net_hooks hooks = {
        .before_forward  = layer_begins,
        .after_forward   = forward_ends,
        .before_backward = layer_begins,
        .after_backward  = backward_ends,
        .arg             = b,
    };
    size_t n = (size_t)b->n_steps;

    CT_TRY(ct_alloc(n, sizeof(*b->cpu_s), "step times", &b->cpu_s));
    CT_TRY(ct_alloc(n, sizeof(*b->other_s), "step times", &b->other_s));
    if (layers) {
        CT_TRY(ct_alloc(2 * n * (size_t)ct_net_n_layers(b->net),
                        sizeof(*b->layer_s), "layer times", &b->layer_s));
        CT_TRY(ct_alloc((size_t)ct_net_n_layers(b->net), sizeof(*b->updates),
                        "layers", &b->updates));
        ct_net_set_hooks(b->net, &hooks);
    }
    CT_TRY(ct_alloc(n, sizeof(*b->step_s), "step times", &b->step_s));
    b->step_start = ct_now();
    b->cpu_start  = cpu_now();
    /* As if there were many more, which is what a solver prepares for. */
    return ct_solver_step(b->solver, INT_MAX / 2);
}

/* Names are the prototxt's, and may hold anything. */
static void print_text(const char *s)
{
    putchar('"');
    for (; *s; s++)
        if (*s == '"' || *s == '\\')
            printf("\\%c", *s);
        else if ((unsigned char)*s < ' ')
            printf("\\u%04x", (unsigned)*s);
        else
            putchar(*s);
    putchar('"');
}

/* The layers that run as one at the turn of `last`, by the first one's name. */
static void print_group(const struct bench *b, int last)
{
    int first     = ct_net_group_first(b->net, last);
    struct work w = { 0 }, moves = traffic_of(b->net, first, last);
    bool updates  = false;

    printf("%s\n    { \"name\": ", first ? "," : "");
    print_text(ct_net_layer(b->net, first)->name);
    printf(", \"type\": \"");
    for (int i = first; i <= last; i++) {
        struct work one = work_of(b->net, i);

        w.forward += one.forward;
        w.backward += one.backward;
        updates |= b->updates[i];
        printf("%s%s", i > first ? "+" : "",
               ct_net_layer(b->net, i)->type->name);
    }
    printf("\", \"forward_s\": %.9g, \"backward_s\": %.9g, "
           "\"forward_flops\": %.0f, \"backward_flops\": %.0f, "
           "\"forward_bytes\": %.0f, \"backward_bytes\": %.0f%s }",
           median(layer_row(b, last, false), b->n_steps),
           median(layer_row(b, last, true), b->n_steps), w.forward,
           w.backward, moves.forward, moves.backward,
           updates ? ", \"updates\": true" : "");
}

static void print_layers(const struct bench *b)
{
    int n = ct_net_n_layers(b->net);

    printf(",\n  \"other_s\": %.9g,\n  \"layers\": [",
           median(b->other_s, b->n_steps));
    for (int i = 0; i < n; i++)
        if (ct_net_group_last(b->net, i) == i)
            print_group(b, i);
    printf(" ]");
}

static void print_result(const struct bench *b, double peak)
{
    struct rusage use = { 0 };
    double flops = 0, params = 0;

    for (int i = 0; i < ct_net_n_layers(b->net); i++) {
        struct work w = work_of(b->net, i);

        flops += w.forward + w.backward;
    }
    for (int i = 0; i < ct_net_n_params(b->net); i++)
        params += (double)ct_net_param(b->net, i)->blob->count;
    getrusage(RUSAGE_SELF, &use);
    printf("{ \"net\": ");
    print_text(ct_net_name(b->net));
    printf(", \"threads\": %d, \"vector_unit\": \"%s\",\n",
           ct_device_cpu_threads(), ct_cpu_vector_name());
    printf("  \"steps\": %d, \"step_s\": %.9g, \"step_cpu_s\": %.9g, "
           "\"step_flops\": %.0f, \"param_count\": %.0f,\n", b->n_steps,
           median(b->step_s, b->n_steps), median(b->cpu_s, b->n_steps),
           flops, params);
    printf("  \"peak_flops\": %.0f, \"peak_memory_bytes\": %.0f", peak,
           1024.0 * (double)use.ru_maxrss);
    if (b->layer_s)
        print_layers(b);
    printf(" }\n");
}

static enum ct_status run(const struct net_flags *f, double seconds,
                          int n_steps, bool layers, bool on_cores)
{
    struct bench b = { .on_cores = on_cores, .dev = f->device };
    double peak    = ct_cpu_peak_flops().best;
    enum ct_status st;

    CT_TRY_GOTO(create_solver(f, &b), st, out);
    b.net = ct_solver_net(b.solver);
    CT_TRY_GOTO(warm_up(&b, seconds, n_steps), st, out);
    CT_TRY_GOTO(measure(&b, layers), st, out);
    print_result(&b, peak);
out:
    ct_free(b.step_s);
    ct_free(b.cpu_s);
    ct_free(b.other_s);
    ct_free(b.layer_s);
    ct_free(b.updates);
    ct_solver_destroy(b.solver);
    return st;
}

int cmd_bench(int argc, char **argv)
{
    struct net_flags f = { 0 };
    double seconds = 5;
    int n_steps    = 0;
    bool layers = false, on_cores = false;
    const struct flag flags[] = {
        FLAG("model", &f.model),
        FLAG("seconds", &seconds),
        FLAG("iterations", &n_steps),
        FLAG("layers", &layers),
        FLAG("cpu", &on_cores),
        NET_FLAGS(f),
        FLAG_END,
    };
    bool helped;
    enum ct_status st;

    ct_log_set_level(CT_LOG_WARNING);
    if (!flags_parse(flags, &argc, argv, &helped))
        return helped ? EXIT_DONE : EXIT_USAGE;
    if (argc != 1 || !f.model || n_steps < 0 || !(seconds > 0)) {
        fprintf(stderr, "cortado bench: %s\n",
                argc != 1     ? "takes flags only"
                : !f.model    ? "needs --model, a net to train"
                : n_steps < 0 ? "--iterations cannot be negative"
                              : "--seconds must be more than 0");
        return EXIT_USAGE;
    }
    st = net_flags_apply(&f);
    if (st == CT_OK)
        st = run(&f, seconds, n_steps, layers, on_cores);
    net_flags_fini(&f);
    return st == CT_OK ? EXIT_DONE : command_failed(st);
}
