/* canonical.c - the same bits for any number of ranks. */
#include "dist/proof/canonical.h"

#include <string.h>

#include "base/mem.h"
#include "comm/coll/transfer.h"
#include "net/arena.h"

static bool is_power_of_two(int n)
{
    return n > 0 && (n & (n - 1)) == 0;
}

bool dist_canonical_deals(int V, int size)
{
    return V % size == 0 && (size == 1 || is_power_of_two(V / size));
}

void dist_canonical_init(struct dist_canonical *q, const struct dist_plan *p)
{
    q->micro = p->micro;
    for (int m = q->micro - 1; m > 0; m /= 2)
        q->n_levels++;
}

enum ct_status dist_canonical_attach(struct dist_canonical *q,
                                     const struct ct_net *net, float *diff)
{
    dist_canonical_fini(q);
    q->n    = ct_net_arena_count(net);
    q->diff = diff;
    q->made = ct_net_arena_diff(net);
    q->dev  = ct_net_n_params(net) > 0 ? ct_net_param(net, 0)->blob->dev
                                       : ct_device_cpu();
    for (int i = 0; i < q->n_levels; i++)
        CT_TRY(ct_alloc(q->n, sizeof(float), "canonical sums", &q->level[i]));
    return CT_OK;
}

void dist_canonical_fini(struct dist_canonical *q)
{
    for (int i = 0; i < CANONICAL_MOST_LEVELS; i++) {
        ct_free(q->level[i]);
        q->level[i] = NULL;
    }
}

/* As a binary counter adds one: k ends in so many ones.  The riders are set in
 * the CPU's memory. */
enum ct_status dist_canonical_fold(struct dist_canonical *q, int k)
{
    int i = 0;

    if (q->made != q->diff)
        CT_TRY(q->dev->ops->to_host(
            q->dev, (q->n - CT_ARENA_RIDERS) * sizeof(float),
            q->made + CT_ARENA_RIDERS, q->diff + CT_ARENA_RIDERS));
    for (; k & 1; k >>= 1)
        ct_comm_add((int64_t)q->n, q->level[i++], q->diff);
    memcpy(q->level[i], q->diff, q->n * sizeof(float));
    memset(q->diff, 0, q->n * sizeof(float));
    return CT_OK;
}

void dist_canonical_unfold(const struct dist_canonical *q, float *x, int64_t n)
{
    for (int i = 0; i < q->n_levels; i++)
        if ((q->micro - 1) >> i & 1)
            ct_comm_add(n, q->level[i] + (x - q->diff), x);
}

/* A tree in the order of ranks, wherever they are. */
enum ct_status dist_canonical_sum(struct dist_canonical *q, struct ct_comm *c,
                                  float *x, int64_t n)
{
    const struct ct_place flat = ct_place(c->rank, c->size, NULL);
    struct ct_tree t;

    dist_canonical_unfold(q, x, n);
    ct_comm_begin(c, "sum canonical", (uint64_t)n * sizeof(*x));
    ct_tree_init(&t, &flat, 0);
    CT_TRY(ct_tree_sum(c, &t, x, n, ct_comm_tag(c, 0)));
    return ct_tree_spread(c, &t, x, (size_t)n * sizeof(*x), ct_comm_tag(c, 1));
}
