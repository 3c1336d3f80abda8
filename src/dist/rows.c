/* rows.c - factors in a host's memory: ranks make the gradient in tiles.
 *
 * The ranks of a house put the factors of an n x m gradient side by side,
 *
 *     U  (L K) x n      K rows of each of L ranks: top diffs
 *     V  (L K) x m      bottom data
 *
 * and make U^T V, over everybody's samples, in tiles that stay in the second
 * cache until the parameters there are updated with them.  For each rank that
 * is the number of operations that its own samples' whole gradient takes, but
 * in deeper products, and no gradient is ever written, cleared and summed. */
#include <string.h>

#include "base/mem.h"
#include "device/cpu/loop.h"
#include "dist/dist.h"

enum { ROWS = 128, COLUMNS = 1024 }; /* of a tile */

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

enum ct_status dist_rows_init(struct dist_factor *x)
{
    struct dist_factors *all  = &x->dist->factors;
    const struct ct_factors f = { .rows = x->rows, .u_cols = x->n,
                                  .v_cols = x->m };

    x->u = all->space + all->used;
    x->v = x->u + round_up(x->dist->size * x->rows * x->n);
    all->used += floats_of(x->dist, &f);
    return ct_alloc(ROWS * COLUMNS, sizeof(*x->tile), "rows", &x->tile);
}

static int64_t row_tiles(const struct dist_factor *x)
{
    return (x->n + ROWS - 1) / ROWS;
}

/* Down the columns first: those of V stay in a cache. */
static enum ct_status make_tile(struct ct_shared *s, void *arg, int64_t tile)
{
    const struct dist_factor *x  = arg;
    const struct ct_tenant *t    = &x->dist->tenant;
    const struct ct_net_param *p = ct_net_param(x->dist->net, x->param);
    const int64_t row = tile % row_tiles(x) * ROWS;
    const int64_t col = tile / row_tiles(x) * COLUMNS;
    const int64_t n   = x->n - row < ROWS ? x->n - row : ROWS;
    const int64_t m   = x->m - col < COLUMNS ? x->m - col : COLUMNS;

    CT_TRY(ct_gemm_ld(p->blob->dev, CT_T, CT_N, n, m,
                      x->rows * s->window->local.size, 1, x->u + row, x->n,
                      x->v + col, x->m, 0, x->tile, m));
    CT_FOR_ROWS (r, n, m)
        t->update(t->arg, p->offset + (size_t)((row + r) * x->m + col),
                  (size_t)m, x->tile + r * m);
    return CT_OK;
}

enum ct_status dist_rows_post(struct dist_factor *x,
                              const struct ct_factors *f)
{
    const int64_t me = x->dist->direct->window->local.me;
    const size_t u = (size_t)(x->rows * x->n), v = (size_t)(x->rows * x->m);

    memcpy(x->u + me * x->rows * x->n, f->u, u * sizeof(float));
    memcpy(x->v + me * x->rows * x->m, f->v, v * sizeof(float));
    return ct_shared_post_work(x->dist->direct, make_tile, x,
                               row_tiles(x) * ((x->m + COLUMNS - 1) / COLUMNS),
                               (u + v) * sizeof(float), &x->ticket);
}
