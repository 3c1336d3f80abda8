/* conv_amx.c - convolutions of channels-last bfloat16 in the tiles of AMX.
 *
 * The CPU multiplies sixteen times as fast there as in float32, so what counts
 * is that its factors are in the caches.  A core takes some rows or images
 * (amx_way.h), as many as its second-level cache holds as cells, and multiplies
 * blocks of 32 places by those of 32 outputs; sums are floats, and become
 * bfloat16 with bias, sum and ReLU.  The gradient of the input is the same with
 * kernels turned around; conv_amx_weights.c has that of the weights.
 *
 * Sums are made in the same order whatever the number of threads.  NaN and
 * infinity may spread to neighbours where channels are few: they are multiplied
 * by zeros. */
#include <string.h>

#include "base/mem.h"
#include "device/cpu/amx_pack.h"
#include "device/cpu/bf16.h"
#include "device/cpu/conv_amx.h"
#include "device/cpu/loop.h"

enum {
    SIDE = CT_AMX_SIDE, HALF = SIDE / 2, FORWARD = 0,
    MOST_CELLS = 640 << 10, /* bytes of a chunk */
    BLOCK_FLOATS = SIDE * SIDE,
    /* Steps of k at a time for 1x1 kernels, if there are more than twice as
     * many: weights of 32 outputs then stay in the first-level cache, and sums
     * are added to.  Other kernels find x there.  Bits do not depend on it. */
    SOME_STEPS = 16,
    MOST_OF_PLACES = 16 << 10, MOST_OF_WEIGHTS = 256 << 10 /* bytes */
};

/* Any shape with one group, in two dimensions, that hands bfloat16 on. */
static bool takes(const struct ct_conv *c)
{
    const struct ct_conv_desc *d = &c->desc;
    const bool plain = d->src_type == CT_F32 && d->src_layout == CT_PLAIN;

    if (d->n_spatial != 2 || d->group != 1 || d->batch == 0 ||
        c->taps > CT_AMX_TAPS || d->dst_type != CT_BF16 ||
        d->dst_layout != CT_NHWC ||
        !(plain || (d->src_type == CT_BF16 && d->src_layout == CT_NHWC)))
        return false;
    for (int i = 0; i < 2; i++)
        if (d->stride[i] > 2 || d->dilation[i] != 1 ||
            d->pad[i] >= d->kernel[i] || d->in[i] < 1)
            return false;
    return ct_amx_runs();
}

bool ct_amx_takes_tiles(const struct ct_conv *c)
{
    const struct ct_amx_conv *s = c->state;

    return c->desc.in_channels % HALF == 0 &&
           c->desc.out_channels % HALF == 0 && !s->run[FORWARD].way.merged;
}

/* What an item costs in cycles, roughly, and how many follow each other. */
static double cost(const struct ct_amx_run *r, int64_t workers,
                   int64_t shares)
{
    const struct ct_amx_way *w = &r->way;
    const int64_t m = (ct_amx_places(w, w->images, w->out_rows) + SIDE - 1) /
                      SIDE;
    const int64_t n      = (r->blocks + shares - 1) / shares;
    const int64_t rounds = (ct_amx_chunks(w) * shares + workers - 1) / workers;
    const double cells   = w->direct ? 0
                                     : (double)(ct_amx_cells(w) * w->cell);
    const double block   = (double)(m * (r->steps * 64 + 300) +
                                    r->steps * 200);

    return (double)rounds * (0.3 * cells + (double)n * block);
}

/* Chunks and shares for the least time, whose cells stay in the cache. */
static void plan(struct ct_amx_run *r, int64_t workers)
{
    struct ct_amx_way *w = &r->way, best;
    double least = 0;

    best = *w;
    for (int64_t parts = 1; parts <= w->out_h; parts++) {
        int64_t rows = (w->out_h + parts - 1) / parts;
        const int64_t most = parts > 1 ? 1 : w->batch;

        rows        = w->flat ? ct_amx_up(rows, SIDE) : rows;
        w->out_rows = rows < w->out_h ? rows : w->out_h;
        for (w->images = 1; w->images <= most; w->images++) {
            if (ct_amx_cells(w) * w->cell * 2 > MOST_CELLS &&
                !(w->images == 1 && rows <= (w->flat ? SIDE : 1)))
                break;
            for (int64_t n = 1; n <= r->blocks; n++) {
                const double t = cost(r, workers, n);

                if (n > 1 && ct_amx_chunks(w) > 4 * workers)
                    break; /* enough for all */

                if (least <= 0 || t < least) {
                    least     = t;
                    best      = *w;
                    r->shares = n;
                }
            }
        }
        /* More of them than this only cost. */
        if (least > 0 && ct_amx_chunks(w) > 64 * workers)
            break;
    }
    *w = best;
}

static enum ct_status run_init(struct ct_amx_run *r, int64_t workers)
{
    const struct ct_amx_way *w = &r->way;
    const int64_t deep         = w->merged ? 1 : w->cell / SIDE;

    r->steps  = w->taps * deep;
    r->blocks = (w->out_channels + SIDE - 1) / SIDE;
    plan(r, workers);
    CT_TRY(ct_alloc((size_t)r->steps + 1, sizeof(*r->at), "taps", &r->at));
    for (int64_t k = 0; k < deep; k++)
        for (int64_t t = 0; t < w->taps; t++)
            r->at[k * w->taps + t] = ct_amx_tap_at(w, t) * w->cell + k * SIDE;
    return CT_OK;
}

static int64_t weights_of(const struct ct_amx_run *r)
{
    return r->blocks * r->steps * CT_AMX_STEP;
}

static int64_t steps_at_once(const struct ct_amx_run *r)
{
    return r->way.taps == 1 && r->steps > 2 * SOME_STEPS ? SOME_STEPS
                                                         : r->steps;
}

/* A worker's: cells, or the last places of a direct way; and behind them two
 * blocks, or all of a chunk, where steps are several times some. */
static size_t cells_bytes(const struct ct_amx_run *r)
{
    const struct ct_amx_way *w = &r->way;
    const int64_t cells = w->direct ? SIDE : ct_amx_cells(w) + CT_AMX_SLACK;

    return ct_amx_bytes((size_t)(cells * w->cell) * sizeof(uint16_t));
}

static size_t run_own(const struct ct_amx_run *r)
{
    const struct ct_amx_way *w = &r->way;
    const int64_t places = ct_amx_places(w, w->images, w->out_rows);
    const int64_t blocks =
        steps_at_once(r) < r->steps ? (places + SIDE - 1) / SIDE : 2;

    return cells_bytes(r) + (size_t)blocks * BLOCK_FLOATS * sizeof(float);
}

/* The workspace: weights in tiles of floats and of bfloat16, bias, and what
 * belongs to each worker.  The gradient of weights has its own order. */
static size_t tiles_bytes(const struct ct_conv *c)
{
    const bool copies = ct_amx_takes_tiles(c) && c->taps > 1;

    return copies ? ct_amx_bytes((size_t)(c->desc.out_channels * c->in_group *
                                          c->taps) * sizeof(float))
                  : 0;
}

static size_t bias_bytes(const struct ct_conv *c)
{
    const int64_t n = c->desc.in_channels > c->desc.out_channels
                          ? c->desc.in_channels
                          : c->desc.out_channels;

    return (size_t)ct_amx_up(n, SIDE) * sizeof(float);
}

static char *part_of(const struct ct_conv *c, size_t from)
{
    return (char *)c->work->ptr + from;
}

static float *bias_of(const struct ct_conv *c)
{
    return (float *)(void *)part_of(c, tiles_bytes(c));
}

static uint16_t *room_of(const struct ct_conv *c)
{
    return (uint16_t *)(void *)part_of(c, tiles_bytes(c) + bias_bytes(c));
}

static char *own_of(const struct ct_conv *c, int64_t worker)
{
    const struct ct_amx_conv *s = c->state;

    return part_of(c, tiles_bytes(c) + bias_bytes(c) +
                          (size_t)s->n_weights * sizeof(uint16_t) +
                          (size_t)worker * s->own);
}

static enum ct_status back_init(struct ct_conv *c)
{
    const struct ct_conv_desc *d = &c->desc;
    struct ct_amx_conv *s        = c->state;
    int64_t at                   = 0;

    for (int64_t i = 0; i < d->stride[0]; i++)
        for (int64_t j = 0; j < d->stride[1]; j++) {
            struct ct_amx_run *r = &s->run[s->n_runs];

            if (!ct_amx_way_back(c, i, j, &r->way))
                continue;
            s->n_runs++;
            CT_TRY(run_init(r, s->workers));
            r->weights = at;
            at += weights_of(r);
            s->own = run_own(r) > s->own ? run_own(r) : s->own;
        }
    s->n_weights = at > s->n_weights ? at : s->n_weights;
    return ct_amx_grad_init(c, s);
}

static enum ct_status reserve(struct ct_conv *c)
{
    struct ct_amx_conv *s = c->state;
    size_t all, grad;

    all  = tiles_bytes(c) + bias_bytes(c) +
          (size_t)s->n_weights * sizeof(uint16_t) +
          (size_t)s->workers * s->own;
    grad = c->desc.packed ? 0
                          : ct_amx_grad_room(&s->grad) +
                                (size_t)s->workers * ct_amx_grad_own(&s->grad);
    return ct_workspace_need(c->work, all > grad ? all : grad);
}

static enum ct_status amx_create(struct ct_conv *c)
{
    struct ct_amx_conv *s;

    if (!takes(c))
        return CT_ENOTSUP;
    CT_TRY(ct_alloc(1, sizeof(*s), "convolution by AMX", &s));
    c->state   = s;
    s->workers = ct_device_cpu_threads();
    ct_amx_way_forward(c, &s->run[FORWARD].way);
    s->n_runs = 1;
    CT_TRY(run_init(&s->run[FORWARD], s->workers));
    s->n_weights = weights_of(&s->run[FORWARD]);
    s->own       = run_own(&s->run[FORWARD]);
    if (c->desc.packed)
        CT_TRY(ct_alloc((size_t)s->n_weights, sizeof(*s->packed),
                        "packed weights", &s->packed));
    else
        CT_TRY(back_init(c));
    return reserve(c);
}

static void amx_destroy(struct ct_conv *c)
{
    struct ct_amx_conv *s = c->state;

    for (int i = 0; s && i < CT_AMX_WAYS; i++)
        ct_free(s->run[i].at);
    if (s) {
        ct_free(s->grad.at);
        ct_free(s->grad.nowhere);
        ct_free(s->packed);
    }
    ct_free(s);
}

static enum ct_status amx_pack(struct ct_conv *c, const float *w, bool *kept)
{
    struct ct_amx_conv *s = c->state;
    const struct ct_amx_lie l = ct_amx_lie_of(c, w);

    ct_amx_pack_run(c, &s->run[FORWARD], &l, s->packed);
    *kept = true;
    return CT_OK;
}

/* What one item works on. */
struct item {
    const struct ct_conv      *c;
    const struct ct_amx_run   *r;
    struct ct_amx_chunk        k;
    const float               *x;
    const uint16_t            *weights;
    uint16_t                  *cells; /* the worker's */
    float                     *sums;
    const float               *bias; /* of all outputs */
    struct ct_amx_end          end;
    float                     *y;
    const float *late; /* sums of a block that have not gone out; or NULL */
    int64_t      late_place, late_block, turn;
};

/* The gradient of an image that came as floats; nobody is in a hurry. */
static void finish_floats(const struct item *t, int64_t rows, const float *c,
                          int64_t first, int64_t position)
{
    const struct ct_amx_way *w = &t->r->way;
    const int64_t image        = w->to_h * w->to_w;

    for (int64_t i = 0; i < rows; i++, c += SIDE, position += w->to_step[1])
        for (int64_t j = 0; j < t->end.n; j++)
            t->y[(position / image * w->out_channels + first + j) * image +
                 position % image] = c[j];
}

/* The sums of a block go to their positions, those of a row together. */
static void finish(const struct item *t, const float *block, int64_t f,
                   int64_t first)
{
    const struct ct_amx_way *w = &t->r->way;
    const bool floats = t->c->desc.src_type == CT_F32 &&
                        t->r != ((struct ct_amx_conv *)t->c->state)->run;
    struct ct_amx_place p = ct_amx_place_at(w, f);

    for (int64_t i = 0, n; i < SIDE && f + i < t->k.places; i += n) {
        const float *c = block + i * SIDE;
        int64_t at;

        /* Those up to the end of the row, and of them the ones that count. */
        n = w->flat ? SIDE : w->columns - p.column;
        n = n < SIDE - i ? n : SIDE - i;
        if (w->flat && n > t->k.places - f)
            n = t->k.places - f;
        if (ct_amx_place_counts(w, &t->k, &p)) {
            const int64_t left = w->flat ? n : w->out_w - p.column;
            const int64_t rows = n < left ? n : left;

            at = ct_amx_position(w, &t->k, &p);
            if (floats)
                finish_floats(t, rows, c, first, at);
            else
                ct_amx_finish(&t->end, rows, c,
                              ct_bf16_out(t->y) + at * w->out_channels +
                                  first);
        }
        p.column += n - 1;
        ct_amx_place_next(w, &p);
    }
}

/* Where the factor of 32 places begins.  Behind the last of a direct way
 * there is nothing to read, so these lie in a copy. */
static const uint16_t *places_at(const struct item *t, int64_t f)
{
    const struct ct_amx_way *w = &t->r->way;
    const int64_t left         = w->h - t->k.row - f;
    const uint16_t *x          = ct_bf16(t->x) + (t->k.row + f) * w->cell;

    if (!w->direct)
        return t->cells + f * w->cell;
    if (left >= SIDE)
        return x;
    memcpy(t->cells, x, (size_t)(left * w->cell) * sizeof(*x));
    return t->cells;
}

/* The block whose sums are still to go out, if there is one. */
static void settle(struct item *t)
{
    const struct ct_amx_way *w = &t->r->way;
    const int64_t first        = t->late_block * SIDE;
    const int64_t left         = w->out_channels - first;

    if (!t->late)
        return;
    t->end.n    = left < SIDE ? left : SIDE;
    t->end.bias = t->bias + first;
    t->end.step = w->to_step[1] * w->out_channels;
    finish(t, t->late, t->late_place, first);
    t->late = NULL;
}

/* Steps [from, from + n) of a block of outputs, at places [f, to).  Sums go out
 * one block late: the CPU does so while the next products are made. */
static void item_steps(struct item *t, int64_t block, int64_t from, int64_t n,
                       int64_t f, int64_t to)
{
    const struct ct_amx_run *r = t->r;
    const bool last            = from + n >= r->steps;
    struct ct_amx_sum sum      = {
        .n = n, .a_step = r->way.cell, .at = r->at + from, .c_step = SIDE,
        .b = t->weights + (block * r->steps + from) * CT_AMX_STEP
    };

    for (; f < to; f += SIDE) {
        const int64_t slot = n < r->steps ? f / SIDE : t->turn++ % 2;
        float *c           = t->sums + slot * BLOCK_FLOATS;

        for (int q = 0; q < 4; q++)
            sum.c[q] = c + q / 2 * HALF * SIDE + q % 2 * HALF;
        sum.a = places_at(t, f);
        ct_amx_block(&sum, from > 0);
        settle(t);
        if (!last)
            continue;
        t->late       = c;
        t->late_place = f;
        t->late_block = block;
    }
    if (n < r->steps) /* the next block begins with these sums */
        settle(t);
}

/* Where the weights of all outputs are few and x of 32 places stays in the
 * first-level cache, some places go through all blocks of outputs: x comes
 * from memory evenly, and y is written as it lies.  How many places at once. */
static int64_t places_at_once(const struct item *t)
{
    const struct ct_amx_run *r = t->r;
    const int64_t row          = r->way.cell * (int64_t)sizeof(uint16_t);
    const int64_t weights      = r->blocks * r->steps * CT_AMX_STEP *
                            (int64_t)sizeof(uint16_t);

    if (!r->way.direct || row * SIDE > MOST_OF_PLACES ||
        weights > MOST_OF_WEIGHTS)
        return t->k.places;
    return MOST_OF_PLACES / row / SIDE * SIDE;
}

static void item_run(struct item *t, int64_t first, int64_t end)
{
    const struct ct_amx_run *r = t->r;
    const struct ct_amx_way *w = &r->way;
    const int64_t some         = steps_at_once(r), few = places_at_once(t);

    if (!w->direct && w->taps)
        ct_amx_gather(w, &t->k, t->x, 0, w->channels, t->cells);
    for (int64_t f = 0; f < t->k.places; f += few) {
        const int64_t left = t->k.places - f;
        const int64_t to   = f + (left < few ? left : few);

        for (int64_t n = first; n < end; n++) {
            int64_t from = 0;

            do {
                const int64_t rest = r->steps - from;

                item_steps(t, n, from, rest < some ? rest : some, f, to);
                from += some;
            } while (from < r->steps);
        }
    }
    settle(t);
}

static void run(const struct ct_conv *c, const struct ct_amx_run *r,
                const float *x, const uint16_t *weights, float *y)
{
    const struct ct_amx_conv *s = c->state;
    const int64_t chunks = ct_amx_chunks(&r->way), n = chunks * r->shares;
    const size_t cells   = cells_bytes(r);
    const bool forward   = r == &s->run[FORWARD];

    CT_FOR_ROWS (i, s->workers, CT_GRAIN) {
        const int64_t last = ct_amx_from(i + 1, s->workers, n);
        char *own          = own_of(c, i);

        ct_amx_begin();
        for (int64_t k = ct_amx_from(i, s->workers, n); k < last; k++) {
            const int64_t share = k / chunks;
            struct item t = { .c = c, .r = r, .x = x, .weights = weights,
                              .cells = (uint16_t *)(void *)own, .y = y,
                              .sums = (float *)(void *)(own + cells),
                              .k = ct_amx_chunk_at(&r->way, k % chunks) };

            t.bias = bias_of(c);
            t.end  = (struct ct_amx_end){ .sum  = forward && c->desc.sum,
                                          .relu = forward && c->desc.relu };
            item_run(&t, ct_amx_from(share, r->shares, r->blocks),
                     ct_amx_from(share + 1, r->shares, r->blocks));
        }
        ct_amx_end();
    }
}

static enum ct_status amx_forward(struct ct_conv *c, const float *x,
                                  const float *w, const float *b, float *y)
{
    const struct ct_amx_conv *s = c->state;
    const struct ct_amx_run *r  = &s->run[FORWARD];

    memset(bias_of(c), 0, bias_bytes(c));
    if (b)
        memcpy(bias_of(c), b, (size_t)c->desc.out_channels * sizeof(*b));
    if (!s->packed) {
        const struct ct_amx_lie l = ct_amx_lie_of(c, w);

        ct_amx_pack_run(c, r, &l, room_of(c));
    }
    run(c, r, x, s->packed ? s->packed : room_of(c), y);
    return CT_OK;
}

static enum ct_status amx_backward_data(struct ct_conv *c, const float *w,
                                        const float *dy, float *dx)
{
    const struct ct_amx_conv *s = c->state;
    const struct ct_amx_lie l   = ct_amx_lie_of(c, w);

    memset(bias_of(c), 0, bias_bytes(c));
    for (int i = 1; i < s->n_runs; i++) {
        uint16_t *to = room_of(c) + s->run[i].weights;

        ct_amx_pack_run(c, &s->run[i], &l, to);
        run(c, &s->run[i], dy, to, dx);
    }
    return CT_OK;
}

const struct ct_conv_impl ct_conv_amx = {
    .name             = "amx",
    .shorts           = true,
    .create           = amx_create,
    .destroy          = amx_destroy,
    .takes_tiles      = ct_amx_takes_tiles,
    .pack             = amx_pack,
    .forward          = amx_forward,
    .backward_data    = amx_backward_data,
    .writes           = true,
    .backward_weights = ct_amx_backward_weights,
};
