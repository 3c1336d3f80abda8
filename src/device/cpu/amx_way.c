/* amx_way.c - where cells, places and taps of a convolution lie. */
#include "device/cpu/amx_way.h"

#include <string.h>

#include "device/cpu/amx_pack.h"
#include "device/cpu/bf16.h"

enum { SIDE = CT_AMX_SIDE };

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Cells along an axis for n outputs of `taps` neighbouring ones.  What lies
 * beyond the end is the zeros before the next begin, if there are enough. */
static int64_t extent(int64_t n, int64_t taps, int64_t in, int64_t pad)
{
    const int64_t all = n + most(taps, 1) - 1;

    return pad > 0 ? least(all, most(n, most(in + pad, all - pad))) : all;
}

static void taps_forward(const struct ct_conv *c, struct ct_amx_way *w)
{
    const struct ct_conv_desc *d = &c->desc;
    const int64_t across = w->merged ? 1 : d->kernel[1];

    for (int64_t i = 0; i < d->kernel[0]; i++)
        for (int64_t j = 0; j < across; j++) {
            const int64_t t = w->taps++;

            w->phase[t]  = i % w->step[0] * w->phases[1] +
                           j % w->step[1];
            w->row[t]    = i / w->step[0];
            w->column[t] = j / w->step[1];
            w->which[t]  = i * across + j;
        }
}

void ct_amx_way_forward(const struct ct_conv *c, struct ct_amx_way *w)
{
    const struct ct_conv_desc *d = &c->desc;

    *w = (struct ct_amx_way){
        .floats = d->src_type == CT_F32, .batch = d->batch, .h = d->in[0],
        .w = d->in[1], .channels = d->in_channels, .out_h = c->out[0],
        .out_w = c->out[1], .out_channels = d->out_channels,
        .to_h = c->out[0], .to_w = c->out[1], .to_step = { 1, 1 },
    };
    w->merged = d->kernel[1] > 1 && d->in_channels * d->kernel[1] <= SIDE;
    w->flat   = !w->floats && c->taps == 1 && d->stride[0] == 1 &&
              d->stride[1] == 1;
    if (w->flat) {
        w->h = w->out_h = w->to_h = d->batch * c->out_spatial;
        w->w = w->out_w = w->to_w = 1;
        w->batch                  = 1;
    }
    w->direct = w->flat && d->in_channels % SIDE == 0;
    for (int i = 0; i < 2; i++) {
        const int64_t s = d->stride[i], n = i ? w->out_w : w->out_h;
        int64_t *cells  = i ? &w->columns : &w->rows;

        w->step[i]   = s;
        w->pad[i]    = d->pad[i]; /* positions, where a cell is several */
        w->phases[i] = least(s, d->kernel[i]);
        *cells = s == 1 ? extent(n, d->kernel[i], i ? w->w : w->h, d->pad[i])
                        : n + (d->kernel[i] - 1) / s;
    }
    w->cell = ct_amx_up(d->in_channels, SIDE);
    if (w->merged) {
        w->phases[1] = 1;
        w->columns   = w->out_w - 1 +
                     (d->kernel[1] + d->stride[1] - 1) / d->stride[1];
        w->cell      = d->stride[1] * d->in_channels;
    }
    w->below = (d->kernel[0] - 1) / d->stride[0];
    taps_forward(c, w);
}

/* Output y = s q + r - pad of the gradient is the sum over j of what output
 * q - j had, by tap r + s j.  The q begin at `first`, and there are n. */
struct phase {
    int64_t taps, first, n;
};

static struct phase phase_of(const struct ct_conv *c, int axis, int64_t r)
{
    const struct ct_conv_desc *d = &c->desc;
    const int64_t s = d->stride[axis], pad = d->pad[axis];
    const int64_t last = d->in[axis] - 1 + pad - r;
    struct phase p     = { .taps  = (d->kernel[axis] - r + s - 1) / s,
                           .first = pad > r ? (pad - r + s - 1) / s : 0 };

    p.taps = r < d->kernel[axis] ? p.taps : 0;
    p.n    = last < 0 ? 0 : last / s - p.first + 1;
    return p;
}

static void taps_back(const struct ct_conv *c, const struct phase p[2],
                      const int64_t r[2], struct ct_amx_way *w)
{
    const struct ct_conv_desc *d = &c->desc;

    for (int64_t i = 0; i < p[0].taps; i++)
        for (int64_t j = 0; j < p[1].taps; j++) {
            const int64_t t = w->taps++;

            w->row[t]    = p[0].taps - 1 - i;
            w->column[t] = p[1].taps - 1 - j;
            w->which[t]  = (r[0] + d->stride[0] * i) * d->kernel[1] + r[1] +
                          d->stride[1] * j;
        }
}

bool ct_amx_way_back(const struct ct_conv *c, int64_t i, int64_t j,
                     struct ct_amx_way *w)
{
    const struct ct_conv_desc *d = &c->desc;
    const int64_t r[2]      = { i, j };
    const struct phase p[2] = { phase_of(c, 0, i), phase_of(c, 1, j) };

    if (p[0].n <= 0 || p[1].n <= 0)
        return false;
    *w = (struct ct_amx_way){
        .batch = d->batch, .h = c->out[0], .w = c->out[1],
        .channels = d->out_channels, .step = { 1, 1 }, .phases = { 1, 1 },
        .out_h = p[0].n, .out_w = p[1].n, .out_channels = d->in_channels,
        .to_h = d->in[0], .to_w = d->in[1],
        .to_step = { d->stride[0], d->stride[1] },
        .cell = ct_amx_up(d->out_channels, SIDE)
    };
    w->flat = d->src_type == CT_BF16 && c->taps == 1 && d->stride[0] == 1 &&
              d->stride[1] == 1;
    if (w->flat) {
        w->h = w->out_h = w->to_h = d->batch * c->out_spatial;
        w->w = w->out_w = w->to_w = 1;
        w->batch = w->rows = w->columns = 1;
    }
    w->direct = w->flat && d->out_channels % SIDE == 0;
    for (int k = 0; k < 2; k++) {
        const int64_t n = k ? w->out_w : w->out_h;
        int64_t *cells  = k ? &w->columns : &w->rows;

        w->pad[k]      = most(p[k].taps, 1) - 1 - p[k].first;
        w->to_first[k] = d->stride[k] * p[k].first + r[k] - d->pad[k];
        *cells = extent(n, p[k].taps, k ? w->w : w->h, w->pad[k]);
    }
    w->below = most(p[0].taps, 1) - 1;
    taps_back(c, p, r, w);
    return true;
}

int64_t ct_amx_chunks(const struct ct_amx_way *w)
{
    return (w->batch + w->images - 1) / w->images *
           ((w->out_h + w->out_rows - 1) / w->out_rows);
}

int64_t ct_amx_places(const struct ct_amx_way *w, int64_t images, int64_t rows)
{
    return ((images - 1) * w->rows + rows - 1) * w->columns + w->out_w;
}

struct ct_amx_chunk ct_amx_chunk_at(const struct ct_amx_way *w, int64_t i)
{
    const int64_t parts = (w->out_h + w->out_rows - 1) / w->out_rows;
    struct ct_amx_chunk k = { .image = i / parts * w->images,
                              .row   = i % parts * w->out_rows };

    k.images = least(w->images, w->batch - k.image);
    k.rows   = least(w->out_rows, w->out_h - k.row);
    k.places = ct_amx_places(w, k.images, k.rows);
    return k;
}

int64_t ct_amx_rows(const struct ct_amx_way *w)
{
    /* The last row may go on in the zeros of one more. */
    return (w->images - 1) * w->rows + w->out_rows + w->below +
           (w->flat ? 0 : 1);
}

int64_t ct_amx_cells(const struct ct_amx_way *w)
{
    return w->phases[0] * w->phases[1] * ct_amx_rows(w) * w->columns;
}

int64_t ct_amx_tap_at(const struct ct_amx_way *w, int64_t t)
{
    return (w->phase[t] * ct_amx_rows(w) + w->row[t]) * w->columns +
           w->column[t];
}

struct ct_amx_place ct_amx_place_at(const struct ct_amx_way *w, int64_t f)
{
    return (struct ct_amx_place){ f / w->columns / w->rows,
                                  f / w->columns % w->rows, f % w->columns };
}

/* What a row of cells takes: channels [first, first + n) of a row of x, which
 * begins at its position `from`; positions are `step` apart. */
struct strip {
    const void *x; /* the image */
    int64_t     y, from, step, first, n, cell;
};

/* Of an image of floats. */
static uint16_t value_at(const struct ct_amx_way *w, const struct strip *s,
                         int64_t x, int64_t channel)
{
    return ct_narrow(
        ((const float *)s->x)[(channel * w->h + s->y) * w->w + x]);
}

/* A cell is one position. */
static void fill_apart(const struct ct_amx_way *w, const struct strip *s,
                       uint16_t *to)
{
    const size_t bytes = (size_t)s->n * sizeof(*to);
    const size_t rest  = (size_t)(s->cell - s->n) * sizeof(*to);

    for (int64_t i = 0; i < w->columns; i++, to += s->cell) {
        const int64_t x = s->from + i * s->step;

        if (x < 0 || x >= w->w) {
            memset(to, 0, bytes + rest);
            continue;
        }
        if (w->floats)
            for (int64_t k = 0; k < s->n; k++)
                to[k] = value_at(w, s, x, s->first + k);
        else
            memcpy(to, (const uint16_t *)s->x +
                           (s->y * w->w + x) * w->channels + s->first, bytes);
        memset(to + s->n, 0, rest);
    }
}

/* Positions follow each other without gaps, all of their channels. */
static void fill_merged(const struct ct_amx_way *w, const struct strip *s,
                        uint16_t *to)
{
    const int64_t c = w->channels, n = w->columns * w->cell / c;
    const int64_t begin = least(n, most(0, -s->from));
    const int64_t end   = most(begin, least(n, w->w - s->from));

    memset(to, 0, (size_t)(begin * c) * sizeof(*to));
    if (w->floats)
        ct_amx_merge(end - begin, c,
                     (const float *)s->x + s->y * w->w + s->from + begin,
                     w->h * w->w, to + begin * c);
    else
        memcpy(to + begin * c,
               (const uint16_t *)s->x + (s->y * w->w + s->from + begin) * c,
               (size_t)((end - begin) * c) * sizeof(*to));
    memset(to + end * c, 0, (size_t)((n - end) * c) * sizeof(*to));
}

static void fill(const struct ct_amx_way *w, const struct strip *s,
                 uint16_t *to)
{
    const bool whole = s->step == 1 && !w->floats && s->n == w->channels &&
                       s->cell == s->n;

    if (w->merged || whole)
        fill_merged(w, s, to);
    else
        fill_apart(w, s, to);
}

void ct_amx_gather(const struct ct_amx_way *w, const struct ct_amx_chunk *k,
                   const float *x, int64_t first, int64_t n, uint16_t *cells)
{
    const int64_t cell  = w->merged ? w->cell : ct_amx_up(n, SIDE);
    const int64_t image = w->h * w->w * w->channels, rows = ct_amx_rows(w);
    const int64_t row   = w->columns * cell;

    for (int64_t p = 0; p < w->phases[0] * w->phases[1]; p++)
        for (int64_t r = 0; r < rows; r++, cells += row) {
            const int64_t at = (k->row + r) / w->rows;
            struct strip s   = { .first = first, .n = n, .cell = cell };

            s.y    = (k->row + r) % w->rows * w->step[0] +
                  p / w->phases[1] - w->pad[0];
            s.from = p % w->phases[1] - w->pad[1];
            s.step = w->step[1];
            if (at >= k->images || s.y < 0 || s.y >= w->h) {
                memset(cells, 0, (size_t)row * sizeof(*cells));
                continue;
            }
            if (w->floats)
                s.x = x + (k->image + at) * image;
            else
                s.x = ct_bf16(x) + (k->image + at) * image;
            fill(w, &s, cells);
        }
    memset(cells, 0, (size_t)(CT_AMX_SLACK * cell) * sizeof(*cells));
}
