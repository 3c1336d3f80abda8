/* guard.c - proof that all ranks hold the same parameters.
 *
 * Every rank sends a digest of each parameter; the first that differs from
 * rank 0's is named.  BatchNorm's statistics are each rank's own between
 * tests and are left out. */
#include <inttypes.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "dist/dist.h"

struct digests {
    uint32_t *all; /* rank by rank */
    size_t   *bytes;
    size_t    n; /* digests a rank */
};

static enum ct_status gather(struct ct_dist *d, struct digests *g)
{
    for (int r = 0; r < d->size; r++)
        g->bytes[r] = g->n * sizeof(*g->all);
    return dist_gather(d, g->all + (size_t)d->rank * g->n, g->bytes, g->all);
}

static enum ct_status digests_init(struct ct_dist *d, size_t n,
                                   struct digests *g)
{
    *g = (struct digests){ .n = n };
    CT_TRY(ct_alloc((size_t)d->size * (n + 1), sizeof(*g->all), "digests",
                    &g->all));
    return ct_alloc((size_t)d->size, sizeof(*g->bytes), "digests", &g->bytes);
}

static void digests_fini(struct digests *g)
{
    ct_free(g->all);
    ct_free(g->bytes);
}

static uint32_t param_digest(const struct ct_net *net, int i)
{
    const struct ct_net_param *p = ct_net_param(net, i);

    if (strcmp(ct_net_layer(net, p->layer)->type->name, "BatchNorm") == 0)
        return 0;
    return ct_crc32c(0, ct_data(p->blob),
                     (size_t)p->blob->count * sizeof(float));
}

static enum ct_status compare(const struct ct_dist *d, const struct digests *g,
                              int iter)
{
    for (int r = 1; r < d->size; r++)
        for (size_t i = 0; i < g->n; i++)
            if (g->all[(size_t)r * g->n + i] != g->all[i]) {
                const struct ct_net_param *p = ct_net_param(d->net, (int)i);

                return ct_fail(CT_ECOMM, "iteration %d: rank %d no longer has "
                               "rank 0's parameters; they part in layer %s "
                               "(parameter %d)", iter, r,
                               ct_net_layer(d->net, p->layer)->name,
                               p->index);
            }
    return CT_OK;
}

enum ct_status dist_guard_check(struct ct_dist *d, int iter)
{
    struct digests g;
    enum ct_status st;

    CT_TRY_GOTO(digests_init(d, (size_t)ct_net_n_params(d->net), &g), st, out);
    for (size_t i = 0; i < g.n; i++)
        g.all[(size_t)d->rank * g.n + i] = param_digest(d->net, (int)i);
    CT_TRY_GOTO(gather(d, &g), st, out);
    st = compare(d, &g, iter);
out:
    digests_fini(&g);
    return st;
}

enum ct_status ct_dist_same(struct ct_dist *d, const char *what,
                            uint64_t digest)
{
    struct digests g;
    enum ct_status st;

    if (!d)
        return CT_OK;
    CT_TRY_GOTO(digests_init(d, 2, &g), st, out);
    g.all[2 * d->rank]     = (uint32_t)digest;
    g.all[2 * d->rank + 1] = (uint32_t)(digest >> 32);
    CT_TRY_GOTO(gather(d, &g), st, out);
    for (int r = 1; r < d->size && st == CT_OK; r++)
        if (g.all[2 * r] != g.all[0] || g.all[2 * r + 1] != g.all[1])
            st = ct_fail(CT_EINVAL, "rank %d has another %s than rank 0; every "
                         "rank must be started alike", r, what);
out:
    digests_fini(&g);
    return st;
}
