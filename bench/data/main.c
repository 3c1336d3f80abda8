/* main.c - records a second through a Data layer, beside what the machine
 * could do.
 *
 *     data_bench [--seconds=S] [--rounds=N] [--cpu] [--json=FILE] FOLDER
 *                [SET]...
 *
 * makes the databases in FOLDER and measures layer and bound in turns, N
 * rounds of S seconds each; the best round counts, because whatever else the
 * machine does only slows both down.  --cpu goes by the processor time of the
 * threads, for a machine that has other work.  Ends with 1 when a ratio is
 * below 0.85. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "bench.h"
#include "cortado/log.h"
#include "cortado/net.h"

static const double goal = 0.85;

static const struct bench_set sets[] = {
    { "raw_32", 32, 0, false, 20000, 100 },
    { "raw_256", 256, 224, false, 256, 32 },
    { "jpeg_256", 256, 224, true, 256, 32 },
};
enum { N_SETS = sizeof(sets) / sizeof(sets[0]) };

static enum ct_status layer_net(const struct bench_files *f, int n_threads,
                                struct ct_net **out)
{
    struct ct_net_options o = { .phase = CAFFE__PHASE__TRAIN, .seed = 1,
                                .forward_only = true, .quiet = true };
    Caffe__NetParameter *p = NULL;
    struct ct_text t       = { 0 };
    enum ct_status st;

    ct_text_addf(&t, "layer { name: 'data' type: 'Data' top: 'data' top: 'l' "
                 "transform_param { mean_value: 104 mean_value: 117 "
                 "mean_value: 123 mirror: true crop_size: %d } "
                 "data_param { source: '%s' batch_size: %d backend: LMDB "
                 "prefetch: %d threads: %d } }", f->set->crop, f->db.s,
                 f->set->batch, BENCH_PREFETCH, n_threads);
    if (t.failed)
        return CT_ENOMEM;
    st = ct_text_parse(&caffe__net_parameter__descriptor, t.s, t.n_bytes,
                       "bench", &p);
    ct_text_fini(&t);
    if (st == CT_OK)
        st = ct_net_create(p, &o, out);
    ct_message_free(p);
    return st;
}

struct bench_time bench_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (struct bench_time){ ct_now(), (double)t.tv_sec +
                                              1e-9 * (double)t.tv_nsec };
}

/* What is ready when the clock starts was made before it: so the clock starts
 * when all that is gone. */
enum ct_status bench_layer(const struct bench_files *f, int n_threads,
                           double seconds, bool by_cpu, double *rate)
{
    struct bench_time start, now;
    struct ct_net *net = NULL;
    int64_t n          = 0;
    enum ct_status st;

    CT_TRY(layer_net(f, n_threads, &net));
    for (int i = 0; i < 2 * BENCH_PREFETCH; i++)
        CT_TRY_GOTO(ct_net_forward(net, NULL), st, out);
    start = now = bench_now();
    for (; now.wall < start.wall + seconds; n += f->set->batch) {
        CT_TRY_GOTO(ct_net_forward(net, NULL), st, out);
        now = bench_now();
    }
    *rate = by_cpu ? (double)n * n_threads / (now.cpu - start.cpu)
                   : (double)n / (now.wall - start.wall);
out:
    ct_net_destroy(net);
    return st;
}

struct options {
    double      seconds;
    int         n_rounds;
    bool        by_cpu;
    const char *json, *folder;
};

static enum ct_status measure(const struct bench_files *f, int n_threads,
                              const struct options *o, double *layer,
                              double *bound)
{
    *layer = *bound = 0;
    for (int i = 0; i < o->n_rounds; i++) {
        double rate = 0;

        CT_TRY(bench_layer(f, n_threads, o->seconds, o->by_cpu, &rate));
        *layer = rate > *layer ? rate : *layer;
        CT_TRY(bench_bound(f, n_threads, o->seconds, o->by_cpu, &rate));
        *bound = rate > *bound ? rate : *bound;
    }
    return CT_OK;
}

static enum ct_status bench_set(const struct bench_set *s,
                                const struct options *o, FILE *json,
                                int *n_lines, int *n_missed)
{
    struct bench_files f;
    enum ct_status st = bench_files_make(s, o->folder, &f);

    for (int threads = 1; threads <= 2 && st == CT_OK; threads++) {
        double layer, bound, ratio;

        st = measure(&f, threads, o, &layer, &bound);
        if (st != CT_OK)
            break;
        ratio = layer / bound;
        *n_missed += ratio < goal;
        printf("%-10s %7d %12.0f %12.0f %7.2f  %s\n", s->name, threads, layer,
               bound, ratio, ratio < goal ? "BELOW" : "");
        fflush(stdout);
        if (json)
            fprintf(json, "%s\n  { \"set\": \"%s\", \"threads\": %d, "
                    "\"layer_per_s\": %.0f, \"bound_per_s\": %.0f, "
                    "\"ratio\": %.3f, \"bytes\": %zu }",
                    (*n_lines)++ ? "," : "", s->name, threads, layer, bound,
                    ratio, f.at[s->n_records] / (size_t)s->n_records);
    }
    bench_files_fini(&f);
    return st;
}

static bool wanted(const char *name, int n, char **names)
{
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return n == 0;
}

static enum ct_status bench_all(const struct options *o, int n, char **names,
                                int *n_missed)
{
    FILE *json        = o->json ? fopen(o->json, "w") : NULL;
    enum ct_status st = CT_OK;
    int n_lines       = 0;

    if (o->json && !json)
        return ct_fail(CT_EIO, "cannot write %s", o->json);
    if (json)
        fprintf(json, "{\n \"goal\": %.2f, \"seconds\": %g, \"rounds\": %d, "
                "\"by_cpu\": %s,\n \"runs\": [", goal, o->seconds,
                o->n_rounds, o->by_cpu ? "true" : "false");
    printf("%-10s %7s %12s %12s %7s\n", "records", "threads", "layer/s",
           "bound/s", "ratio");
    for (int i = 0; i < N_SETS && st == CT_OK; i++)
        if (wanted(sets[i].name, n, names))
            st = bench_set(&sets[i], o, json, &n_lines, n_missed);
    if (json) {
        fprintf(json, "\n ]\n}\n");
        fclose(json);
    }
    return st;
}

int main(int argc, char **argv)
{
    struct options o = { .seconds = 0.2, .n_rounds = 15 };
    int n_missed = 0, at = 1;

    for (; at < argc && strncmp(argv[at], "--", 2) == 0; at++)
        if (strncmp(argv[at], "--seconds=", 10) == 0)
            o.seconds = strtod(argv[at] + 10, NULL);
        else if (strncmp(argv[at], "--rounds=", 9) == 0)
            o.n_rounds = (int)strtol(argv[at] + 9, NULL, 10);
        else if (strcmp(argv[at], "--cpu") == 0)
            o.by_cpu = true;
        else if (strncmp(argv[at], "--json=", 7) == 0)
            o.json = argv[at] + 7;
        else
            at = argc;
    if (at >= argc || o.n_rounds < 1 || !(o.seconds > 0)) {
        fprintf(stderr, "usage: data_bench [--seconds=S] [--rounds=N] [--cpu] "
                "[--json=FILE] FOLDER [SET]...\n");
        return 1;
    }
    o.folder = argv[at++];
    mkdir(o.folder, 0777);
    ct_log_set_level(CT_LOG_WARNING);
    if (bench_all(&o, argc - at, argv + at, &n_missed) != CT_OK) {
        fprintf(stderr, "data_bench: %s\n", ct_last_error());
        return 3;
    }
    return n_missed > 0;
}
