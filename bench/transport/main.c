/* main.c - sockets of our own beside MPI: mpiexec -n 2 transport_bench
 *
 * Both connect the same two processes, and take turns.  A turn is 200 round
 * trips of 8 bytes, then 4 MB sent to rank 1 twenty times, each answered by an
 * empty message, then 4 MB both ways at once.  Ranks wait as they do in
 * training (comm/wait.h).  Prints medians over the turns. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "comm/transport/tcp.h"
#include "comm/transport/transports.h"

enum { TURNS = 15, TRIPS = 200, SENDS = 20, BIG = 4 << 20, N_WAYS = 2 };
enum what { LATENCY, ONE_WAY, BOTH_WAYS, N_WHAT };

static const char *const names[N_WAYS] = { "mpi", "tcp" };

struct bench {
    struct ct_comm *comm[N_WAYS];
    char           *out, *in;
    double          time[N_WAYS][N_WHAT][TURNS];
};

static enum ct_status pass(struct ct_comm *c, bool send, void *x, size_t bytes)
{
    struct ct_request r;

    if (send)
        CT_TRY(ct_comm_send(c, !c->rank, 1, x, bytes, &r));
    else
        CT_TRY(ct_comm_receive(c, !c->rank, 1, x, bytes, &r));
    return ct_comm_wait(c, !c->rank, &r);
}

static enum ct_status trip(struct ct_comm *c, void *x, size_t there,
                           size_t back)
{
    CT_TRY(pass(c, c->rank == 0, x, there));
    return pass(c, c->rank == 1, x, back);
}

static enum ct_status turn(struct bench *b, int way, int number)
{
    struct ct_comm *c = b->comm[way];
    double start      = ct_now();

    for (int i = 0; i < TRIPS; i++)
        CT_TRY(trip(c, b->out, 8, 8));
    b->time[way][LATENCY][number] = (ct_now() - start) / (2 * TRIPS);
    start                         = ct_now();
    for (int i = 0; i < SENDS; i++)
        CT_TRY(trip(c, b->out, BIG, 0));
    b->time[way][ONE_WAY][number] = (ct_now() - start) / SENDS;
    start                         = ct_now();
    for (int i = 0; i < SENDS; i++)
        CT_TRY(ct_comm_exchange(c, !c->rank, b->out, BIG, !c->rank, b->in, BIG,
                                2));
    b->time[way][BOTH_WAYS][number] = (ct_now() - start) / SENDS;
    return CT_OK;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *t)
{
    qsort(t, TURNS, sizeof(*t), by_value);
    return t[TURNS / 2];
}

/* Ranks tell each other over MPI where their sockets are. */
static enum ct_status open_tcp(struct ct_comm *mpi, struct ct_tcp **end,
                               struct ct_comm **out)
{
    const void *address[2];
    char other[1024];
    size_t bytes[2];
    struct ct_transport *t;

    CT_TRY(ct_tcp_create(end));
    address[mpi->rank]  = ct_tcp_address(*end, &bytes[0]);
    bytes[1]            = bytes[0];
    address[!mpi->rank] = other;
    CT_TRY(ct_comm_exchange(mpi, !mpi->rank, address[mpi->rank], bytes[0],
                            !mpi->rank, other, bytes[0], 3));
    CT_TRY(ct_tcp_open(*end, &(struct ct_tcp_view){
                                 .number = 1, .rank = mpi->rank, .size = 2,
                                 .address = address, .address_bytes = bytes,
                                 .host = mpi->transport->host }, &t));
    return ct_comm_create(t, out);
}

static enum ct_status run(struct bench *b)
{
    for (int i = 0; i < TURNS; i++)
        for (int w = 0; w < N_WAYS; w++)
            CT_TRY(turn(b, (w + i) % N_WAYS, i));
    for (int w = 0; w < N_WAYS && b->comm[0]->rank == 0; w++)
        printf("%s: 8 bytes in %.1f us, 4 MB at %.2f GB/s, both ways at %.2f "
               "GB/s each\n", names[w], 1e6 * median(b->time[w][LATENCY]),
               BIG / median(b->time[w][ONE_WAY]) / 1e9,
               BIG / median(b->time[w][BOTH_WAYS]) / 1e9);
    return CT_OK;
}

int main(void)
{
    static struct bench b;
    struct ct_transport *t = NULL;
    struct ct_tcp *end     = NULL;
    enum ct_status st      = ct_transport_open("mpi", &t);

    if (st == CT_OK)
        st = ct_comm_create(t, &b.comm[0]);
    if (st == CT_OK && b.comm[0]->size != 2)
        st = ct_fail(CT_EINVAL, "start it as mpiexec -n 2 transport_bench");
    b.out = ct_calloc(1, BIG, "bench");
    b.in  = ct_calloc(1, BIG, "bench");
    if (st == CT_OK)
        st = open_tcp(b.comm[0], &end, &b.comm[1]);
    if (st == CT_OK)
        st = run(&b);
    ct_comm_destroy(b.comm[1]);
    ct_tcp_destroy(end);
    ct_comm_destroy(b.comm[0]);
    ct_free(b.out);
    ct_free(b.in);
    return st != CT_OK;
}
