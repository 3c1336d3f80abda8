/* winograd.c - Winograd's changes of basis, eight channels at a time.
 *
 * Each is done to the columns of a tile, then to the rows of the result.  The
 * functions are written for any m and made for 2 and 4, so that the compiler
 * knows all sizes. */
#include "device/cpu/winograd.h"

#include <string.h>

#include "device/cpu/simd.h"

enum { SIDE = 6 };

/* Eight channels in a register or on the stack, where they are aligned. */
typedef float wide __attribute__((vector_size(32)));

/* e = B^T d, values `s` apart. */
CT_INLINE void input_1d(const wide *d, int s, wide *e, int t)
{
    const wide d1 = d[s], d2 = d[2 * s], d3 = d[3 * s], d4 = d[4 * s];
    const wide even = d4 - 4 * d2, odd = d3 - 4 * d1;
    const wide near = d4 - d2, far = 2 * (d3 - d1);

    e[0]     = 4 * d[0] - 5 * d2 + d4;
    e[t]     = even + odd;
    e[2 * t] = even - odd;
    e[3 * t] = near + far;
    e[4 * t] = near - far;
    e[5 * t] = 4 * d1 - 5 * d3 + d[5 * s];
}

/* d = B e */
CT_INLINE void input_grad_1d(const wide *e, int s, wide *d, int t)
{
    const wide e0 = e[0], e5 = e[5 * s];
    const wide sum1 = e[s] + e[2 * s], sub1 = e[s] - e[2 * s];
    const wide sum2 = e[3 * s] + e[4 * s], sub2 = e[3 * s] - e[4 * s];

    d[0]     = 4 * e0;
    d[t]     = 4 * (e5 - sub1) - 2 * sub2;
    d[2 * t] = -5 * e0 - 4 * sum1 - sum2;
    d[3 * t] = sub1 + 2 * sub2 - 5 * e5;
    d[4 * t] = e0 + sum1 + sum2;
    d[5 * t] = e5;
}

/* y = A^T e */
CT_INLINE void output_1d(int m, const wide *e, int s, wide *y, int t)
{
    const wide sum1 = e[s] + e[2 * s], sub1 = e[s] - e[2 * s];
    const wide sum2 = e[3 * s] + e[4 * s], sub2 = e[3 * s] - e[4 * s];

    y[0] = e[0] + sum1 + sum2;
    if (m == 2) {
        y[t] = sub1 + 2 * sub2 + e[5 * s];
    } else {
        y[t]     = sub1 + 2 * sub2;
        y[2 * t] = sum1 + 4 * sum2;
        y[3 * t] = sub1 + 8 * sub2 + e[5 * s];
    }
}

/* e = A y */
CT_INLINE void output_grad_1d(int m, const wide *y, int s, wide *e, int t)
{
    const wide y0 = y[0], y1 = y[s];
    const wide y2 = m == 4 ? y[2 * s] : y0 - y0;
    const wide y3 = m == 4 ? y[3 * s] : y0 - y0;
    const wide even1 = m == 4 ? y0 + y2 : y0, odd1 = m == 4 ? y1 + y3 : y1;
    const wide even2 = m == 4 ? y0 + 4 * y2 : y0;
    const wide odd2 = m == 4 ? 2 * y1 + 8 * y3 : 2 * y1;

    e[0]     = y0;
    e[t]     = even1 + odd1;
    e[2 * t] = even1 - odd1;
    e[3 * t] = even2 + odd2;
    e[4 * t] = even2 - odd2;
    e[5 * t] = m == 4 ? y3 : y1;
}

/* e = G g, values `s` apart: Horner's rule at each point. */
CT_INLINE void weights_1d(int r, const wide *g, int s, wide *e, int t)
{
    wide even1 = g[0], even2 = g[0], odd1 = g[s], odd2 = 2 * g[s];

    for (int i = 2; i < r; i++) {
        const float power = (float)(1 << i);

        if (i % 2) {
            odd1 += g[i * s];
            odd2 += power * g[i * s];
        } else {
            even1 += g[i * s];
            even2 += power * g[i * s];
        }
    }
    e[0]     = g[0] * 0.25f;
    e[t]     = (even1 + odd1) * (-1.0f / 6);
    e[2 * t] = (even1 - odd1) * (-1.0f / 6);
    e[3 * t] = (even2 + odd2) * (1.0f / 24);
    e[4 * t] = (even2 - odd2) * (1.0f / 24);
    e[5 * t] = g[(r - 1) * s];
}

/* g = G^T e */
CT_INLINE void weights_grad_1d(int r, const wide *e, int s, wide *g, int t)
{
    const wide sum1 = (e[s] + e[2 * s]) * (-1.0f / 6);
    const wide sub1 = (e[s] - e[2 * s]) * (-1.0f / 6);
    const wide sum2 = (e[3 * s] + e[4 * s]) * (1.0f / 24);
    const wide sub2 = (e[3 * s] - e[4 * s]) * (1.0f / 24);

    for (int i = 0; i < r; i++)
        g[i * t] = i % 2 ? sub1 + (float)(1 << i) * sub2
                         : sum1 + (float)(1 << i) * sum2;
    g[0] += e[0] * 0.25f;
    g[(r - 1) * t] += e[5 * s];
}

/* The part of a span of `n` from `at` on that lies inside [0, size). */
struct span {
    int64_t from, to;
};

CT_INLINE struct span inside(int64_t at, int64_t n, int64_t size)
{
    struct span s = { at < 0 ? -at : 0, size - at < n ? size - at : n };

    s.to = s.to < s.from ? s.from : s.to;
    return s;
}

/* A square of n x n from (y, x) on of an h x w plane; zero outside. */
CT_INLINE void square_in(const float *plane, int64_t h, int64_t w, int64_t b,
                         int64_t y, int64_t x, int n, wide *to)
{
    const float *from = plane + (y * w + x) * b;

    if (y >= 0 && x >= 0 && y + n <= h && x + n <= w) {
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++)
                to[i * n + j] = CT_LOAD8(from + (i * w + j) * b);
        return;
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            to[i * n + j] =
                y + i >= 0 && y + i < h && x + j >= 0 && x + j < w
                    ? CT_LOAD8(from + (i * w + j) * b)
                    : (ct_v8f){ 0 };
}

CT_INLINE void places_out(const wide *e, int64_t plane, float *to)
{
    for (int i = 0; i < CT_WINO_PLACES; i++)
        *(ct_v8f *)(to + i * plane) = e[i];
}

CT_INLINE void places_in(const float *from, int64_t plane, wide *e)
{
    for (int i = 0; i < CT_WINO_PLACES; i++)
        e[i] = CT_LOAD8(from + i * plane);
}

CT_SIMD static void all_input(const struct ct_wino *g, const float *x,
                              const struct ct_wino_at *at, float *v)
{
    for (int64_t i = 0; i < g->rows * g->columns; i++) {
        const int64_t row    = i / g->columns * g->m - g->pad_h;
        const int64_t column = i % g->columns * g->m - g->pad_w;

        for (int64_t c = 0; c < g->b; c += CT_LANES) {
            wide d[CT_WINO_PLACES], e[CT_WINO_PLACES];

            square_in(x + c, g->h, g->w, g->b, row, column, SIDE, d);
            for (int j = 0; j < SIDE; j++)
                input_1d(d + j, SIDE, e + j, SIDE);
            for (int j = 0; j < SIDE; j++)
                input_1d(e + j * SIDE, 1, d + j * SIDE, 1);
            places_out(d, at->plane, v + i * at->step + c);
        }
    }
}

CT_SIMD static void all_input_grad(const struct ct_wino *g, const float *dv,
                                   const struct ct_wino_at *at, float *dx)
{
    memset(dx, 0, (size_t)(g->h * g->w * g->b) * sizeof(*dx));
    for (int64_t i = 0; i < g->rows * g->columns; i++) {
        const int64_t y = i / g->columns * g->m - g->pad_h;
        const int64_t x = i % g->columns * g->m - g->pad_w;
        const struct span rows    = inside(y, SIDE, g->h);
        const struct span columns = inside(x, SIDE, g->w);

        for (int64_t c = 0; c < g->b; c += CT_LANES) {
            float *to = dx + (y * g->w + x) * g->b + c;
            wide d[CT_WINO_PLACES], e[CT_WINO_PLACES];

            places_in(dv + i * at->step + c, at->plane, d);
            for (int j = 0; j < SIDE; j++)
                input_grad_1d(d + j, SIDE, e + j, SIDE);
            for (int j = 0; j < SIDE; j++)
                input_grad_1d(e + j * SIDE, 1, d + j * SIDE, 1);
            for (int64_t j = rows.from; j < rows.to; j++)
                for (int64_t k = columns.from; k < columns.to; k++) {
                    float *p = to + (j * g->w + k) * g->b;

                    *(ct_v8f *)p = CT_LOAD8(p) + d[j * SIDE + k];
                }
        }
    }
}

/* y = v, or what sum and relu make of it; NaN stays. */
CT_INLINE void put(float *y, const wide *out, const wide *add, bool sum,
                   bool relu)
{
    const wide v = sum ? *out + *add + CT_LOAD8(y) : *out + *add;

    *(ct_v8f *)y = relu ? (wide)((ct_v8i)v & ~(v < 0)) : v;
}

CT_INLINE void output_tiles(int m, const struct ct_wino *g, const float *v,
                            const struct ct_wino_at *at, const float *bias,
                            float *y)
{
    for (int64_t i = 0; i < g->rows * g->columns; i++) {
        const int64_t row = i / g->columns * m, column = i % g->columns * m;
        const struct span rows    = inside(row, m, g->out_h);
        const struct span columns = inside(column, m, g->out_w);

        for (int64_t c = 0; c < g->b; c += CT_LANES) {
            float *to = y + (row * g->out_w + column) * g->b + c;
            const wide add = CT_LOAD8(bias + c);
            wide e[CT_WINO_PLACES], half[4 * SIDE], out[4 * 4];

            places_in(v + i * at->step + c, at->plane, e);
            for (int j = 0; j < SIDE; j++)
                output_1d(m, e + j, SIDE, half + j, SIDE);
            for (int j = 0; j < m; j++)
                output_1d(m, half + j * SIDE, 1, out + j * m, 1);
            for (int j = 0; j < m && j < rows.to; j++)
                for (int k = 0; k < m && k < columns.to; k++)
                    put(to + (j * g->out_w + k) * g->b, &out[j * m + k], &add,
                        g->sum, g->relu);
        }
    }
}

CT_SIMD static void all_output(const struct ct_wino *g, const float *v,
                               const struct ct_wino_at *at, const float *bias,
                               float *y)
{
    if (g->m == 2)
        output_tiles(2, g, v, at, bias, y);
    else
        output_tiles(4, g, v, at, bias, y);
}

CT_INLINE void output_grad_tiles(int m, const struct ct_wino *g,
                                 const float *dy, const struct ct_wino_at *at,
                                 float *dv)
{
    for (int64_t i = 0; i < g->rows * g->columns; i++) {
        const int64_t row = i / g->columns * m, column = i % g->columns * m;

        for (int64_t c = 0; c < g->b; c += CT_LANES) {
            wide in[4 * 4], half[4 * SIDE], e[CT_WINO_PLACES];

            square_in(dy + c, g->out_h, g->out_w, g->b, row, column, m, in);
            for (int j = 0; j < m; j++)
                output_grad_1d(m, in + j, m, half + j, m);
            for (int j = 0; j < SIDE; j++)
                output_grad_1d(m, half + j * m, 1, e + j * SIDE, 1);
            places_out(e, at->plane, dv + i * at->step + c);
        }
    }
}

CT_SIMD static void all_output_grad(const struct ct_wino *g, const float *dy,
                                    const struct ct_wino_at *at, float *dv)
{
    if (g->m == 2)
        output_grad_tiles(2, g, dy, at, dv);
    else
        output_grad_tiles(4, g, dy, at, dv);
}

CT_INLINE void weights_eight(int r, const struct ct_wino_kernels *k,
                             const float *w, const struct ct_wino_at *at,
                             float *u)
{
    const int64_t left = k->columns - k->first;
    const int n        = left < CT_LANES ? (int)left : CT_LANES;

    for (int64_t i = 0; i < k->rows; i++) {
        const float *from = w + k->first * k->column_at + i * k->row_at;
        wide g[5 * 5] = { { 0 } }, half[SIDE * 5], e[CT_WINO_PLACES];

        for (int j = 0; j < r * r; j++)
            for (int l = 0; l < n; l++)
                g[j][l] = from[l * k->column_at + j];
        for (int j = 0; j < r; j++)
            weights_1d(r, g + j, r, half + j, r);
        for (int j = 0; j < SIDE; j++)
            weights_1d(r, half + j * r, 1, e + j * SIDE, 1);
        places_out(e, at->plane, u + i * at->step + k->first);
    }
}

CT_SIMD static void all_weights(const struct ct_wino *g,
                                const struct ct_wino_kernels *k, const float *w,
                                const struct ct_wino_at *at, float *u)
{
    if (g->r == 3)
        weights_eight(3, k, w, at, u);
    else
        weights_eight(5, k, w, at, u);
}

CT_INLINE void weights_grad_eight(int r, const struct ct_wino_kernels *k,
                                  const float *du, const struct ct_wino_at *at,
                                  float *dw)
{
    const int64_t left = k->columns - k->first;
    const int n        = left < CT_LANES ? (int)left : CT_LANES;

    for (int64_t i = 0; i < k->rows; i++) {
        float *to = dw + k->first * k->column_at + i * k->row_at;
        wide e[CT_WINO_PLACES], half[SIDE * 5], g[5 * 5];

        places_in(du + i * at->step + k->first, at->plane, e);
        for (int j = 0; j < SIDE; j++)
            weights_grad_1d(r, e + j * SIDE, 1, half + j * r, 1);
        for (int j = 0; j < r; j++)
            weights_grad_1d(r, half + j, r, g + j, r);
        for (int j = 0; j < r * r; j++)
            for (int l = 0; l < n; l++)
                to[l * k->column_at + j] += g[j][l];
    }
}

CT_SIMD static void all_weights_grad(const struct ct_wino *g,
                                     const struct ct_wino_kernels *k,
                                     const float *du,
                                     const struct ct_wino_at *at, float *dw)
{
    if (g->r == 3)
        weights_grad_eight(3, k, du, at, dw);
    else
        weights_grad_eight(5, k, du, at, dw);
}

enum { TILE = 16, TAPS = 9 };

CT_SIMD static void tile_in(const float *w, const struct ct_wino_at *at,
                            float *u)
{
    for (int i = 0; i < TILE; i++)
        for (int c = 0; c < TILE; c += CT_LANES) {
            wide g[TAPS], half[SIDE * 3], e[CT_WINO_PLACES];

            for (int j = 0; j < TAPS; j++)
                g[j] = CT_LOAD8(w + (j * TILE + i) * TILE + c);
            for (int j = 0; j < 3; j++)
                weights_1d(3, g + j, 3, half + j, 3);
            for (int j = 0; j < SIDE; j++)
                weights_1d(3, half + j * 3, 1, e + j * SIDE, 1);
            places_out(e, at->plane, u + i * at->step + c);
        }
}

CT_SIMD static void turn_tile(const float *restrict w, float *restrict turned)
{
    for (int j = 0; j < TAPS; j++)
        for (int o = 0; o < TILE; o++)
            for (int i = 0; i < TILE; i++)
                turned[((TAPS - 1 - j) * TILE + o) * TILE + i] =
                    w[(j * TILE + i) * TILE + o];
}

CT_SIMD static void tile_grad(const float *du, const struct ct_wino_at *at,
                              bool add, float *dw)
{
    for (int i = 0; i < TILE; i++)
        for (int c = 0; c < TILE; c += CT_LANES) {
            wide e[CT_WINO_PLACES], half[SIDE * 3], g[TAPS];

            places_in(du + i * at->step + c, at->plane, e);
            for (int j = 0; j < SIDE; j++)
                weights_grad_1d(3, e + j * SIDE, 1, half + j * 3, 1);
            for (int j = 0; j < 3; j++)
                weights_grad_1d(3, half + j, 3, g + j, 3);
            for (int j = 0; j < TAPS; j++) {
                float *to = dw + (j * TILE + i) * TILE + c;

                *(ct_v8f *)to = g[j] + (add ? CT_LOAD8(to) : (ct_v8f){ 0 });
            }
        }
}

/* What the loader picks by the CPU cannot be seen from outside this file. */
void ct_wino_input(const struct ct_wino *g, const float *x,
                   const struct ct_wino_at *at, float *v)
{
    all_input(g, x, at, v);
}

void ct_wino_input_grad(const struct ct_wino *g, const float *dv,
                        const struct ct_wino_at *at, float *dx)
{
    all_input_grad(g, dv, at, dx);
}

void ct_wino_output(const struct ct_wino *g, const float *v,
                    const struct ct_wino_at *at, const float *bias, float *y)
{
    all_output(g, v, at, bias, y);
}

void ct_wino_output_grad(const struct ct_wino *g, const float *dy,
                         const struct ct_wino_at *at, float *dv)
{
    all_output_grad(g, dy, at, dv);
}

void ct_wino_weights(const struct ct_wino *g, const struct ct_wino_kernels *k,
                     const float *w, const struct ct_wino_at *at, float *u)
{
    all_weights(g, k, w, at, u);
}

void ct_wino_weights_grad(const struct ct_wino *g,
                          const struct ct_wino_kernels *k, const float *du,
                          const struct ct_wino_at *at, float *dw)
{
    all_weights_grad(g, k, du, at, dw);
}

void ct_wino_tile(const float *w, bool turned, const struct ct_wino_at *at,
                  float *u)
{
    float other[TAPS * TILE * TILE];

    if (turned)
        turn_tile(w, other);
    tile_in(turned ? other : w, at, u);
}

void ct_wino_turn_tile(const float *w, float *turned)
{
    turn_tile(w, turned);
}

void ct_wino_tile_grad(const float *du, const struct ct_wino_at *at, bool add,
                       float *dw)
{
    tile_grad(du, at, add, dw);
}
