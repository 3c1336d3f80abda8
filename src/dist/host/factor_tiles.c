/* factor_tiles.c - factors in a host's memory: ranks make the gradient in
 * tiles.
 *
 * Ranks that share parameters put the factors of an n x m gradient side by
 * side,
 *
 *     U  K x n      the rows of all ranks, one behind the other: top diffs
 *     V  K x m      bottom data
 *
 * and make U^T V, over everybody's samples, in tiles that stay in the second
 * cache until the parameters there are updated with them.  For each rank that
 * is the number of operations that its own samples' whole gradient takes, but
 * in deeper products, and no gradient is ever written, cleared and summed. */
#include <string.h>

#include "base/mem.h"
#include "device/cpu/loop.h"
#include "dist/engine.h"

/* Floats of a tile, and its sides.  Wide ones touch fewer pages for each row of
 * parameters, of which the next one is far away. */
enum { TILE = 1 << 17, MOST_ROWS = 128, MOST_COLUMNS = 4096 };

static int64_t round_up(int64_t n)
{
    return (n + 15) / 16 * 16; /* lines */
}

static int64_t floats_of(int64_t rows, int64_t n, int64_t m)
{
    return round_up(rows * n) + round_up(rows * m);
}

enum ct_status dist_rows_space(struct ct_dist *d, const struct ct_net *net,
                               int64_t *out)
{
    struct ct_factors f;
    int64_t *first = NULL;
    enum ct_status st;

    *out = 0;
    CT_TRY(ct_alloc((size_t)d->view.size + 1, sizeof(*first), "factors",
                    &first));
    st = CT_OK;
    for (int i = 0; i < ct_net_n_params(net) && st == CT_OK; i++) {
        if (dist_factors_of(net, i, &f) != CT_OK)
            continue;
        st = dist_factors_rows(d, f.rows, first);
        *out += floats_of(first[d->view.size], f.u_cols, f.v_cols);
    }
    ct_free(first);
    return st;
}

static enum ct_status make(struct dist_factor *x)
{
    struct dist_factors *all = &x->dist->factors;
    const int64_t rows       = x->first[x->dist->view.size];

    x->u = all->space + all->used;
    x->v = x->u + round_up(rows * x->n);
    all->used += floats_of(rows, x->n, x->m);
    return ct_alloc(TILE, sizeof(*x->tile), "rows", &x->tile);
}

static void drop(struct dist_factor *x)
{
    ct_free(x->tile);
}

static enum ct_status keep(struct dist_factor *x, const struct ct_factors *f)
{
    (void)x, (void)f; /* nothing is queued */
    return CT_OK;
}

static int64_t tile_columns(const struct dist_factor *x)
{
    return x->m < MOST_COLUMNS ? x->m : MOST_COLUMNS;
}

static int64_t tile_rows(const struct dist_factor *x)
{
    const int64_t rows = TILE / tile_columns(x);

    return rows < MOST_ROWS ? rows : MOST_ROWS;
}

/* Tiles in a column of them, and in a row. */
static int64_t tiles_down(const struct dist_factor *x)
{
    return (x->n + tile_rows(x) - 1) / tile_rows(x);
}

static int64_t tiles_across(const struct dist_factor *x)
{
    return (x->m + tile_columns(x) - 1) / tile_columns(x);
}

/* Down the columns first: those of V stay in a cache. */
static enum ct_status make_tile(struct ct_shared *s, void *arg, int64_t tile)
{
    const struct dist_factor *x  = arg;
    const struct ct_params_user *t    = &x->dist->host.user;
    const struct ct_net_param *p = ct_net_param(x->dist->net, x->param);
    const int64_t rows = tile_rows(x), columns = tile_columns(x);
    const int64_t row  = tile % tiles_down(x) * rows;
    const int64_t col  = tile / tiles_down(x) * columns;
    const int64_t n    = x->n - row < rows ? x->n - row : rows;
    const int64_t m    = x->m - col < columns ? x->m - col : columns;

    (void)s;
    CT_TRY(ct_gemm_ld(p->blob->dev, CT_T, CT_N, n, m,
                      x->first[x->dist->view.size], 1, x->u + row, x->n,
                      x->v + col, x->m, 0, x->tile, m));
    CT_FOR_ROWS (r, n, m)
        t->update(t->arg, p->offset + (size_t)((row + r) * x->m + col),
                  (size_t)m, x->tile + r * m);
    return CT_OK;
}

static enum ct_status post(struct dist_factor *x, const struct ct_factors *f)
{
    const int64_t first = x->first[x->dist->view.rank];
    const size_t u = (size_t)(x->rows * x->n), v = (size_t)(x->rows * x->m);

    memcpy(x->u + first * x->n, f->u, u * sizeof(float));
    memcpy(x->v + first * x->m, f->v, v * sizeof(float));
    return ct_shared_post_work(
        x->dist->host.shared,
        &(struct ct_shared_work){
            .label = x->name, .run = make_tile, .arg = x,
            .n_pieces = tiles_down(x) * tiles_across(x),
            .bytes    = (u + v) * sizeof(float) },
        &x->ticket);
}

static bool arrived(struct dist_factor *x)
{
    return dist_direct_arrived(x->dist, x->ticket);
}

static enum ct_status wait(struct dist_factor *x)
{
    return dist_direct_wait(x->dist, x->ticket);
}

const struct dist_factor_way dist_factors_in_tiles = {
    .make    = make,
    .drop    = drop,
    .keep    = keep,
    .leave   = post,
    .arrived = arrived,
    .wait    = wait,
};
