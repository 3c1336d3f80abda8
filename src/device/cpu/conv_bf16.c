/* conv_bf16.c - 3x3 convolutions of bfloat16 arrays in Winograd's basis, with
 * products in bfloat16.
 *
 * Direct products in bfloat16 are twice as fast as in float32, and Winograd's
 * method in float32 makes four times fewer.  This does both: 3.24 times fewer
 * products at twice the rate, and nothing is converted (wino_bf16.h).  Where a
 * CPU has AMX, whose products are many times as fast, the direct way wins.
 *
 * Tiles are taken a bundle at a time, whose V stays in the cache:
 *
 *     V (25 x tiles x in) of x
 *     each 32 outputs, each few tiles:   M = V U (25 x few x 32),   y from M
 *
 * The gradient of the input is the same convolution of dy with kernels that
 * are turned around.  That of the weights sums over tiles:
 *
 *     V (25 x tiles x in) of x,   M (25 x tiles x out) of dy
 *     each 32 outputs, each few inputs:   dU (25 x few x 32) += V^T M
 *
 * and is brought back after the last bundle.  Where weights are many and tiles
 * few there is one bundle: U and dU are then needed for one core's part at a
 * time and stay in its cache.
 *
 * The order of all sums is the same with any number of threads.  Weights are
 * best in tiles (tiles16.h); plain ones are copied there. */
#include "device/cpu/wino_bf16.h"

#if defined(CT_HAVE_ONEDNN) && defined(__x86_64__)
#include <string.h>

#include "base/mem.h"
#include "device/cpu/loop.h"
#include "device/cpu/short_areas.h"
#include "device/cpu/tiles16.h"
#include "device/kernels.h"

enum {
    SIDE = CT_TILE_SIDE, TAPS = 9, PLACES = CT_SHORT_PLACES,
    ROWS = CT_SHORT_ROWS, COLUMNS = CT_SHORT_COLUMNS,
    LINE         = CT_SHORT_LINE,
    BUNDLE_BYTES = 1 << 19, /* of V, so that U and M find room beside it */
    WHOLE_BYTES  = 6 << 20, /* of V, where U is larger than MUCH_BYTES */
    MUCH_BYTES   = 4 << 20,
    FEW_TILES = 64, FEW_INPUTS = 64,
    LEAST_CHANNELS = 32
};

/* A convolution that runs forward: the layer's, or that of its gradient. */
struct way {
    struct ct_short_tiles tiles;
    int64_t n, bundle, n_bundles; /* tiles, those of a bundle, bundles */
    int64_t chunks;               /* of 32 outputs */
    struct ct_short_at v;
    int64_t u_plane, m_plane;     /* values, floats */
    int64_t v_size, u_size, m_size;
};

/* The gradient of the weights. */
struct turned_way {
    int64_t bundle, n_bundles, few, jobs;
    struct ct_short_at v, m;
    int64_t du_plane;                /* floats */
    int64_t v_size, m_size, du_size; /* values, of 32 outputs, floats */
};

struct short_state {
    struct way        forward, back;
    struct turned_way weights;
    int64_t           workers;
};

static bool takes(const struct ct_conv *c)
{
    const struct ct_conv_desc *d = &c->desc;

    if (d->n_spatial != 2 || d->group != 1 || d->batch == 0 || d->packed ||
        d->src_type != CT_BF16 || d->dst_type != CT_BF16 ||
        d->src_layout != CT_NHWC || d->dst_layout != CT_NHWC ||
        d->in_channels % SIDE || d->out_channels % SIDE ||
        d->in_channels < LEAST_CHANNELS || d->out_channels < LEAST_CHANNELS)
        return false;
    for (int i = 0; i < 2; i++)
        if (d->kernel[i] != 3 || d->stride[i] != 1 || d->dilation[i] != 1 ||
            d->pad[i] > 2 || ct_conv_has_idle_taps(d, i))
            return false;
    return ct_short_runs() && !ct_cpu_has_amx();
}

/* How many of n tiles make a bundle. */
static int64_t bundle_of(int64_t in, int64_t out, int64_t n)
{
    const int64_t bytes = PLACES * in * (int64_t)sizeof(uint16_t);
    const int64_t most  = BUNDLE_BYTES / bytes / FEW_TILES * FEW_TILES;
    const int64_t tiles = ct_short_most(most, FEW_TILES);
    const bool whole    = bytes * out > MUCH_BYTES && bytes * n <= WHOLE_BYTES;

    return whole || n < tiles ? ct_short_up(n, ROWS) : tiles;
}

static struct way way_of(const struct ct_conv *c, bool back)
{
    const struct ct_conv_desc *d = &c->desc;
    struct way w                 = { 0 };
    struct ct_short_tiles *t     = &w.tiles;

    t->h        = back ? c->out[0] : d->in[0];
    t->w        = back ? c->out[1] : d->in[1];
    t->out_h    = back ? d->in[0] : c->out[0];
    t->out_w    = back ? d->in[1] : c->out[1];
    t->pad_h    = back ? 2 - d->pad[0] : d->pad[0];
    t->pad_w    = back ? 2 - d->pad[1] : d->pad[1];
    t->in       = back ? d->out_channels : d->in_channels;
    t->out      = back ? d->in_channels : d->out_channels;
    t->in_all   = t->in;
    t->out_all  = t->out;
    t->rows     = (t->out_h + CT_SHORT_SIDE - 1) / CT_SHORT_SIDE;
    t->columns  = (t->out_w + CT_SHORT_SIDE - 1) / CT_SHORT_SIDE;
    w.n         = d->batch * t->rows * t->columns;
    w.bundle    = bundle_of(t->in, t->out, w.n);
    w.n_bundles = (w.n + w.bundle - 1) / w.bundle;
    w.chunks    = (t->out + COLUMNS - 1) / COLUMNS;
    /* A line more than they take: rows and places must not fall into the same
     * sets of the cache. */
    w.v.step  = t->in + LINE;
    w.v.plane = w.bundle * w.v.step + LINE;
    w.u_plane = t->in * COLUMNS + LINE;
    w.m_plane = FEW_TILES * COLUMNS + LINE;
    w.v_size  = PLACES * w.v.plane;
    w.u_size  = PLACES * w.u_plane;
    w.m_size  = PLACES * w.m_plane;
    return w;
}

static struct turned_way turned_way_of(const struct way *f)
{
    struct turned_way w = { 0 };

    w.bundle    = bundle_of(ct_short_most(f->tiles.in, f->tiles.out),
                            f->tiles.out, f->n);
    w.n_bundles = (f->n + w.bundle - 1) / w.bundle;
    w.few       = f->tiles.in % FEW_INPUTS ? SIDE : FEW_INPUTS;
    w.jobs      = f->chunks * (f->tiles.in / w.few);
    w.v.step    = 2 * f->tiles.in + LINE;
    w.v.plane   = w.bundle / 2 * w.v.step + LINE;
    w.m.step    = 2 * COLUMNS;
    w.m.plane   = w.bundle / 2 * w.m.step + LINE;
    w.du_plane  = w.few * COLUMNS + LINE;
    w.v_size    = PLACES * w.v.plane;
    w.m_size    = PLACES * w.m.plane;
    w.du_size   = PLACES * w.du_plane;
    return w;
}

/* U of all outputs is there before the first bundle, or that of 32 outputs is
 * made where it is used. */
static bool makes_all(const struct way *w, int64_t workers)
{
    return w->n_bundles > 1 || w->chunks < 4 * workers;
}

static int64_t forward_floats(const struct way *w, int64_t workers)
{
    const int64_t us = makes_all(w, workers) ? w->chunks : workers;

    return ct_short_up(w->tiles.out, COLUMNS) + ct_short_floats(w->v_size) +
           ct_short_floats(us * w->u_size) + workers * w->m_size;
}

static int64_t weights_floats(const struct short_state *s)
{
    const struct turned_way *w = &s->weights;
    const int64_t dus = w->n_bundles > 1 ? w->jobs : s->workers;

    return ct_short_floats(w->v_size) +
           ct_short_floats(s->forward.chunks * w->m_size) +
           dus * w->du_size;
}

static enum ct_status short_create(struct ct_conv *c)
{
    struct short_state *s;
    int64_t floats;

    if (!takes(c))
        return CT_ENOTSUP;
    CT_TRY(ct_alloc(1, sizeof(*s), "convolution in bfloat16", &s));
    c->state   = s;
    s->workers = ct_device_cpu_threads();
    s->forward = way_of(c, false);
    s->back    = way_of(c, true);
    s->weights = turned_way_of(&s->forward);
    floats     = ct_short_most(forward_floats(&s->forward, s->workers),
                               forward_floats(&s->back, s->workers));
    floats     = ct_short_n_weights(c) +
                 ct_short_most(floats, weights_floats(s));
    return ct_workspace_need(c->work, (size_t)floats * sizeof(float));
}

static void short_destroy(struct ct_conv *c)
{
    ct_free(c->state);
}

/* The tile of weights from input block i to output block o. */
static int64_t tile_at(const struct ct_conv *c, int64_t i, int64_t o)
{
    return (o * (c->in_group / SIDE) + i) * TAPS * SIDE * SIDE;
}

/* V of tiles [from, from + n). */
static void make_v(const struct ct_short_tiles *g, const uint16_t *x,
                   int64_t from, int64_t n, bool paired,
                   const struct ct_short_at *at, uint16_t *v)
{
    const int64_t some = ROWS;

    CT_FOR_ROWS (i, (n + some - 1) / some, some * g->in * PLACES) {
        const int64_t t = i * some, to = t + some < n ? t + some : n;

        ct_short_input(g, x, from + t, from + to, paired, at,
                       v + t / (paired ? 2 : 1) * at->step);
    }
}

/* U of outputs [to, to + 32). */
static void make_u(const struct ct_conv *c, const struct way *w,
                   const float *weights, bool back, int64_t to, uint16_t *u)
{
    if (to + COLUMNS > w->tiles.out)
        memset(u, 0, (size_t)w->u_size * sizeof(*u));
    for (int64_t i = 0; i < w->tiles.in; i += SIDE)
        for (int64_t o = 0; o < COLUMNS && to + o < w->tiles.out; o += SIDE) {
            const int64_t a = i / SIDE, b = (to + o) / SIDE;

            ct_short_weights(weights + (back ? tile_at(c, b, a)
                                             : tile_at(c, a, b)),
                             back, w->u_plane, u + i * COLUMNS + 2 * o);
        }
}

/* Outputs [to, to + 32) of n tiles from `from` on; `v` is theirs. */
static void make_outputs(const struct way *w, int64_t to, int64_t from,
                         int64_t n, const uint16_t *v, const uint16_t *u,
                         const struct ct_short_end *end, float *m,
                         uint16_t *y)
{
    for (int p = 0; p < PLACES; p++)
        for (int64_t t = 0; t < n; t += ROWS)
            ct_short_product(w->tiles.in / 2,
                             v + p * w->v.plane + t * w->v.step,
                             w->v.step / 2, 1, u + p * w->u_plane, false,
                             m + p * w->m_plane + t * COLUMNS);
    ct_short_output(&w->tiles, m, w->m_plane, to, from, from + n, end, y);
}

/* All outputs of n tiles from `first` on, whose V is there. */
static void run_bundle(const struct ct_conv *c, const struct way *w,
                       const struct ct_short_areas *p, const float *weights,
                       bool back, int64_t first, int64_t n,
                       const struct ct_short_end *end, uint16_t *y)
{
    const struct short_state *s = c->state;
    const bool all        = makes_all(w, s->workers);
    const int64_t pieces  = (n + FEW_TILES - 1) / FEW_TILES;
    const int64_t per_job = all ? 1 : pieces;
    const int64_t jobs    = w->chunks * pieces / per_job;

    CT_FOR_ROWS (i, s->workers, CT_GRAIN)
        for (int64_t job = i; job < jobs; job += s->workers) {
            const int64_t chunk = all ? job / pieces : job;
            const int64_t piece = all ? job % pieces : 0;
            uint16_t *u         = p->u + (all ? chunk : i) * w->u_size;

            if (!all)
                make_u(c, w, weights, back, chunk * COLUMNS, u);
            for (int64_t k = piece; k < piece + per_job; k++) {
                const int64_t t = k * FEW_TILES;

                make_outputs(w, chunk * COLUMNS, first + t,
                             n - t < FEW_TILES ? n - t : FEW_TILES,
                             p->v + t * w->v.step, u, end,
                             p->own + i * w->m_size, y);
            }
        }
}

static void run(const struct ct_conv *c, const struct way *w,
                const float *weights, const float *bias, bool back,
                const uint16_t *x, uint16_t *y)
{
    const struct short_state *s = c->state;
    const bool all              = makes_all(w, s->workers);
    const int64_t padded        = ct_short_up(w->tiles.out, COLUMNS);
    const struct ct_short_areas p =
        ct_short_areas_of(c, padded, w->v_size,
                          (all ? w->chunks : s->workers) * w->u_size);
    const struct ct_short_end end = { c->desc.sum && !back,
                                      c->desc.relu && !back, p.bias };

    for (int64_t i = 0; i < padded; i++)
        p.bias[i] = bias && i < w->tiles.out ? bias[i] : 0;
    weights = ct_conv_in_tiles(c, weights);
    if (all)
        CT_FOR_ROWS (i, w->chunks, w->u_size)
            make_u(c, w, weights, back, i * COLUMNS, p.u + i * w->u_size);
    for (int64_t first = 0; first < w->n; first += w->bundle) {
        const int64_t left = w->n - first;
        const int64_t n    = left < w->bundle ? left : w->bundle;

        make_v(&w->tiles, x, first, n, false, &w->v, p.v);
        run_bundle(c, w, &p, weights, back, first, n, &end, y);
    }
}

static enum ct_status short_forward(struct ct_conv *c, const float *x,
                                    const float *w, const float *b, float *y)
{
    const struct short_state *s = c->state;

    run(c, &s->forward, w, b, false, ct_bf16(x), ct_bf16_out(y));
    return CT_OK;
}

static enum ct_status short_backward_data(struct ct_conv *c, const float *w,
                                          const float *dy, float *dx)
{
    const struct short_state *s = c->state;

    run(c, &s->back, w, NULL, true, ct_bf16(dy), ct_bf16_out(dx));
    return CT_OK;
}

/* M of tiles [from, from + n), all outputs. */
static void make_m(const struct short_state *s, const uint16_t *dy,
                   int64_t from, int64_t n, uint16_t *m)
{
    const struct turned_way *w = &s->weights;
    const int64_t some = FEW_TILES, parts = (n + some - 1) / some;

    CT_FOR_ROWS (i, s->forward.chunks * parts, some * COLUMNS * PLACES) {
        const int64_t chunk = i / parts, t = i % parts * some;

        ct_short_output_grad(&s->forward.tiles, dy, chunk * COLUMNS, from + t,
                             from + (n - t < some ? n : t + some), &w->m,
                             m + chunk * w->m_size + t / 2 * w->m.step);
    }
}

/* dU of one job += V^T M over n tiles; = where they are the first.  With
 * `last` dw is made of it. */
static void make_gradients(const struct ct_conv *c,
                           const struct ct_short_areas *p, int64_t job,
                           int64_t n, bool first, bool last, bool add,
                           float *du, float *dw)
{
    const struct short_state *s = c->state;
    const struct turned_way *w  = &s->weights;
    const int64_t per_chunk     = s->forward.tiles.in / w->few;
    const int64_t chunk = job / per_chunk, from = job % per_chunk * w->few;
    const int64_t to    = chunk * COLUMNS;

    for (int i = 0; i < PLACES; i++)
        for (int64_t k = 0; k < w->few; k += ROWS)
            ct_short_product((n + 1) / 2,
                             p->v + i * w->v.plane + 2 * (from + k), 1,
                             w->v.step / 2,
                             p->u + chunk * w->m_size + i * w->m.plane, !first,
                             du + i * w->du_plane + k * COLUMNS);
    for (int64_t k = 0; k < w->few && last; k += SIDE)
        for (int64_t o = 0; o < COLUMNS && to + o < s->forward.tiles.out;
             o += SIDE)
            ct_short_weights_grad(du + k * COLUMNS + o, w->du_plane, add,
                                  dw + tile_at(c, (from + k) / SIDE,
                                               (to + o) / SIDE));
}

static void sum_gradients(const struct ct_conv *c, const uint16_t *x,
                          const uint16_t *dy, bool add, float *dw)
{
    const struct short_state *s = c->state;
    const struct turned_way *w  = &s->weights;
    const struct ct_short_areas p =
        ct_short_areas_of(c, 0, w->v_size, s->forward.chunks * w->m_size);

    for (int64_t from = 0; from < s->forward.n; from += w->bundle) {
        const int64_t left = s->forward.n - from;
        const int64_t n    = left < w->bundle ? left : w->bundle;

        make_v(&s->forward.tiles, x, from, n, true, &w->v, p.v);
        make_m(s, dy, from, n, p.u);
        CT_FOR_ROWS (i, s->workers, CT_GRAIN)
            for (int64_t job = i; job < w->jobs; job += s->workers)
                make_gradients(c, &p, job, n, from == 0, left <= w->bundle,
                               add,
                               p.own + (w->n_bundles > 1 ? job : i) *
                                           w->du_size,
                               dw);
    }
}

static enum ct_status short_backward_weights(struct ct_conv *c, const float *x,
                                             const float *dy, float *dw,
                                             float *db)
{
    sum_gradients(c, ct_bf16(x), ct_bf16(dy), c->tiles && !c->write,
                  ct_conv_gradient_tiles(c, dw));
    ct_conv_gradient_to_plain(c, dw);
    return ct_conv_bias_gradient(c, dy, db);
}

const struct ct_conv_impl ct_conv_bf16 = {
    .name             = "bf16",
    .shorts           = true,
    .create           = short_create,
    .destroy          = short_destroy,
    .takes_tiles      = ct_conv_always_tiles,
    .forward          = short_forward,
    .backward_data    = short_backward_data,
    .writes           = true,
    .backward_weights = short_backward_weights,
};

#endif
