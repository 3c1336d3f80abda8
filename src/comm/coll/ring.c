/* ring.c - sum around a ring: reduce-scatter, then all-gather.
 *
 *     P parts.  Step j = 0..2P-3: send part r-j, receive part r-j-1; add it
 *     in the first half (j < P-1), store it in the second.
 *
 * After the first half rank r owns the sum of part r+1.  Part p is added up in
 * the order p, p+1, ..., p+P-1 (mod P).  Each rank sends 2 (P-1)/P n floats,
 * all of them to one neighbour, and receives only from the other, which real
 * networks and both MPIs do best.
 *
 * Parts are cut into S segments, and steps overlap: segment s is sent in step j
 * as soon as it was received in step j-1.  So there is one long row of items
 * k = j S + s, and the wire never waits for the end of a step.
 *
 *     T = 2(P-1) alpha + 2 n (P-1)/P beta + n (P-1)/P gamma              */
#include "comm/coll/coll.h"
#include "comm/coll/transfer.h"

enum { SPLIT_FLOATS = 8 << 10 }; /* parts beyond this have two segments */

struct ring {
    const struct ct_group *g;
    float  *x, *staging; /* staging: CT_DEPTH slots of slot_n floats */
    int64_t n, slot_n;
    int64_t n_segments;  /* in a part, of all parts the same */
    struct ct_flight sent, got;
};

static int64_t ring_segments(int64_t part_n)
{
    const int64_t most = CT_SEGMENT_BYTES / (int64_t)sizeof(float);
    int64_t n = (part_n + most - 1) / most;

    if (part_n <= SPLIT_FLOATS)
        return 1;
    return n < 2 ? 2 : n;
}

/* The floats of item k, `back` ranks behind this one. */
static struct ct_part ring_item(const struct ring *q, int64_t k, int back)
{
    const int size = q->g->size;
    int64_t j = k / q->n_segments;
    int part  = (int)((q->g->me - j - back) % size + size) % size;
    struct ct_part whole = ct_part(q->n, size, part), some;

    some = ct_part(whole.n, q->n_segments, k % q->n_segments);
    return (struct ct_part){ whole.first + some.first, some.n };
}

static bool ring_adds(const struct ring *q, int64_t k)
{
    return k / q->n_segments < q->g->size - 1;
}

static float *ring_slot(const struct ring *q, int64_t k)
{
    return q->staging + k % CT_DEPTH * q->slot_n;
}

/* Posts the receive of item k.  A receive into x first waits until the same
 * floats are sent, P-1 steps before.  The peer has them before anything can
 * come back, but MPI forbids a receive into memory that is being sent. */
static enum ct_status ring_post(struct ring *q, int64_t k, int64_t first)
{
    struct ct_part in = ring_item(q, k, 1);
    int64_t reader    = k - (q->g->size - 1) * q->n_segments;

    if (ring_adds(q, k))
        return ct_flight_receive(&q->got, ring_slot(q, k),
                                 (size_t)in.n * sizeof(float));
    CT_TRY(ct_flight_wait(&q->sent, reader - first + 1));
    return ct_flight_receive(&q->got, q->x + in.first,
                             (size_t)in.n * sizeof(float));
}

/* Items first..end-1.  By induction over k no rank waits for ever: when all
 * ranks are at item k, all have posted its receive, so all its sends end. */
static enum ct_status ring_items(struct ring *q, int64_t first, int64_t end)
{
    const int64_t lag = (q->g->size - 1) * q->n_segments;
    int64_t posted    = first;

    for (int64_t k = first; k < end; k++) {
        struct ct_part out = ring_item(q, k, 0), in = ring_item(q, k, 1);

        CT_TRY(ct_flight_send(&q->sent, q->x + out.first,
                              (size_t)out.n * sizeof(float)));
        for (; posted < end && posted < k + CT_DEPTH && posted - lag <= k;
             posted++)
            CT_TRY(ring_post(q, posted, first));
        CT_TRY(ct_flight_wait(&q->got, k - first + 1));
        if (ring_adds(q, k))
            ct_comm_add(in.n, ring_slot(q, k), q->x + in.first);
    }
    return ct_flight_wait(&q->sent, end - first);
}

enum ct_status ct_ring(struct ct_comm *c, const struct ct_group *g, float *x,
                       int64_t n, enum ct_ring_part part, int tag)
{
    const int P  = g->size, next = (g->me + 1) % P, last = (g->me + P - 1) % P;
    int64_t most = (n + P - 1) / P, half;
    struct ring q = { .g = g, .x = x, .n = n,
                      .n_segments = ring_segments(most) };
    enum ct_status st;

    if (P == 1)
        return CT_OK;
    q.slot_n = (most + q.n_segments - 1) / q.n_segments;
    CT_TRY(ct_comm_staging(c, CT_DEPTH * (size_t)q.slot_n * sizeof(*x),
                           &q.staging));
    ct_flight_init(&q.sent, c, g->rank[next], tag);
    ct_flight_init(&q.got, c, g->rank[last], tag);
    half = (P - 1) * q.n_segments;
    st   = ring_items(&q, part & CT_RING_SCATTER ? 0 : half,
                      part & CT_RING_GATHER ? 2 * half : half);
    if (st != CT_OK) {
        ct_flight_cancel(&q.sent);
        ct_flight_cancel(&q.got);
    }
    return st;
}

/* In each half a rank sends all parts except one. */
double ct_ring_bytes(int me, int size, int64_t n, enum ct_ring_part part)
{
    int64_t floats = 0;

    if (size == 1)
        return 0;
    if (part & CT_RING_SCATTER)
        floats += n - ct_part(n, size, (me + 1) % size).n;
    if (part & CT_RING_GATHER)
        floats += n - ct_part(n, size, (me + 2) % size).n;
    return (double)floats * sizeof(float);
}

static enum ct_status ring_run(struct ct_comm *c, float *x, int64_t n)
{
    ct_comm_begin(c, "sum ring", (uint64_t)n * sizeof(*x));
    return ct_ring(c, &c->all, x, n, CT_RING_BOTH, ct_comm_tag(c, 0));
}

static double ring_bytes(const struct ct_place *p, int64_t n)
{
    return ct_ring_bytes(p->rank, p->size, n, CT_RING_BOTH);
}

struct ct_cost ct_ring_cost(const struct ct_terms *t)
{
    double some = t->S * (t->P - 1) / t->P;

    return (struct ct_cost){
        .bytes   = 2 * some,
        .seconds = 2 * (t->P - 1) * t->a + 2 * some * t->b + some * t->c,
    };
}

/* All sizes; the algorithms before it in coll.def are asked first. */
static bool ring_is_usual(const struct ct_place *p, double bytes)
{
    (void)p, (void)bytes;
    return true;
}

const struct ct_allreduce_type ct_coll_ring = {
    .name     = "ring",
    .run      = ring_run,
    .bytes    = ring_bytes,
    .cost     = ct_ring_cost,
    .is_usual = ring_is_usual,
};
