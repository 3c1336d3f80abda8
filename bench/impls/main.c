/* main.c - every implementation of an operation beside the others.
 *
 *     impls_bench [--threads=N] [--batch=N] [OPERATION...]
 *                                         pool lrn norm softmax ip conv
 *
 * One line a case, layout and pass: microseconds of each implementation that
 * takes it (the best of several turns, which alternate), a star at the one
 * that runs when nothing is forced, and its time over oneDNN's: below 1 the
 * choice is right.  Convolutions are those of bfloat16 (conv_shapes.c).  Times
 * are those on the cores, for busy machines; with more than one thread they
 * are those on the wall. */
#include "impls.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/rng.h"
#include "device/layout.h"

enum { ROUNDS = 7 };
static const double TURN = 0.01; /* seconds */
int bench_batch = 8;

const char *layout_name(enum ct_layout layout)
{
    static const char *const names[] = { "plain", "blocked8", "blocked16",
                                         "nhwc" };

    return names[layout];
}

static double now(void)
{
    struct timespec t;

    clock_gettime(ct_device_cpu_threads() > 1 ? CLOCK_MONOTONIC
                                              : CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

float *values(int64_t n)
{
    float *x = ct_calloc((size_t)n + 1, sizeof(*x), "bench values");

    if (!x)
        exit(1);
    for (int64_t i = 0; i < n; i++)
        x[i] = 2 * ct_uniform(7, 1, (uint64_t)i) - 1;
    return x;
}

int64_t elements(int64_t n, int64_t c, int64_t inner, enum ct_layout layout)
{
    return n * ct_layout_blocks(layout, c) * ct_layout_block(layout, c) *
           inner;
}

void must(enum ct_status st)
{
    if (st == CT_OK)
        return;
    fprintf(stderr, "impls_bench: %s\n", ct_last_error());
    exit(1);
}

double turn(run_fn run, void *arg)
{
    double start = now(), end;
    int n = 0;

    do {
        must(run(arg));
        n++;
        end = now();
    } while (end - start < TURN);
    return (end - start) / n;
}

void compare(const char *what, const void *op, enum ct_pass pass,
             struct ct_impl_pass *slot, const struct ct_impl *const *impls,
             run_fn run, void *arg)
{
    const struct ct_impl *chosen = slot->impl;
    double best[MAX_IMPLS], onednn = 0, ours = 0;

    for (int i = 0; impls[i]; i++)
        best[i] = INFINITY;
    for (int r = 0; r < ROUNDS; r++)
        for (int i = 0; impls[i]; i++)
            if (ct_impl_try(impls[i], op, pass, slot) == CT_OK) {
                double t = (must(run(arg)), turn(run, arg));

                best[i] = t < best[i] ? t : best[i];
            }
    printf("%-58s", what);
    for (int i = 0; impls[i]; i++) {
        if (isinf(best[i]))
            continue;
        printf(" %s%s %.1f", impls[i]->name,
               strcmp(impls[i]->name, chosen->name) == 0 ? "*" : "",
               1e6 * best[i]);
        if (strcmp(impls[i]->name, chosen->name) == 0)
            ours = best[i];
        if (strcmp(impls[i]->name, "onednn") == 0)
            onednn = best[i];
    }
    printf("  %.2f\n", onednn > 0 ? ours / onednn : 0);
    fflush(stdout);
    must(ct_impl_try(chosen, op, pass, slot));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } operations[] = { { "pool", bench_pool },       { "lrn", bench_lrn },
                       { "norm", bench_norm },       { "ip", bench_ip },
                       { "softmax", bench_softmax }, { "conv", bench_conv } };
    int threads = 1, named = 0;

    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], "--threads=", 10) == 0)
            threads = atoi(argv[i] + 10);
        else if (strncmp(argv[i], "--batch=", 8) == 0)
            bench_batch = atoi(argv[i] + 8);
        else
            named++;
    ct_device_cpu_set_threads(threads);
    for (size_t k = 0; k < sizeof(operations) / sizeof(operations[0]); k++)
        for (int i = 0; i < argc; i++)
            if (named == 0 ? i == 0 : strcmp(argv[i], operations[k].name) == 0)
                operations[k].run();
    return 0;
}
