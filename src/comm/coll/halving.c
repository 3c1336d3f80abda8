/* halving.c - recursive halving, then doubling (Rabenseifner; any P).
 *
 *     p = the largest power of two not above P, rest = P - p.
 *     Fold:   among the first 2 rest ranks each even one sends its floats to
 *             the next, which adds them; p ranks remain, renumbered
 *             v = 0..p-1.
 *     Halve:  d = p/2, p/4, ..., 1: exchange halves of the window with v^d;
 *             keep, and add to, the lower half if v & d is 0, else the upper.
 *     Double: the same partners in reverse order send back their sums.
 *     Unfold: the odd ones of the first 2 rest ranks send the sum back.
 *
 *     T = 2 log2(p) alpha + 2 n (p-1)/p beta + n (p-1)/p gamma
 *         (+ 2 (alpha + n beta) + n gamma if P is not a power of two)      */
#include <math.h>

#include "comm/coll/coll.h"
#include "comm/coll/transfer.h"

enum { MOST_LEVELS = 31 };

/* The windows of one rank, from all n floats down to its own block. */
struct halving {
    int            p, rest, v; /* v -1: this rank only folds and unfolds */
    int            n_levels;
    int            distance[MOST_LEVELS];
    struct ct_part keep[MOST_LEVELS], give[MOST_LEVELS];
};

static void halving_plan(struct halving *h, int me, int size, int64_t n)
{
    struct ct_part window = { 0, n };

    *h = (struct halving){ .p = 1 };
    while (2 * h->p <= size)
        h->p *= 2;
    h->rest = size - h->p;
    h->v    = me >= 2 * h->rest ? me - h->rest : me % 2 ? me / 2 : -1;
    if (h->v < 0)
        return;
    for (int d = h->p / 2; d > 0; d /= 2, h->n_levels++) {
        int i = h->n_levels, upper = (h->v & d) != 0;
        struct ct_part half[2] = { ct_part(window.n, 2, 0),
                                   ct_part(window.n, 2, 1) };

        half[0].first += window.first;
        half[1].first += window.first;
        h->distance[i] = d;
        h->keep[i]     = half[upper];
        h->give[i]     = half[!upper];
        window         = half[upper];
    }
}

/* The index in the group of the rank with number v. */
static int halving_index(const struct halving *h, int v)
{
    return v < h->rest ? 2 * v + 1 : v + h->rest;
}

static enum ct_status halving_exchange(struct ct_comm *c, int peer, float *x,
                                       struct ct_part give,
                                       struct ct_part take, bool add, int step)
{
    struct ct_transfer t = {
        .to   = peer, .give = x + give.first,
        .from = peer, .take = x + take.first,
        .give_bytes = (size_t)give.n * sizeof(*x),
        .take_bytes = (size_t)take.n * sizeof(*x),
        .add  = add,
    };

    return ct_transfer(c, &t, ct_comm_tag(c, step));
}

enum ct_status ct_halving(struct ct_comm *c, const struct ct_group *g,
                          float *x, int64_t n, int step)
{
    const struct ct_part all = { 0, n }, none = { 0, 0 };
    struct halving h;

    halving_plan(&h, g->me, g->size, n);
    if (h.v < 0) {
        int next = g->rank[g->me + 1];

        CT_TRY(halving_exchange(c, next, x, all, none, false, step));
        return halving_exchange(c, next, x, none, all, false, step + 1);
    }
    if (g->me < 2 * h.rest)
        CT_TRY(halving_exchange(c, g->rank[g->me - 1], x, none, all, true,
                                step));
    for (int i = 0; i < h.n_levels; i++)
        CT_TRY(halving_exchange(
            c, g->rank[halving_index(&h, h.v ^ h.distance[i])], x, h.give[i],
            h.keep[i], true, step));
    for (int i = h.n_levels - 1; i >= 0; i--)
        CT_TRY(halving_exchange(
            c, g->rank[halving_index(&h, h.v ^ h.distance[i])], x, h.keep[i],
            h.give[i], false, step + 1));
    if (g->me < 2 * h.rest)
        CT_TRY(halving_exchange(c, g->rank[g->me - 1], x, all, none, false,
                                step + 1));
    return CT_OK;
}

double ct_halving_bytes(int me, int size, int64_t n)
{
    struct halving h;
    int64_t floats = 0;

    halving_plan(&h, me, size, n);
    if (me < 2 * h.rest) /* even ranks send the fold, odd ones the unfold */
        floats += n;
    for (int i = 0; i < h.n_levels; i++)
        floats += h.give[i].n + h.keep[i].n;
    return (double)floats * sizeof(float);
}

static enum ct_status halving_run(struct ct_comm *c, float *x, int64_t n)
{
    ct_comm_begin(c, "sum halving", (uint64_t)n * sizeof(*x));
    return ct_halving(c, &c->all, x, n, 0);
}

static double halving_bytes(const struct ct_place *p, int64_t n)
{
    return ct_halving_bytes(p->rank, p->size, n);
}

/* The steps between hosts come first, with the largest halves.  The L ranks of
 * a host take them at the same time over one link. */
static struct ct_cost halving_cost(const struct ct_terms *t)
{
    double p     = exp2(floor(log2(t->P))), l = fmin(t->L, p);
    double far   = t->S * (1 - l / p), near = t->S * (l - 1) / p;
    bool folds   = p < t->P;
    double fold  = folds ? t->S : 0;

    return (struct ct_cost){
        .bytes   = 2 * (far + near) + fold,
        .seconds = 2 * ct_levels(p / l) * t->a + 2 * ct_levels(l) * t->la +
                   2 * far * l * t->b + 2 * near * t->lb +
                   (far + near + fold) * t->c +
                   (folds ? 2 * (t->a + fold * t->b) : 0),
    };
}

/* For more bytes the ring is better: its 2(P-1) messages are then long enough
 * for their latency. */
static bool halving_is_usual(const struct ct_place *p, double bytes)
{
    return bytes < 1 << 20 || bytes / p->size < 8 << 10;
}

const struct ct_allreduce_type ct_coll_halving = {
    .name     = "halving",
    .run      = halving_run,
    .bytes    = halving_bytes,
    .cost     = halving_cost,
    .is_usual = halving_is_usual,
};
