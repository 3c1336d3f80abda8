/* cmd_plan.c - `cortado plan`: a step's time on 1 to 10,000 ranks, predicted.
 *
 * The net is trained for a few steps here; links are measured (under mpirun)
 * or named, and so may be the machine. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/units.h"
#include "comm/coll/coll.h"
#include "comm/probe.h"
#include "comm/rate.h"
#include "comm/transport/transports.h"
#include "cortado/dist.h"
#include "dist/bsp/bucket.h"
#include "dist/bsp/factors.h"
#include "help.h"
#include "net_flags.h"
#include "observe/forecast.h"
#include "proto/edit.h"

enum { MOST_SIZES = 64, MOST_RANKS = 1000000 };

struct plan_flags {
    struct net_flags net;
    const char *ranks, *bandwidth, *latency, *flops, *local_bandwidth;
    const char *reduce, *compress, *batch, *svg, *json, *overlap;
    int         per_host, iterations;
    double      bucket_bytes, slice_bytes;
};

/* What was measured here, on every rank the same. */
struct here {
    double flops, gamma, alpha, beta;
    int    size;
};

static enum ct_status parse_sizes(const char *text, int *size, int *n)
{
    static const char usual[] = "1,2,4,8,16,32,64,128,256,512,1024,2048,4096,"
                                "8192,10000";
    const char *s = text ? text : usual;

    for (*n = 0; *s; s += *s == ',') {
        char *end;
        long x = strtol(s, &end, 10);

        if (end == s || (*end && *end != ',') || x < 1 || x > MOST_RANKS ||
            *n == MOST_SIZES)
            return ct_fail(CT_EINVAL, "--ranks=%s: give up to %d numbers from "
                           "1 to %d, as 1,2,4", text, MOST_SIZES, MOST_RANKS);
        size[(*n)++] = (int)x;
        s            = end;
    }
    return CT_OK;
}

/* A solver for a net that came alone. */
static enum ct_status solver_for(const char *net,
                                 Caffe__SolverParameter **out)
{
    static const char text[] =
        "base_lr: 1e-12 lr_policy: 'fixed' momentum: 0.9 "
        "weight_decay: 0.0005 random_seed: 1";

    CT_TRY(ct_text_parse(&caffe__solver_parameter__descriptor, text,
                         sizeof(text) - 1, "plan", out));
    return ct_edit_string(&(*out)->net, net);
}

/* The solver that a file is, or one for the net that it is; tests, displays
 * and snapshots are left out. */
static enum ct_status read_solver(const char *path,
                                  Caffe__SolverParameter **out)
{
    Caffe__NetParameter *net = NULL;
    Caffe__SolverParameter *p;

    if (ct_solver_param_read(path, out) != CT_OK) {
        CT_TRY(ct_net_param_read(path, &net));
        ct_message_free(net);
        CT_TRY(solver_for(path, out));
    }
    p = *out;
    while (p->n_test_net > 0)
        ct_edit_free(p->test_net[--p->n_test_net]);
    p->n_test_iter = 0;
    p->has_test_interval = p->has_snapshot = p->has_display = true;
    p->test_interval = p->snapshot = p->display = 0;
    p->has_test_initialization = p->has_snapshot_after_train = true;
    p->test_initialization = p->snapshot_after_train = false;
    return CT_OK;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The median time of a sum of n floats. */
static enum ct_status time_sum(struct ct_comm *c, const char *name,
                               int64_t n, double *out)
{
    enum { TURNS = 5 };
    double took[TURNS];
    float *x = NULL;
    enum ct_status st;

    CT_TRY(ct_alloc((size_t)n, sizeof(*x), "sum", &x));
    for (int i = -1; i < TURNS; i++) { /* the first one warms up */
        double start;

        CT_TRY_GOTO(ct_barrier(c), st, out);
        start = ct_now();
        CT_TRY_GOTO(ct_allreduce_find(name)->run(c, x, n), st, out);
        took[i < 0 ? 0 : i] = ct_now() - start;
    }
    qsort(took, TURNS, sizeof(took[0]), by_value);
    *out = took[TURNS / 2];
out:
    ct_free(x);
    return st;
}

/* Pairs that talk by themselves find the links at their best.  Sums find them
 * as training does, with all ranks at work; a and b of the formulas are what
 * makes those come true. */
static enum ct_status look_at_sums(struct ct_comm *c, struct here *h)
{
    const int64_t n  = 4 << 20;
    const double P   = c->size, some = 4.0 * (double)n * (P - 1) / P;
    double small = 0, large = 0;

    if (c->size == 1)
        return CT_OK;
    CT_TRY(time_sum(c, "tree", 64, &small));
    CT_TRY(time_sum(c, "ring", n, &large));
    h->alpha = fmax(h->alpha, small / (2 * ceil(log2(P))));
    h->beta  = fmax(h->beta, (large - 2 * (P - 1) * h->alpha -
                              some * h->gamma) / (2 * some));
    return CT_OK;
}

/* Links and speed of where this runs: with peers, the slowest of all. */
static enum ct_status look_around(struct here *h)
{
    struct ct_transport *t = NULL;
    struct ct_comm *c      = NULL;
    struct ct_probe probe  = { 0 };
    enum ct_status st;

    CT_TRY(dist_measure_flops(ct_device_cpu(), false, &h->flops));
    CT_TRY(ct_transport_open("auto", &t));
    CT_TRY(ct_comm_create(t, &c));
    st       = ct_comm_probe(c, &probe);
    h->gamma = probe.gamma;
    h->alpha = probe.alpha;
    h->beta  = probe.beta;
    h->size  = c->size;
    if (st == CT_OK)
        st = look_at_sums(c, h);
    if (st == CT_OK && c->rank > 0)
        ct_log_set_level(CT_LOG_ERROR);
    if (c->rank > 0)
        h->size = -h->size;
    ct_probe_fini(&probe);
    ct_comm_destroy(c);
    return st;
}

static enum ct_status machine_of(const struct plan_flags *f,
                                 const struct here *h,
                                 struct dist_machine *w)
{
    const char *rest;
    double rate;

    *w = (struct dist_machine){ .alpha = h->alpha, .beta = h->beta,
                                .gamma = h->gamma, .flops = h->flops,
                                .per_host = f->per_host };
    if (!f->bandwidth && abs(h->size) < 2)
        return ct_fail(CT_EINVAL, "what are the links? Give --bandwidth=10gbit "
                       "and --latency=30us, or measure them: mpirun -n 2 "
                       "cortado plan ...");
    if (f->bandwidth) {
        CT_TRY(ct_rate_parse(f->bandwidth, &rate, &rest));
        w->beta  = 1 / rate;
        w->alpha = 30e-6;
    }
    if (f->latency)
        CT_TRY(ct_parse_seconds(f->latency, &w->alpha));
    if (f->flops)
        CT_TRY(ct_parse_flops(f->flops, &w->flops));
    w->gamma *= h->flops / w->flops;
    /* Inside a host a byte is copied twice, about as fast as it is added. */
    w->local_alpha = 2e-6;
    w->local_beta  = 2 * w->gamma;
    if (f->local_bandwidth) {
        CT_TRY(ct_rate_parse(f->local_bandwidth, &rate, &rest));
        w->local_beta = 1 / rate;
    }
    return CT_OK;
}

static enum ct_status options_of(const struct plan_flags *f,
                                 const struct here *h, struct dist_options *o)
{
    *o = (struct dist_options){
        .first_bytes  = DIST_FIRST_BUCKET,
        .bucket_bytes = (size_t)f->bucket_bytes,
        .slice_bytes  = (size_t)f->slice_bytes,
        .overlap      = !f->overlap || strcmp(f->overlap, "true") == 0,
    };
    o->next_forward = o->overlap;
    if (f->batch && strcmp(f->batch, "global") != 0 &&
        strcmp(f->batch, "per_rank") != 0)
        return ct_fail(CT_EINVAL, "--batch is per_rank or global, not '%s'",
                       f->batch);
    CT_TRY(dist_codec_parse(f->compress, &o->codec));
    CT_TRY(ct_allreduce_parse(f->reduce, NULL, &o->reduce));
    return machine_of(f, h, &o->machine);
}

static enum ct_status write_files(const struct plan_flags *f,
                                  const char *title,
                                  const struct dist_forecast *row, int n)
{
    struct ct_text text = { 0 };
    enum ct_status st   = CT_OK;

    if (f->svg) {
        st = ct_plot_forecast(row, n, title, &text);
        if (st == CT_OK)
            st = ct_file_write(f->svg, text.s, text.n_bytes);
        ct_text_fini(&text);
    }
    if (st == CT_OK && f->json) {
        text = (struct ct_text){ 0 };
        dist_forecast_json(row, n, &text);
        st = ct_file_write(f->json, text.s, text.n_bytes);
        ct_text_fini(&text);
    }
    return st;
}

static void print_head(const char *path, const struct dist_timing *t,
                       const struct dist_options *o)
{
    double forward = 0, backward = 0;

    for (int l = 0; l < t->n_layers; l++) {
        forward += t->forward[l];
        backward += t->backward[l];
    }
    printf("%s: forward %.4g ms, backward %.4g ms, update %.4g ms\n"
           "links: %.4g us a message, %.4g MB/s; %d rank(s) a host; adding "
           "%.4g MB/s; matrix products %.4g GFLOP/s; wire: %s\n", path,
           1e3 * forward, 1e3 * backward, 1e3 * t->update,
           1e6 * o->machine.alpha, 1e-6 / o->machine.beta,
           o->machine.per_host > 1 ? o->machine.per_host : 1,
           1e-6 / o->machine.gamma, o->machine.flops / 1e9,
           o->codec.type ? o->codec.type->name : "floats");
}

static enum ct_status forecast(const struct plan_flags *f, const char *path,
                               struct ct_solver *s, const struct here *h)
{
    struct dist_forecast row[MOST_SIZES];
    struct dist_timing t    = { 0 };
    struct dist_options o;
    struct ct_text table    = { 0 };
    int size[MOST_SIZES], n = 0;
    enum ct_status st;

    CT_TRY(parse_sizes(f->ranks, size, &n));
    CT_TRY(options_of(f, h, &o));
    CT_TRY(dist_timing_take(s, f->iterations, &t));
    dist_timing_scale(&t, o.machine.flops / h->flops);
    for (int i = 0; i < n; i++)
        CT_TRY_GOTO(dist_forecast(&t, ct_solver_net(s), &o,
                                  f->batch && strcmp(f->batch, "global") == 0,
                                  size[i], &row[i]), st, out);
    if (h->size < 0) /* rank 0 speaks */
        goto out;
    print_head(path, &t, &o);
    dist_forecast_text(row, n, &table);
    fputs(table.s ? table.s : "", stdout);
    st = write_files(f, ct_net_name(ct_solver_net(s)), row, n);
out:
    ct_text_fini(&table);
    dist_timing_fini(&t);
    return st;
}

static enum ct_status plan(struct plan_flags *f, const char *path)
{
    const struct ct_solver_options o  = { 0 };
    Caffe__SolverParameter *p = NULL;
    struct ct_solver *s       = NULL;
    struct here h             = { 0 };
    enum ct_status st;

    CT_TRY(net_flags_apply(&f->net));
    CT_TRY_GOTO(read_solver(path, &p), st, out);
    CT_TRY_GOTO(look_around(&h), st, out);
    CT_TRY_GOTO(ct_solver_create(p, &o, &s), st, out);
    st = forecast(f, path, s, &h);
out:
    ct_solver_destroy(s);
    ct_message_free(p);
    return st;
}

int cmd_plan(int argc, char **argv)
{
    struct plan_flags f = { .iterations = 5, .bucket_bytes = 4 << 20,
                            .slice_bytes = 2 << 20,
                            .compress = "none", .reduce = "auto" };
    const struct flag flags[] = {
        FLAG("ranks", &f.ranks),
        FLAG("bandwidth", &f.bandwidth),
        FLAG("latency", &f.latency),
        FLAG("flops", &f.flops),
        FLAG("ranks_per_host", &f.per_host),
        FLAG("local_bandwidth", &f.local_bandwidth),
        FLAG("reduce", &f.reduce),
        FLAG("compress", &f.compress),
        FLAG("batch", &f.batch),
        FLAG("overlap", &f.overlap),
        FLAG("bucket_bytes", &f.bucket_bytes),
        FLAG("slice_bytes", &f.slice_bytes),
        FLAG("iterations", &f.iterations),
        FLAG("svg", &f.svg),
        FLAG("json", &f.json),
        NET_FLAGS(f.net),
        FLAG_END,
    };
    bool helped;
    enum ct_status st;
    int code;

    ct_log_set_level(CT_LOG_WARNING);
    if (!flags_parse(flags, &argc, argv, &helped))
        return helped ? EXIT_DONE : EXIT_USAGE;
    if (argc != 2 || f.iterations < 1 || f.bucket_bytes < 0 ||
        f.slice_bytes < 0) {
        help_usage(stderr, command_named("plan"));
        return EXIT_USAGE;
    }
    st   = plan(&f, argv[1]);
    code = st == CT_OK ? EXIT_DONE : command_failed(st);
    net_flags_fini(&f.net);
    if (ct_transports_left_open()) { /* some MPIs hang in their own end */
        fflush(NULL);
        _exit(code);
    }
    return code;
}
