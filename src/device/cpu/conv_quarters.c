/* conv_quarters.c - convolutions of bfloat16 arrays whose kernels have 3 to 6
 * taps along each axis, in the basis of Winograd's for 3x3 kernels.
 *
 * A kernel of 5 x 5 taps is the sum of four of 3 x 3, its quarters, which lie
 * 3 apart; what lacks of them is zeros:
 *
 *     0 0 0 | 1 1
 *     0 0 0 | 1 1        y = sum over q of  x, moved by 3 (down, across) of q,
 *     0 0 0 | 1 1                           convolved with quarter q
 *     ------+----
 *     2 2 2 | 3 3
 *     2 2 2 | 3 3
 *
 * Tiles have 3 x 3 outputs (wino_bf16.h), so a tile of x that is moved by 3 is
 * the next tile.  One change of basis of x therefore serves all quarters, and
 * in the basis the convolution is one of 2 x 2 taps whose positions are tiles:
 *
 *     M[place][tile] = sum over q of  V[place][tile + at(q)] U[place][q]
 *
 * Where a quarter has fewer than 3 taps along an axis, U is zero at the last
 * point of that axis, and nothing is multiplied: 81 products for 9 outputs of
 * 225.  Rounding is that of 3x3 kernels.
 *
 * x is taken some images at a time, whose V stays in the cache.  The gradient
 * of the input is the same convolution of dy with kernels that are turned
 * around.  That of the weights sums over tiles, two images at once:
 *
 *     dU[place][q] = sum over tiles of  V[place][tile + at(q)]^T M[place][tile]
 *
 * The order of all sums is the same with any number of threads. */
#include "device/cpu/conv_quarters.h"

#if defined(CT_HAVE_ONEDNN) && defined(__x86_64__)
#include <string.h>

#include "base/mem.h"
#include "device/cpu/loop.h"
#include "device/kernels.h"

enum {
    SIDE = CT_TILE_SIDE, TILE = CT_QUARTER_TILE, M = CT_SHORT_SIDE, LAST = 4,
    PLACES = CT_SHORT_PLACES, ROWS = CT_SHORT_ROWS,
    COLUMNS = CT_SHORT_COLUMNS, LINE = CT_SHORT_LINE,
    LEAST_KERNEL = 3, MOST_KERNEL = 6,
    LEAST_CHANNELS = 32, /* of several groups: half a chunk would be empty */
    BUNDLE_BYTES = 1 << 19, /* of V, so that U and M find room beside it */
    IMAGE_BYTES  = 4 << 20, /* of V of one image, at most */
    FEW_TILES    = 64
};

/* Quarters along an axis, and tiles. */
static int64_t thirds(int64_t n)
{
    return (n + M - 1) / M;
}

/* Bytes of V of one image, in the basis of the wider side. */
static int64_t image_bytes(const struct ct_conv *c)
{
    const int64_t channels = ct_short_most(c->in_group, c->out_group);
    int64_t tiles          = 1;

    for (int i = 0; i < 2; i++)
        tiles *= thirds(ct_short_most(c->desc.in[i], c->out[i])) +
                 thirds(c->desc.kernel[i]) - 1;
    return tiles * PLACES * channels * (int64_t)sizeof(uint16_t);
}

static bool takes(const struct ct_conv *c)
{
    const struct ct_conv_desc *d = &c->desc;
    const int64_t fewest = ct_short_least(c->in_group, c->out_group);

    if (d->n_spatial != 2 || d->batch == 0 || d->packed ||
        d->src_type != CT_BF16 || d->dst_type != CT_BF16 ||
        d->src_layout != CT_NHWC || d->dst_layout != CT_NHWC ||
        c->in_group % SIDE || c->out_group % SIDE ||
        (d->group > 1 && fewest < LEAST_CHANNELS))
        return false;
    for (int i = 0; i < 2; i++)
        if (d->kernel[i] < LEAST_KERNEL || d->kernel[i] > MOST_KERNEL ||
            d->stride[i] != 1 || d->dilation[i] != 1 ||
            d->pad[i] >= d->kernel[i] || ct_conv_has_idle_taps(d, i))
            return false;
    return image_bytes(c) <= IMAGE_BYTES && ct_short_runs() &&
           !ct_cpu_has_amx();
}

static struct ct_short_tiles tiles_of(const struct ct_conv *c, bool back)
{
    const struct ct_conv_desc *d = &c->desc;
    struct ct_short_tiles t      = { 0 };

    t.h       = back ? c->out[0] : d->in[0];
    t.w       = back ? c->out[1] : d->in[1];
    t.out_h   = back ? d->in[0] : c->out[0];
    t.out_w   = back ? d->in[1] : c->out[1];
    t.pad_h   = back ? d->kernel[0] - 1 - d->pad[0] : d->pad[0];
    t.pad_w   = back ? d->kernel[1] - 1 - d->pad[1] : d->pad[1];
    t.in      = back ? c->out_group : c->in_group;
    t.out     = back ? c->in_group : c->out_group;
    t.in_all  = back ? d->out_channels : d->in_channels;
    t.out_all = back ? d->in_channels : d->out_channels;
    t.rows    = thirds(t.out_h);
    t.columns = thirds(t.out_w);
    return t;
}

/* Whether quarter i along an axis has something at a place of that axis. */
static bool has_along(int64_t kernel, int64_t i, int64_t place)
{
    return place != LAST || kernel >= M * (i + 1);
}

static void set_parts(const struct ct_conv *c, struct ct_quarter_way *w)
{
    const int64_t *k   = c->desc.kernel;
    const int64_t down = thirds(k[0]), across = thirds(k[1]);

    w->in.rows    = w->out.rows + down - 1;
    w->in.columns = w->out.columns + across - 1;
    w->n_parts    = down * across;
    for (int64_t i = 0; i < w->n_parts; i++) {
        const int64_t y = i / across, x = i % across;

        w->shift[i] = y * w->in.columns + x;
        for (int64_t p = 0; p < PLACES; p++)
            w->has[p][i] = has_along(k[0], y, p / (LAST + 1)) &&
                           has_along(k[1], x, p % (LAST + 1));
    }
}

/* What the products of each place take. */
static void set_products(struct ct_quarter_way *w)
{
    for (int p = 0; p < PLACES; p++) {
        struct ct_short_parts *s = &w->parts[p];

        s->n = w->in.in / 2;
        for (int64_t i = 0; i < w->n_parts; i++)
            if (w->has[p][i]) {
                s->a[s->parts]   = w->shift[i] * w->v.step;
                s->b[s->parts++] = i * w->in.in * COLUMNS;
            }
    }
}

enum ct_status ct_quarter_where(const struct ct_quarter_way *w, int64_t n,
                                int64_t step, int32_t **out)
{
    const int64_t all = n * w->per_out, columns = w->out.columns;
    const int64_t rows = ct_short_up(all, ROWS);

    CT_TRY(ct_alloc((size_t)rows, sizeof(**out), "tiles", out));
    for (int64_t t = 0; t < rows; t++) {
        const int64_t i  = ct_short_least(t, all - 1), of = i % w->per_out;
        const int64_t at = i / w->per_out * w->per_in +
                           of / columns * w->in.columns + of % columns;

        (*out)[t] = (int32_t)(at * step);
    }
    return CT_OK;
}

int64_t ct_quarter_bundle(int64_t bytes, int64_t n)
{
    return ct_short_least(n, ct_short_most(1, BUNDLE_BYTES / bytes));
}

static enum ct_status way_init(const struct ct_conv *c, bool back,
                               struct ct_quarter_way *w)
{
    int64_t bytes;

    w->in = w->out = tiles_of(c, back);
    set_parts(c, w);
    w->per_in  = w->in.rows * w->in.columns;
    w->per_out = w->out.rows * w->out.columns;
    bytes      = w->per_in * PLACES * w->in.in * (int64_t)sizeof(uint16_t);
    w->bundle  = ct_quarter_bundle(bytes, c->desc.batch);
    w->chunks  = (w->out.out + COLUMNS - 1) / COLUMNS;
    /* A line more than they take: rows and places must not fall into the same
     * sets of the cache. */
    w->v.step  = w->in.in + LINE;
    w->v.plane = w->bundle * w->per_in * w->v.step + LINE;
    w->u_plane = w->n_parts * w->in.in * COLUMNS + LINE;
    w->m_plane = FEW_TILES * COLUMNS + LINE;
    w->v_size  = PLACES * w->v.plane;
    w->u_size  = PLACES * w->u_plane;
    w->m_size  = PLACES * w->m_plane;
    set_products(w);
    return ct_quarter_where(w, w->bundle, 1, &w->where);
}

static int64_t forward_floats(const struct ct_quarter_way *w, int64_t workers)
{
    return ct_short_up(w->out.out, COLUMNS) + ct_short_floats(w->v_size) +
           ct_short_floats(w->chunks * w->u_size) + workers * w->m_size;
}

static enum ct_status quarters_create(struct ct_conv *c)
{
    struct ct_quarters *s;
    int64_t floats;

    if (!takes(c))
        return CT_ENOTSUP;
    CT_TRY(ct_alloc(1, sizeof(*s), "convolution in bfloat16", &s));
    c->state   = s;
    s->workers = ct_device_cpu_threads();
    CT_TRY(way_init(c, false, &s->forward));
    CT_TRY(way_init(c, true, &s->back));
    CT_TRY(ct_quarter_grad_init(c, s));
    floats = ct_short_most(forward_floats(&s->forward, s->workers),
                           forward_floats(&s->back, s->workers));
    floats = ct_short_n_weights(c) +
             ct_short_most(floats, ct_quarter_grad_floats(s));
    return ct_workspace_need(c->work, (size_t)floats * sizeof(float));
}

static void quarters_destroy(struct ct_conv *c)
{
    struct ct_quarters *s = c->state;

    if (s) {
        ct_free(s->forward.where);
        ct_free(s->back.where);
        ct_free(s->weights.where);
    }
    ct_free(s);
}

int64_t ct_quarter_tile(const struct ct_conv *c, int64_t group, int64_t i,
                        int64_t o)
{
    return ((group * c->out_group / SIDE + o) * (c->in_group / SIDE) + i) *
           c->taps * TILE;
}

int64_t ct_quarter_tap(const struct ct_conv *c, int64_t part, int64_t t)
{
    const int64_t *k     = c->desc.kernel;
    const int64_t across = thirds(k[1]);
    const int64_t y = part / across * M + t / M;
    const int64_t x = part % across * M + t % M;

    return y < k[0] && x < k[1] ? y * k[1] + x : -1;
}

/* A quarter of 16 x 16 kernels; `turned`: of those that are turned around,
 * from outputs to inputs. */
static void quarter_of(const struct ct_conv *c, const float *w, bool turned,
                       int64_t part, float *to)
{
    for (int64_t t = 0; t < M * M; t++, to += TILE) {
        const int64_t at  = ct_quarter_tap(c, part, t);
        const float *from = w + (turned ? c->taps - 1 - at : at) * TILE;

        if (at < 0)
            memset(to, 0, TILE * sizeof(*to));
        else if (!turned)
            memcpy(to, from, TILE * sizeof(*to));
        else
            for (int i = 0; i < SIDE; i++)
                for (int o = 0; o < SIDE; o++)
                    to[o * SIDE + i] = from[i * SIDE + o];
    }
}

/* What one group of a convolution works on. */
struct job {
    const struct ct_conv        *c;
    const struct ct_quarter_way *w;
    int64_t                      group;
    bool                         back;
    const float                 *weights;
    const uint16_t              *x;
    uint16_t                    *y;
    struct ct_short_areas        p;
    struct ct_short_end          end;
};

/* V of images [first, first + n). */
static void make_v(const struct job *j, int64_t first, int64_t n)
{
    const struct ct_quarter_way *w = j->w;
    const int64_t all = n * w->per_in, from = first * w->per_in;

    CT_FOR_ROWS (i, (all + ROWS - 1) / ROWS, ROWS * w->in.in * PLACES) {
        const int64_t t = i * ROWS, to = ct_short_least(t + ROWS, all);

        ct_short_input(&w->in, j->x, from + t, from + to, false, &w->v,
                       j->p.v + t * w->v.step);
    }
}

/* U of a chunk of outputs. */
static void make_u(const struct job *j, int64_t chunk)
{
    const struct ct_quarter_way *w = j->w;
    const int64_t to               = chunk * COLUMNS;
    uint16_t *u                    = j->p.u + chunk * w->u_size;
    float quarter[M * M * TILE];

    if (to + COLUMNS > w->out.out)
        memset(u, 0, (size_t)w->u_size * sizeof(*u));
    for (int64_t i = 0; i < w->in.in; i += SIDE)
        for (int64_t o = 0; o < COLUMNS && to + o < w->out.out; o += SIDE) {
            const int64_t a = i / SIDE, b = (to + o) / SIDE;
            const float *tile =
                j->weights + ct_quarter_tile(j->c, j->group, j->back ? b : a,
                                             j->back ? a : b);

            for (int64_t q = 0; q < w->n_parts; q++) {
                quarter_of(j->c, tile, j->back, q, quarter);
                ct_short_weights(quarter, false, w->u_plane,
                                 u + (q * w->in.in + i) * COLUMNS + 2 * o);
            }
        }
}

/* A chunk of outputs of n tiles, from tile t of the bundle on, which is tile
 * `from` of all. */
static void make_outputs(const struct job *j, int64_t chunk, int64_t t,
                         int64_t from, int64_t n, float *m)
{
    const struct ct_quarter_way *w = j->w;
    const uint16_t *u              = j->p.u + chunk * w->u_size;

    for (int p = 0; p < PLACES; p++)
        for (int64_t i = 0; i < n; i += ROWS) {
            const uint16_t *row[ROWS];

            for (int r = 0; r < ROWS; r++)
                row[r] = j->p.v + p * w->v.plane +
                         w->where[t + i + r] * w->v.step;
            ct_short_product_rows(&w->parts[p], row, u + p * w->u_plane,
                                  m + p * w->m_plane + i * COLUMNS);
        }
    ct_short_output(&w->out, m, w->m_plane, chunk * COLUMNS, from, from + n,
                    &j->end, j->y);
}

static void run_group(const struct job *j)
{
    const struct ct_quarters *s    = j->c->state;
    const struct ct_quarter_way *w = j->w;
    const int64_t batch            = j->c->desc.batch;

    CT_FOR_ROWS (i, w->chunks, w->u_size)
        make_u(j, i);
    for (int64_t first = 0; first < batch; first += w->bundle) {
        const int64_t images = ct_short_least(w->bundle, batch - first);
        const int64_t n      = images * w->per_out;
        const int64_t pieces = (n + FEW_TILES - 1) / FEW_TILES;
        const int64_t jobs   = w->chunks * pieces;

        make_v(j, first, images);
        CT_FOR_ROWS (i, s->workers, CT_GRAIN)
            for (int64_t k = i; k < jobs; k += s->workers) {
                const int64_t t = k % pieces * FEW_TILES;

                make_outputs(j, k / pieces, t, first * w->per_out + t,
                             ct_short_least(FEW_TILES, n - t),
                             j->p.own + i * w->m_size);
            }
    }
}

static void run(const struct ct_conv *c, const struct ct_quarter_way *w,
                const float *weights, const float *bias, bool back,
                const uint16_t *x, uint16_t *y)
{
    const int64_t padded = ct_short_up(w->out.out, COLUMNS);
    struct job j = { .c = c, .w = w, .back = back,
                     .p = ct_short_areas_of(c, padded, w->v_size,
                                            w->chunks * w->u_size) };

    j.weights = ct_conv_in_tiles(c, weights);
    j.end     = (struct ct_short_end){ c->desc.sum && !back,
                                       c->desc.relu && !back, j.p.bias };
    for (j.group = 0; j.group < c->desc.group; j.group++) {
        for (int64_t i = 0; i < padded; i++)
            j.p.bias[i] = bias && i < w->out.out
                              ? bias[j.group * w->out.out + i]
                              : 0;
        j.x = x + j.group * w->in.in;
        j.y = y + j.group * w->out.out;
        run_group(&j);
    }
}

static enum ct_status quarters_forward(struct ct_conv *c, const float *x,
                                       const float *w, const float *b,
                                       float *y)
{
    const struct ct_quarters *s = c->state;

    run(c, &s->forward, w, b, false, ct_bf16(x), ct_bf16_out(y));
    return CT_OK;
}

static enum ct_status quarters_backward_data(struct ct_conv *c, const float *w,
                                             const float *dy, float *dx)
{
    const struct ct_quarters *s = c->state;

    run(c, &s->back, w, NULL, true, ct_bf16(dy), ct_bf16_out(dx));
    return CT_OK;
}

const struct ct_conv_impl ct_conv_quarters = {
    .name             = "quarters",
    .shorts           = true,
    .create           = quarters_create,
    .destroy          = quarters_destroy,
    .takes_tiles      = ct_conv_always_tiles,
    .forward          = quarters_forward,
    .backward_data    = quarters_backward_data,
    .writes           = true,
    .backward_weights = ct_quarters_backward_weights,
};

#endif
