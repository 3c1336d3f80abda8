/* bucket.c - the gradient arena cut into runs. */
#include "dist/bsp/bucket.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static int by_offset(const void *a, const void *b, void *arg)
{
    const struct ct_net *net = arg;
    size_t x = ct_net_param(net, *(const int *)a)->offset;
    size_t y = ct_net_param(net, *(const int *)b)->offset;

    return x < y ? -1 : x > y;
}

/* The arena offset behind parameter i: where the next one starts. */
static size_t end_of(const struct ct_net *net, const int *order, int i)
{
    return i + 1 < ct_net_n_params(net)
               ? ct_net_param(net, order[i + 1])->offset
               : ct_net_arena_count(net);
}

static void close_bucket(struct dist_buckets *b, size_t start, size_t end,
                         int ready_after)
{
    if (end > start)
        b->bucket[b->n++] =
            (struct dist_bucket){ start, end - start, ready_after };
}

/* Does what is left fit the last bucket when this parameter is out? */
static bool is_tail(const struct ct_net *net, size_t first, size_t end)
{
    const size_t all = ct_net_arena_count(net);
    const size_t most = DIST_LAST_BUCKET / sizeof(float);

    return all - first > most && all - end <= most;
}

static void cut(struct dist_buckets *b, const struct ct_net *net,
                const int *order, const int *apart, size_t first_bytes,
                size_t cap_bytes)
{
    size_t start = 0;
    int n        = ct_net_n_params(net);
    int layer    = ct_net_n_layers(net) - 1; /* completes what is open */

    for (int i = 0; i < n; i++) {
        const struct ct_net_param *p = ct_net_param(net, order[i]);
        size_t end   = end_of(net, order, i);
        size_t limit = b->n == 0 ? first_bytes : cap_bytes;
        bool tail    = is_tail(net, p->offset, end);

        if (apart[order[i]] >= 0) {
            close_bucket(b, start, p->offset, layer);
            b->of_param[order[i]] = -1;
            start                 = end;
            continue;
        }
        layer                 = p->layer;
        b->of_param[order[i]] = b->n;
        if ((end - start) * sizeof(float) >= limit || tail) {
            close_bucket(b, start, end, layer);
            start = end;
        }
    }
    close_bucket(b, start, ct_net_arena_count(net), layer);
}

enum ct_status dist_buckets_init(struct dist_buckets *b,
                                 const struct ct_net *net, const int *apart,
                                 size_t first_bytes, size_t cap_bytes)
{
    size_t n   = (size_t)ct_net_n_params(net) + 1;
    int *order = NULL;
    enum ct_status st;

    *b = (struct dist_buckets){ 0 };
    CT_TRY_GOTO(ct_alloc(n, sizeof(*order), "buckets", &order), st, out);
    CT_TRY_GOTO(ct_alloc(n + 1, sizeof(*b->bucket), "buckets", &b->bucket),
                st, out);
    CT_TRY_GOTO(ct_alloc(n, sizeof(*b->of_param), "buckets", &b->of_param),
                st, out);
    for (int i = 0; i < ct_net_n_params(net); i++)
        order[i] = i;
    qsort_r(order, n - 1, sizeof(*order), by_offset,
            (void *)(uintptr_t)net);
    cut(b, net, order, apart, first_bytes, cap_bytes);
out:
    ct_free(order);
    if (st != CT_OK)
        dist_buckets_fini(b);
    return st;
}

void dist_buckets_fini(struct dist_buckets *b)
{
    ct_free(b->bucket);
    ct_free(b->of_param);
    *b = (struct dist_buckets){ 0 };
}
