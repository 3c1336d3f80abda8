/* guard.c - checks that all ranks hold the same parameters.
 *
 * Every rank sends a digest of each parameter; the error names the first
 * parameter that differs from rank 0's.  BatchNorm's statistics are not
 * compared, because they differ between ranks from one test to the next.
 *
 * Unlike devices, such as a CPU and a GPU in one job, round differently.  Their
 * parameters must be close to those of rank 0, and are replaced by them. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/pulse.h"
#include "dist/engine.h"
#include "dist/servers/farewell.h"

struct digests {
    uint32_t *all; /* n of rank 0, n of rank 1, ...; owned */
    size_t    n;   /* digests per rank */
};

static enum ct_status gather(struct ct_dist *d, struct digests *g)
{
    return dist_gather_each(d, g->all + (size_t)d->view.rank * g->n,
                            g->n * sizeof(*g->all), g->all);
}

static enum ct_status digests_init(struct ct_dist *d, size_t n,
                                   struct digests *g)
{
    *g = (struct digests){ .n = n };
    return ct_alloc((size_t)d->view.size * (n + 1), sizeof(*g->all), "digests",
                    &g->all);
}

static bool is_kept_apart(const struct ct_net *net, int i)
{
    const struct ct_net_param *p = ct_net_param(net, i);

    return ct_layer_is_statistic(ct_net_layer(net, p->layer), p->index);
}

static uint32_t param_digest(const struct ct_dist *d, int i)
{
    const struct ct_net_param *p = ct_net_param(d->net, i);

    if (is_kept_apart(d->net, i))
        return 0;
    return ct_crc32c(0, ct_mirror_param(d->trainer.mirror, p),
                     (size_t)p->blob->count * sizeof(float));
}

/* 1: x differs from y by more than rounding can explain; 0: it does not. */
static uint32_t is_far(int64_t n, const float *x, const float *y)
{
    double most = 0, apart = 0;

    for (int64_t i = 0; i < n; i++) {
        most  = fmax(most, fabs((double)y[i]));
        apart = fmax(apart, fabs((double)x[i] - (double)y[i]));
        if (!isfinite(x[i]))
            return 1;
    }
    return apart > 1e-2 * most + 1e-6;
}

/* Sets far[i] if parameter i is not close to rank 0's, and takes over rank 0's
 * parameters. */
static enum ct_status come_near(struct ct_dist *d, uint32_t *far)
{
    const size_t n = ct_net_arena_count(d->net);
    float *mine    = dist_data(d, d->net), *first = NULL;
    enum ct_status st;

    CT_TRY(ct_alloc(n, sizeof(*first), "rank 0's parameters", &first));
    memcpy(first, mine, n * sizeof(*first));
    CT_TRY_GOTO(dist_broadcast(d, first, n * sizeof(*first)), st, out);
    for (int i = 0; i < ct_net_n_params(d->net); i++) {
        const struct ct_net_param *p = ct_net_param(d->net, i);
        const size_t count           = (size_t)p->blob->count;

        far[i] = 0;
        if (is_kept_apart(d->net, i))
            continue;
        far[i] = is_far(p->blob->count, mine + p->offset, first + p->offset);
        memcpy(mine + p->offset, first + p->offset, count * sizeof(*mine));
        CT_TRY_GOTO(ct_mirror_put_run(d->trainer.mirror, p->offset, count),
                    st, out);
    }
out:
    ct_free(first);
    return st;
}

static enum ct_status compare(const struct ct_dist *d, const struct digests *g,
                              int iter)
{
    for (int r = 1; r < d->view.size; r++)
        for (size_t i = 0; i < g->n; i++)
            if (g->all[(size_t)r * g->n + i] != g->all[i]) {
                const struct ct_net_param *p = ct_net_param(d->net, (int)i);

                return ct_fail(CT_ECOMM, "iteration %d: rank %d no longer has "
                               "rank 0's parameters; they differ first in "
                               "layer %s (parameter %d)", iter, r,
                               ct_net_layer(d->net, p->layer)->name,
                               p->index);
            }
    return CT_OK;
}

enum ct_status dist_guard_check(struct ct_dist *d, int iter)
{
    struct digests g;
    uint32_t *mine;
    enum ct_status st;

    CT_TRY_GOTO(digests_init(d, (size_t)ct_net_n_params(d->net), &g), st, out);
    CT_TRY_GOTO(ct_mirror_get(d->trainer.mirror), st, out);
    mine = g.all + (size_t)d->view.rank * g.n;
    if (!d->plan->equal_bits)
        CT_TRY_GOTO(come_near(d, mine), st, out);
    for (size_t i = 0; i < g.n && d->plan->equal_bits; i++)
        mine[i] = param_digest(d, (int)i);
    CT_TRY_GOTO(gather(d, &g), st, out);
    st = compare(d, &g, iter);
out:
    ct_free(g.all);
    return st;
}

enum ct_status ct_dist_end(struct ct_dist *d)
{
    if (!d)
        return CT_OK;
    ct_pulse_set(d->exchange.facts.pulse, CT_PULSE_DONE, NULL);
    return d->gone ? dist_farewell_meet(d) : dist_meet_all(d);
}

enum ct_status ct_dist_same(struct ct_dist *d, const char *what,
                            uint64_t digest)
{
    struct digests g;
    enum ct_status st;

    if (!d)
        return CT_OK;
    CT_TRY_GOTO(digests_init(d, 2, &g), st, out);
    g.all[2 * d->view.rank]     = (uint32_t)digest;
    g.all[2 * d->view.rank + 1] = (uint32_t)(digest >> 32);
    CT_TRY_GOTO(gather(d, &g), st, out);
    for (int r = 1; r < d->view.size && st == CT_OK; r++)
        if (g.all[2 * r] != g.all[0] || g.all[2 * r + 1] != g.all[1])
            st = ct_fail(CT_EINVAL, "rank %d has another %s than rank 0; every "
                         "rank must be started alike", r, what);
out:
    ct_free(g.all);
    return st;
}
