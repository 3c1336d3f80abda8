/* cmd_net.c - `cortado net`: who the ranks are, what their links carry, and
 * how fast each way to sum is; under mpirun, or with --ranks on this machine.
 * Nothing is trained. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "comm/coll/tune.h"
#include "comm/probe.h"
#include "comm/transport/transports.h"
#include "cortado/dist.h"
#include "dist/proof/census.h"
#include "help.h"
#include "launch.h"
#include "net_flags.h"

enum { MOST_PAIRS = 16 }; /* ranks; beyond, neighbours alone are measured */

struct net_test {
    int    ranks, threads;
    double seconds; /* for the sweep of sums */
    bool   quick;   /* no sweep */
    const char *transport;
};

static bool speaks(const struct ct_comm *c)
{
    return c->rank == 0;
}

static void print_hosts(const struct ct_comm *c, const struct dist_census *s)
{
    const char *host, *mpi = s->seat[0].mpi;
    int threads, cores;
    char mine[96];

    if (c->size == 1) /* what there would be with others */
        mpi = ct_transport_version(ct_transport_find("mpi"), mine,
                                   sizeof(mine));
    printf("%d ranks on %d host(s), %s, threads %s, cortado %s\n\n"
           "  rank  host              local  device    cores  threads\n",
           c->size, c->place.n_hosts, mpi, s->seat[0].level,
           s->seat[0].version);
    for (int r = 0; r < s->n; r++) {
        struct ct_place p = ct_place(r, c->size, c->place.host);

        printf("  %4d  %-16s  %5d  %-8s  %5d  %7d\n", r, s->seat[r].host,
               p.local, s->seat[r].device, s->seat[r].cores,
               s->seat[r].threads);
    }
    if (dist_census_crowded(s, &host, &threads, &cores))
        printf("host %s has %d core(s) for %d threads of its ranks\n", host,
               cores, threads);
}

static enum ct_status test_seats(struct ct_comm *c)
{
    struct dist_census s = { 0 };
    enum ct_status st;

    CT_TRY(dist_census_take(c, ct_device_cpu(), &s));
    if (speaks(c))
        print_hosts(c, &s);
    st = dist_census_check(&s);
    dist_census_fini(&s);
    return st;
}

static double rate(double beta)
{
    return beta > 0 ? 1e-6 / beta : 0;
}

static void print_pairs(const struct ct_pairs *p)
{
    double fastest = 0;

    printf("\nlinks, MB/s (below the diagonal: us a message)\n  rank");
    for (int b = 0; b < p->size; b++)
        printf(" %8d", b);
    for (int a = 0; a < p->size; a++) {
        printf("\n  %4d", a);
        for (int b = 0; b < p->size; b++) {
            const struct ct_link *l = &p->link[a * p->size + b];

            if (a == b)
                printf("        -");
            else
                printf(" %8.1f", b > a ? rate(l->beta) : 1e6 * l->alpha);
            if (a != b && rate(l->beta) > fastest)
                fastest = rate(l->beta);
        }
    }
    printf("\nslowest link: ranks %d and %d, %.1f MB/s; the fastest has "
           "%.1f\n", p->slow_rank, p->slow_peer,
           rate(p->link[p->slow_rank * p->size + p->slow_peer].beta),
           fastest);
}

static void print_neighbours(const struct ct_probe *p)
{
    printf("\nslowest of the links to the next rank: ranks %d and %d, "
           "%.1f MB/s\n", p->slow_rank, p->slow_peer, rate(p->beta));
}

static enum ct_status test_links(struct ct_comm *c)
{
    struct ct_probe probe = { 0 };
    struct ct_pairs pairs = { 0 };
    enum ct_status st     = CT_OK;

    CT_TRY(ct_comm_probe(c, &probe));
    if (c->size > 1 && c->size <= MOST_PAIRS)
        st = ct_comm_probe_pairs(c, &pairs);
    if (st == CT_OK && speaks(c) && pairs.link)
        print_pairs(&pairs);
    else if (st == CT_OK && speaks(c) && c->size > 1)
        print_neighbours(&probe);
    if (st == CT_OK && speaks(c))
        printf("a message takes %.1f us and %.3g ns per byte at most; adding "
               "%.3g ns per byte\n", 1e6 * probe.alpha, 1e9 * probe.beta,
               1e9 * probe.gamma);
    ct_probe_fini(&probe);
    ct_pairs_fini(&pairs);
    return st;
}

/* Bus bandwidth: what a link carries if every rank sends 2(P-1)/P of the
 * data, which is the least that a sum can do with. */
static void print_sweep(const struct ct_comm *c, const struct ct_tuning *t)
{
    printf("\nsums over all ranks: us, and MB/s of bus bandwidth\n"
           "      bytes");
    for (int k = 0; k < CT_N_ALLREDUCE; k++)
        printf("  %18s", ct_allreduce_at(k)->name);
    printf("  chosen\n");
    for (int i = 0; i < t->n_sizes; i++) {
        double bytes = (double)t->size[i].n * sizeof(float);
        double bus   = 2.0 * (c->size - 1) / c->size * bytes;

        printf("  %9.0f", bytes);
        for (int k = 0; k < CT_N_ALLREDUCE; k++) {
            double s = t->size[i].seconds[k];

            if (s < 0)
                printf("  %18s", "-");
            else
                printf("  %9.0f %8.1f", 1e6 * s, s > 0 ? bus / s / 1e6 : 0);
        }
        printf("  %s\n", ct_allreduce_at(t->size[i].best)->name);
    }
}

static enum ct_status test_all(struct ct_comm *c, const struct net_test *f)
{
    struct ct_tuning tuning;

    CT_TRY(test_seats(c));
    CT_TRY(test_links(c));
    if (c->size > 1 && !f->quick) {
        CT_TRY(ct_allreduce_tune(c, INT64_MAX, f->seconds,
                                 &tuning));
        if (speaks(c))
            print_sweep(c, &tuning);
    }
    if (speaks(c)) {
        printf("\nfine\n");
        fflush(stdout);
    }
    return CT_OK;
}

static enum ct_status net_test_run(const struct net_test *f,
                                   char *const *words, int *code)
{
    struct ct_transport *t = NULL;
    struct ct_comm *c      = NULL;
    enum ct_status st;

    if (f->ranks > 1 && !ct_dist_launched())
        return launch_here(f->ranks, words, code);
    if (f->threads > 0)
        ct_device_cpu_set_threads(f->threads);
    CT_TRY(ct_transport_open(f->transport, &t));
    CT_TRY(ct_comm_create(t, &c));
    c->stall_after = 60;
    st = test_all(c, f);
    if (st != CT_OK && ct_dist_launched()) {
        /* All find the same fault, but each its own silent peer. */
        *code = speaks(c) || st == CT_ECOMM ? command_failed(st)
                                            : EXIT_INPUT;
        ct_comm_abort(c, *code);
    }
    ct_comm_destroy(c);
    return st;
}

/* `words`: as they stand before they are parsed. */
static int net_by_words(int argc, char **argv, char **words)
{
    struct net_test f = { .seconds = 20, .transport = "auto" };
    const struct flag flags[] = {
        FLAG("ranks", &f.ranks),
        FLAG("seconds", &f.seconds),
        FLAG("transport", &f.transport),
        FLAG("quick", &f.quick),
        FLAG("threads", &f.threads),
        FLAG_END,
    };
    bool helped;
    enum ct_status st;
    int code = EXIT_DONE;

    if (!flags_parse(flags, &argc, argv, &helped))
        return helped ? EXIT_DONE : EXIT_USAGE;
    if (argc != 1) {
        help_usage(stderr, command_named("net"));
        return EXIT_USAGE;
    }
    st = net_test_run(&f, words, &code);
    if (st != CT_OK)
        code = command_failed(st);
    if (ct_transports_left_open()) { /* some MPIs hang in their own end */
        fflush(NULL);
        _exit(code);
    }
    return code;
}

int cmd_net(int argc, char **argv)
{
    char **words            = NULL;
    const enum ct_status st = flags_keep_words(argc, argv, &words);
    int code;

    if (st != CT_OK)
        return command_failed(st);
    code = net_by_words(argc, argv, words);
    ct_free(words);
    return code;
}
