/* mpi_coll.c - the collectives over real MPI: mpiexec -n P mpi_coll.
 *
 *     mpi_coll             the tests; exit 0 when all hold on all ranks
 *     mpi_coll loop WAY FILE   writes its process number to FILE.RANK, then
 *                          sums so for two minutes; tests/mpi/kill ends one
 *
 * Everything runs on a comm thread, as in training.  A rank that finds a fault
 * says so and aborts the job. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "comm/coll/tune.h"
#include "comm/probe.h"
#include "comm/thread.h"
#include "comm/transport/transports.h"

enum { MOST_N = 300007 };

static float input(int rank, int64_t i)
{
    return 2 * ct_uniform(3, (uint64_t)rank, (uint64_t)i) - 1;
}

static enum ct_status check_values(const struct ct_comm *c, const char *name,
                                   const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i += n > 1000 ? 97 : 1) {
        double want = 0, size = 0;

        for (int r = 0; r < c->size; r++) {
            want += (double)input(r, i);
            size += fabs((double)input(r, i));
        }
        if (!(fabs(want - (double)x[i]) <= 1.2e-7 * c->size * size))
            return ct_fail(CT_EINTERNAL, "%s, n %lld: [%lld] is %.9g, not "
                           "%.9g", name, (long long)n, (long long)i,
                           (double)x[i], want);
    }
    return CT_OK;
}

/* Rank 0's bits, for comparison. */
static enum ct_status check_bits(struct ct_comm *c, const char *name,
                                 const float *x, float *theirs, int64_t n)
{
    size_t bytes = (size_t)n * sizeof(*x);

    memcpy(theirs, x, bytes);
    CT_TRY(ct_broadcast(c, 0, theirs, bytes));
    if (memcmp(theirs, x, bytes) != 0)
        return ct_fail(CT_EINTERNAL, "%s, n %lld: not rank 0's bits", name,
                       (long long)n);
    return CT_OK;
}

static enum ct_status check_sum(struct ct_comm *c,
                                const struct ct_allreduce_type *type,
                                float *x, float *again, int64_t n)
{
    double before = (double)atomic_load(&c->bytes_sent), sent;

    for (int64_t i = 0; i < n; i++)
        x[i] = again[i] = input(c->rank, i);
    CT_TRY(type->run(c, x, n));
    sent = (double)atomic_load(&c->bytes_sent) - before;
    if (sent != type->bytes(&c->place, n))
        return ct_fail(CT_EINTERNAL, "%s, n %lld: sent %.0f bytes, formula "
                       "%.0f", type->name, (long long)n, sent,
                       type->bytes(&c->place, n));
    CT_TRY(check_values(c, type->name, x, n));
    CT_TRY(type->run(c, again, n));
    if (memcmp(x, again, (size_t)n * sizeof(*x)) != 0)
        return ct_fail(CT_EINTERNAL, "%s, n %lld: other bits the second time",
                       type->name, (long long)n);
    return check_bits(c, type->name, x, again, n);
}

static enum ct_status check_sums(struct ct_comm *c, float *x, float *again)
{
    const int64_t P = c->size;
    const int64_t list[] = { 0, 1, P - 1, P, P + 1, 1000, MOST_N };

    for (int k = 0; k < CT_N_ALLREDUCE; k++)
        for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++)
            CT_TRY(check_sum(c, ct_allreduce_at(k), x, again, list[i]));
    return CT_OK;
}

/* Rank r gives r + 1 times its number. */
static enum ct_status check_gather(struct ct_comm *c)
{
    size_t bytes[64];
    int mine[64], all[64 * 64], *at = all;

    for (int r = 0; r < c->size; r++) {
        bytes[r] = (size_t)(r + 1) * sizeof(int);
        mine[r]  = c->rank;
    }
    CT_TRY(ct_allgather(c, mine, bytes, all));
    for (int r = 0; r < c->size; r++)
        for (int i = 0; i <= r; i++)
            if (*at++ != r)
                return ct_fail(CT_EINTERNAL, "allgather: rank %d's number %d",
                               r, i);
    return CT_OK;
}

/* A receive that is given up takes nothing; a short message is an error. */
static enum ct_status check_errors(struct ct_comm *c)
{
    const int peer = c->rank ^ 1, tag = CT_TAG_USER;
    char small[4] = { 0 }, large[8];
    struct ct_request sent, got;
    enum ct_status st;

    if (peer >= c->size)
        return CT_OK;
    CT_TRY(ct_comm_receive(c, peer, tag, large, 8, &got));
    if (!ct_comm_cancel(c, &got))
        return ct_fail(CT_EINTERNAL, "a receive could not be cancelled");
    CT_TRY(ct_comm_receive(c, peer, tag + 1, large, 8, &got));
    CT_TRY(ct_comm_send(c, peer, tag + 1, small, 4, &sent));
    st = ct_comm_wait(c, peer, &got);
    if (st != CT_ECOMM || !strstr(ct_last_error(), "4 bytes came"))
        return ct_fail(CT_EINTERNAL, "a short message gave '%s': %s",
                       ct_status_name(st), ct_last_error());
    CT_TRY(ct_comm_wait(c, peer, &sent));
    if (ct_comm_send(c, peer, tag, small, (size_t)3 << 30, &sent) !=
        CT_ENOTSUP)
        return ct_fail(CT_EINTERNAL, "3 GiB in one message");
    return CT_OK;
}

static enum ct_status check_probe(struct ct_comm *c)
{
    struct ct_probe p;
    struct ct_tuning t;

    CT_TRY(ct_comm_probe(c, &p));
    if (c->rank == 0)
        printf("alpha %.1f us, 1/beta %.2f GB/s, 1/gamma %.2f GB/s, slowest "
               "%d-%d\n", 1e6 * p.alpha, 1e-9 / p.beta, 1e-9 / p.gamma,
               p.slow_rank, p.slow_peer);
    ct_probe_fini(&p);
    CT_TRY(ct_allreduce_tune(c, INT64_MAX, 0.5, &t));
    for (int i = 0; i < t.n_sizes && c->rank == 0; i++)
        printf("%8lld floats: %s\n", (long long)t.size[i].n,
               ct_allreduce_at(t.size[i].best)->name);
    return CT_OK;
}

static enum ct_status check_all(struct ct_comm *c, void *arg)
{
    float *x = arg;

    CT_TRY(check_sums(c, x, x + MOST_N));
    CT_TRY(check_gather(c));
    CT_TRY(check_errors(c));
    CT_TRY(check_probe(c));
    return ct_barrier(c);
}

struct loop {
    const char *file, *way;
    float      *x;
};

static enum ct_status sum_on(struct ct_comm *c, void *arg)
{
    struct loop *l = arg;
    double end     = ct_now() + 120;
    char path[4096];
    FILE *f;

    snprintf(path, sizeof(path), "%s.%d", l->file, c->rank);
    f = fopen(path, "w");
    if (!f)
        return ct_fail(CT_EIO, "cannot write %s", path);
    fprintf(f, "%ld\n", (long)getpid());
    fclose(f);
    while (ct_now() < end)
        CT_TRY(ct_allreduce_find(l->way)->run(c, l->x, MOST_N));
    return CT_OK;
}

static enum ct_status run(struct ct_comm *c, int argc, char **argv)
{
    struct ct_comm_thread *t;
    struct loop loop = { .file = argc > 3 ? argv[3] : NULL,
                         .way  = argc > 3 ? argv[2] : NULL };
    float *x;
    enum ct_status st;

    CT_TRY(ct_alloc(2 * MOST_N, sizeof(*x), "floats", &x));
    loop.x = x;
    CT_TRY(ct_comm_thread_create(c, NULL, &t));
    st = loop.file ? ct_job_run(t, sum_on, &loop)
                   : ct_job_run(t, check_all, x);
    ct_comm_thread_destroy(t);
    ct_free(x);
    return st;
}

int main(int argc, char **argv)
{
    struct ct_transport *t;
    struct ct_comm *c;
    char version[256];
    int rank, size;

    if (ct_transport_mpi.create(&t) != CT_OK ||
        ct_comm_create(t, &c) != CT_OK) {
        fprintf(stderr, "%s\n", ct_last_error());
        return 1;
    }
    rank           = c->rank;
    size           = c->size;
    c->stall_after = 60;
    if (run(c, argc, argv) != CT_OK) {
        fprintf(stderr, "rank %d: %s\n", rank, ct_last_error());
        ct_comm_abort(c, 1);
    }
    ct_comm_destroy(c);
    if (rank == 0)
        printf("%d ranks on %s: all sums hold\n", size,
               ct_transport_mpi.version(version, sizeof(version)));
    fflush(stdout);
    if (ct_transports_left_open())
        _exit(0);
    return 0;
}
