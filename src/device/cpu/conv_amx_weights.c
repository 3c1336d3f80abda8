/* conv_amx_weights.c - the gradient of weights in the tiles of AMX.
 *
 *     dw[tap][i][o] = sum over places f of  x[f + at(tap)][i] dy[f][o]
 *
 * A core brings a chunk's cells of x (amx_way.h) to rows of channels, in which
 * another tap is but another begin, and its dy to pairs of places, zeros where
 * a place is no output.  Both lie in its second-level cache while all taps and
 * blocks of 32 x 32 channels are multiplied.  A block of sums is four tiles of
 * weights as tiles16.h has them, so they are added where they belong.
 *
 * Chunks fall into parts that have sums of their own, so that cores find work
 * where channels are few.  Chunks and parts depend on the shape alone: bits do
 * not depend on the number of threads. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "device/cpu/amx_pack.h"
#include "device/cpu/bf16.h"
#include "device/cpu/conv_amx.h"
#include "device/cpu/loop.h"
#include "device/cpu/simd.h"
#include "device/cpu/tiles16.h"

enum {
    SIDE = CT_AMX_SIDE, HALF = SIDE / 2, SUMS = CT_AMX_SUMS,
    MOST_BYTES = 3 << 19, /* of a chunk: cells, and both factors */
    MOST_PARTS = 16, PART_PLACES = 1024, PART_FLOATS = 4 << 20,
    /* Steps at a time, so that x of 32 channels, and dy too where many taps
     * read it, stay in the first-level cache.  Bits do not depend on them. */
    SOME_OF_TAPS = 8, SOME_OF_ONE = 16
};

/* Cycles a place: of a block of 32 x 32, and to pack 32 channels; and of a
 * block's sums, for each chunk. */
static const double BLOCK_CYCLES = 2.5, PACK_CYCLES = 8, CHUNK_CYCLES = 64;

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t blocks_of(int64_t n)
{
    return (n + SIDE - 1) / SIDE;
}

/* Values of k on the left: channels, or a row of taps with theirs. */
static int64_t depth(const struct ct_amx_way *w)
{
    return w->merged ? SIDE : w->channels;
}

static int64_t chunk_bytes(const struct ct_amx_way *w)
{
    const int64_t places = ct_amx_places(w, w->images, w->out_rows);

    const int64_t cell = ct_amx_up(depth(w), SIDE) + (w->direct ? 0 : w->cell);

    return 2 * (ct_amx_cells(w) * cell +
                places * ct_amx_up(w->out_channels, SIDE));
}

/* What a part's chunks cost in cycles, roughly, times the parts.  Where there
 * are fewer of them than workers, these share blocks, and pack more than once.
 * To depend on the shape alone it takes 16 workers for granted. */
static double cost(const struct ct_amx_grad *g, int64_t parts)
{
    const struct ct_amx_way *w = &g->way;
    const double each   = (double)((ct_amx_chunks(w) + parts - 1) / parts);
    const double in     = (double)g->in_blocks, out = (double)g->out_blocks;
    const double blocks = in * out * (double)w->taps;
    const double places = (double)(
        SIDE * blocks_of(ct_amx_places(w, w->images, w->out_rows)));
    const double again  = sqrt((double)MOST_PARTS / (double)parts);

    return (double)parts * each *
           (blocks * (BLOCK_CYCLES * places + CHUNK_CYCLES) +
            again * PACK_CYCLES *
                (out * places + in * (double)ct_amx_cells(w)));
}

/* The number of parts, a power of 2, that costs least with these chunks. */
static void try_chunks(const struct ct_amx_grad *g, int64_t most,
                       struct ct_amx_grad *best, double *least)
{
    for (int64_t p = 1; p <= smaller(most, ct_amx_chunks(&g->way)); p *= 2) {
        const double t = cost(g, p);

        if (*least > 0 && t >= *least)
            continue;
        *least       = t;
        *best        = *g;
        best->parts  = p;
        best->chunks = ct_amx_chunks(&g->way);
    }
}

/* Chunks that stay in the cache, of whole images or rows of one; and parts. */
static void set_parts(struct ct_amx_grad *g)
{
    struct ct_amx_way *w = &g->way;
    const int64_t places = w->batch * w->out_h * w->out_w;
    const int64_t most   = larger(
        1, smaller(smaller(MOST_PARTS, PART_FLOATS / g->n),
                   places / PART_PLACES));
    const int64_t grain     = w->flat ? SIDE : 1;
    struct ct_amx_grad best = *g;
    double least            = 0;

    for (int64_t n = 1; n <= w->out_h; n++) {
        const int64_t rows = ct_amx_up((w->out_h + n - 1) / n, grain);
        const int64_t all  = n > 1 ? 1 : w->batch;

        w->out_rows = smaller(rows, w->out_h);
        for (w->images = 1; w->images <= all; w->images++)
            if (chunk_bytes(w) <= MOST_BYTES ||
                (w->images == 1 && rows <= grain))
                try_chunks(g, most, &best, &least);
        w->images = 1;
        if (least > 0 && ct_amx_chunks(w) > 8 * MOST_PARTS)
            break; /* smaller ones only cost */
    }
    *g = best;
}

/* What all workers need in cycles with so many shares of a part. */
static double shares_cost(const struct ct_amx_grad *g, int64_t workers,
                          int64_t in, int64_t out, int64_t taps)
{
    const int64_t items = g->parts * in * out * taps;
    const double rounds = (double)((items + workers - 1) / workers);
    const double i      = (double)((g->in_blocks + in - 1) / in);
    const double o      = (double)((g->out_blocks + out - 1) / out);
    const double t      = (double)((g->way.taps + taps - 1) / taps);

    return rounds * (PACK_CYCLES * (i + o) + BLOCK_CYCLES * i * o * t);
}

/* Workers that a part has share its blocks and taps; each packs what it needs
 * of both factors. */
static void set_shares(struct ct_amx_grad *g, int64_t workers)
{
    double least = 0;

    for (int64_t i = 1; i <= g->in_blocks; i++)
        for (int64_t o = 1; o <= g->out_blocks; o++)
            for (int64_t taps = 1; taps <= g->way.taps; taps++) {
                const double t = shares_cost(g, workers, i, o, taps);

                if (taps > 1 && g->parts * i * o * (taps - 1) > workers)
                    break; /* enough for all */
                if (least > 0 && t >= least)
                    continue;
                least         = t;
                g->in_shares  = i;
                g->out_shares = o;
                g->tap_shares = taps;
            }
}

enum ct_status ct_amx_grad_init(const struct ct_conv *c, struct ct_amx_conv *s)
{
    struct ct_amx_grad *g = &s->grad;
    int64_t lines;

    ct_amx_way_forward(c, &g->way);
    g->in_blocks  = blocks_of(depth(&g->way));
    g->out_blocks = blocks_of(g->way.out_channels);
    g->in_tiles   = (depth(&g->way) + HALF - 1) / HALF;
    g->out_tiles  = (g->way.out_channels + HALF - 1) / HALF;
    g->n          = g->in_tiles * g->out_tiles * g->way.taps * SUMS;
    set_parts(g);
    set_shares(g, s->workers);
    /* An odd number of lines: rows must not fall into the same sets. */
    lines    = blocks_of(ct_amx_cells(&g->way)) + 1;
    g->pitch = (lines | 1) * SIDE;
    g->steps = blocks_of(ct_amx_places(&g->way, g->way.images,
                                       g->way.out_rows));
    CT_TRY(ct_alloc((size_t)g->steps, sizeof(*g->at), "steps", &g->at));
    CT_TRY(ct_alloc((size_t)g->steps, sizeof(*g->nowhere), "steps",
                    &g->nowhere));
    for (int64_t i = 0; i < g->steps; i++)
        g->at[i] = i * SIDE;
    return CT_OK;
}

/* Sums of parts, of weights and behind them of the bias. */
size_t ct_amx_grad_room(const struct ct_amx_grad *g)
{
    return ct_amx_bytes((size_t)(g->parts * (g->n + g->out_blocks * SIDE)) *
                        sizeof(float));
}

/* Channels of the largest share. */
static int64_t share(int64_t blocks, int64_t shares)
{
    return (blocks + shares - 1) / shares * SIDE;
}

/* A worker's: cells, these turned, dy in pairs, a block of sums for those that
 * belong nowhere and for the bias, and a row of ones. */
struct own {
    uint16_t *cells, *turned, *pairs, *ones;
    float    *block;
};

static size_t own_layout(const struct ct_amx_grad *g, char *at, struct own *o)
{
    const struct ct_amx_way *w = &g->way;
    const int64_t in    = share(g->in_blocks, g->in_shares);
    const int64_t out   = share(g->out_blocks, g->out_shares);
    const int64_t cell  = w->merged ? w->cell : in;
    const int64_t cells = w->direct ? SIDE : ct_amx_cells(w) + CT_AMX_SLACK;
    const size_t n[3]   = { ct_amx_bytes((size_t)(cells * cell) * 2 +
                                         SIDE * 2),
                            ct_amx_bytes((size_t)(in * g->pitch) * 2),
                            ct_amx_bytes((size_t)(out * g->steps * SIDE) *
                                         2) };

    if (o)
        *o = (struct own){ (uint16_t *)(void *)at,
                           (uint16_t *)(void *)(at + n[0]),
                           (uint16_t *)(void *)(at + n[0] + n[1]),
                           (uint16_t *)(void *)(at + n[0] + n[1] + n[2]),
                           (float *)(void *)(at + n[0] + n[1] + n[2] + 64) };
    return n[0] + n[1] + n[2] + 64 + 4 * SUMS * sizeof(float);
}

size_t ct_amx_grad_own(const struct ct_amx_grad *g)
{
    return own_layout(g, NULL, NULL);
}

/* One worker's share of a part: blocks [from, to) of both sides, and taps. */
struct task {
    const struct ct_amx_grad *g;
    struct own   own;
    int64_t      in_from, in_to, out_from, out_to, tap_from, tap_to;
    const float *x, *dy;
    float       *sums, *bias; /* of the part; no bias: NULL */
};

/* Channels of a direct way are turned where they lie; what lacks at the end
 * of the batch is zeros. */
static void turn_direct(const struct task *t, const struct ct_amx_chunk *k,
                        int64_t first, uint16_t *to)
{
    const struct ct_amx_way *w = &t->g->way;
    const int64_t whole = k->places / SIDE * SIDE, rest = k->places - whole;
    const uint16_t *x   = ct_bf16(t->x) + k->row * w->channels + first;

    ct_amx_turn(whole, x, w->channels, to, t->g->pitch);
    if (!rest)
        return;
    memset(t->own.cells, 0, SIDE * SIDE * sizeof(*t->own.cells));
    for (int64_t i = 0; i < rest; i++)
        memcpy(t->own.cells + i * SIDE, x + (whole + i) * w->channels,
               SIDE * sizeof(*x));
    ct_amx_turn(SIDE, t->own.cells, SIDE, to + whole, t->g->pitch);
}

static void turn_chunk(const struct task *t, const struct ct_amx_chunk *k)
{
    const struct ct_amx_grad *g = t->g;
    const struct ct_amx_way *w  = &g->way;
    const int64_t first = t->in_from * SIDE, in = t->in_to - t->in_from;
    const int64_t n     = smaller(in * SIDE, w->channels - first);
    const int64_t cell  = w->merged ? w->cell : in * SIDE;
    const int64_t cells = ct_amx_up(ct_amx_cells(w), SIDE) + SIDE;

    if (!w->direct)
        ct_amx_gather(w, k, t->x, w->merged ? 0 : first,
                      w->merged ? w->channels : n, t->own.cells);
    for (int64_t i = 0; i < in; i++) {
        uint16_t *to = t->own.turned + i * SIDE * g->pitch;

        if (w->direct)
            turn_direct(t, k, first + i * SIDE, to);
        else
            ct_amx_turn(cells, t->own.cells + i * SIDE, cell, to, g->pitch);
    }
}

/* The row of dy at a place, or NULL. */
static const uint16_t *row_at(const struct task *t,
                              const struct ct_amx_chunk *k,
                              const struct ct_amx_place *p)
{
    const struct ct_amx_way *w = &t->g->way;

    return ct_amx_place_counts(w, k, p)
               ? ct_bf16(t->dy) + ct_amx_position(w, k, p) * w->out_channels
               : NULL;
}

static void pair_chunk(const struct task *t, const struct ct_amx_chunk *k,
                       int64_t steps)
{
    const struct ct_amx_way *w = &t->g->way;
    const int64_t first        = t->out_from * SIDE;
    const int64_t n = smaller(t->out_to * SIDE, w->out_channels) - first;
    struct ct_amx_place p = { 0 };

    for (int64_t f = 0; f < steps * SIDE; f += 2) {
        const uint16_t *a = row_at(t, k, &p), *b;

        ct_amx_place_next(w, &p);
        b = row_at(t, k, &p);
        ct_amx_place_next(w, &p);
        ct_amx_pair(n, a ? a + first : NULL, b ? b + first : NULL,
                    t->own.pairs + f / SIDE * CT_AMX_STEP +
                        f % SIDE / 2 * SIDE, steps * CT_AMX_STEP);
    }
}

/* Where a tile of sums lies; none where there are no such channels. */
static float *tile_at(const struct task *t, int64_t in, int64_t out,
                      int64_t tap)
{
    const struct ct_amx_grad *g = t->g;

    if (in >= g->in_tiles || out >= g->out_tiles)
        return t->own.block;
    return t->sums + ((out * g->in_tiles + in) * g->way.taps +
                      g->way.which[tap]) * SUMS;
}

/* The bias's gradient: as if there were an input of ones.  All 32 rows of that
 * factor are the same one. */
static void task_bias(const struct task *t, int64_t steps)
{
    const int64_t *nowhere = t->g->nowhere;
    float *block           = t->own.block;
    struct ct_amx_sum sum  = { .n = steps, .a = t->own.ones, .at = nowhere,
                               .c = { block, block + SUMS, block + 2 * SUMS,
                                      block + 3 * SUMS }, .c_step = HALF };

    for (int64_t o = t->out_from; o < t->out_to; o++) {
        sum.b = t->own.pairs + (o - t->out_from) * steps * CT_AMX_STEP;
        ct_amx_block(&sum, false);
        for (int i = 0; i < SIDE; i++)
            t->bias[o * SIDE + i] += block[i / HALF * SUMS + i % HALF];
    }
}

/* Where the four tiles of a block's sums lie. */
static void tiles_at(const struct task *t, int64_t in, int64_t out,
                     int64_t tap, float *tile[4])
{
    for (int q = 0; q < 4; q++)
        tile[q] = tile_at(t, 2 * in + q / 2, 2 * out + q % 2, tap);
}

/* Steps [from, from + n) of a chunk's `steps`, for inputs of block i. */
static void task_steps(const struct task *t, int64_t i, int64_t steps,
                       int64_t from, int64_t n, bool add)
{
    const struct ct_amx_grad *g = t->g;
    struct ct_amx_sum sum = { .n = n, .a_step = g->pitch, .at = g->at + from,
                              .c_step = HALF };

    for (int64_t o = t->out_from; o < t->out_to; o++)
        for (int64_t tap = t->tap_from; tap < t->tap_to; tap++) {
            const bool more = tap + 1 < t->tap_to;

            sum.a = t->own.turned + (i - t->in_from) * SIDE * g->pitch +
                    ct_amx_tap_at(&g->way, tap);
            sum.b = t->own.pairs +
                    ((o - t->out_from) * steps + from) * CT_AMX_STEP;
            tiles_at(t, i, o, tap, sum.c);
            tiles_at(t, i, o, more ? tap + 1 : tap, sum.next);
            ct_amx_block(&sum, add);
        }
}

static void task_chunk(const struct task *t, int64_t chunk, bool add)
{
    const struct ct_amx_grad *g = t->g;
    const struct ct_amx_chunk k = ct_amx_chunk_at(&g->way, chunk);
    const int64_t steps = blocks_of(k.places);
    const int64_t some  = g->way.taps > 1 ? SOME_OF_TAPS : SOME_OF_ONE;

    turn_chunk(t, &k);
    pair_chunk(t, &k, steps);
    if (t->bias)
        task_bias(t, steps);
    for (int64_t i = t->in_from; i < t->in_to; i++)
        for (int64_t from = 0; from < steps; from += some)
            task_steps(t, i, steps, from, smaller(some, steps - from),
                       add || from > 0);
}

/* All chunks of a part for one share of its blocks. */
static void work(const struct ct_amx_grad *g, int64_t item, struct task *t,
                 bool add)
{
    const int64_t shares = g->in_shares * g->out_shares * g->tap_shares;
    const int64_t part   = item / shares;
    const int64_t in     = item % shares / (g->out_shares * g->tap_shares);
    const int64_t out    = item / g->tap_shares % g->out_shares;
    const int64_t tap    = item % g->tap_shares;
    const int64_t from   = ct_amx_from(part, g->parts, g->chunks);
    const int64_t to     = ct_amx_from(part + 1, g->parts, g->chunks);

    t->g        = g;
    t->in_from  = ct_amx_from(in, g->in_shares, g->in_blocks);
    t->in_to    = ct_amx_from(in + 1, g->in_shares, g->in_blocks);
    t->out_from = ct_amx_from(out, g->out_shares, g->out_blocks);
    t->out_to   = ct_amx_from(out + 1, g->out_shares, g->out_blocks);
    t->tap_from = ct_amx_from(tap, g->tap_shares, g->way.taps);
    t->tap_to   = ct_amx_from(tap + 1, g->tap_shares, g->way.taps);
    t->sums += part * g->n;
    memset(t->own.block, 0, SUMS * sizeof(*t->own.block));
    for (int i = 0; i < SIDE; i++)
        t->own.ones[i] = ct_narrow(1);
    t->bias = t->bias && in + tap == 0
                  ? t->bias + part * g->out_blocks * SIDE
                  : NULL;
    if (t->bias)
        memset(t->bias + t->out_from * SIDE, 0,
               (size_t)((t->out_to - t->out_from) * SIDE) * sizeof(*t->bias));
    for (int64_t i = from; i < to; i++)
        task_chunk(t, i, add || i > from);
}

CT_SIMD static void join_row(int64_t n, int64_t parts, int64_t step,
                             const float *sums, bool add, float *to)
{
    for (int64_t p = 0; p < parts; p++)
        CT_SIMD_EACH (i, n)
            to[i] = p > 0 || add ? to[i] + sums[p * step + i] : sums[i];
}

static void join(const struct ct_amx_grad *g, const float *sums, bool add,
                 float *to)
{
    CT_FOR_ROWS (i, g->n / SUMS, g->parts * SUMS)
        join_row(SUMS, g->parts, g->n, sums + i * SUMS, add, to + i * SUMS);
}

/* Tiles whose channels are no 16s, or hold taps, to plain weights.  Work counts
 * twice: what is read lies far apart. */
static void spread(const struct ct_conv *c, const struct ct_amx_grad *g,
                   const float *sums, bool add, float *dw)
{
    const struct ct_amx_way *w = &g->way;
    const int64_t across       = w->merged ? c->desc.kernel[1] : 1;

    CT_FOR_ROWS (o, c->desc.out_channels, 2 * c->in_group * c->taps)
        for (int64_t i = 0; i < c->in_group; i++)
            for (int64_t x = 0; x < across; x++) {
                const int64_t v   = x * w->channels + i;
                const float *from = sums + v % HALF * HALF + o % HALF +
                                    (o / HALF * g->in_tiles + v / HALF) *
                                        w->taps * SUMS;
                float *to = dw + (o * c->in_group + i) * c->taps + x;

                for (int64_t t = 0; t < w->taps; t++)
                    to[t * across] = from[t * SUMS] +
                                     (add ? to[t * across] : 0);
            }
}

static void join_bias(const struct ct_amx_grad *g, const float *sums, bool add,
                      float *db)
{
    for (int64_t o = 0; o < g->way.out_channels; o++) {
        float sum = 0;

        for (int64_t p = 0; p < g->parts; p++)
            sum += sums[p * g->out_blocks * SIDE + o];
        db[o] = add ? db[o] + sum : sum;
    }
}

enum ct_status ct_amx_backward_weights(struct ct_conv *c, const float *x,
                                       const float *dy, float *dw, float *db)
{
    const struct ct_amx_conv *s = c->state;
    const struct ct_amx_grad *g = &s->grad;
    const int64_t items = g->parts * g->in_shares * g->out_shares *
                          g->tap_shares;
    const bool can = ct_amx_takes_tiles(c), tiles = c->tiles;
    const bool straight = tiles && g->parts == 1, add = !c->write;
    char *own           = (char *)c->work->ptr + ct_amx_grad_room(g);
    float *sums         = straight ? dw : c->work->ptr;
    float *bias         = db ? c->work->ptr + g->parts * g->n : NULL;

    CT_FOR_ROWS (i, s->workers, CT_GRAIN) {
        ct_amx_begin();
        for (int64_t k = ct_amx_from(i, s->workers, items);
             k < ct_amx_from(i + 1, s->workers, items); k++) {
            struct task t = { .x = x, .dy = dy, .sums = sums, .bias = bias };

            own_layout(g, own + (size_t)i * ct_amx_grad_own(g), &t.own);
            work(g, k, &t, straight && add);
        }
        ct_amx_end();
    }
    if (db)
        join_bias(g, bias, add, db);
    if (g->parts > 1)
        join(g, sums, tiles && add, tiles ? dw : sums);
    if (can && !tiles)
        ct_tiles_out(c->desc.out_channels, c->in_group, c->taps, sums, add,
                     dw);
    else if (!can)
        spread(c, g, sums, add, dw);
    return CT_OK;
}
