/* hierarchical.c - sums inside hosts, then between hosts.
 *
 *     L ranks on each of H hosts.  In shared memory of the host (shared.h) each
 *     rank adds up 1/L of the floats.  Ranks with equal local numbers sum these
 *     between hosts, L sums at the same time.  Then each rank reads all sums
 *     from the memory of its host.
 *
 * The network carries 2 n (H-1)/H floats per host; L ranks send them, so L
 * adapters can work.  Everything else stays inside the hosts.  If hosts have
 * different numbers of ranks, the first rank of each host sums for it: a tree
 * inside the host, a sum between first ranks, and the tree back. */
#include "comm/coll/coll.h"
#include "comm/coll/transfer.h"
#include "comm/coll/shared.h"

enum { RING_FLOATS = 64 << 10 }; /* from this size a ring between hosts */

static enum ct_status cross_sum(struct ct_comm *c, float *x, int64_t n,
                                int step)
{
    if (n < RING_FLOATS)
        return ct_halving(c, &c->cross, x, n, step);
    return ct_ring(c, &c->cross, x, n, CT_RING_BOTH, ct_comm_tag(c, step));
}

static double cross_bytes(const struct ct_place *p, int64_t n)
{
    int me = ct_place_host(p, p->rank);

    return n < RING_FLOATS ? ct_halving_bytes(me, p->n_hosts, n)
                           : ct_ring_bytes(me, p->n_hosts, n, CT_RING_BOTH);
}

static enum ct_status between_hosts(struct ct_comm *c, float *x, int64_t n)
{
    return cross_sum(c, x, n, 1);
}

/* Without shared memory: rings inside the host. */
static enum ct_status ring_run(struct ct_comm *c, float *x, int64_t n)
{
    struct ct_part mine = ct_part(n, c->local.size,
                                  (c->local.me + 1) % c->local.size);

    CT_TRY(ct_ring(c, &c->local, x, n, CT_RING_SCATTER, ct_comm_tag(c, 0)));
    CT_TRY(cross_sum(c, x + mine.first, mine.n, 1));
    return ct_ring(c, &c->local, x, n, CT_RING_GATHER, ct_comm_tag(c, 3));
}

static enum ct_status even_run(struct ct_comm *c, float *x, int64_t n)
{
    enum ct_status st = CT_ENOTSUP;

    if (c->local.size == 1)
        return cross_sum(c, x, n, 1);
    if (ct_place_has_window(&c->place))
        st = ct_shared_run(c, x, n, between_hosts);
    return st == CT_ENOTSUP ? ring_run(c, x, n) : st;
}

static enum ct_status uneven_run(struct ct_comm *c, float *x, int64_t n)
{
    struct ct_tree t;

    ct_tree_init_local(&t, &c->place);
    CT_TRY(ct_tree_sum(c, &t, x, n, ct_comm_tag(c, 0)));
    if (c->cross.size > 0)
        CT_TRY(cross_sum(c, x, n, 1));
    return ct_tree_spread(c, &t, x, (size_t)n * sizeof(*x),
                          ct_comm_tag(c, 3));
}

static enum ct_status hierarchical_run(struct ct_comm *c, float *x, int64_t n)
{
    ct_comm_begin(c, "sum hierarchical", (uint64_t)n * sizeof(*x));
    return c->place.even ? even_run(c, x, n) : uneven_run(c, x, n);
}

/* Bytes between hosts for this rank's slice of each segment. */
static double slices_bytes(const struct ct_place *p, int64_t n)
{
    double bytes = 0;

    for (int64_t i = 0; i < n; i += CT_SHARED_SEGMENT) {
        int64_t some = n - i < CT_SHARED_SEGMENT ? n - i : CT_SHARED_SEGMENT;

        bytes += cross_bytes(p, ct_shared_slice(some, p->n_local, p->local).n);
    }
    return bytes;
}

static double rings_bytes(const struct ct_place *p, int64_t n)
{
    const int L = p->n_local;

    return ct_ring_bytes(p->local, L, n, CT_RING_SCATTER) +
           cross_bytes(p, ct_part(n, L, (p->local + 1) % L).n) +
           ct_ring_bytes(p->local, L, n, CT_RING_GATHER);
}

static double hierarchical_bytes(const struct ct_place *p, int64_t n)
{
    struct ct_tree t;
    double bytes;

    if (p->even && p->n_local == 1)
        return cross_bytes(p, n);
    if (p->even && !ct_place_has_window(p))
        return rings_bytes(p, n);
    if (p->even)
        return (double)n * sizeof(float) + slices_bytes(p, n);
    ct_tree_init_local(&t, p);
    bytes = (double)((t.parent >= 0) + t.n_child) * (double)n * sizeof(float);
    return p->local == 0 ? bytes + cross_bytes(p, n) : bytes;
}

/* Inside a host there are two waits.  Copying a byte to or from shared memory
 * is assumed to take as long as adding one. */
static struct ct_cost hierarchical_cost(const struct ct_terms *t)
{
    double in   = t->L > 1 ? t->S : 0;
    double near = t->S * (t->L - 1) / t->L;
    double far  = t->S / t->L * (t->H - 1) / t->H; /* of each of L ranks */

    return (struct ct_cost){
        .bytes   = in + 2 * far,
        .seconds = (t->L > 1 ? 2 * t->la : 0) + 2 * (t->H - 1) * t->a +
                   2 * far * t->L * t->b + (2 * in + near + far) * t->c,
    };
}

static bool hierarchical_is_usual(const struct ct_place *p, double bytes)
{
    (void)bytes;
    return p->n_hosts > 1 && p->n_hosts < p->size;
}

const struct ct_allreduce_type ct_coll_hierarchical = {
    .name     = "hierarchical",
    .run      = hierarchical_run,
    .bytes    = hierarchical_bytes,
    .cost     = hierarchical_cost,
    .is_usual = hierarchical_is_usual,
};
