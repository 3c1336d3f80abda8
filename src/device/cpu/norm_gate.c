/* norm_gate.c - channel-wise arithmetic with a rectifier behind it.
 *
 * Memory is walked as in norm_ref.c.  Rows of blocks have loops of their own,
 * whose widths the compiler knows. */
#include "device/norm_gate.h"

#include "device/cpu/norm_pieces.h"

/* A gate's and a line's values for the channels of one piece. */
struct gate {
    float t[WIDE], a[WIDE], d[WIDE]; /* shift, scale, bias */
};

static void gate_take(const struct piece *p, const struct ct_channel_gate *of,
                      struct gate *g)
{
    take(p, of->shift, 0, g->t);
    take(p, of->scale, 1, g->a);
    take(p, of->bias, 0, g->d);
}

CT_INLINE void lanes_map(const float *x, int64_t rows, int64_t stride,
                         int64_t width, bool shorts, const struct gate *g,
                         float *y)
{
    for (int64_t r = 0; r < rows; r++)
        CT_SIMD_EACH (l, width) {
            float z = (get(x, r * stride + l, shorts) - g->t[l]) * g->a[l] +
                      g->d[l];

            put(y, r * stride + l, shorts, z < 0 ? 0 : z); /* NaN stays */
        }
}

CT_SIMD static void piece_map(const struct cut *k, const struct piece *p,
                              const float *x,
                              const struct ct_channel_gate *of, float *y)
{
    struct gate g;

    gate_take(p, of, &g);
    x = at(x, p->at, k->shorts);
    y = out_at(y, p->at, k->shorts);
    if (k->run) {
        const float t = g.t[0], a = g.a[0], d = g.d[0];

        CT_SIMD_EACH (i, p->rows) {
            float z = (x[i] - t) * a + d;

            y[i] = z < 0 ? 0 : z;
        }
    } else if (k->blocked && k->stride == 16) {
        lanes_map(x, p->rows, 16, 16, false, &g, y);
    } else if (k->blocked) {
        lanes_map(x, p->rows, 8, 8, false, &g, y);
    } else {
#define MAP(stride, width, shorts)                                           \
    lanes_map(x, p->rows, stride, width, shorts, &g, y)
        EACH_LANES(k, p, MAP);
#undef MAP
    }
}

void ct_gate_map(const struct ct_channels *v, const float *x,
                 const struct ct_channel_gate *gate, float *y)
{
    const struct cut k = cut_of(v);

    CT_FOR_ROWS (i, pieces(&k), k.piece * k.width) {
        struct piece p = piece_of(v, &k, i);

        piece_map(&k, &p, x, gate, y);
    }
}

CT_INLINE void lanes_sums(const float *dy, const float *x, int64_t rows,
                          int64_t stride, int64_t width, bool shorts,
                          const struct gate *g, float *sum, float *dot)
{
    float s[WIDE] = { 0 }, e[WIDE] = { 0 };

    for (int64_t r = 0; r < rows; r++)
        CT_SIMD_EACH (l, width) {
            const float dyl = get(dy, r * stride + l, shorts);
            float far = get(x, r * stride + l, shorts) - g->t[l];
            float in  = far * g->a[l] + g->d[l] > 0 ? dyl : 0;

            s[l] += in;
            e[l] += in * far;
        }
    CT_SIMD_EACH (l, width) {
        sum[l] = s[l];
        dot[l] = e[l];
    }
}

CT_SIMD static void block_sums(const float *dy, const float *x, int64_t rows,
                               int64_t b, const struct gate *g, float *sum,
                               float *dot)
{
    const int64_t n = rows * b / CT_LANES, half = b - CT_LANES;
    const ct_v8f t[2] = { CT_LOAD8(g->t), CT_LOAD8(g->t + half) };
    const ct_v8f a[2] = { CT_LOAD8(g->a), CT_LOAD8(g->a + half) };
    const ct_v8f d[2] = { CT_LOAD8(g->d), CT_LOAD8(g->d + half) };
    ct_v8f s[4] = { { 0 } }, e[4] = { { 0 } }, far, in;
    ct_v8i open;

#define ADD(i, j)                                                            \
    (far  = CT_LOAD8(x + (i) * CT_LANES) - t[(j) % 2],                       \
     open = far * a[(j) % 2] + d[(j) % 2] > 0,                               \
     in   = (ct_v8f)((ct_v8i)CT_LOAD8(dy + (i) * CT_LANES) & open),          \
     s[j] += in, e[j] += in * far)
    EACH_VECTOR(n, ADD);
#undef ADD
    fold(b, s);
    fold(b, e);
    for (int64_t l = 0; l < b; l++) {
        sum[l] = s[l / CT_LANES][l % CT_LANES];
        dot[l] = e[l / CT_LANES][l % CT_LANES];
    }
}

CT_SIMD static void run_sums(const float *dy, const float *x, int64_t n,
                             const struct gate *g, float *sum, float *dot)
{
    const float t = g->t[0], a = g->a[0], d = g->d[0];
    float s = 0, e = 0;

    CT_SIMD_SUM2 (i, n, s, e) {
        const float dyi = dy[i];
        float far = x[i] - t;
        float in  = far * a + d > 0 ? dyi : 0;

        s += in;
        e += in * far;
    }
    *sum = s;
    *dot = e;
}

CT_SIMD static void piece_sums(const struct cut *k, const struct piece *p,
                               const float *dy, const float *x,
                               const struct ct_channel_gate *of, float *sum,
                               float *dot)
{
    struct gate g;
    float s[WIDE], e[WIDE];

    gate_take(p, of, &g);
    dy = at(dy, p->at, k->shorts);
    x  = at(x, p->at, k->shorts);
    if (k->run) {
        run_sums(dy, x, p->rows, &g, sum, dot);
        return;
    }
    if (k->blocked)
        block_sums(dy, x, p->rows, k->stride, &g, s, e);
    else
#define SUMS(stride, width, shorts)                                          \
    lanes_sums(dy, x, p->rows, stride, width, shorts, &g, s, e)
        EACH_LANES(k, p, SUMS);
#undef SUMS
    for (int64_t l = 0; l < p->real; l++) {
        sum[l] = s[l];
        dot[l] = e[l];
    }
}

void ct_gate_sums(const struct ct_channels *v, const float *dy,
                  const float *x, const struct ct_channel_gate *gate,
                  float *scratch, float *sum, float *dot)
{
    const struct cut k = cut_of(v);
    const int64_t parts = k.lots * k.per_lot;

    CT_FOR_ROWS (i, pieces(&k), k.piece * k.width) {
        struct piece p = piece_of(v, &k, i);
        float *to      = scratch + p.part * v->c + p.first;

        piece_sums(&k, &p, dy, x, gate, to, to + parts * v->c);
    }
    add_parts(v, &k, scratch, sum, dot);
}

CT_INLINE void lanes_join(const float *dy, const float *x, int64_t rows,
                          int64_t stride, int64_t width, bool shorts,
                          const struct gate *g,
                          const struct ct_channel_line *f, float *dx)
{
    for (int64_t r = 0; r < rows; r++)
        CT_SIMD_EACH (l, width) {
            const float dyl = get(dy, r * stride + l, shorts);
            float far = get(x, r * stride + l, shorts) - g->t[l];
            float in  = far * g->a[l] + g->d[l] > 0 ? dyl : 0;

            put(dx, r * stride + l, shorts,
                f->a[l] * in + (f->b[l] * far + f->d[l]));
        }
}

CT_SIMD static void piece_join(const struct cut *k, const struct piece *p,
                               const float *dy, const float *x,
                               const struct ct_channel_gate *of,
                               const struct ct_channel_line *line, float *dx)
{
    float a[WIDE], b[WIDE], d[WIDE];
    const struct ct_channel_line f = { a, b, NULL, d };
    struct gate g;

    gate_take(p, of, &g);
    take(p, line->a, 1, a);
    take(p, line->b, 0, b);
    take(p, line->d, 0, d);
    dy = at(dy, p->at, k->shorts);
    x  = at(x, p->at, k->shorts);
    dx = out_at(dx, p->at, k->shorts);
    if (k->run)
        CT_SIMD_EACH (i, p->rows) {
            const float dyi = dy[i];
            float far = x[i] - g.t[0];
            float in  = far * g.a[0] + g.d[0] > 0 ? dyi : 0;

            dx[i] = a[0] * in + (b[0] * far + d[0]);
        }
    else if (k->blocked && k->stride == 16)
        lanes_join(dy, x, p->rows, 16, 16, false, &g, &f, dx);
    else if (k->blocked)
        lanes_join(dy, x, p->rows, 8, 8, false, &g, &f, dx);
    else
#define JOIN(stride, width, shorts)                                          \
    lanes_join(dy, x, p->rows, stride, width, shorts, &g, &f, dx)
        EACH_LANES(k, p, JOIN);
#undef JOIN
}

void ct_gate_join(const struct ct_channels *v, const float *dy,
                  const float *x, const struct ct_channel_gate *gate,
                  const struct ct_channel_line *line, float *dx)
{
    const struct cut k = cut_of(v);

    CT_FOR_ROWS (i, pieces(&k), k.piece * k.width) {
        struct piece p = piece_of(v, &k, i);

        piece_join(&k, &p, dy, x, gate, line, dx);
    }
}
