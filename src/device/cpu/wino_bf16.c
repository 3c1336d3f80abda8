/* wino_bf16.c - Winograd's changes of basis for bfloat16, sixteen channels at a
 * time, and the small matrix product between them.
 *
 * Everything is computed in float32 and rounded once, when it is stored. */
#include "device/cpu/wino_bf16.h"

#include "device/cpu/short.h"
#include "device/cpu/winograd.h"

#if defined(__x86_64__)
#define SHORT CT_SHORT
#define PART  CT_SHORT_PART

enum {
    SIDE = 5, M = CT_SHORT_SIDE, TAPS = 9, LANES = 16, TILE = 16,
    PLACES = CT_SHORT_PLACES, COLUMNS = CT_SHORT_COLUMNS
};

typedef __m512 wide;

/* The points, and what their rows are divided by. */
static const float A = 0.375f, B = 1.25f;
static const float A2 = 0.140625f, B2 = 1.5625f;
#define BY_A (1.0f / (2 * 0.375f * (0.140625f - 1.5625f)))
#define BY_B (1.0f / (2 * 1.25f * (1.5625f - 0.140625f)))

bool ct_short_runs(void)
{
    return __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512bf16");
}

/* e = B^T d, values `s` apart. */
PART void input_1d(const wide *d, int s, wide *e, int t)
{
    const wide d0 = d[0], d1 = d[s], d2 = d[2 * s], d3 = d[3 * s];
    const wide odd_a = d3 - B2 * d1, even_a = d2 - B2 * d0;
    const wide odd_b = d3 - A2 * d1, even_b = d2 - A2 * d0;

    e[0]     = odd_a + A * even_a;
    e[t]     = odd_a - A * even_a;
    e[2 * t] = odd_b + B * even_b;
    e[3 * t] = odd_b - B * even_b;
    e[4 * t] = d[4 * s] - (A2 + B2) * d2 + A2 * B2 * d0;
}

/* y = A^T e */
PART void output_1d(const wide *e, int s, wide *y, int t)
{
    const wide sum_a = e[0] + e[s], sub_a = e[0] - e[s];
    const wide sum_b = e[2 * s] + e[3 * s], sub_b = e[2 * s] - e[3 * s];

    y[0]     = sum_a + sum_b;
    y[t]     = A * sub_a + B * sub_b;
    y[2 * t] = A2 * sum_a + B2 * sum_b + e[4 * s];
}

/* e = A y */
PART void output_grad_1d(const wide *y, int s, wide *e, int t)
{
    const wide even_a = y[0] + A2 * y[2 * s], even_b = y[0] + B2 * y[2 * s];

    e[0]     = even_a + A * y[s];
    e[t]     = even_a - A * y[s];
    e[2 * t] = even_b + B * y[s];
    e[3 * t] = even_b - B * y[s];
    e[4 * t] = y[2 * s];
}

/* e = G g */
PART void weights_1d(const wide *g, int s, wide *e, int t)
{
    const wide even_a = BY_A * (g[0] + A2 * g[2 * s]);
    const wide even_b = BY_B * (g[0] + B2 * g[2 * s]);
    const wide odd_a = A * BY_A * g[s], odd_b = B * BY_B * g[s];

    e[0]     = odd_a + even_a;
    e[t]     = odd_a - even_a;
    e[2 * t] = odd_b + even_b;
    e[3 * t] = odd_b - even_b;
    e[4 * t] = g[2 * s];
}

/* g = G^T e */
PART void weights_grad_1d(const wide *e, int s, wide *g, int t)
{
    const wide even_a = BY_A * (e[0] - e[s]), odd_a = BY_A * (e[0] + e[s]);
    const wide even_b = BY_B * (e[2 * s] - e[3 * s]);
    const wide odd_b  = BY_B * (e[2 * s] + e[3 * s]);

    g[0]     = even_a + even_b;
    g[t]     = A * odd_a + B * odd_b;
    g[2 * t] = A2 * even_a + B2 * even_b + e[4 * s];
}

/* Where a tile lies. */
struct spot {
    int64_t image, row, column; /* of tiles */
};

PART struct spot spot_of(const struct ct_short_tiles *g, int64_t tile)
{
    const int64_t per_image = g->rows * g->columns, i = tile % per_image;

    return (struct spot){ tile / per_image, i / g->columns * M,
                          i % g->columns * M };
}

/* n x n values from (y, x) on of an h x w image; zero outside. */
PART void square_in(const uint16_t *image, int64_t h, int64_t w,
                    int64_t channels, int64_t y, int64_t x, int n, wide *to)
{
    const uint16_t *from = image + (y * w + x) * channels;

    if (y >= 0 && x >= 0 && y + n <= h && x + n <= w) {
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++)
                to[i * n + j] = ct_short_widen(from + (i * w + j) * channels);
        return;
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            to[i * n + j] =
                y + i >= 0 && y + i < h && x + j >= 0 && x + j < w
                    ? ct_short_widen(from + (i * w + j) * channels)
                    : _mm512_setzero_ps();
}

/* Sixteen channels of a tile of x; zeros where `there` says it is none. */
PART void input_tile(const struct ct_short_tiles *g, const uint16_t *x,
                     const struct spot *s, int64_t channel, bool there,
                     wide *d)
{
    wide e[PLACES];

    if (!there) {
        for (int i = 0; i < PLACES; i++)
            d[i] = _mm512_setzero_ps();
        return;
    }
    square_in(x + s->image * g->h * g->w * g->in_all + channel, g->h, g->w,
              g->in_all, s->row - g->pad_h, s->column - g->pad_w, SIDE, d);
    for (int j = 0; j < SIDE; j++)
        input_1d(d + j, SIDE, e + j, SIDE);
    for (int j = 0; j < SIDE; j++)
        input_1d(e + j * SIDE, 1, d + j * SIDE, 1);
}

SHORT static void input_single(const struct ct_short_tiles *g,
                               const uint16_t *x, int64_t from, int64_t to,
                               const struct ct_short_at *at, uint16_t *v)
{
    for (int64_t t = from; t < to; t++, v += at->step) {
        const struct spot s = spot_of(g, t);

        for (int64_t c = 0; c < g->in; c += LANES) {
            wide d[PLACES];

            input_tile(g, x, &s, c, true, d);
            for (int i = 0; i < PLACES; i++)
                ct_short_narrow(d[i], v + i * at->plane + c);
        }
    }
}

/* All channels of two tiles, side by side. */
PART void input_two(const struct ct_short_tiles *g, const uint16_t *x,
                    const struct spot *s, const struct spot *next, bool both,
                    int64_t plane, uint16_t *v)
{
    for (int64_t c = 0; c < g->in; c += LANES) {
        wide d[PLACES], e[PLACES];

        input_tile(g, x, s, c, true, d);
        input_tile(g, x, next, c, both, e);
        for (int i = 0; i < PLACES; i++)
            ct_short_narrow_pair(d[i], e[i], v + i * plane + 2 * c);
    }
}

SHORT static void input_paired(const struct ct_short_tiles *g,
                               const uint16_t *x, int64_t from, int64_t to,
                               const struct ct_short_at *at, uint16_t *v)
{
    for (int64_t t = from; t < to; t += 2, v += at->step) {
        const struct spot s = spot_of(g, t), next = spot_of(g, t + 1);

        input_two(g, x, &s, &next, t + 1 < to, at->plane, v);
    }
}

SHORT void ct_short_input_images(const struct ct_short_tiles *g,
                                 const uint16_t *x, int64_t image, bool both,
                                 int64_t from, int64_t to,
                                 const struct ct_short_at *at, uint16_t *v)
{
    const int64_t n = g->rows * g->columns;

    for (int64_t t = from; t < to; t++, v += at->step) {
        const struct spot s    = spot_of(g, image * n + t);
        const struct spot next = { s.image + 1, s.row, s.column };

        input_two(g, x, &s, &next, both, at->plane, v);
    }
}

void ct_short_input(const struct ct_short_tiles *g, const uint16_t *x,
                    int64_t from, int64_t to, bool paired,
                    const struct ct_short_at *at, uint16_t *v)
{
    if (paired)
        input_paired(g, x, from, to, at, v);
    else
        input_single(g, x, from, to, at, v);
}

PART void output_grad_tile(const struct ct_short_tiles *g, const uint16_t *dy,
                           const struct spot *s, int64_t channel, bool there,
                           wide *e)
{
    wide in[M * M], half[SIDE * M];

    if (!there) {
        for (int i = 0; i < PLACES; i++)
            e[i] = _mm512_setzero_ps();
        return;
    }
    square_in(dy + s->image * g->out_h * g->out_w * g->out_all + channel,
              g->out_h, g->out_w, g->out_all, s->row, s->column, M, in);
    for (int j = 0; j < M; j++)
        output_grad_1d(in + j, M, half + j, M);
    for (int j = 0; j < SIDE; j++)
        output_grad_1d(half + j * M, 1, e + j * SIDE, 1);
}

/* 32 channels of two tiles, side by side. */
PART void output_grad_two(const struct ct_short_tiles *g, const uint16_t *dy,
                          const struct spot *s, const struct spot *next,
                          bool both, int64_t first, int64_t plane,
                          uint16_t *v)
{
    for (int64_t c = 0; c < COLUMNS; c += LANES) {
        const bool there = first + c < g->out;
        wide d[PLACES], e[PLACES];

        output_grad_tile(g, dy, s, first + c, there, d);
        output_grad_tile(g, dy, next, first + c, there && both, e);
        for (int i = 0; i < PLACES; i++)
            ct_short_narrow_pair(d[i], e[i], v + i * plane + 2 * c);
    }
}

SHORT void ct_short_output_grad(const struct ct_short_tiles *g,
                                const uint16_t *dy, int64_t first,
                                int64_t from, int64_t to,
                                const struct ct_short_at *at, uint16_t *v)
{
    for (int64_t t = from; t < to; t += 2, v += at->step) {
        const struct spot s = spot_of(g, t), next = spot_of(g, t + 1);

        output_grad_two(g, dy, &s, &next, t + 1 < to, first, at->plane, v);
    }
}

SHORT void ct_short_output_grad_images(const struct ct_short_tiles *g,
                                       const uint16_t *dy, int64_t first,
                                       int64_t image, bool both,
                                       const struct ct_short_at *at,
                                       uint16_t *v)
{
    const int64_t n = g->rows * g->columns;

    for (int64_t t = 0; t < n; t++, v += at->step) {
        const struct spot s    = spot_of(g, image * n + t);
        const struct spot next = { s.image + 1, s.row, s.column };

        output_grad_two(g, dy, &s, &next, both, first, at->plane, v);
    }
}

/* y = v, or what sum and relu make of it; NaN stays. */
PART void put(uint16_t *y, wide v, const struct ct_short_end *end)
{
    if (end->sum)
        v += ct_short_widen(y);
    if (end->relu)
        v = ct_short_clamp(v);
    ct_short_narrow(v, y);
}

SHORT void ct_short_output(const struct ct_short_tiles *g, const float *m,
                           int64_t plane, int64_t first, int64_t from,
                           int64_t to, const struct ct_short_end *end,
                           uint16_t *y)
{
    for (int64_t t = from; t < to; t++, m += COLUMNS) {
        const struct spot s = spot_of(g, t);
        const int64_t rows = g->out_h - s.row, columns = g->out_w - s.column;

        for (int64_t c = 0; c < COLUMNS && first + c < g->out; c += LANES) {
            const wide add = _mm512_loadu_ps(end->bias + first + c);
            uint16_t *at   = y + first + c +
                           ((s.image * g->out_h + s.row) * g->out_w +
                            s.column) * g->out_all;
            wide e[PLACES], half[M * SIDE], out[M * M];

            for (int i = 0; i < PLACES; i++)
                e[i] = _mm512_loadu_ps(m + i * plane + c);
            for (int j = 0; j < SIDE; j++)
                output_1d(e + j, SIDE, half + j, SIDE);
            for (int j = 0; j < M; j++)
                output_1d(half + j * SIDE, 1, out + j * M, 1);
            for (int j = 0; j < M && j < rows; j++)
                for (int k = 0; k < M && k < columns; k++)
                    put(at + (j * g->out_w + k) * g->out_all,
                        out[j * M + k] + add, end);
        }
    }
}

/* Row i of a tile of weights in the basis. */
PART void weights_row(const float *w, int i, wide *e)
{
    wide g[TAPS], half[SIDE * M];

    for (int j = 0; j < TAPS; j++)
        g[j] = _mm512_loadu_ps(w + (j * TILE + i) * TILE);
    for (int j = 0; j < M; j++)
        weights_1d(g + j, M, half + j, M);
    for (int j = 0; j < SIDE; j++)
        weights_1d(half + j * M, 1, e + j * SIDE, 1);
}

SHORT void ct_short_weights(const float *w, bool turned, int64_t plane,
                            uint16_t *u)
{
    float other[TAPS * TILE * TILE];

    if (turned)
        ct_wino_turn_tile(w, other);
    for (int i = 0; i < TILE; i += 2) {
        wide d[PLACES], e[PLACES];

        weights_row(turned ? other : w, i, d);
        weights_row(turned ? other : w, i + 1, e);
        for (int j = 0; j < PLACES; j++)
            ct_short_narrow_pair(d[j], e[j], u + j * plane + i * COLUMNS);
    }
}

SHORT void ct_short_weights_grad(const float *du, int64_t plane, bool add,
                                 float *dw)
{
    for (int i = 0; i < TILE; i++) {
        wide e[PLACES], half[SIDE * M], g[TAPS];

        for (int j = 0; j < PLACES; j++)
            e[j] = _mm512_loadu_ps(du + j * plane + i * COLUMNS);
        for (int j = 0; j < SIDE; j++)
            weights_grad_1d(e + j * SIDE, 1, half + j * M, 1);
        for (int j = 0; j < M; j++)
            weights_grad_1d(half + j, M, g + j, M);
        for (int j = 0; j < TAPS; j++) {
            float *to = dw + (j * TILE + i) * TILE;

            if (add)
                g[j] += _mm512_loadu_ps(to);
            _mm512_storeu_ps(to, g[j]);
        }
    }
}

#define EACH_ROW(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)
#define SUMS(r) wide left##r = { 0 }, right##r = { 0 };
#define MULTIPLY(r, at)                                                      \
    {                                                                        \
        const __m512bh x = (__m512bh)_mm512_set1_epi32(at);                  \
                                                                             \
        left##r  = _mm512_dpbf16_ps(left##r, b0, x);                         \
        right##r = _mm512_dpbf16_ps(right##r, b1, x);                        \
    }
#define TAKE_B                                                               \
    const __m512bh b0 = (__m512bh)_mm512_loadu_si512(b);                     \
    const __m512bh b1 = (__m512bh)_mm512_loadu_si512(b + COLUMNS);
#define ADD_OLD(r)                                                           \
    left##r += _mm512_loadu_ps(c + (r) * COLUMNS);                           \
    right##r += _mm512_loadu_ps(c + (r) * COLUMNS + LANES);
#define STORE(r)                                                             \
    _mm512_storeu_ps(c + (r) * COLUMNS, left##r);                            \
    _mm512_storeu_ps(c + (r) * COLUMNS + LANES, right##r);

typedef int32_t pair __attribute__((may_alias));

SHORT void ct_short_product(int64_t n, const uint16_t *a, int64_t row,
                            int64_t next, const uint16_t *b, bool add,
                            float *c)
{
    const pair *p = (const pair *)(const void *)a;

    EACH_ROW(SUMS)
    for (int64_t k = 0; k < n; k++, p += next, b += 2 * COLUMNS) {
        TAKE_B
#define OF_ROW(r) MULTIPLY(r, p[(r) * row])
        EACH_ROW(OF_ROW)
#undef OF_ROW
    }
    if (add) {
        EACH_ROW(ADD_OLD)
    }
    EACH_ROW(STORE)
}

SHORT void ct_short_product_rows(const struct ct_short_parts *s,
                                 const uint16_t *const row[CT_SHORT_ROWS],
                                 const uint16_t *b, float *c)
{
    const uint16_t *const first = b;

    EACH_ROW(SUMS)
    for (int64_t i = 0; i < s->parts; i++) {
#define BEGIN(r)                                                             \
    const pair *p##r = (const pair *)(const void *)(row[r] + s->a[i]);
        EACH_ROW(BEGIN)
#undef BEGIN
        b = first + s->b[i];
        for (int64_t k = 0; k < s->n; k++, b += 2 * COLUMNS) {
            TAKE_B
#define OF_ROW(r) MULTIPLY(r, p##r[k])
            EACH_ROW(OF_ROW)
#undef OF_ROW
        }
    }
    EACH_ROW(STORE)
}

SHORT void ct_short_product_steps(int64_t n, const int32_t *at,
                                  const uint16_t *a, const uint16_t *b,
                                  bool add, float *c)
{
    EACH_ROW(SUMS)
    for (int64_t k = 0; k < n; k++, b += 2 * COLUMNS) {
        const pair *p = (const pair *)(const void *)a + at[k];

        TAKE_B
#define OF_ROW(r) MULTIPLY(r, p[r])
        EACH_ROW(OF_ROW)
#undef OF_ROW
    }
    if (add) {
        EACH_ROW(ADD_OLD)
    }
    EACH_ROW(STORE)
}
#endif
