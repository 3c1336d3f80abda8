/* test_norm.c - channel-wise arithmetic in every layout, against sums in
 * double over the plain array. */
#include "cortado/shape.h"
#include "device/norm_gate.h"

#include "layouts.h"

static const struct ct_channels views[] = {
    { 2, 3, 5, CT_PLAIN, 0, CT_F32 },     { 3, 19, 7, CT_PLAIN, 0, CT_F32 },
    { 5, 21, 1, CT_PLAIN, 0, CT_F32 },    { 1, 16, 1100, CT_PLAIN, 0, CT_F32 },
    { 2, 1, 600, CT_PLAIN, 0, CT_F32 },   { 700, 70, 1, CT_PLAIN, 0, CT_F32 },
    { 2, 8, 3, CT_PLAIN, 0, CT_F32 },     { 1, 1, 1, CT_PLAIN, 0, CT_F32 },
};
enum { N_VIEWS = sizeof(views) / sizeof(views[0]) };

/* The channel of value i of a plain array. */
static int64_t channel(const struct ct_channels *v, int64_t i)
{
    return i / v->inner % v->c;
}

static int64_t count(const struct ct_channels *v)
{
    return v->n * v->c * v->inner;
}

/* Runs check(plain view, layout) for every view and layout. */
static void each_layout(void (*check)(const struct ct_channels *v,
                                      enum ct_layout layout))
{
    for (int i = 0; i < N_VIEWS; i++)
        for (int layout = CT_PLAIN; layout <= CT_NHWC; layout++)
            check(&views[i], (enum ct_layout)layout);
}

static float *laid(const struct ct_channels *v, enum ct_layout layout,
                   const float *x)
{
    return test_in_layout(x, v->n, v->c, v->inner, layout);
}

static void check_moments(const struct ct_channels *v, enum ct_layout layout)
{
    struct ct_channels w = { v->n, v->c, v->inner, layout, 0, CT_F32 };
    float *x = test_values(count(v), 1, 0);
    float *mean = test_floats(v->c), *var = test_floats(v->c);
    float *scratch = test_floats(ct_channel_scratch(&w));
    double m = (double)(v->n * v->inner);

    for (int64_t i = 0; i < count(v); i++)
        x[i] += 100; /* a mean far above the spread */
    ct_channel_moments(&w, laid(v, layout, x), scratch, mean, var);
    for (int64_t c = 0; c < v->c; c++) {
        double sum = 0, square = 0;

        for (int64_t i = 0; i < count(v); i++)
            sum += channel(v, i) == c ? x[i] : 0;
        for (int64_t i = 0; i < count(v); i++)
            if (channel(v, i) == c)
                square += (x[i] - sum / m) * (x[i] - sum / m);
        ASSERT_FLOAT(sum / m, mean[c], 1e-5);
        ASSERT_FLOAT(square / m, var[c], 1e-5);
    }
}

TEST(norm, moments_hold_in_every_layout_with_a_large_mean)
{
    each_layout(check_moments);
}

static void check_sums(const struct ct_channels *v, enum ct_layout layout)
{
    struct ct_channels w = { v->n, v->c, v->inner, layout, 0, CT_F32 };
    float *dy = test_values(count(v), 1, 0), *x = test_values(count(v), 2, 0);
    float *shift = test_values(v->c, 3, 0);
    float *sum = test_floats(v->c), *dot = test_floats(v->c);
    float *alone = test_floats(v->c);
    float *scratch = test_floats(ct_channel_scratch(&w));

    ct_channel_sums(&w, laid(v, layout, dy), laid(v, layout, x), shift,
                    scratch, sum, dot);
    ct_channel_sums(&w, laid(v, layout, dy), NULL, NULL, scratch, alone, NULL);
    for (int64_t c = 0; c < v->c; c++) {
        double s = 0, d = 0;

        for (int64_t i = 0; i < count(v); i++)
            if (channel(v, i) == c) {
                s += dy[i];
                d += dy[i] * ((double)x[i] - shift[c]);
            }
        ASSERT_FLOAT(s, sum[c], 1e-4);
        ASSERT_FLOAT(s, alone[c], 1e-4);
        ASSERT_FLOAT(d, dot[c], 1e-4);
    }
}

TEST(norm, sums_hold_in_every_layout)
{
    each_layout(check_sums);
}

static void check_maps(const struct ct_channels *v, enum ct_layout layout)
{
    struct ct_channels w = { v->n, v->c, v->inner, layout, 0, CT_F32 };
    float *x = test_values(count(v), 1, 0), *dy = test_values(count(v), 5, 0);
    float *t = test_values(v->c, 2, 0), *a = test_values(v->c, 3, 0);
    float *b = test_values(v->c, 4, 0), *d = test_values(v->c, 6, 0);
    float *want = test_floats(count(v)), *got = laid(v, layout, x);
    float *kept = test_values(test_elements(v->n, v->c, v->inner, layout), 9,
                              0);

    for (int64_t i = 0; i < count(v); i++)
        want[i] = (x[i] - t[channel(v, i)]) * a[channel(v, i)] +
                  b[channel(v, i)];
    ct_channel_map(&w, got, t, a, b, got, kept); /* in place */
    test_same("map", want, got, v->n, v->c, v->inner, layout, 1e-6f);
    test_same("kept", x, kept, v->n, v->c, v->inner, layout, 0);
    for (int64_t i = 0; i < count(v); i++)
        want[i] = x[i] + b[channel(v, i)];
    ct_channel_map(&w, laid(v, layout, x), NULL, NULL, b, got, NULL);
    test_same("bias", want, got, v->n, v->c, v->inner, layout, 1e-6f);
    for (int64_t i = 0; i < count(v); i++)
        want[i] = a[channel(v, i)] * dy[i] +
                  b[channel(v, i)] * (x[i] - t[channel(v, i)]) +
                  d[channel(v, i)];
    got = laid(v, layout, dy);
    ct_channel_join(&w, got, laid(v, layout, x),
                    &(struct ct_channel_line){ a, b, t, d }, got);
    test_same("join", want, got, v->n, v->c, v->inner, layout, 1e-6f);
}

TEST(norm, maps_hold_in_every_layout_and_leave_padding_zero)
{
    each_layout(check_maps);
}

/* Against sums in double; where z is within rounding of 0 either side is right,
 * so dy is 0 there. */
static void check_gate(const struct ct_channels *v, enum ct_layout layout)
{
    struct ct_channels w = { v->n, v->c, v->inner, layout, 0, CT_F32 };
    float *x = test_values(count(v), 1, 0), *dy = test_values(count(v), 5, 0);
    float *t = test_values(v->c, 2, 0), *a = test_values(v->c, 3, 0);
    float *b = test_values(v->c, 4, 0), *d = test_values(v->c, 6, 0);
    const struct ct_channel_gate gate = { t, a, d };
    const struct ct_channel_line line = { b, d, NULL, a };
    float *y = test_floats(count(v)), *dx = test_floats(count(v));
    double *s = test_floats(4 * v->c), *e = s + v->c;
    float *sum = test_floats(v->c), *dot = test_floats(v->c), *got;
    float *scratch = test_floats(ct_channel_scratch(&w));

    for (int64_t i = 0; i < count(v); i++) {
        const int64_t c = channel(v, i);
        double far = (double)x[i] - t[c], z = far * a[c] + d[c], in;

        dy[i] = fabs(z) < 1e-5 ? 0 : dy[i];
        in    = z > 0 ? dy[i] : 0;
        y[i]  = (float)fmax(z, 0);
        s[c] += in;
        e[c] += in * far;
        dx[i] = (float)(b[c] * in + d[c] * far + a[c]);
    }
    got = laid(v, layout, x);
    ct_gate_map(&w, got, &gate, got); /* in place */
    test_same("map", y, got, v->n, v->c, v->inner, layout, 1e-6f);
    got = laid(v, layout, dy);
    ct_gate_sums(&w, got, laid(v, layout, x), &gate, scratch, sum, dot);
    for (int64_t c = 0; c < v->c; c++) {
        ASSERT_FLOAT(s[c], sum[c], 1e-4);
        ASSERT_FLOAT(e[c], dot[c], 1e-4);
    }
    ct_gate_join(&w, got, laid(v, layout, x), &gate, &line, got);
    test_same("join", dx, got, v->n, v->c, v->inner, layout, 1e-6f);
}

TEST(norm, gates_hold_in_every_layout_and_leave_padding_zero)
{
    each_layout(check_gate);
}

/* A 2 x 9 x 3 x 2 array times coefficients of any run of its axes. */
static void check_repeat(int axis, int n_axes, enum ct_layout layout)
{
    const struct ct_shape shape = CT_SHAPE(2, 9, 3, 2);
    const struct ct_channels array = { 2, 9, 6, layout, 0, CT_F32 };
    struct ct_repeat r = ct_repeat_of(
        &array, ct_shape_count(&shape, 0, axis),
        ct_shape_count(&shape, axis, axis + n_axes),
        ct_shape_count(&shape, axis + n_axes, CT_END));
    int64_t n = 2 * 9 * 6;
    float *x = test_values(n, 1, 0), *dy = test_values(n, 2, 0);
    float *want = test_floats(n), *back = test_floats(n);
    float *got, *dx, *scale, *bias, *sum, *dot, *scratch;

    scale   = test_values(r.view.c, 3, 0);
    bias    = test_values(r.view.c, 4, 0);
    sum     = test_floats(r.view.c);
    dot     = test_floats(r.view.c);
    scratch = test_floats(ct_repeat_scratch(&r));
    got     = test_in_layout(x, 2, 9, 6, layout);
    for (int64_t i = 0; i < n; i++) {
        int64_t q = i / r.view.inner % r.view.c;

        want[i] = x[i] * scale[q] + bias[q];
        back[i] = dy[i] * scale[q];
    }
    dx = test_in_layout(dy, 2, 9, 6, layout);
    ct_repeat_backward(&r, dx, got, scale, scratch,
                       &(struct ct_repeat_grads){ sum, dot, dx });
    ct_repeat_map(&r, got, scale, bias, got, NULL);
    test_same("repeat", want, got, 2, 9, 6, layout, 1e-6f);
    test_same("repeat backward", back, dx, 2, 9, 6, layout, 1e-6f);
    for (int64_t q = 0; q < r.view.c; q++) {
        double s = 0, d = 0;

        for (int64_t i = 0; i < n; i++)
            if (i / r.view.inner % r.view.c == q) {
                s += dy[i];
                d += (double)dy[i] * x[i];
            }
        ASSERT_FLOAT(s, sum[q], 1e-5);
        ASSERT_FLOAT(d, dot[q], 1e-5);
    }
}

TEST(norm, coefficients_repeat_over_any_axes_in_every_layout)
{
    for (int axis = 0; axis < 4; axis++)
        for (int n_axes = 0; axis + n_axes <= 4; n_axes++)
            for (int layout = CT_PLAIN; layout <= CT_NHWC; layout++)
                check_repeat(axis, n_axes, (enum ct_layout)layout);
}

/* Slices that are worked on one by one give what the whole gives. */
TEST(norm, slices_cover_every_channel_once_in_every_layout)
{
    const struct ct_channels v = { 7, 70, 3000, CT_PLAIN, 0, CT_F32 };
    const int64_t n = test_elements(7, 70, 3000, CT_BLOCKED16);
    float *x = test_values(n, 1, 0), *y = test_floats(n), *z = test_floats(n);
    float *scale = test_values(70, 2, 0);

    for (int layout = CT_PLAIN; layout <= CT_NHWC; layout++) {
        struct ct_channels w = v;
        int64_t next = 0;

        w.layout = (enum ct_layout)layout;
        ASSERT(ct_channel_slices(&w) > 1 || ct_device_cpu_threads() > 6);
        for (int64_t i = 0; i < ct_channel_slices(&w); i++) {
            struct ct_slice s = ct_channel_slice(&w, i);

            ASSERT_INT(next, s.first);
            next += s.view.c;
            ct_channel_map(&s.view, x + s.at, NULL, scale + s.first, NULL,
                           y + s.at, NULL);
        }
        ASSERT_INT(70, next);
        ct_channel_map(&w, x, NULL, scale, NULL, z, NULL);
        ASSERT_INT(0, memcmp(y, z, (size_t)n * sizeof(*y)));
    }
}

/* The vectors (3, 4), of length 5, and (0, 2), of length 2, at two positions;
 * as one vector they have length sqrt(29). */
TEST(norm, unit_vectors_by_hand)
{
    static const float x[] = { 3, 0, 4, 2 }, scale[] = { 10, 100 };
    struct ct_unit v = { 1, 2, 2, false, false, 0 };
    float y[4], inverse[2], parts[2];

    ASSERT_INT(2, ct_unit_vectors(&v));
    ct_unit_forward(&v, x, scale, parts, inverse, y);
    ASSERT_FLOAT(6, y[0], 1e-5);
    ASSERT_FLOAT(0, y[1], 1e-5);
    ASSERT_FLOAT(80, y[2], 1e-4);
    ASSERT_FLOAT(100, y[3], 1e-4);
    v.whole = v.shared = true;
    ASSERT_INT(1, ct_unit_vectors(&v));
    ct_unit_forward(&v, x, scale, parts, inverse, y);
    ASSERT_FLOAT(30 / sqrt(29), y[0], 1e-5);
    ASSERT_FLOAT(20 / sqrt(29), y[3], 1e-5);
}
