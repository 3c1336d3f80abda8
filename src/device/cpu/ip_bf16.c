/* ip_bf16.c - the inner product with factors of bfloat16, for nets in that
 * precision.
 *
 * Matrices stay floats.  What a product needs is rounded on its way: the left
 * factor at once, the right one some rows of 32 columns at a time, so that it
 * never leaves the cache.  Blocks of 32 x 32 are made as amx.h has them:
 *
 *     forward            y  = x W^T        columns are outputs
 *     backward           dx = dy W         columns are inputs
 *     backward weights   dW = dy^T x       columns are inputs
 *
 * Few rows of x go along those of W instead, which is read once (ip_dots.h).
 * Where many passes share W (`packed`), all of its columns are rounded once. */
#include "device/cpu/bf16.h"
#include "device/ip_impl.h"

#if defined(CT_HAVE_ONEDNN) && defined(__x86_64__)
#include <string.h>

#include "base/mem.h"
#include "device/cpu/amx.h"
#include "device/cpu/amx_pack.h"
#include "device/cpu/ip_dots.h"
#include "device/cpu/loop.h"
#include "device/cpu/short.h"

enum {
    SIDE = CT_AMX_SIDE, HALF = SIDE / 2, LANES = 16, STEP = CT_AMX_STEP,
    LEAST_ROWS = 16, FEW_ROWS = 4, LEAST_COLUMNS = 32,
    SOME = 512 /* rows of the right factor at a time */
};

static int64_t up(int64_t n)
{
    return (n + SIDE - 1) / SIDE * SIDE;
}

/* Whether y is made of sums along the rows of W (ip_dots.h). */
static bool is_dots(const struct ct_ip *p)
{
    return p->m < LEAST_ROWS && !p->packed && !ct_amx_runs();
}

static bool bf16_takes(const void *op)
{
    const struct ct_ip *p = op;

    return p->dev == ct_device_cpu_bf16() && !p->transpose &&
           (p->m >= (ct_amx_runs() ? FEW_ROWS : LEAST_ROWS) || is_dots(p)) &&
           p->n >= LEAST_COLUMNS && p->k >= LEAST_COLUMNS && ct_amx_vectors();
}

/* A pass: rows x columns of sums over `deep` products. */
struct sizes {
    int64_t rows, columns, deep;
};

static struct sizes sizes_of(const struct ct_ip *p, enum ct_pass pass)
{
    if (pass == CT_FORWARD)
        return (struct sizes){ p->m, p->n, p->k };
    if (pass == CT_BACKWARD)
        return (struct sizes){ p->m, p->k, p->n };
    return (struct sizes){ p->n, p->k, p->m };
}

/* State.  As many workers as there were threads when it was made have room for
 * some rows of 32 columns, or there is room for all of the right factor. */
struct room {
    int64_t   workers;
    int64_t  *at; /* where each step of 32 begins in a row of `left` */
    uint16_t *left, *right;
    float    *sums; /* a worker's: all rows of 32 columns */
    bool      whole;
    uint16_t  values[] __attribute__((aligned(CT_ALIGN)));
};

/* Sizes of its arrays, in values. */
struct room_sizes {
    int64_t at, left, right, sums;
};

static struct room_sizes room_of(const struct sizes *s, bool whole,
                                 int64_t workers)
{
    const int64_t deep = up(s->deep), some = deep < SOME ? deep : SOME;
    struct room_sizes r;

    r.at    = up(deep / SIDE * (int64_t)(sizeof(int64_t) / 2));
    r.left  = up(s->rows) * deep;
    r.right = whole ? up(s->columns) * deep : workers * SIDE * some;
    r.sums  = workers * up(s->rows) * SIDE * 2;
    return r;
}

static enum ct_status bf16_create(const void *op, enum ct_pass pass,
                                  void **state)
{
    const struct ct_ip *p     = op;
    const struct sizes s      = sizes_of(p, pass);
    const bool whole          = p->packed && pass != CT_BACKWARD_WEIGHTS;
    const int64_t workers     = ct_device_cpu_threads();
    const struct room_sizes r = room_of(&s, whole, workers);
    struct room *room;

    CT_TRY(ct_alloc(1, sizeof(*room) +
                           (size_t)(r.at + r.left + r.right + r.sums) *
                               sizeof(uint16_t),
                    "inner product in bfloat16", &room));
    room->workers = workers;
    room->whole   = whole;
    room->at      = (int64_t *)(void *)room->values;
    room->left    = room->values + r.at;
    room->right   = room->left + r.left;
    room->sums    = (float *)(void *)(room->right + r.right);
    for (int64_t i = 0; i < up(s.deep) / SIDE; i++)
        room->at[i] = i * SIDE;
    memset(room->left, 0, (size_t)r.left * sizeof(uint16_t));
    *state = room;
    return CT_OK;
}

/* Which of sixteen values from `first` on there are. */
CT_SHORT_PART __mmask16 there(int64_t n, int64_t first)
{
    const int64_t left = n - first;

    return (__mmask16)(left >= LANES ? 0xffff
                       : left <= 0   ? 0
                                     : (1 << left) - 1);
}

/* n values, and zeros up to whole 32s. */
CT_SHORT static void round_row(int64_t n, const float *x, uint16_t *y)
{
    for (int64_t i = 0; i < up(n); i += LANES)
        ct_short_narrow(_mm512_maskz_loadu_ps(there(n, i), x + i), y + i);
}

/* The left factor: rows as they are, or rows that become columns. */
static void make_left(int64_t rows, int64_t deep, const float *x, uint16_t *to)
{
    CT_FOR_ROWS (i, rows, deep)
        round_row(deep, x + i * deep, to + i * up(deep));
}

static void make_left_turned(int64_t rows, int64_t deep, const float *x,
                             uint16_t *to)
{
    CT_FOR_ROWS (b, up(rows) / SIDE, SIDE * deep) {
        const int64_t from = b * SIDE, n = rows - from;
        uint16_t part[SIDE * SIDE] __attribute__((aligned(64)));

        for (int64_t i = 0; i < deep; i += SIDE) {
            for (int64_t j = 0; j < SIDE; j++)
                if (i + j < deep)
                    round_row(n < SIDE ? n : SIDE, x + (i + j) * rows + from,
                              part + j * SIDE);
                else
                    memset(part + j * SIDE, 0, SIDE * sizeof(*part));
            ct_amx_turn(SIDE, part, SIDE, to + from * up(deep) + i, up(deep));
        }
    }
}

/* The right factor: columns [column, column + 32) and rows [from, from + some)
 * of what `make` makes of w, n x k. */
struct right {
    void (*make)(const struct right *r, int64_t column, int64_t from,
                 int64_t some, uint16_t *to);
    int64_t      n, k;
    const float *w;
};

/* Rows of w become columns: some of each are read at once, as memory has them,
 * and turned in the cache. */
static void make_turned(const struct right *r, int64_t column, int64_t from,
                        int64_t some, uint16_t *to)
{
    enum { PITCH = SOME + SIDE };
    uint16_t part[SIDE * PITCH] __attribute__((aligned(64)));

    if (column + SIDE > r->n)
        memset(part, 0, sizeof(part));
    for (int64_t i = 0; i < SIDE && column + i < r->n; i++) {
        const float *w = r->w + (column + i) * r->k + from;

        for (int64_t j = 0; j < some && column + i + 1 < r->n; j += LANES)
            __builtin_prefetch(w + r->k + j);
        round_row(some, w, part + i * PITCH);
    }
    for (int64_t i = 0; i < some; i += SIDE, to += STEP) {
        ct_amx_rows_turned(part + i, PITCH, to);
        ct_amx_rows_turned(part + HALF * PITCH + i, PITCH, to + CT_AMX_TILE);
    }
}

/* 32 x 32 floats where the matrix ends, with zeros beyond. */
static const float *filled_up(int64_t rows, int64_t columns, const float *w,
                              int64_t step, float to[SIDE * SIDE])
{
    memset(to, 0, SIDE * SIDE * sizeof(*to));
    for (int64_t i = 0; i < rows && i < SIDE; i++)
        memcpy(to + i * SIDE, w + i * step,
               (size_t)(columns < SIDE ? columns : SIDE) * sizeof(*to));
    return to;
}

static void make_step(const float *w, int64_t step, uint16_t *to)
{
    for (int64_t i = 0; i < SIDE; i += HALF)
        for (int64_t j = 0; j < SIDE; j += HALF)
            ct_amx_weights(w + i * step + j, step,
                           to + j / HALF * CT_AMX_TILE + i * HALF);
}

/* Columns of w as they are. */
static void make_straight(const struct right *r, int64_t column, int64_t from,
                          int64_t some, uint16_t *to)
{
    float edge[SIDE * SIDE] __attribute__((aligned(64)));
    const int64_t k = r->k;

    for (int64_t i = from; i < from + some; i += SIDE, to += STEP) {
        const float *w    = r->w + i * k + column;
        const bool inside = column + SIDE <= k && i + SIDE <= r->n;

        make_step(inside ? w : filled_up(r->n - i, k - column, w, k, edge),
                  inside ? k : SIDE, to);
    }
}

/* What becomes of sums: to = them, + bias, + to, at least 0. */
struct end {
    const float *bias; /* or NULL */
    bool         add, relu;
    float       *to;
    int64_t      step;
};

CT_SHORT static void put(const struct end *e, int64_t rows, int64_t columns,
                         const float *c)
{
    float *to = e->to;

    for (int64_t i = 0; i < rows; i++, to += e->step)
        for (int64_t j = 0; j < SIDE; j += LANES) {
            const __mmask16 some = there(columns, j);
            __m512 v             = _mm512_loadu_ps(c + i * SIDE + j);

            if (e->bias)
                v += _mm512_maskz_loadu_ps(some, e->bias + j);
            if (e->add)
                v += _mm512_maskz_loadu_ps(some, to + j);
            if (e->relu)
                v = ct_short_clamp(v);
            _mm512_mask_storeu_ps(to + j, some, v);
        }
}

/* All rows of 32 columns of the right factor. */
static void pack_columns(const struct sizes *s, const struct right *r,
                         int64_t column, uint16_t *to)
{
    for (int64_t i = 0; i < s->deep; i += SOME, to += SOME * SIDE)
        r->make(r, column, i, s->deep - i < SOME ? s->deep - i : SOME, to);
}

/* Sums over rows [from, from + some) of 32 columns; what the last ones make is
 * put where it belongs. */
static void run_some(const struct sizes *s, const struct room *room,
                     const uint16_t *right, int64_t from, int64_t some,
                     float *c, struct end e, int64_t columns)
{
    const bool last       = from + some >= s->deep;
    struct ct_amx_sum sum = { .n = up(some) / SIDE, .a_step = up(s->deep),
                              .at = room->at + from / SIDE, .b = right,
                              .c_step = SIDE };

    for (int64_t i = 0; i < s->rows; i += SIDE, c += SIDE * SIDE) {
        sum.a    = room->left + i * up(s->deep);
        sum.rows = s->rows - i < SIDE ? s->rows - i : SIDE;
        for (int q = 0; q < 4; q++)
            sum.c[q] = c + q / 2 * HALF * SIDE + q % 2 * HALF;
        ct_amx_block(&sum, from > 0);
        if (last)
            put(&e, sum.rows, columns, c);
        e.to += SIDE * e.step;
    }
}

static void run_columns(const struct sizes *s, const struct room *room,
                        const struct right *r, int64_t worker, int64_t column,
                        struct end e)
{
    const int64_t deep = up(s->deep), most = deep < SOME ? deep : SOME;
    float *c           = room->sums + worker * up(s->rows) * SIDE;
    uint16_t *right    = room->right + worker * SIDE * most;

    e.bias = e.bias ? e.bias + column : NULL;
    e.to += column;
    if (room->whole) {
        run_some(s, room, room->right + column * deep, 0, s->deep, c, e,
                 s->columns - column);
        return;
    }
    for (int64_t i = 0; i < s->deep; i += SOME) {
        const int64_t some = s->deep - i < SOME ? s->deep - i : SOME;

        r->make(r, column, i, some, right);
        run_some(s, room, right, i, some, c, e, s->columns - column);
    }
}

static void run(const struct sizes *s, const struct room *room,
                const struct right *r, const struct end *e)
{
    CT_FOR_ROWS (i, room->workers, CT_GRAIN) {
        ct_amx_begin();
        for (int64_t b = i * SIDE; b < s->columns; b += room->workers * SIDE)
            run_columns(s, room, r, i, b, *e);
        ct_amx_end();
    }
}

static enum ct_status bf16_forward(const struct ct_ip *p, const float *x,
                                   const float *w, const float *b, float *y)
{
    const struct sizes s = sizes_of(p, CT_FORWARD);
    struct room *room    = p->pass[CT_FORWARD].state;
    const struct right r = { make_turned, p->n, p->k, w };
    const struct end e   = { b, p->add, p->relu, y, p->n };

    make_left(p->m, p->k, x, room->left);
    if (is_dots(p))
        ct_ip_dots(p, room->left, up(p->k), w, b, y);
    else
        run(&s, room, &r, &e);
    return CT_OK;
}

static enum ct_status bf16_backward_data(const struct ct_ip *p,
                                         const float *w, const float *dy,
                                         float *dx)
{
    const struct sizes s = sizes_of(p, CT_BACKWARD);
    struct room *room    = p->pass[CT_BACKWARD].state;
    const struct right r = { make_straight, p->n, p->k, w };
    const struct end e   = { .to = dx, .step = p->k };

    make_left(p->m, p->n, dy, room->left);
    run(&s, room, &r, &e);
    return CT_OK;
}

static enum ct_status bf16_backward_weights(const struct ct_ip *p,
                                            const float *x, const float *dy,
                                            float *dw)
{
    const struct sizes s = sizes_of(p, CT_BACKWARD_WEIGHTS);
    struct room *room    = p->pass[CT_BACKWARD_WEIGHTS].state;
    const struct right r = { make_straight, p->m, p->k, x };
    const struct end e   = { .add = !p->overwrite, .to = dw, .step = p->k };

    make_left_turned(p->n, p->m, dy, room->left);
    run(&s, room, &r, &e);
    return CT_OK;
}

static enum ct_status bf16_pack(const struct ct_ip *p, enum ct_pass pass,
                                const float *w)
{
    const struct sizes s = sizes_of(p, pass);
    const struct right r = { pass == CT_FORWARD ? make_turned : make_straight,
                             p->n, p->k, w };

    struct room *room = p->pass[pass].state;

    CT_FOR_ROWS (i, up(s.columns) / SIDE, SIDE * s.deep)
        pack_columns(&s, &r, i * SIDE, room->right + i * SIDE * up(s.deep));
    return CT_OK;
}

const struct ct_ip_impl ct_ip_bf16 = {
    .head             = { .name = "bf16", .takes = bf16_takes,
                          .create = bf16_create, .destroy = ct_free },
    .forward          = bf16_forward,
    .pack             = bf16_pack,
    .backward_data    = bf16_backward_data,
    .backward_weights = bf16_backward_weights,
};

#endif
