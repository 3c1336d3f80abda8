/* conv_quarters_weights.c - the gradient of weights in quarters; what they are
 * is said in conv_quarters.c. */
#include "device/cpu/conv_quarters.h"

#if defined(CT_HAVE_ONEDNN) && defined(__x86_64__)
#include "device/cpu/loop.h"
#include "device/kernels.h"

enum {
    SIDE = CT_TILE_SIDE, TILE = CT_QUARTER_TILE, M = CT_SHORT_SIDE,
    PLACES = CT_SHORT_PLACES, ROWS = CT_SHORT_ROWS,
    COLUMNS = CT_SHORT_COLUMNS, LINE = CT_SHORT_LINE
};

enum ct_status ct_quarter_grad_init(const struct ct_conv *c,
                                    struct ct_quarters *s)
{
    const struct ct_quarter_way *f = &s->forward;
    struct ct_quarter_grad *w      = &s->weights;
    const int64_t widest           = ct_short_most(f->in.in, f->out.out);
    const int64_t bytes            = 2 * f->per_in * PLACES * widest *
                          (int64_t)sizeof(uint16_t);

    w->bundle   = ct_quarter_bundle(bytes, (c->desc.batch + 1) / 2);
    w->few      = f->in.in % (2 * SIDE) ||
                           f->chunks * f->in.in / (2 * SIDE) < s->workers
                       ? SIDE
                       : 2 * SIDE;
    w->jobs     = f->chunks * (f->in.in / w->few);
    w->v.step   = 2 * f->in.in + LINE;
    w->v.plane  = w->bundle * f->per_in * w->v.step + LINE;
    w->m.step   = 2 * COLUMNS;
    w->m.plane  = w->bundle * f->per_out * w->m.step + LINE;
    w->du_plane = f->n_parts * w->few * COLUMNS + LINE;
    w->v_size   = PLACES * w->v.plane;
    w->m_size   = PLACES * w->m.plane;
    w->du_size  = PLACES * w->du_plane;
    return ct_quarter_where(f, w->bundle, w->v.step / 2, &w->where);
}

int64_t ct_quarter_grad_floats(const struct ct_quarters *s)
{
    const struct ct_quarter_grad *w = &s->weights;

    return ct_short_floats(w->v_size) +
           ct_short_floats(s->forward.chunks * w->m_size) +
           w->jobs * w->du_size;
}

/* What one group's gradient works on. */
struct grad_job {
    const struct ct_conv   *c;
    int64_t                 group;
    const uint16_t         *x, *dy;
    struct ct_short_areas   p;
    bool                    add;
    float                  *dw; /* in tiles */
};

/* V and M of n pairs of images from `first` on. */
static void make_factors(const struct grad_job *j, int64_t first, int64_t n)
{
    const struct ct_quarters *s     = j->c->state;
    const struct ct_quarter_grad *w = &s->weights;
    const struct ct_quarter_way *f  = &s->forward;
    const int64_t batch             = j->c->desc.batch;

    CT_FOR_ROWS (i, n * f->in.rows, f->in.columns * f->in.in * PLACES) {
        const int64_t pair  = i / f->in.rows;
        const int64_t from  = i % f->in.rows * f->in.columns;
        const int64_t image = 2 * (first + pair);

        ct_short_input_images(&f->in, j->x, image, image + 1 < batch, from,
                              from + f->in.columns, &w->v,
                              j->p.v + (pair * f->per_in + from) * w->v.step);
    }
    CT_FOR_ROWS (i, n * f->chunks, f->per_out * COLUMNS * PLACES) {
        const int64_t pair = i / f->chunks, chunk = i % f->chunks;
        const int64_t image = 2 * (first + pair);

        ct_short_output_grad_images(
            &f->out, j->dy, chunk * COLUMNS, image, image + 1 < batch, &w->m,
            j->p.u + chunk * w->m_size + pair * f->per_out * w->m.step);
    }
}

/* dw = or += a quarter of 16 x 16 kernels. */
static void quarter_out(const struct ct_conv *c, const float *from,
                        int64_t part, bool add, float *dw)
{
    for (int64_t t = 0; t < M * M; t++, from += TILE) {
        const int64_t at = ct_quarter_tap(c, part, t);
        float *to        = dw + at * TILE;

        for (int i = 0; i < TILE && at >= 0; i++)
            to[i] = add ? to[i] + from[i] : from[i];
    }
}

/* dw of a block of inputs and outputs.  Places that a quarter has not concern
 * taps alone that it has not. */
static void make_weights(const struct grad_job *j, int64_t from, int64_t to,
                         const float *du)
{
    const struct ct_quarters *s     = j->c->state;
    const struct ct_quarter_grad *w = &s->weights;
    float quarter[M * M * TILE];

    for (int64_t k = 0; k < w->few; k += SIDE)
        for (int64_t o = 0; o < COLUMNS && to + o < s->forward.out.out;
             o += SIDE)
            for (int64_t q = 0; q < s->forward.n_parts; q++) {
                ct_short_weights_grad(du + (q * w->few + k) * COLUMNS + o,
                                      w->du_plane, false, quarter);
                quarter_out(j->c, quarter, q, j->add,
                            j->dw + ct_quarter_tile(j->c, j->group,
                                                    (from + k) / SIDE,
                                                    (to + o) / SIDE));
            }
}

/* dU of some inputs and 32 outputs += V^T M over n tiles; = at `first`. */
static void make_gradients(const struct grad_job *j, int64_t job, int64_t n,
                           bool first, bool last)
{
    const struct ct_quarters *s     = j->c->state;
    const struct ct_quarter_grad *w = &s->weights;
    const struct ct_quarter_way *f  = &s->forward;
    const int64_t per_chunk         = f->in.in / w->few;
    const int64_t chunk = job / per_chunk, from = job % per_chunk * w->few;
    float *du           = j->p.own + job * w->du_size;

    for (int p = 0; p < PLACES; p++)
        for (int64_t q = 0; q < f->n_parts; q++)
            for (int64_t k = 0; k < w->few && f->has[p][q]; k += ROWS)
                ct_short_product_steps(
                    n, w->where,
                    j->p.v + p * w->v.plane + f->shift[q] * w->v.step +
                        2 * (from + k),
                    j->p.u + chunk * w->m_size + p * w->m.plane, !first,
                    du + p * w->du_plane + (q * w->few + k) * COLUMNS);
    if (last)
        make_weights(j, from, chunk * COLUMNS, du);
}

static void sum_gradients(const struct grad_job *j)
{
    const struct ct_quarters *s     = j->c->state;
    const struct ct_quarter_grad *w = &s->weights;
    const int64_t pairs             = (j->c->desc.batch + 1) / 2;

    for (int64_t first = 0; first < pairs; first += w->bundle) {
        const int64_t n = ct_short_least(w->bundle, pairs - first);

        make_factors(j, first, n);
        CT_FOR_ROWS (i, s->workers, CT_GRAIN)
            for (int64_t k = i; k < w->jobs; k += s->workers)
                make_gradients(j, k, n * s->forward.per_out, first == 0,
                               first + n == pairs);
    }
}

enum ct_status ct_quarters_backward_weights(struct ct_conv *c, const float *x,
                                            const float *dy, float *dw,
                                            float *db)
{
    const struct ct_quarters *s = c->state;
    struct grad_job j = { .c = c, .dw = ct_conv_gradient_tiles(c, dw),
                          .add = c->tiles && !c->write };

    j.p = ct_short_areas_of(c, 0, s->weights.v_size,
                            s->forward.chunks * s->weights.m_size);
    for (j.group = 0; j.group < c->desc.group; j.group++) {
        j.x  = ct_bf16(x) + j.group * c->in_group;
        j.dy = ct_bf16(dy) + j.group * c->out_group;
        sum_gradients(&j);
    }
    ct_conv_gradient_to_plain(c, dw);
    return ct_conv_bias_gradient(c, dy, db);
}

#endif
