/* canonical.c - the same bits for any number of ranks. */
#include "dist/proof/canonical.h"

#include <string.h>

#include "base/mem.h"
#include "comm/coll/transfer.h"
#include "net/arena.h"

int dist_part_first(int V, int size, int r)
{
    return (int)((int64_t)V * r / size);
}

static bool is_power_of_two(int n)
{
    return n > 0 && (n & (n - 1)) == 0;
}

bool dist_canonical_is_even(int V, int size)
{
    return V % size == 0 && (size == 1 || is_power_of_two(V / size));
}

/* ---- Branches of this rank. */

/* A branch without a right neighbour moves up unchanged. */
static struct dist_branch lift(int V, struct dist_branch b)
{
    while (b.index > 0 && b.index % 2 == 0 &&
           (int64_t)(b.index + 1) << b.level >= V) {
        b.index /= 2;
        b.level++;
    }
    return b;
}

static bool are_siblings(struct dist_branch left, struct dist_branch right)
{
    return left.level == right.level && left.index % 2 == 0 &&
           right.index == left.index + 1;
}

/* Adds leaf `leaf` to the n branches before it.  Returns how many of them it
 * completes, counted from the last; *out is the branch that they form. */
static int complete(int V, const struct dist_branch *before, int n, int leaf,
                    struct dist_branch *out)
{
    int done = 0;

    *out = lift(V, (struct dist_branch){ 0, leaf });
    while (done < n && are_siblings(before[n - 1 - done], *out)) {
        *out = lift(V, (struct dist_branch){ out->level + 1, out->index / 2 });
        done++;
    }
    return done;
}

/* The branches of leaves [first, end); returns their number. */
static int list_branches(int V, int first, int end, struct dist_branch *out)
{
    int n = 0;

    for (int leaf = first; leaf < end; leaf++) {
        struct dist_branch b;

        n -= complete(V, out, n, leaf, &b);
        out[n++] = b;
    }
    return n;
}

/* ---- Steps between ranks. */

struct planner {
    struct dist_canonical *q;
    int                    V, rank, size;
    struct dist_branch     mine[2 * CANONICAL_MOST_LEVELS];
    int                    n_mine;
    bool                   counts; /* steps are only counted, not stored */
};

static int rank_of(const struct planner *p, int leaf)
{
    return (int)(((int64_t)(leaf + 1) * p->size + p->V - 1) / p->V) - 1;
}

/* Index of this rank's branch that contains a leaf: the last one that begins at
 * the leaf or before it. */
static int branch_at(const struct planner *p, int leaf)
{
    int i = p->n_mine - 1;

    while (i > 0 && p->mine[i].index << p->mine[i].level > leaf)
        i--;
    return i;
}

/* A step: the rank of the right branch sends it, and the rank of the left one
 * adds it. */
static void join(struct planner *p, int left, int right)
{
    struct dist_canonical *q = p->q;
    const int to = rank_of(p, left), from = rank_of(p, right);

    if (p->rank != to && p->rank != from)
        return;
    if (!p->counts)
        q->step[q->n_steps] = (struct dist_handover){
            from, to, p->rank == from ? branch_at(p, right) : -1,
            p->rank == to ? branch_at(p, left) : -1 };
    q->n_steps++;
}

/* Steps for a branch that several ranks share; its parts come first.  The rank
 * of its first leaf gets the sum. */
static void plan_branch(struct planner *p, struct dist_branch b)
{
    const int64_t first = (int64_t)b.index << b.level;
    const int64_t half  = first + ((int64_t)1 << b.level) / 2;
    int64_t end         = first + ((int64_t)1 << b.level);

    end = end < p->V ? end : p->V;
    if (rank_of(p, (int)first) == rank_of(p, (int)end - 1))
        return;
    plan_branch(p, (struct dist_branch){ b.level - 1, 2 * b.index });
    if (half >= end)
        return;
    plan_branch(p, (struct dist_branch){ b.level - 1, 2 * b.index + 1 });
    join(p, (int)first, (int)half);
}

static enum ct_status plan_steps(struct dist_canonical *q, int rank, int size)
{
    struct planner p = { .q = q, .V = q->parts, .rank = rank, .size = size,
                         .counts = true };
    struct dist_branch root = { 0, 0 };

    p.n_mine = list_branches(q->parts, q->first, q->first + q->micro, p.mine);
    while (1 << root.level < q->parts)
        root.level++;
    plan_branch(&p, root);
    CT_TRY(ct_alloc((size_t)q->n_steps + 1, sizeof(*q->step), "handovers",
                    &q->step));
    p.counts   = false;
    q->n_steps = 0;
    plan_branch(&p, root);
    return CT_OK;
}

enum ct_status dist_canonical_init(struct dist_canonical *q, int V, int rank,
                                   int size)
{
    *q = (struct dist_canonical){ .parts = V };
    if (V == 0)
        return CT_OK;
    q->first = dist_part_first(V, size, rank);
    q->micro = dist_part_first(V, size, rank + 1) - q->first;
    return plan_steps(q, rank, size);
}

enum ct_status dist_canonical_attach(struct dist_canonical *q,
                                     const struct ct_net *net, float *diff)
{
    int most = 0, n = 0;

    dist_canonical_detach(q);
    q->n    = ct_net_arena_count(net);
    q->diff = diff;
    q->made = ct_net_arena_diff(net);
    q->dev  = ct_net_n_params(net) > 0 ? ct_net_param(net, 0)->blob->dev
                                       : ct_device_cpu();
    for (int end = q->first + 1; end < q->first + q->micro; end++) {
        struct dist_branch b[2 * CANONICAL_MOST_LEVELS];

        n    = list_branches(q->parts, q->first, end, b);
        most = n > most ? n : most;
    }
    for (int i = 0; i < most; i++)
        CT_TRY(ct_alloc(q->n, sizeof(float), "canonical sums", &q->sum[i]));
    return CT_OK;
}

void dist_canonical_detach(struct dist_canonical *q)
{
    for (int i = 0; i < 2 * CANONICAL_MOST_LEVELS; i++) {
        ct_free(q->sum[i]);
        q->sum[i] = NULL;
    }
    q->n_branches = 0;
}

void dist_canonical_fini(struct dist_canonical *q)
{
    dist_canonical_detach(q);
    ct_free(q->step);
    *q = (struct dist_canonical){ 0 };
}

/* ---- Sums. */

/* Riders are not copied from the device, because they are set in CPU memory. */
enum ct_status dist_canonical_fold(struct dist_canonical *q, int k)
{
    struct dist_branch b;
    int done;

    if (k == 0)
        q->n_branches = 0;
    if (q->made != q->diff)
        CT_TRY(q->dev->ops->to_host(
            q->dev, (q->n - CT_ARENA_RIDERS) * sizeof(float),
            q->made + CT_ARENA_RIDERS, q->diff + CT_ARENA_RIDERS));
    done = complete(q->parts, q->branch, q->n_branches, q->first + k, &b);
    for (; done > 0; done--)
        ct_comm_add((int64_t)q->n, q->sum[--q->n_branches], q->diff);
    memcpy(q->sum[q->n_branches], q->diff, q->n * sizeof(float));
    q->branch[q->n_branches++] = b;
    memset(q->diff, 0, q->n * sizeof(float));
    return CT_OK;
}

/* How many branches the last leaf of this rank completes. */
static int n_completed(const struct dist_canonical *q)
{
    struct dist_branch b;

    return q->micro > 1 ? complete(q->parts, q->branch, q->n_branches,
                                   q->first + q->micro - 1, &b)
                        : 0;
}

void dist_canonical_unfold(const struct dist_canonical *q, float *x, int64_t n)
{
    const int done = n_completed(q);

    for (int i = 1; i <= done; i++)
        ct_comm_add(n, q->sum[q->n_branches - i] + (x - q->diff), x);
}

/* The sum of this rank's branch number i for the floats from x on.  The last
 * branch has the last leaf, and its sum is in the arena. */
static float *branch_sum(const struct dist_canonical *q, int i, float *x)
{
    const int last = q->micro > 1 ? q->n_branches - n_completed(q) : 0;

    return i < last ? q->sum[i] + (x - q->diff) : x;
}

static enum ct_status take_step(const struct dist_canonical *q,
                                struct ct_comm *c,
                                const struct dist_handover *s, float *x,
                                int64_t n)
{
    const size_t bytes   = (size_t)n * sizeof(float);
    struct ct_transfer t = { .to = s->to, .from = s->from, .add = true };

    if (s->from == s->to) {
        ct_comm_add(n, branch_sum(q, s->given, x),
                    branch_sum(q, s->taking, x));
        return CT_OK;
    }
    if (s->to == c->rank) {
        t.take       = branch_sum(q, s->taking, x);
        t.take_bytes = bytes;
    } else {
        t.give       = branch_sum(q, s->given, x);
        t.give_bytes = bytes;
    }
    return ct_transfer(c, &t, ct_comm_tag(c, 0));
}

enum ct_status dist_canonical_sum(struct dist_canonical *q, struct ct_comm *c,
                                  float *x, int64_t n)
{
    const struct ct_place flat = ct_place(c->rank, c->size, NULL);
    struct ct_tree t;

    dist_canonical_unfold(q, x, n);
    ct_comm_begin(c, "sum canonical", (uint64_t)n * sizeof(*x));
    for (int i = 0; i < q->n_steps; i++)
        CT_TRY(take_step(q, c, &q->step[i], x, n));
    if (branch_sum(q, 0, x) != x)
        memcpy(x, branch_sum(q, 0, x), (size_t)n * sizeof(*x));
    ct_tree_init(&t, &flat, 0);
    return ct_tree_spread(c, &t, x, (size_t)n * sizeof(*x), ct_comm_tag(c, 1));
}
