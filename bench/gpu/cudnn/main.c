/* main.c - our layers beside cuDNN's, on the shapes of well-known nets.
 *
 *     cudnn_bench [--precision=fp32|tf32|bf16] [KIND...]
 *                              conv max ave lrn norm softmax dropout lstm
 *                              points ends
 *
 * One line a layer: microseconds on the GPU forward and backward, ours and
 * cuDNN's (the better of its ways), each a recorded run of REPEATS calls, the
 * best of several turns that alternate; and cuDNN's time over ours, so that
 * above 1 ours is the faster.  "inf": it does not do that.  `conv` is a table
 * of its own: see convolutions.c. */
#include "cudnn_bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda/cuda.h"
#include "device/recording.h"

enum { REPEATS = 20, TURNS = 5 };

static const char *const kinds[] = { "max", "ave", "lrn", "norm", "softmax",
                                     "dropout", "lstm" };

static const struct work works[] = {
    { "alexnet", MAX_POOL, 256, 96, 55, 55, 3, 2, 0 },
    { "alexnet", MAX_POOL, 256, 256, 27, 27, 3, 2, 0 },
    { "alexnet", MAX_POOL, 256, 256, 13, 13, 3, 2, 0 },
    { "googlenet", MAX_POOL, 128, 64, 112, 112, 3, 2, 0 },
    { "googlenet", MAX_POOL, 128, 192, 56, 56, 3, 2, 0 },
    { "googlenet", MAX_POOL, 128, 480, 28, 28, 3, 2, 0 },
    { "googlenet", MAX_POOL, 128, 256, 28, 28, 3, 1, 1 },
    { "googlenet", MAX_POOL, 128, 528, 14, 14, 3, 1, 1 },
    { "cifar10_full", MAX_POOL, 100, 32, 32, 32, 3, 2, 0 },
    { "googlenet", AVE_POOL, 128, 512, 14, 14, 5, 3, 0 },
    { "googlenet", AVE_POOL, 128, 1024, 7, 7, 7, 1, 0 },
    { "resnet50", AVE_POOL, 128, 2048, 7, 7, 7, 1, 0 },
    { "cifar10_full", AVE_POOL, 100, 32, 16, 16, 3, 2, 0 },
    { "alexnet", LRN, 256, 96, 55, 55, 0, 0, 0 },
    { "alexnet", LRN, 256, 256, 27, 27, 0, 0, 0 },
    { "googlenet", LRN, 128, 64, 56, 56, 0, 0, 0 },
    { "googlenet", LRN, 128, 192, 56, 56, 0, 0, 0 },
    { "resnet50", NORM, 128, 64, 112, 112, 0, 0, 0 },
    { "resnet50", NORM, 128, 256, 56, 56, 0, 0, 0 },
    { "resnet50", NORM, 128, 64, 56, 56, 0, 0, 0 },
    { "resnet50", NORM, 128, 512, 28, 28, 0, 0, 0 },
    { "resnet50", NORM, 128, 128, 28, 28, 0, 0, 0 },
    { "resnet50", NORM, 128, 1024, 14, 14, 0, 0, 0 },
    { "resnet50", NORM, 128, 256, 14, 14, 0, 0, 0 },
    { "resnet50", NORM, 128, 2048, 7, 7, 0, 0, 0 },
    { "resnet50", NORM, 128, 512, 7, 7, 0, 0, 0 },
    { "alexnet", SOFTMAX, 256, 1000, 1, 1, 0, 0, 0 },
    { "cifar10_full", SOFTMAX, 100, 10, 1, 1, 0, 0, 0 },
    { "alexnet", DROPOUT, 256, 4096, 1, 1, 0, 0, 0 },
    { "googlenet", DROPOUT, 128, 1024, 1, 1, 0, 0, 0 },
    { "20 steps", LSTM, 32, 256, 20, 1, 0, 0, 0 },
};

void must(enum ct_status st)
{
    if (st == CT_OK)
        return;
    fprintf(stderr, "cudnn_bench: %s\n", ct_last_error());
    exit(1);
}

/* A recording of REPEATS calls; NULL: it does not do that. */
static struct ct_graph *recorded(const struct ct_device *d, run_fn run,
                                 void *arg, bool backward)
{
    struct ct_graph *g = NULL;
    enum ct_status st;

    if (run(arg, backward) != CT_OK || d->ops->sync(d) != CT_OK)
        return NULL;
    must(ct_graph_begin(d));
    st = CT_OK;
    for (int i = 0; i < REPEATS && st == CT_OK; i++)
        st = run(arg, backward);
    if (ct_graph_end(d, &g) != CT_OK || st != CT_OK) {
        ct_graph_destroy(g);
        return NULL;
    }
    return g;
}

/* Microseconds of one call. */
static double turn(const struct ct_device *d, struct ct_graph *g)
{
    const cudaStream_t stream = ct_cuda_stream(d);
    cudaEvent_t from, to;
    float ms = 0;

    must(ct_cuda_check(d, cudaEventCreate(&from), "event"));
    must(ct_cuda_check(d, cudaEventCreate(&to), "event"));
    must(ct_cuda_check(d, cudaEventRecord(from, stream), "event"));
    must(ct_graph_launch(g));
    must(ct_cuda_check(d, cudaEventRecord(to, stream), "event"));
    must(d->ops->sync(d));
    must(ct_cuda_check(d, cudaEventElapsedTime(&ms, from, to), "event"));
    (void)cudaEventDestroy(from);
    (void)cudaEventDestroy(to);
    return 1e3 * (double)ms / REPEATS;
}

double time_run(const struct ct_device *d, run_fn run, void *arg)
{
    struct ct_graph *g = recorded(d, run, arg, false);
    double best        = INFINITY;

    for (int t = 0; g && t < TURNS; t++) {
        const double us = turn(d, g);

        best = us < best ? us : best;
    }
    ct_graph_destroy(g);
    return best;
}

/* Both in turns; times[0] is ours, times[1] the rival's, where it is less. */
static void race(const struct ct_device *d, struct ours *o, struct rival *r,
                 bool backward, double *times)
{
    struct ct_graph *g[2] = { recorded(d, ours_run, o, backward),
                              r ? recorded(d, rival_run, r, backward)
                                : NULL };

    for (int t = 0; t < TURNS; t++)
        for (int i = 0; i < 2; i++)
            if (g[i]) {
                const double us = turn(d, g[i]);

                times[i] = us < times[i] ? us : times[i];
            }
    ct_graph_destroy(g[0]);
    ct_graph_destroy(g[1]);
}

static void compare(const struct ct_device *d, const char *precision,
                    const struct work *w)
{
    struct ours *o        = ours_create(d, w);
    const struct arrays a = ours_arrays(o);
    double us[2][2]       = { { INFINITY, INFINITY }, { INFINITY, INFINITY } };
    char shape[64];

    for (int way = 0; way < rival_ways(w->kind); way++) {
        struct rival *r = rival_create(d, w, &a, way);

        race(d, o, r, false, us[0]);
        must(ours_run(o, false));
        if (r && rival_run(r, false) != CT_OK) {
            rival_destroy(r);
            r = NULL;
        }
        race(d, o, r, true, us[1]);
        rival_destroy(r);
    }
    snprintf(shape, sizeof(shape), "%dx%dx%dx%d", w->n, w->c, w->h, w->w);
    printf("%-7s %-12s %-16s %s %8.1f %8.1f   %8.1f %8.1f   %5.2f %5.2f\n",
           kinds[w->kind], w->net, shape, precision, us[0][0], us[1][0],
           us[0][1], us[1][1], us[0][1] / us[0][0], us[1][1] / us[1][0]);
    fflush(stdout);
    ours_destroy(o);
}

static bool wanted(int argc, char **argv, const char *kind)
{
    bool named = false;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], kind) == 0)
            return true;
        named |= argv[i][0] != '-';
    }
    return !named;
}

int main(int argc, char **argv)
{
    static const struct {
        const char       *name;
        enum ct_precision precision;
    } precisions[] = { { "fp32", CT_FP32 },
                       { "tf32", CT_TF32 },
                       { "bf16", CT_BF16_MIXED } };
    const char *only = NULL;

    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], "--precision=", 12) == 0)
            only = argv[i] + 12;
    printf("%-7s %-12s %-16s %4s %17s   %17s   %11s\n", "kind", "net", "shape",
           "", "ours fwd, bwd us", "cuDNN's", "its / ours");
    for (int p = 0; p < 3; p++) {
        const struct ct_device *d;

        if (only && strcmp(only, precisions[p].name) != 0)
            continue;
        must(ct_device_cuda_open(0, precisions[p].precision, &d));
        for (size_t i = 0; i < sizeof(works) / sizeof(works[0]); i++)
            if (wanted(argc, argv, kinds[works[i].kind]))
                compare(d, precisions[p].name, &works[i]);
        if (wanted(argc, argv, "conv"))
            bench_convolutions(d, precisions[p].name);
        if (precisions[p].precision == CT_BF16_MIXED &&
            wanted(argc, argv, "points"))
            points_compare(d);
        if (precisions[p].precision == CT_BF16_MIXED &&
            wanted(argc, argv, "ends"))
            ends_compare(d);
        ct_device_close(d);
    }
    return 0;
}
