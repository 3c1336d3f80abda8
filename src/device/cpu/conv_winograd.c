/* conv_winograd.c - 5x5 convolutions, and 3x3 ones in groups, in Winograd's
 * basis; oneDNN has the other 3x3 ones.
 *
 * Images are taken a few at a time, so that their tiles stay in the cache
 * between the steps.  With V and M of 36 matrices, one a place in the tile,
 *
 *     forward            V = tiles of x        M = V U       y from M
 *     backward data      M = tiles of dy       V = M U^T     dx from V
 *     backward weights   V, M as above        dU += V^T M    dw from dU
 *
 *     V: tiles x in      M: tiles x out        U: in x out, from w
 *
 * Groups of channels are convolutions of their own.  Each worker takes every
 * n-th bundle of images and has its own V, M and dU.  Arrays are blocked on
 * both sides.  Results differ from the direct ones by about 1e-6 of the
 * largest value. */
#ifdef CT_HAVE_ONEDNN
#include <cblas.h>
#include <string.h>

#include "base/mem.h"
#include "device/conv_impl.h"
#include "device/cpu/loop.h"
#include "device/cpu/onednn.h"
#include "device/cpu/winograd.h"
#include "device/kernels.h"
#include "device/layout.h"

/* Bytes of V and M that a core's second-level cache holds, and all that the
 * workers' dU may take.  OpenBLAS has kernels of its own for small products,
 * which need few tiles to be fast and do not wake its threads; oneDNN's are
 * faster for the others, and for all on a CPU that OpenBLAS does not know: on
 * one with AVX-512 that it takes for a Prescott it makes 18 GFLOP/s of such
 * products, oneDNN 58 to 84, and its own kernels for AVX-512 138. */
enum {
    CACHE_BYTES = 1 << 20, MOST_BYTES = 64 << 20,
    SMALL_MATRIX = 1 << 12, SMALL_PRODUCT = 1 << 18
};

struct winograd {
    struct ct_wino    tiles;
    struct ct_wino_at v, m, u, turned; /* turned: of U^T */
    int64_t bundle, n_bundles;  /* images; bundles a group */
    int64_t workers;
    int64_t u_size, v_size, m_size; /* floats, of all places */
    bool    small;                  /* products for OpenBLAS */
};

/* A line more: the 36 places of a tile must not fall into the same sets of the
 * cache, as planes of a power of two would make them. */
static int64_t plane_of(int64_t rows, int64_t step)
{
    const int64_t line = CT_ALIGN / (int64_t)sizeof(float);

    return (rows * step + line - 1) / line * line + line;
}

static int64_t rounded(int64_t n, int64_t b)
{
    return (n + b - 1) / b * b;
}

static bool takes(const struct ct_conv *c)
{
    const struct ct_conv_desc *d = &c->desc;
    const int64_t b              = ct_layout_block(d->src_layout, 0);

    if (d->n_spatial != 2 || d->batch == 0 || d->src_layout != d->dst_layout ||
        (d->src_layout != CT_BLOCKED8 && d->src_layout != CT_BLOCKED16) ||
        d->kernel[0] != d->kernel[1] ||
        (d->kernel[0] != 5 && (d->kernel[0] != 3 || d->group == 1)) ||
        c->in_group < 16 || c->out_group < 16)
        return false;
    for (int i = 0; i < 2; i++)
        if (d->stride[i] != 1 || d->dilation[i] != 1 || d->in[i] < 1 ||
            ct_conv_has_idle_taps(d, i))
            return false;
    return d->group == 1 || (c->in_group % b == 0 && c->out_group % b == 0);
}

static void cut(const struct ct_conv *c, struct winograd *s)
{
    const struct ct_conv_desc *d = &c->desc;
    struct ct_wino *t            = &s->tiles;
    int64_t per_image, bytes, cache;

    t->r       = d->kernel[0];
    t->m       = 7 - t->r;
    t->b       = ct_layout_block(d->src_layout, 0);
    t->h       = d->in[0];
    t->w       = d->in[1];
    t->out_h   = c->out[0];
    t->out_w   = c->out[1];
    t->pad_h   = d->pad[0];
    t->pad_w   = d->pad[1];
    t->sum     = d->sum;
    t->relu    = d->relu;
    t->rows    = (t->out_h + t->m - 1) / t->m;
    t->columns = (t->out_w + t->m - 1) / t->m;
    s->v.step  = rounded(c->in_group, t->b);
    s->m.step  = rounded(c->out_group, t->b);
    s->u.step  = s->m.step;
    s->workers = ct_device_cpu_threads();
    per_image  = t->rows * t->columns;
    bytes      = per_image * (s->v.step + s->m.step) * CT_WINO_PLACES *
            (int64_t)sizeof(float);
    s->small   = c->in_group * c->out_group <= SMALL_MATRIX &&
               c->in_group * c->out_group * per_image <= SMALL_PRODUCT &&
               ct_cpu_blas_is_current();
    cache      = s->small ? CACHE_BYTES / 2 : CACHE_BYTES;
    s->bundle  = bytes < cache ? cache / bytes : 1;
    if (s->bundle > (d->batch + s->workers - 1) / s->workers)
        s->bundle = (d->batch + s->workers - 1) / s->workers;
    s->n_bundles = (d->batch + s->bundle - 1) / s->bundle;
    s->v.plane   = plane_of(s->bundle * per_image, s->v.step);
    s->m.plane   = plane_of(s->bundle * per_image, s->m.step);
    s->u.plane   = plane_of(c->in_group, s->u.step);
    s->turned    = (struct ct_wino_at){ plane_of(c->out_group, s->v.step),
                                     s->v.step };
    s->v_size    = CT_WINO_PLACES * s->v.plane;
    s->m_size    = CT_WINO_PLACES * s->m.plane;
    s->u_size    = CT_WINO_PLACES * (s->turned.plane > s->u.plane
                                         ? s->turned.plane
                                         : s->u.plane);
    if (s->workers > s->n_bundles)
        s->workers = s->n_bundles;
}

static enum ct_status winograd_create(struct ct_conv *c)
{
    struct winograd *s;
    int64_t floats;

    if (!takes(c))
        return CT_ENOTSUP;
    CT_TRY(ct_alloc(1, sizeof(*s), "convolution by tiles", &s));
    c->state = s;
    cut(c, s);
    /* U or the workers' dU, bias, then V and M of each worker. */
    floats = s->u_size * s->workers;
    if (floats * (int64_t)sizeof(float) > MOST_BYTES)
        return CT_ENOTSUP;
    floats += s->m.step + (s->v_size + s->m_size) * s->workers;
    return ct_workspace_need(c->work, (size_t)floats * sizeof(float));
}

static void winograd_destroy(struct ct_conv *c)
{
    ct_free(c->state);
}

/* Parts of the workspace. */
static float *u_of(const struct ct_conv *c, int64_t worker)
{
    const struct winograd *s = c->state;

    return c->work->ptr + worker * s->u_size;
}

static float *bias_of(const struct ct_conv *c)
{
    const struct winograd *s = c->state;

    return u_of(c, s->workers);
}

static float *v_of(const struct ct_conv *c, int64_t worker)
{
    const struct winograd *s = c->state;

    return bias_of(c) + s->m.step + worker * (s->v_size + s->m_size);
}

static float *m_of(const struct ct_conv *c, int64_t worker)
{
    const struct winograd *s = c->state;

    return v_of(c, worker) + s->v_size;
}

/* The images of bundle i. */
struct bundle {
    int64_t first, n, tiles;
};

static struct bundle bundle_of(const struct ct_conv *c, int64_t i)
{
    const struct winograd *s = c->state;
    struct bundle b          = { i * s->bundle, s->bundle, 0 };

    if (b.first + b.n > c->desc.batch)
        b.n = c->desc.batch - b.first;
    b.tiles = b.n * s->tiles.rows * s->tiles.columns;
    return b;
}

/* One block of channels of one image to its tiles, or back. */
typedef void (*change_fn)(const struct winograd *s, const struct ct_wino_at *at,
                          float *image, float *tiles, const float *bias);

/* One end of the convolution: x and V, or y and M. */
struct side {
    int64_t channels, all; /* of the group, and of all groups, rounded up */
    int64_t first;         /* channel of the group */
    int64_t positions;
    const struct ct_wino_at *at;
};

static struct side side_of(const struct ct_conv *c, bool in, int64_t group)
{
    const struct winograd *s = c->state;
    const int64_t n          = in ? c->in_group : c->out_group;

    return (struct side){ rounded(n, s->tiles.b),
                          rounded(n * c->desc.group, s->tiles.b), group * n,
                          in ? c->in_spatial : c->out_spatial,
                          in ? &s->v : &s->m };
}

/* change() for every block of channels of every image of bundle b. */
static void each_block(const struct winograd *s, const struct bundle *b,
                       const struct side *side, change_fn change,
                       float *images, float *tiles, const float *bias)
{
    const int64_t per_image = s->tiles.rows * s->tiles.columns;

    for (int64_t c = 0; c < side->channels; c += s->tiles.b)
        for (int64_t n = 0; n < b->n; n++)
            change(s, side->at,
                   images + ((b->first + n) * side->all + side->first + c) *
                                side->positions,
                   tiles + n * per_image * side->at->step + c,
                   bias ? bias + c : NULL);
}

static void input(const struct winograd *s, const struct ct_wino_at *at,
                  float *image, float *tiles, const float *bias)
{
    (void)bias;
    ct_wino_input(&s->tiles, image, at, tiles);
}

static void input_grad(const struct winograd *s, const struct ct_wino_at *at,
                       float *image, float *tiles, const float *bias)
{
    (void)bias;
    ct_wino_input_grad(&s->tiles, tiles, at, image);
}

static void output(const struct winograd *s, const struct ct_wino_at *at,
                   float *image, float *tiles, const float *bias)
{
    ct_wino_output(&s->tiles, tiles, at, bias, image);
}

static void output_grad(const struct winograd *s, const struct ct_wino_at *at,
                        float *image, float *tiles, const float *bias)
{
    (void)bias;
    ct_wino_output_grad(&s->tiles, image, at, tiles);
}

/* 36 products C = op(A) B (+ C), each m x n x k. */
struct product {
    bool    transposed; /* A */
    int64_t m, n, k;
    float   beta;
};

static enum ct_status multiply(const struct winograd *s,
                               const struct product *p, const float *a,
                               const struct ct_wino_at *a_at, const float *b,
                               const struct ct_wino_at *b_at, float *c,
                               const struct ct_wino_at *c_at)
{
    for (int i = 0; i < CT_WINO_PLACES; i++) {
        const float *ai = a + i * a_at->plane, *bi = b + i * b_at->plane;
        float *ci       = c + i * c_at->plane;

        if (s->small)
            cblas_sgemm(CblasRowMajor,
                        p->transposed ? CblasTrans : CblasNoTrans,
                        CblasNoTrans, (int)p->m, (int)p->n, (int)p->k, 1, ai,
                        (int)a_at->step, bi, (int)b_at->step, p->beta, ci,
                        (int)c_at->step);
        else
            CT_DNNL(dnnl_sgemm(p->transposed ? 'T' : 'N', 'N', p->m, p->n,
                               p->k, 1, ai, a_at->step, bi, b_at->step,
                               p->beta, ci, c_at->step));
    }
    return CT_OK;
}

/* The kernels of one group as in x out, or turned, as out x in. */
static struct ct_wino_kernels kernels(const struct ct_conv *c, bool turned)
{
    const int64_t in_at = c->taps, out_at = c->in_group * c->taps;

    return turned ? (struct ct_wino_kernels){ c->out_group, c->in_group, 0,
                                              out_at, in_at }
                  : (struct ct_wino_kernels){ c->in_group, c->out_group, 0,
                                              in_at, out_at };
}

/* U of one group, or U^T, which lies as `at` says. */
static void weights(const struct ct_conv *c, bool turned, const float *w,
                    const struct ct_wino_at *at)
{
    const struct winograd *s = c->state;

    CT_FOR_ROWS (i, at->step / 8, c->in_group * 8 * CT_WINO_PLACES) {
        struct ct_wino_kernels k = kernels(c, turned);

        k.first = i * 8;
        if (k.first < k.columns)
            ct_wino_weights(&s->tiles, &k, w, at, u_of(c, 0));
    }
}

/* For images that are only read: one type of function serves both ways. */
static float *writable(const float *x)
{
    return (float *)(uintptr_t)x;
}

/* Channels that only fill up a block are left out of the products and must not
 * hold what was there before. */
static void clear_padding(const struct winograd *s, int64_t channels,
                          const struct ct_wino_at *at, float *tiles)
{
    if (channels % s->tiles.b)
        memset(tiles, 0,
               (size_t)(CT_WINO_PLACES * at->plane) * sizeof(*tiles));
}

static enum ct_status forward_worker(const struct ct_conv *c, int64_t worker,
                                     int64_t group, const float *x, float *y)
{
    const struct winograd *s = c->state;
    const struct side in = side_of(c, true, group);
    const struct side out = side_of(c, false, group);
    float *v = v_of(c, worker), *m = m_of(c, worker);

    clear_padding(s, c->out_group, &s->m, m);
    for (int64_t i = worker; i < s->n_bundles; i += s->workers) {
        const struct bundle b  = bundle_of(c, i);
        const struct product p = { false, b.tiles, c->out_group, c->in_group,
                                   0 };

        each_block(s, &b, &in, input, writable(x), v, NULL);
        CT_TRY(multiply(s, &p, v, &s->v, u_of(c, 0), &s->u, m, &s->m));
        each_block(s, &b, &out, output, y, m, bias_of(c));
    }
    return CT_OK;
}

static enum ct_status data_worker(const struct ct_conv *c, int64_t worker,
                                  int64_t group, const float *dy, float *dx)
{
    const struct winograd *s = c->state;
    const struct side in = side_of(c, true, group);
    const struct side out = side_of(c, false, group);
    float *v = v_of(c, worker), *m = m_of(c, worker);

    clear_padding(s, c->in_group, &s->v, v);
    for (int64_t i = worker; i < s->n_bundles; i += s->workers) {
        const struct bundle b  = bundle_of(c, i);
        const struct product p = { false, b.tiles, c->in_group, c->out_group,
                                   0 };

        each_block(s, &b, &out, output_grad, writable(dy), m, NULL);
        CT_TRY(multiply(s, &p, m, &s->m, u_of(c, 0), &s->turned, v, &s->v));
        each_block(s, &b, &in, input_grad, dx, v, NULL);
    }
    return CT_OK;
}

static enum ct_status weights_worker(const struct ct_conv *c, int64_t worker,
                                     int64_t group, const float *x,
                                     const float *dy)
{
    const struct winograd *s = c->state;
    const struct side in = side_of(c, true, group);
    const struct side out = side_of(c, false, group);
    float *v = v_of(c, worker), *m = m_of(c, worker);

    for (int64_t i = worker; i < s->n_bundles; i += s->workers) {
        const struct bundle b  = bundle_of(c, i);
        const struct product p = { true, c->in_group, c->out_group, b.tiles,
                                   i == worker ? 0 : 1 };

        each_block(s, &b, &in, input, writable(x), v, NULL);
        each_block(s, &b, &out, output_grad, writable(dy), m, NULL);
        CT_TRY(multiply(s, &p, v, &s->v, m, &s->m, u_of(c, worker), &s->u));
    }
    return CT_OK;
}

/* What goes wrong on one worker is the result of all. */
static void keep_worst(enum ct_status st, enum ct_status *worst)
{
    if (st != CT_OK)
        __atomic_store_n(worst, st, __ATOMIC_RELAXED);
}

/* The weights of a group. */
static int64_t w_at(const struct ct_conv *c, int64_t group)
{
    return group * c->out_group * c->in_group * c->taps;
}

static enum ct_status winograd_forward(struct ct_conv *c, const float *x,
                                       const float *w, const float *b,
                                       float *y)
{
    const struct winograd *s = c->state;
    enum ct_status worst     = CT_OK;

    for (int64_t g = 0; g < c->desc.group; g++) {
        weights(c, false, w + w_at(c, g), &s->u);
        for (int64_t i = 0; i < s->m.step; i++)
            bias_of(c)[i] =
                b && i < c->out_group ? b[g * c->out_group + i] : 0;
        CT_FOR_ROWS (i, s->workers, CT_GRAIN)
            keep_worst(forward_worker(c, i, g, x, y), &worst);
    }
    return worst;
}

static enum ct_status winograd_backward_data(struct ct_conv *c, const float *w,
                                             const float *dy, float *dx)
{
    const struct winograd *s = c->state;
    enum ct_status worst     = CT_OK;

    for (int64_t g = 0; g < c->desc.group; g++) {
        weights(c, true, w + w_at(c, g), &s->turned);
        CT_FOR_ROWS (i, s->workers, CT_GRAIN)
            keep_worst(data_worker(c, i, g, dy, dx), &worst);
    }
    return worst;
}

/* dw += what the workers' dU come to. */
static void gather(const struct ct_conv *c, float *dw)
{
    const struct winograd *s = c->state;

    CT_FOR_ROWS (i, s->u.step / 8, c->in_group * 8 * CT_WINO_PLACES) {
        struct ct_wino_kernels k = kernels(c, false);

        k.first = i * 8;
        for (int64_t j = 0; j < s->workers && k.first < k.columns; j++)
            ct_wino_weights_grad(&s->tiles, &k, u_of(c, j), &s->u, dw);
    }
}

static enum ct_status winograd_backward_weights(struct ct_conv *c,
                                                const float *x,
                                                const float *dy, float *dw,
                                                float *db)
{
    const struct winograd *s = c->state;
    enum ct_status worst     = CT_OK;

    for (int64_t g = 0; g < c->desc.group && worst == CT_OK; g++) {
        CT_FOR_ROWS (i, s->workers, CT_GRAIN)
            keep_worst(weights_worker(c, i, g, x, dy), &worst);
        gather(c, dw + w_at(c, g));
    }
    CT_TRY(worst);
    return ct_conv_bias_gradient(c, dy, db);
}

const struct ct_conv_impl ct_conv_tiles = {
    .name             = "tiles",
    .create           = winograd_create,
    .destroy          = winograd_destroy,
    .forward          = winograd_forward,
    .backward_data    = winograd_backward_data,
    .backward_weights = winograd_backward_weights,
};

#endif
