/* library.c - the sum of the library below the transport: MPI_Iallreduce,
 * polled.
 *
 * The library decides how to add and what to send, so both are unknown.  The
 * bytes that are counted and the time that is predicted are those of a ring,
 * which sends the fewest bytes of all algorithms. */
#include "comm/coll/coll.h"
#include "comm/coll/transfer.h"

enum { MOST_FLOATS = 1 << 28 }; /* the library counts in int */

static bool mpi_available(const struct ct_comm *c)
{
    return c->transport->ops->sum != NULL;
}

static double mpi_bytes(const struct ct_place *p, int64_t n)
{
    return ct_ring_bytes(p->rank, p->size, n, CT_RING_BOTH);
}

static enum ct_status mpi_run(struct ct_comm *c, float *x, int64_t n)
{
    struct ct_transport *t = c->transport;
    struct ct_request r;

    ct_comm_begin(c, "sum mpi", (uint64_t)n * sizeof(*x));
    if (!mpi_available(c))
        return ct_fail(CT_ENOTSUP, "transport %s has no sum of its own: take "
                       "ring, halving, tree or hierarchical", t->ops->name);
    for (int64_t i = 0; i < n; i += MOST_FLOATS) {
        int64_t some = n - i < MOST_FLOATS ? n - i : MOST_FLOATS;

        CT_TRY(t->ops->sum(t, x + i, some, &r));
        CT_TRY(ct_comm_wait(c, -1, &r));
    }
    atomic_fetch_add_explicit(&c->bytes_sent,
                              (uint64_t)mpi_bytes(&c->place, n),
                              memory_order_relaxed);
    return CT_OK;
}

const struct ct_allreduce_type ct_coll_library = {
    .name      = "mpi",
    .run       = mpi_run,
    .bytes     = mpi_bytes,
    .cost      = ct_ring_cost,
    .available = mpi_available,
    .foreign   = true,
};
