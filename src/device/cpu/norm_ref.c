/* norm_ref.c - channel-wise arithmetic in any layout.
 *
 * Sums are made per piece in float, at most PIECE values, which the first-level
 * cache holds for a second look, then over pieces in double: the result does
 * not depend on the number of threads. */
#include "device/norm.h"

#include "device/cpu/loop.h"
#include "device/cpu/norm_pieces.h"

enum { SLICE = 1 << 17 };

int64_t ct_channel_scratch(const struct ct_channels *v)
{
    struct cut k = cut_of(v);

    return 2 * k.lots * k.per_lot * v->c;
}

/* Channels of a slice: blocks stay whole, and the cores' second-level caches,
 * SLICE floats each, hold what one pass leaves for the next. */
static int64_t slice_width(const struct ct_channels *v)
{
    const int64_t each = v->n * v->inner > 0 ? v->n * v->inner : 1;
    const int64_t unit = v->inner == 1 && v->layout == CT_PLAIN ? TILE : 16;
    int64_t width = ct_device_cpu_threads() * (int64_t)SLICE / each;

    if (v->dtype == CT_BF16)
        return v->c > 0 ? v->c : 1;
    width = width / unit * unit;
    return width < unit ? unit : width;
}

/* Arrays of bfloat16 are not cut: `at` counts floats. */
int64_t ct_channel_slices(const struct ct_channels *v)
{
    const int64_t width = slice_width(v);

    return (v->c + width - 1) / width;
}

struct ct_slice ct_channel_slice(const struct ct_channels *v, int64_t i)
{
    const int64_t width = slice_width(v);
    struct ct_slice s = { *v, i * width, i * width };

    s.view.c   = v->c - s.first < width ? v->c - s.first : width;
    s.view.all = v->all ? v->all : v->c;
    if (v->layout != CT_NHWC)
        s.at = s.first * v->inner;
    return s;
}

/* A piece's moments: a first mean m, then the distances d from it.  Their sum
 * e is what rounding took from m, and is given back to it. */
CT_INLINE void lanes_moments(const float *x, int64_t rows, int64_t stride,
                             int64_t width, bool shorts, float *mean,
                             float *square)
{
    const float part = 1 / (float)rows;
    float m[WIDE] = { 0 }, e[WIDE] = { 0 }, q[WIDE] = { 0 };

    for (int64_t r = 0; r < rows; r++)
        CT_SIMD_EACH (l, width)
            m[l] += get(x, r * stride + l, shorts);
    CT_SIMD_EACH (l, width)
        m[l] *= part;
    for (int64_t r = 0; r < rows; r++)
        CT_SIMD_EACH (l, width) {
            float d = get(x, r * stride + l, shorts) - m[l];

            e[l] += d;
            q[l] += d * d;
        }
    CT_SIMD_EACH (l, width) {
        mean[l]   = m[l] + e[l] * part;
        square[l] = q[l] - e[l] * e[l] * part;
    }
}

CT_SIMD static void block_moments(const float *x, int64_t rows, int64_t b,
                                  float *mean, float *square)
{
    const int64_t n = rows * b / CT_LANES;
    const float part = 1 / (float)rows;
    ct_v8f m[4] = { { 0 } }, e[4] = { { 0 } }, q[4] = { { 0 } }, d;

#define ADD(i, j) m[j] += CT_LOAD8(x + (i) * CT_LANES)
    EACH_VECTOR(n, ADD);
#undef ADD
    fold(b, m);
    m[0] *= part;
    m[1] *= part;
#define ADD(i, j)                                                            \
    (d = CT_LOAD8(x + (i) * CT_LANES) - m[(j) % 2], e[j] += d, q[j] += d * d)
    EACH_VECTOR(n, ADD);
#undef ADD
    fold(b, e);
    fold(b, q);
    for (int64_t l = 0; l < b; l++) {
        float rest = e[l / CT_LANES][l % CT_LANES];

        mean[l]   = m[l / CT_LANES][l % CT_LANES] + rest * part;
        square[l] = q[l / CT_LANES][l % CT_LANES] - rest * rest * part;
    }
}

CT_SIMD static void run_moments(const float *x, int64_t n, float *mean,
                                float *square)
{
    float m = 0, e = 0, q = 0;

    CT_SIMD_SUM (i, n, m)
        m += x[i];
    m /= (float)n;
    CT_SIMD_SUM2 (i, n, e, q) {
        float d = x[i] - m;

        e += d;
        q += d * d;
    }
    *mean   = m + e / (float)n;
    *square = q - e * e / (float)n;
}

/* Writes piece p's mean and sum of squared distances from it. */
CT_SIMD static void piece_moments(const struct cut *k, const struct piece *p,
                                  const float *x, float *mean, float *square)
{
    float m[WIDE], q[WIDE];

    if (k->run) {
        run_moments(x + p->at, p->rows, mean, square);
        return;
    }
    if (k->blocked)
        block_moments(x + p->at, p->rows, k->stride, m, q);
    else
#define MOMENTS(stride, width, shorts)                                       \
    lanes_moments(at(x, p->at, shorts), p->rows, stride, width, shorts, m, q)
        EACH_LANES(k, p, MOMENTS);
#undef MOMENTS
    for (int64_t l = 0; l < p->real; l++) {
        mean[l]   = m[l];
        square[l] = q[l];
    }
}

void ct_channel_moments(const struct ct_channels *v, const float *x,
                        float *scratch, float *mean, float *var)
{
    const struct cut k = cut_of(v);
    const int64_t parts = k.lots * k.per_lot;
    const double count = (double)v->n * (double)v->inner;
    float *means = scratch, *squares = scratch + parts * v->c;

    CT_FOR_ROWS (i, pieces(&k), k.piece * k.width) {
        struct piece p = piece_of(v, &k, i);
        int64_t to = p.part * v->c + p.first;

        piece_moments(&k, &p, x, means + to, squares + to);
    }
    CT_FOR_ROWS (c, v->c, 4 * parts) {
        double m = 0, q = 0;

        for (int64_t i = 0; i < parts; i++)
            m += rows_of(&k, i) * (double)means[i * v->c + c];
        m = count > 0 ? m / count : 0;
        for (int64_t i = 0; i < parts; i++) {
            double d = (double)means[i * v->c + c] - m;

            q += (double)squares[i * v->c + c] + rows_of(&k, i) * d * d;
        }
        mean[c] = (float)m;
        var[c]  = count > 0 ? (float)(q / count) : 0;
    }
}

CT_INLINE void lanes_sums(const float *dy, const float *x, int64_t rows,
                          int64_t stride, int64_t width, bool shorts,
                          const float *shift, float *sum, float *dot)
{
    float s[WIDE] = { 0 }, d[WIDE] = { 0 };

    if (x)
        for (int64_t r = 0; r < rows; r++)
            CT_SIMD_EACH (l, width) {
                const int64_t i = r * stride + l;
                const float v   = get(dy, i, shorts);

                s[l] += v;
                d[l] += v * (get(x, i, shorts) - shift[l]);
            }
    else
        for (int64_t r = 0; r < rows; r++)
            CT_SIMD_EACH (l, width)
                s[l] += get(dy, r * stride + l, shorts);
    CT_SIMD_EACH (l, width) {
        sum[l] = s[l];
        dot[l] = d[l];
    }
}

CT_SIMD static void block_sums(const float *dy, const float *x, int64_t rows,
                               int64_t b, const float *shift, float *sum,
                               float *dot)
{
    const int64_t n = rows * b / CT_LANES;
    ct_v8f s[4] = { { 0 } }, d[4] = { { 0 } };
    ct_v8f t[2] = { CT_LOAD8(shift), CT_LOAD8(shift + b - CT_LANES) }, v;

#define ADD(i, j) s[j] += CT_LOAD8(dy + (i) * CT_LANES)
#define BOTH(i, j)                                                           \
    (v = CT_LOAD8(dy + (i) * CT_LANES), s[j] += v,                           \
     d[j] += v * (CT_LOAD8(x + (i) * CT_LANES) - t[(j) % 2]))
    if (x)
        EACH_VECTOR(n, BOTH);
    else
        EACH_VECTOR(n, ADD);
#undef ADD
#undef BOTH
    fold(b, s);
    fold(b, d);
    for (int64_t l = 0; l < b; l++) {
        sum[l] = s[l / CT_LANES][l % CT_LANES];
        dot[l] = d[l / CT_LANES][l % CT_LANES];
    }
}

CT_SIMD static void run_sums(const float *dy, const float *x, int64_t n,
                             float shift, float *sum, float *dot)
{
    float s = 0, d = 0;

    if (x)
        CT_SIMD_SUM2 (i, n, s, d) {
            s += dy[i];
            d += dy[i] * (x[i] - shift);
        }
    else
        CT_SIMD_SUM (i, n, s)
            s += dy[i];
    *sum = s;
    *dot = d;
}

CT_SIMD static void piece_sums(const struct cut *k, const struct piece *p,
                               const float *dy, const float *x,
                               const float *shift, float *sum, float *dot)
{
    float t[WIDE], s[WIDE], d[WIDE];

    dy = at(dy, p->at, k->shorts);
    x  = x ? at(x, p->at, k->shorts) : NULL;
    take(p, shift, 0, t);
    if (k->run) {
        run_sums(dy, x, p->rows, t[0], sum, dot);
        return;
    }
    if (k->blocked)
        block_sums(dy, x, p->rows, k->stride, t, s, d);
    else
#define SUMS(stride, width, shorts)                                          \
    lanes_sums(dy, x, p->rows, stride, width, shorts, t, s, d)
        EACH_LANES(k, p, SUMS);
#undef SUMS
    for (int64_t l = 0; l < p->real; l++) {
        sum[l] = s[l];
        dot[l] = d[l];
    }
}

void ct_channel_sums(const struct ct_channels *v, const float *dy,
                     const float *x, const float *shift, float *scratch,
                     float *sum, float *dot)
{
    const struct cut k = cut_of(v);
    const int64_t parts = k.lots * k.per_lot;
    float *sums = scratch, *dots = scratch + parts * v->c;

    CT_FOR_ROWS (i, pieces(&k), k.piece * k.width) {
        struct piece p = piece_of(v, &k, i);
        int64_t to = p.part * v->c + p.first;

        piece_sums(&k, &p, dy, x, shift, sums + to, dots + to);
    }
    add_parts(v, &k, scratch, sum, x ? dot : NULL);
}

/* What ct_channel_map() does to each channel; one of a piece's. */
struct map {
    const float *shift, *scale, *bias;
};

CT_INLINE void lanes_map(const float *x, int64_t rows, int64_t stride,
                         int64_t width, bool shorts, const struct map *f,
                         float *y)
{
    for (int64_t r = 0; r < rows; r++)
        CT_SIMD_EACH (l, width)
            put(y, r * stride + l, shorts,
                (get(x, r * stride + l, shorts) - f->shift[l]) * f->scale[l] +
                    f->bias[l]);
}

CT_SIMD static void piece_map(const struct cut *k, const struct piece *p,
                              const float *x, const struct map *of, float *y,
                              float *kept)
{
    float t[WIDE], a[WIDE], d[WIDE];
    const struct map f = { t, a, d };
    const int64_t whole = k->run || k->blocked ? p->rows : 1;

    take(p, of->shift, 0, t);
    take(p, of->scale, 1, a);
    take(p, of->bias, 0, d);
    x = at(x, p->at, k->shorts);
    y = out_at(y, p->at, k->shorts);
    /* Before y is written, which may be x; the piece stays in the cache. */
    if (kept)
        for (int64_t r = 0; r < p->rows; r += whole)
            memcpy(out_at(kept, p->at + r * k->stride, k->shorts),
                   at(x, r * k->stride, k->shorts),
                   (size_t)(whole * p->width) *
                       (k->shorts ? sizeof(uint16_t) : sizeof(*x)));
    if (k->run)
        CT_SIMD_EACH (i, p->rows)
            y[i] = (x[i] - t[0]) * a[0] + d[0];
    else if (k->blocked && k->stride == 16)
        lanes_map(x, p->rows, 16, 16, false, &f, y);
    else if (k->blocked)
        lanes_map(x, p->rows, 8, 8, false, &f, y);
    else
#define MAP(stride, width, shorts)                                           \
    lanes_map(x, p->rows, stride, width, shorts, &f, y)
        EACH_LANES(k, p, MAP);
#undef MAP
}

void ct_channel_map(const struct ct_channels *v, const float *x,
                    const float *shift, const float *scale, const float *bias,
                    float *y, float *kept)
{
    const struct cut k = cut_of(v);
    const struct map f = { shift, scale, bias };

    CT_FOR_ROWS (i, pieces(&k), k.piece * k.width) {
        struct piece p = piece_of(v, &k, i);

        piece_map(&k, &p, x, &f, y, kept);
    }
}

CT_INLINE void lanes_join(const float *dy, const float *x, int64_t rows,
                          int64_t stride, int64_t width, bool shorts,
                          const struct ct_channel_line *f, float *dx)
{
    for (int64_t r = 0; r < rows; r++)
        CT_SIMD_EACH (l, width)
            put(dx, r * stride + l, shorts,
                f->a[l] * get(dy, r * stride + l, shorts) +
                    (f->b[l] * (get(x, r * stride + l, shorts) -
                                f->shift[l]) + f->d[l]));
}

CT_SIMD static void piece_join(const struct cut *k, const struct piece *p,
                               const float *dy, const float *x,
                               const struct ct_channel_line *line, float *dx)
{
    float a[WIDE], b[WIDE], t[WIDE], d[WIDE];
    const struct ct_channel_line f = { a, b, t, d };

    take(p, line->a, 1, a);
    take(p, line->b, 0, b);
    take(p, line->shift, 0, t);
    take(p, line->d, 0, d);
    dy = at(dy, p->at, k->shorts);
    x  = at(x, p->at, k->shorts);
    dx = out_at(dx, p->at, k->shorts);
    if (k->run)
        CT_SIMD_EACH (i, p->rows)
            dx[i] = a[0] * dy[i] + (b[0] * (x[i] - t[0]) + d[0]);
    else if (k->blocked && k->stride == 16)
        lanes_join(dy, x, p->rows, 16, 16, false, &f, dx);
    else if (k->blocked)
        lanes_join(dy, x, p->rows, 8, 8, false, &f, dx);
    else
#define JOIN(stride, width, shorts)                                          \
    lanes_join(dy, x, p->rows, stride, width, shorts, &f, dx)
        EACH_LANES(k, p, JOIN);
#undef JOIN
}

void ct_channel_join(const struct ct_channels *v, const float *dy,
                     const float *x, const struct ct_channel_line *line,
                     float *dx)
{
    const struct cut k = cut_of(v);

    CT_FOR_ROWS (i, pieces(&k), k.piece * k.width) {
        struct piece p = piece_of(v, &k, i);

        piece_join(&k, &p, dy, x, line, dx);
    }
}
