/* rows.c - factors in a host's memory: each rank makes rows of the gradient.
 *
 * The ranks of a house put the factors of an n x m gradient side by side,
 *
 *     U  (L K) x n      K rows of each of L ranks: top diffs
 *     V  (L K) x m      bottom data
 *
 * and rank r makes rows [r n/L, (r+1) n/L) of U^T V, over everybody's samples,
 * and updates those parameters with them.  That is the same number of
 * operations as K samples' whole gradient takes, but in a deeper product, and
 * no gradient is ever written, cleared, read and summed.
 *
 * Columns are taken in panels that stay in the second cache until the update
 * has used them. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "device/cpu/loop.h"
#include "dist/dist.h"

enum { PANEL = 128 << 10, LEAST_COLUMNS = 64 }; /* floats */

static int64_t round_up(int64_t n)
{
    return (n + 15) / 16 * 16; /* lines */
}

static int64_t floats_of(const struct ct_dist *d, const struct ct_factors *f)
{
    return round_up(d->size * f->rows * f->u_cols) +
           round_up(d->size * f->rows * f->v_cols);
}

int64_t dist_rows_space(const struct ct_dist *d, const struct ct_net *net)
{
    struct ct_factors f;
    int64_t n = 0;

    if (d->exchange.global_batch) /* ranks may differ in rows */
        return 0;
    for (int i = 0; i < ct_net_n_params(net); i++)
        if (dist_factors_of(net, i, &f) == CT_OK)
            n += floats_of(d, &f);
    return n;
}

static int64_t columns_of(const struct dist_factor *x, int64_t rows)
{
    int64_t n = rows > 0 ? PANEL / rows / 16 * 16 : x->m;

    n = n < LEAST_COLUMNS ? LEAST_COLUMNS : n;
    return n < x->m ? n : x->m;
}

enum ct_status dist_rows_init(struct dist_factor *x)
{
    struct dist_factors *all  = &x->dist->factors;
    const struct ct_factors f = { .rows = x->rows, .u_cols = x->n,
                                  .v_cols = x->m };
    const struct ct_group *g = &x->dist->direct->window->local;
    int64_t rows = ct_part(x->n, g->size, g->me).n;

    x->u = all->space + all->used;
    x->v = x->u + round_up(g->size * x->rows * x->n);
    all->used += floats_of(x->dist, &f);
    return ct_alloc((size_t)(rows * columns_of(x, rows)) + 1,
                    sizeof(*x->panel), "rows", &x->panel);
}

static enum ct_status make_rows(struct ct_shared *s, void *arg)
{
    struct dist_factor *x       = arg;
    const struct ct_tenant *t   = &x->dist->tenant;
    const struct ct_group *g    = &s->window->local;
    const struct ct_part mine   = ct_part(x->n, g->size, g->me);
    const struct ct_net_param *p = ct_net_param(x->dist->net, x->param);
    const int64_t width = columns_of(x, mine.n);
    const double start  = ct_now();

    for (int64_t c = 0; mine.n > 0 && c < x->m; c += width) {
        const int64_t n = x->m - c < width ? x->m - c : width;

        CT_TRY(ct_gemm_ld(p->blob->dev, CT_T, CT_N, mine.n, n,
                          x->rows * g->size, 1, x->u + mine.first, x->n,
                          x->v + c, x->m, 0, x->panel, n));
        CT_FOR_ROWS (r, mine.n, n)
            t->update(t->arg,
                      p->offset + (size_t)((mine.first + r) * x->m + c),
                      (size_t)n, x->panel + r * n);
    }
    x->product_seconds = ct_now() - start;
    return CT_OK;
}

enum ct_status dist_rows_post(struct dist_factor *x,
                              const struct ct_factors *f)
{
    const int64_t me = x->dist->direct->window->local.me;
    const size_t u = (size_t)(x->rows * x->n), v = (size_t)(x->rows * x->m);

    memcpy(x->u + me * x->rows * x->n, f->u, u * sizeof(float));
    memcpy(x->v + me * x->rows * x->m, f->v, v * sizeof(float));
    return ct_shared_post_work(x->dist->direct, make_rows, x,
                               (u + v) * sizeof(float), &x->ticket);
}
