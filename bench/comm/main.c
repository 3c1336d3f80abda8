/* main.c - our sums beside MPI_Allreduce: mpiexec -n P comm_bench [LARGEST],
 * or one of them: comm_bench BYTES NAME prints its median in seconds.
 *
 * For 1 KB, 4 KB, ... up to LARGEST bytes (64 MB): every algorithm and the
 * library's blocking MPI_Allreduce take turns in changing order, so that a
 * busy moment hits all of them.  A turn's time is the slowest rank's.  A line
 * shows medians as ratios to MPI_Allreduce (below 1: ours is faster) and, for
 * the best of ours, the least time that 2 (P-1)/P copies of the data take
 * through the slowest link, over the time that it took. */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "comm/coll/tune.h"
#include "comm/probe.h"
#include "comm/transport/transports.h"

enum {
    REFERENCE  = CT_N_ALLREDUCE, /* MPI_Allreduce */
    N_WAYS     = CT_N_ALLREDUCE + 1,
    MOST_TURNS = 41,
    FEW_TURNS  = 5
};

static const double size_seconds = 3; /* for all turns of one size */

struct bench {
    struct ct_comm *comm;
    float          *x;
    double          time[N_WAYS][MOST_TURNS];
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *t, int n)
{
    qsort(t, (size_t)n, sizeof(*t), by_value);
    return t[n / 2];
}

/* The ways in another order each turn, on all ranks the same: what runs after
 * a spinning call pays for the time that it took from others. */
static void bench_order(int turn, int *order)
{
    for (int i = 0; i < N_WAYS; i++) {
        int k = (int)(ct_philox_word(1, (uint64_t)turn, (uint64_t)i) %
                      (unsigned)(i + 1));

        order[i] = order[k];
        order[k] = i;
    }
}

/* One sum; its time is that of the slowest rank, the same on all. */
static enum ct_status bench_turn(struct bench *b, int way, int64_t n,
                                 double *out)
{
    double start, took;

    CT_TRY(ct_barrier(b->comm));
    start = ct_now();
    if (way != REFERENCE)
        CT_TRY(ct_allreduce_at(way)->run(b->comm, b->x, n));
    else if (MPI_Allreduce(MPI_IN_PLACE, b->x, (int)n, MPI_FLOAT, MPI_SUM,
                           MPI_COMM_WORLD) != MPI_SUCCESS)
        return ct_fail(CT_ECOMM, "MPI_Allreduce failed");
    took = ct_now() - start;
    if (MPI_Allreduce(&took, out, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD) !=
        MPI_SUCCESS)
        return ct_fail(CT_ECOMM, "MPI_Allreduce failed");
    return CT_OK;
}

static enum ct_status bench_size(struct bench *b, int64_t n,
                                 const struct ct_probe *probe)
{
    double all = 0, reference, best = 0, bound;
    int turns  = 0, order[N_WAYS] = { 0 };

    while (turns < FEW_TURNS || (turns < MOST_TURNS && all < size_seconds)) {
        memset(b->x, 0, (size_t)n * sizeof(*b->x));
        bench_order(turns, order);
        for (int i = 0; i < N_WAYS; i++) {
            int w = order[i];

            CT_TRY(bench_turn(b, w, n, &b->time[w][turns]));
            all += b->time[w][turns];
        }
        turns++;
    }
    if (b->comm->rank != 0)
        return CT_OK;
    reference = median(b->time[REFERENCE], turns);
    printf("%9lld %11.1f", (long long)n * 4, 1e6 * reference);
    for (int w = 0; w < CT_N_ALLREDUCE; w++) {
        double t = median(b->time[w], turns);

        printf(" %12.2f", t / reference);
        best = w == 0 || t < best ? t : best;
    }
    bound = 2.0 * (b->comm->size - 1) / b->comm->size * (double)n * 4 *
            probe->beta;
    printf(" %8.2f\n", bound / best);
    fflush(stdout);
    return CT_OK;
}

static enum ct_status bench_run(struct bench *b, int64_t largest)
{
    struct ct_probe probe;
    char version[256];

    CT_TRY(ct_comm_probe(b->comm, &probe));
    if (b->comm->rank == 0) {
        printf("%d ranks, %s; slowest link %d-%d: alpha %.1f us, %.2f GB/s; "
               "adding %.2f GB/s\n\n    bytes  MPI us    ", b->comm->size,
               ct_transport_mpi.version(version, sizeof(version)),
               probe.slow_rank,
               probe.slow_peer, 1e6 * probe.alpha, 1e-9 / probe.beta,
               1e-9 / probe.gamma);
        for (int w = 0; w < CT_N_ALLREDUCE; w++)
            printf(" %12s", ct_allreduce_at(w)->name);
        printf("   of link\n");
    }
    for (int64_t n = 256; n * 4 <= largest; n *= 4)
        CT_TRY(bench_size(b, n, &probe));
    ct_probe_fini(&probe);
    return CT_OK;
}

/* One algorithm at one size: seconds, the median over turns. */
static enum ct_status bench_one(struct bench *b, int64_t n, const char *name)
{
    int way = 0;

    while (way < CT_N_ALLREDUCE &&
           strcmp(ct_allreduce_at(way)->name, name) != 0)
        way++;
    if (way == CT_N_ALLREDUCE)
        return ct_fail(CT_EINVAL, "there is no sum '%s'", name);
    for (int i = -1; i < FEW_TURNS; i++) /* the first one warms up */
        CT_TRY(bench_turn(b, way, n, &b->time[way][i < 0 ? 0 : i]));
    if (b->comm->rank == 0)
        printf("%.6f\n", median(b->time[way], FEW_TURNS));
    return CT_OK;
}

int main(int argc, char **argv)
{
    const int64_t largest = argc > 1 ? strtoll(argv[1], NULL, 10) : 64 << 20;
    static struct bench b;
    struct ct_transport *t;

    if (largest < 1024 || largest > (int64_t)1 << 30) {
        fprintf(stderr, "comm_bench [LARGEST]: 1024 to 1073741824 bytes\n");
        return 1;
    }
    if (ct_transport_mpi.create(&t) != CT_OK ||
        ct_comm_create(t, &b.comm) != CT_OK ||
        ct_alloc((size_t)largest / 4, sizeof(*b.x), "floats", &b.x) != CT_OK) {
        fprintf(stderr, "%s\n", ct_last_error());
        return 1;
    }
    if ((argc > 2 ? bench_one(&b, largest / 4, argv[2])
                  : bench_run(&b, largest)) != CT_OK) {
        fprintf(stderr, "rank %d: %s\n", b.comm->rank, ct_last_error());
        ct_comm_abort(b.comm, 1);
    }
    ct_free(b.x);
    ct_comm_destroy(b.comm);
    fflush(stdout);
    if (ct_transports_left_open())
        _exit(0);
    return 0;
}
