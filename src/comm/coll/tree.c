/* tree.c - sums up a binomial tree and sends the sum down it, as the first BVLC
 * Caffe did between devices, but for any number of ranks.
 *
 * Ranks of one host sum first, then the first ranks of the hosts, so that each
 * host sends its sum over the network once.  Rank 0 is the root.  A rank adds
 * its children to its own floats in a fixed order, nearest first.  Large sums
 * pass through the tree in segments.
 *
 *     T = 2 log2(P) (alpha + n beta) + log2(P) n gamma                     */
#include "comm/coll/coll.h"
#include "comm/coll/transfer.h"

enum { SEGMENT = CT_SEGMENT_BYTES / sizeof(float) };

struct sum {
    float  *x, *staging; /* per child CT_DEPTH slots of slot_n floats */
    int64_t n, slot_n, n_segments;
    struct ct_flight up, from[CT_MOST_CHILDREN];
};

static int64_t sum_segment(const struct sum *q, int64_t s)
{
    int64_t left = q->n - s * SEGMENT;

    return left < SEGMENT ? left : SEGMENT;
}

static float *sum_slot(const struct sum *q, int child, int64_t s)
{
    return q->staging + (child * CT_DEPTH + s % CT_DEPTH) * q->slot_n;
}

static enum ct_status sum_post(struct sum *q, int child, int64_t s)
{
    return ct_flight_receive(&q->from[child], sum_slot(q, child, s),
                             (size_t)sum_segment(q, s) * sizeof(*q->x));
}

static enum ct_status sum_all(struct sum *q, const struct ct_tree *t)
{
    for (int i = 0; i < t->n_child; i++)
        for (int64_t s = 0; s < CT_DEPTH && s < q->n_segments; s++)
            CT_TRY(sum_post(q, i, s));
    for (int64_t s = 0; s < q->n_segments; s++) {
        float *y = q->x + s * SEGMENT;

        for (int i = 0; i < t->n_child; i++) {
            CT_TRY(ct_flight_wait(&q->from[i], s + 1));
            ct_comm_add(sum_segment(q, s), sum_slot(q, i, s), y);
            if (s + CT_DEPTH < q->n_segments)
                CT_TRY(sum_post(q, i, s + CT_DEPTH));
        }
        if (t->parent >= 0)
            CT_TRY(ct_flight_send(&q->up, y,
                                  (size_t)sum_segment(q, s) * sizeof(*y)));
    }
    return t->parent >= 0 ? ct_flight_wait(&q->up, q->n_segments) : CT_OK;
}

enum ct_status ct_tree_sum(struct ct_comm *c, const struct ct_tree *t,
                           float *x, int64_t n, int tag)
{
    struct sum q = { .x = x, .n = n, .slot_n = n < SEGMENT ? n : SEGMENT,
                     .n_segments = (n + SEGMENT - 1) / SEGMENT };
    enum ct_status st;

    CT_TRY(ct_comm_staging(c, (size_t)t->n_child * CT_DEPTH *
                              (size_t)q.slot_n * sizeof(*x), &q.staging));
    ct_flight_init(&q.up, c, t->parent, tag);
    for (int i = 0; i < t->n_child; i++)
        ct_flight_init(&q.from[i], c, t->child[i], tag);
    st = sum_all(&q, t);
    if (st == CT_OK)
        return CT_OK;
    ct_flight_cancel(&q.up);
    for (int i = 0; i < t->n_child; i++)
        ct_flight_cancel(&q.from[i]);
    return st;
}

struct spread {
    char  *data;
    size_t bytes, piece;
    struct ct_flight down, to[CT_MOST_CHILDREN];
};

static size_t spread_piece(const struct spread *q, int64_t s)
{
    const size_t left = q->bytes - (size_t)s * q->piece;

    return left < q->piece ? left : q->piece;
}

static char *spread_at(const struct spread *q, int64_t s)
{
    return q->data + (size_t)s * q->piece;
}

static enum ct_status spread_post(struct spread *q, int64_t s)
{
    return ct_flight_receive(&q->down, spread_at(q, s), spread_piece(q, s));
}

static enum ct_status spread_all(struct spread *q, const struct ct_tree *t)
{
    const int64_t n = (int64_t)((q->bytes + q->piece - 1) / q->piece);

    for (int64_t s = 0; t->parent >= 0 && s < CT_DEPTH && s < n; s++)
        CT_TRY(spread_post(q, s));
    for (int64_t s = 0; s < n; s++) {
        if (t->parent >= 0)
            CT_TRY(ct_flight_wait(&q->down, s + 1));
        if (t->parent >= 0 && s + CT_DEPTH < n)
            CT_TRY(spread_post(q, s + CT_DEPTH));
        for (int i = t->n_child - 1; i >= 0; i--) /* farthest first */
            CT_TRY(ct_flight_send(&q->to[i], spread_at(q, s),
                                  spread_piece(q, s)));
    }
    for (int i = t->n_child - 1; i >= 0; i--)
        CT_TRY(ct_flight_wait(&q->to[i], n));
    return CT_OK;
}

enum ct_status ct_tree_spread_by(struct ct_comm *c, const struct ct_tree *t,
                                 void *data, size_t bytes, size_t piece,
                                 int tag)
{
    struct spread q = { .data = data, .bytes = bytes, .piece = piece };
    enum ct_status st;

    ct_flight_init(&q.down, c, t->parent, tag);
    for (int i = 0; i < t->n_child; i++)
        ct_flight_init(&q.to[i], c, t->child[i], tag);
    st = spread_all(&q, t);
    if (st == CT_OK)
        return CT_OK;
    ct_flight_cancel(&q.down);
    for (int i = 0; i < t->n_child; i++)
        ct_flight_cancel(&q.to[i]);
    return st;
}

enum ct_status ct_tree_spread(struct ct_comm *c, const struct ct_tree *t,
                              void *data, size_t bytes, int tag)
{
    return ct_tree_spread_by(c, t, data, bytes, CT_SEGMENT_BYTES, tag);
}

enum ct_status ct_broadcast(struct ct_comm *c, int root, void *data,
                            size_t bytes)
{
    struct ct_tree t;

    if (root < 0 || root >= c->size)
        return ct_fail(CT_EINVAL, "there is no rank %d to broadcast from",
                       root);
    ct_comm_begin(c, "broadcast", bytes);
    ct_tree_init(&t, &c->place, root);
    return ct_tree_spread(c, &t, data, bytes, ct_comm_tag(c, 0));
}

double ct_broadcast_bytes(const struct ct_place *p, int root, size_t bytes)
{
    struct ct_tree t;

    ct_tree_init(&t, p, root);
    return (double)t.n_child * (double)bytes;
}

static enum ct_status tree_run(struct ct_comm *c, float *x, int64_t n)
{
    struct ct_tree t;

    ct_comm_begin(c, "sum tree", (uint64_t)n * sizeof(*x));
    ct_tree_init(&t, &c->place, 0);
    CT_TRY(ct_tree_sum(c, &t, x, n, ct_comm_tag(c, 0)));
    return ct_tree_spread(c, &t, x, (size_t)n * sizeof(*x),
                          ct_comm_tag(c, 1));
}

/* A rank sends once to its parent and once to each child. */
static double tree_bytes(const struct ct_place *p, int64_t n)
{
    struct ct_tree t;

    ct_tree_init(&t, p, 0);
    return (double)((t.parent >= 0) + t.n_child) * (double)n * sizeof(float);
}

static struct ct_cost tree_cost(const struct ct_terms *t)
{
    double far = ct_levels(t->H), near = ct_levels(t->L);

    return (struct ct_cost){
        .bytes   = (far + near) * t->S, /* the root's, downwards */
        .seconds = 2 * far * (t->a + t->S * t->b) +
                   2 * near * (t->la + t->S * t->lb) +
                   (far + near) * t->S * t->c,
    };
}

/* For few bytes only latency counts. */
static bool tree_is_usual(const struct ct_place *p, double bytes)
{
    (void)p;
    return bytes < 64 << 10;
}

const struct ct_allreduce_type ct_coll_tree = {
    .name     = "tree",
    .run      = tree_run,
    .bytes    = tree_bytes,
    .cost     = tree_cost,
    .is_usual = tree_is_usual,
};
