/* test_softmax.c - softmax along the middle axis. */
#include "device/softmax.h"

#include "layouts.h"

TEST(softmax, two_classes_by_hand)
{
    /* exp(ln 3) : exp(0) is 3 : 1. */
    static const float x[] = { 1.0986123f, 0 };
    float y[2], dx[2];

    ct_softmax(1, 2, 1, x, y);
    ASSERT_FLOAT(0.75, y[0], 1e-6);
    ASSERT_FLOAT(0.25, y[1], 1e-6);
    ct_softmax_backward(1, 2, 1, y, (float[]){ 1, 0 }, dx);
    ASSERT_FLOAT(0.1875, dx[0], 1e-6);
    ASSERT_FLOAT(-0.1875, dx[1], 1e-6);
}

/* The definition, in double. */
static double want(const float *x, int64_t c, int64_t inner, int64_t o,
                   int64_t j, int64_t i)
{
    double top = -INFINITY, sum = 0;

    x += o * c * inner + i;
    for (int64_t k = 0; k < c; k++)
        top = fmax(top, x[k * inner]);
    for (int64_t k = 0; k < c; k++)
        sum += exp(x[k * inner] - top);
    return exp(x[j * inner] - top) / sum;
}

TEST(softmax, agrees_with_the_definition_for_all_shapes)
{
    static const int64_t shapes[][3] = { { 3, 1000, 1 }, { 2, 7, 100 },
                                         { 5, 1, 3 },    { 1, 3, 64 },
                                         { 2, 33, 1 },   { 1, 2, 1 } };

    for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
        int64_t outer = shapes[s][0], c = shapes[s][1], inner = shapes[s][2];
        int64_t n = outer * c * inner;
        float *x = test_values(n, s, 0), *y = test_floats(n);

        for (int64_t i = 0; i < n; i++)
            x[i] *= 20;
        ct_softmax(outer, c, inner, x, y);
        for (int64_t i = 0; i < n; i++) {
            double w = want(x, c, inner, i / inner / c, i / inner % c,
                            i % inner);

            ASSERT_FLOAT(1, y[i] / w, 1e-5);
        }
        ct_softmax(outer, c, inner, x, x); /* in place */
        for (int64_t i = 0; i < n; i++)
            ASSERT_FLOAT(y[i], x[i], 0);
    }
}

TEST(softmax, large_and_far_values_neither_overflow_nor_turn_into_nan)
{
    static const float x[] = { 1e30f, 1e30f, -1e30f, -INFINITY };
    float y[4];

    ct_softmax(1, 4, 1, x, y);
    ASSERT_FLOAT(0.5, y[0], 1e-6);
    ASSERT_FLOAT(0.5, y[1], 1e-6);
    ASSERT_FLOAT(0, y[2], 0);
    ASSERT_FLOAT(0, y[3], 0);
}

TEST(softmax, nan_stays_visible)
{
    static const float x[] = { 1, NAN, 2 };
    float y[3];

    ct_softmax(1, 3, 1, x, y);
    ASSERT(isnan(y[1]));
}

TEST(softmax, backward_agrees_with_the_definition)
{
    static const int64_t shapes[][3] = { { 3, 100, 1 }, { 2, 7, 100 } };

    for (size_t s = 0; s < 2; s++) {
        int64_t outer = shapes[s][0], c = shapes[s][1], inner = shapes[s][2];
        int64_t n = outer * c * inner;
        float *y = test_values(n, 1, 0), *dy = test_values(n, 2, 0);
        float *dx = test_floats(n);

        ct_softmax_backward(outer, c, inner, y, dy, dx);
        for (int64_t i = 0; i < n; i++) {
            const int64_t first = i / inner / c * c * inner + i % inner;
            double dot = 0;

            for (int64_t k = 0; k < c; k++)
                dot += (double)y[first + k * inner] * dy[first + k * inner];
            ASSERT_FLOAT(y[i] * (dy[i] - dot), dx[i], 1e-5);
        }
    }
}
