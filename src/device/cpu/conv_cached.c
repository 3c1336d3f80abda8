/* conv_cached.c - 3x3 convolutions of many channels and few tiles, in
 * Winograd's basis, whose weights never leave the cache there.
 *
 * In that basis weights are four times as large: 37 MB for the 512 x 512
 * kernels of ResNet's last blocks, which oneDNN writes to memory and reads
 * again in every pass.  Here a core takes 32 output channels at a time, brings
 * as many of their kernels into the basis as its second-level cache holds, and
 * multiplies all tiles by them at once:
 *
 *     V (36 x tiles x in) of x, all cores together
 *     each 32 outputs:   for some inputs k:   U = w (36 x k x 32)
 *                                             M += V U (36 x tiles x 32)
 *                        y from M
 *
 * The gradient of the input is the same convolution of dy with kernels that
 * are turned around.  That of the weights is, for 32 outputs and some inputs,
 * dU = V^T M with M of dy, and is brought back while it is in the cache.
 *
 * Weights are best in tiles (tiles16.h); plain ones are copied there.  For
 * AVX-512.  Results differ from the direct ones by about 1e-6 of the largest
 * value. */
#ifdef CT_HAVE_ONEDNN
#include <string.h>

#include "base/mem.h"
#include "device/conv_impl.h"
#include "device/cpu/loop.h"
#include "device/cpu/product.h"
#include "device/cpu/tiles16.h"
#include "device/cpu/winograd.h"
#include "device/layout.h"

/* U of so many inputs takes half of a core's second-level cache; V must stay
 * in the third, for it is read again for every 32 outputs. */
enum {
    WIDE = CT_PRODUCT_COLUMNS, SIDE = CT_TILE_SIDE, TAPS = 9,
    MOST_INPUTS = 128, LEAST_CHANNELS = 128, MOST_V = 3 << 19 /* floats */
};

/* A convolution that runs forward: the layer's, or that of its gradient. */
struct way {
    struct ct_wino    tiles;
    int64_t           in, out;          /* channels */
    int64_t           some;             /* inputs at a time */
    int64_t           per_image, n, padded; /* tiles; to whole products */
    struct ct_wino_at v, u, m;
    int64_t           v_size, u_size, m_size; /* floats */
};

struct cached {
    struct way forward, back;
    int64_t    workers;
    int64_t    v_size, own_size, n_weights;
};

static bool takes(const struct ct_conv *c)
{
    const struct ct_conv_desc *d = &c->desc;
    const int64_t workers        = ct_device_cpu_threads();
    const int64_t least          = d->in_channels < d->out_channels
                                       ? d->in_channels
                                       : d->out_channels;

    if (d->n_spatial != 2 || d->group != 1 || d->batch == 0 || d->packed ||
        d->untuned || /* bits must not depend on the number of threads */
        d->src_layout != CT_BLOCKED16 || d->dst_layout != CT_BLOCKED16 ||
        d->in_channels % WIDE || d->out_channels % WIDE || !ct_product_runs())
        return false;
    for (int i = 0; i < 2; i++)
        if (d->kernel[i] != 3 || d->stride[i] != 1 || d->dilation[i] != 1 ||
            d->pad[i] > 2 || d->in[i] < 1)
            return false;
    /* No core may wait for long. */
    return least >= LEAST_CHANNELS &&
           (least / WIDE % workers == 0 || least / WIDE >= 4 * workers);
}

/* The most inputs, in sixteens, that divide all of them. */
static int64_t some_of(int64_t in)
{
    int64_t n = in < MOST_INPUTS ? in : MOST_INPUTS;

    while (in % n)
        n -= SIDE;
    return n;
}

/* A line more than they take: places must not fall into the same sets of the
 * cache. */
static struct ct_wino_at at_of(int64_t rows, int64_t step)
{
    return (struct ct_wino_at){ rows * step + SIDE, step };
}

static struct way way_of(const struct ct_conv *c, bool back)
{
    const struct ct_conv_desc *d = &c->desc;
    struct way w                 = { 0 };
    struct ct_wino *t            = &w.tiles;

    t->m       = 4;
    t->r       = 3;
    t->b       = SIDE;
    t->h       = back ? c->out[0] : d->in[0];
    t->w       = back ? c->out[1] : d->in[1];
    t->out_h   = back ? d->in[0] : c->out[0];
    t->out_w   = back ? d->in[1] : c->out[1];
    t->pad_h   = back ? 2 - d->pad[0] : d->pad[0];
    t->pad_w   = back ? 2 - d->pad[1] : d->pad[1];
    t->sum     = d->sum && !back;
    t->relu    = d->relu && !back;
    t->rows    = (t->out_h + t->m - 1) / t->m;
    t->columns = (t->out_w + t->m - 1) / t->m;
    w.in       = back ? d->out_channels : d->in_channels;
    w.out      = back ? d->in_channels : d->out_channels;
    w.some     = some_of(w.in);
    w.per_image = t->rows * t->columns;
    w.n         = d->batch * w.per_image;
    w.padded    = (w.n + CT_PRODUCT_ROWS - 1) / CT_PRODUCT_ROWS *
               CT_PRODUCT_ROWS;
    w.v      = at_of(w.padded, w.some + SIDE);
    w.u      = at_of(w.some, WIDE);
    w.m      = at_of(w.padded, WIDE);
    w.v_size = w.in / w.some * CT_WINO_PLACES * w.v.plane;
    w.u_size = CT_WINO_PLACES * w.u.plane;
    w.m_size = CT_WINO_PLACES * w.m.plane;
    return w;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static enum ct_status cached_create(struct ct_conv *c)
{
    struct cached *s;
    int64_t floats;

    if (!takes(c))
        return CT_ENOTSUP;
    CT_TRY(ct_alloc(1, sizeof(*s), "convolution in the cache", &s));
    c->state     = s;
    s->forward   = way_of(c, false);
    s->back      = way_of(c, true);
    s->workers   = ct_device_cpu_threads();
    s->n_weights = c->desc.out_channels * c->in_group * TAPS;
    s->v_size    = larger(s->forward.v_size, s->back.v_size);
    s->own_size  = larger(s->forward.u_size + s->forward.m_size,
                          s->back.u_size + s->back.m_size);
    if (larger(s->forward.n * s->forward.in, s->back.n * s->back.in) *
            CT_WINO_PLACES > MOST_V)
        return CT_ENOTSUP;
    /* Weights in tiles, bias, V, then U and M of each worker. */
    floats = s->n_weights + larger(s->forward.out, s->back.out) + s->v_size +
             s->workers * s->own_size;
    return ct_workspace_need(c->work, (size_t)floats * sizeof(float));
}

static void cached_destroy(struct ct_conv *c)
{
    ct_free(c->state);
}

/* Parts of the workspace. */
static float *bias_of(const struct ct_conv *c)
{
    const struct cached *s = c->state;

    return c->work->ptr + s->n_weights;
}

static float *v_of(const struct ct_conv *c)
{
    const struct cached *s = c->state;

    return bias_of(c) + larger(s->forward.out, s->back.out);
}

static float *own_of(const struct ct_conv *c, int64_t worker)
{
    const struct cached *s = c->state;

    return v_of(c) + s->v_size + worker * s->own_size;
}

/* The tile of weights from input block i to output block o. */
static int64_t tile_at(const struct ct_conv *c, int64_t i, int64_t o)
{
    return (o * (c->in_group / SIDE) + i) * TAPS * SIDE * SIDE;
}

/* V of place 0, tile 0 and channel `from`. */
static int64_t v_at(const struct way *w, int64_t from)
{
    return from / w->some * CT_WINO_PLACES * w->v.plane + from % w->some;
}

static void make_v(const struct ct_conv *c, const struct way *w,
                   const float *x)
{
    const int64_t blocks = w->in / SIDE, image = w->tiles.h * w->tiles.w;

    CT_FOR_ROWS (i, c->desc.batch * blocks, image * SIDE)
        ct_wino_input(&w->tiles, x + i * image * SIDE, &w->v,
                      v_of(c) + v_at(w, i % blocks * SIDE) +
                          i / blocks * w->per_image * w->v.step);
}

/* M += V U for inputs [from, from + some); = where they are the first. */
static void multiply(const struct ct_conv *c, const struct way *w,
                     int64_t from, const float *u, float *m)
{
    const float *v = v_of(c) + v_at(w, from);

    for (int p = 0; p < CT_WINO_PLACES; p++)
        for (int64_t t = 0; t < w->padded; t += CT_PRODUCT_ROWS)
            ct_product_rows(w->some, v + p * w->v.plane + t * w->v.step,
                            w->v.step, u + p * w->u.plane, from > 0,
                            m + p * w->m.plane + t * WIDE);
}

/* Outputs [to, to + 32). */
static void make_outputs(const struct ct_conv *c, const struct way *w,
                         const float *weights, bool back, int64_t to,
                         float *own, float *y)
{
    const int64_t image = w->tiles.out_h * w->tiles.out_w;
    float *u = own, *m = own + w->u_size;

    for (int64_t from = 0; from < w->in; from += w->some) {
        for (int64_t i = 0; i < w->some; i += SIDE)
            for (int64_t o = 0; o < WIDE; o += SIDE) {
                const int64_t a = (from + i) / SIDE, b = (to + o) / SIDE;

                ct_wino_tile(weights + (back ? tile_at(c, b, a)
                                             : tile_at(c, a, b)),
                             back, &w->u, u + i * WIDE + o);
            }
        multiply(c, w, from, u, m);
    }
    for (int64_t n = 0; n < c->desc.batch; n++)
        for (int64_t o = 0; o < WIDE; o += SIDE)
            ct_wino_output(&w->tiles, m + n * w->per_image * WIDE + o, &w->m,
                           bias_of(c) + to + o,
                           y + (n * w->out + to + o) * image);
}

static void run(const struct ct_conv *c, const struct way *w,
                const float *weights, bool back, const float *x, float *y)
{
    const struct cached *s = c->state;

    weights = ct_conv_in_tiles(c, weights);
    make_v(c, w, x);
    CT_FOR_ROWS (i, s->workers, CT_GRAIN)
        for (int64_t to = i * WIDE; to < w->out; to += s->workers * WIDE)
            make_outputs(c, w, weights, back, to, own_of(c, i), y);
}

static enum ct_status cached_forward(struct ct_conv *c, const float *x,
                                     const float *w, const float *b, float *y)
{
    const struct cached *s = c->state;
    const size_t bytes     = (size_t)s->forward.out * sizeof(*b);

    if (b)
        memcpy(bias_of(c), b, bytes);
    else
        memset(bias_of(c), 0, bytes);
    run(c, &s->forward, w, false, x, y);
    return CT_OK;
}

static enum ct_status cached_backward_data(struct ct_conv *c, const float *w,
                                           const float *dy, float *dx)
{
    const struct cached *s = c->state;

    memset(bias_of(c), 0, (size_t)s->back.out * sizeof(*dx));
    run(c, &s->back, w, true, dy, dx);
    return CT_OK;
}

/* dw of outputs [to, to + 32), in tiles. */
static void make_gradients(const struct ct_conv *c, int64_t to,
                           const float *dy, float *own, bool add, float *dw)
{
    const struct cached *s = c->state;
    const struct way *w    = &s->forward;
    const int64_t image    = w->tiles.out_h * w->tiles.out_w;
    const int64_t few      = w->some % 64 == 0 ? 64 : SIDE;
    const struct ct_wino_at at = at_of(few, WIDE);
    float *du = own, *m = own + w->u_size;

    for (int64_t n = 0; n < c->desc.batch; n++)
        for (int64_t o = 0; o < WIDE; o += SIDE)
            ct_wino_output_grad(&w->tiles,
                                dy + (n * w->out + to + o) * image, &w->m,
                                m + n * w->per_image * WIDE + o);
    for (int64_t from = 0; from < w->in; from += few) {
        const float *v = v_of(c) + v_at(w, from);

        for (int p = 0; p < CT_WINO_PLACES; p++)
            for (int64_t i = 0; i < few; i += CT_PRODUCT_ROWS)
                ct_product_columns(w->n, v + p * w->v.plane + i, w->v.step,
                                   m + p * w->m.plane, false,
                                   du + p * at.plane + i * WIDE);
        for (int64_t i = 0; i < few; i += SIDE)
            for (int64_t o = 0; o < WIDE; o += SIDE)
                ct_wino_tile_grad(du + i * WIDE + o, &at, add,
                                  dw + tile_at(c, (from + i) / SIDE,
                                               (to + o) / SIDE));
    }
}

static enum ct_status cached_backward_weights(struct ct_conv *c,
                                              const float *x, const float *dy,
                                              float *dw, float *db)
{
    const struct cached *s = c->state;
    const bool add         = c->tiles && !c->write;
    float *tiles           = ct_conv_gradient_tiles(c, dw);

    make_v(c, &s->forward, x);
    CT_FOR_ROWS (i, s->workers, CT_GRAIN)
        for (int64_t to = i * WIDE; to < s->forward.out;
             to += s->workers * WIDE)
            make_gradients(c, to, dy, own_of(c, i), add, tiles);
    ct_conv_gradient_to_plain(c, dw);
    return ct_conv_bias_gradient(c, dy, db);
}

const struct ct_conv_impl ct_conv_cached = {
    .name             = "cached",
    .create           = cached_create,
    .destroy          = cached_destroy,
    .takes_tiles      = ct_conv_always_tiles,
    .forward          = cached_forward,
    .backward_data    = cached_backward_data,
    .writes           = true,
    .backward_weights = cached_backward_weights,
};

#endif
