/* test_device_softmax.c - softmax along the middle axis. */
#include "device/cpu/softmax_impl.h"
#include "layouts.h"

static const struct ct_impl *const impls[] = {
    &ct_softmax_ref.head,
#ifdef CT_HAVE_ONEDNN
    &ct_softmax_onednn.head,
#endif
};
enum { N_IMPLS = sizeof(impls) / sizeof(impls[0]) };

static struct ct_softmax softmax_of(int64_t outer, int64_t c, int64_t inner,
                                    const struct ct_impl *impl)
{
    struct ct_softmax p = { outer, c, inner, { { 0 } } };

    for (int i = 0; i < CT_PASSES; i++)
        ASSERT_OK(ct_impl_try(impl, &p, (enum ct_pass)i, &p.pass[i]));
    return p;
}

TEST(device_softmax, two_classes_by_hand)
{
    /* exp(ln 3) : exp(0) is 3 : 1. */
    static const float x[] = { 1.0986123f, 0 };
    float y[2], dx[2];

    for (int k = 0; k < N_IMPLS; k++) {
        struct ct_softmax p = softmax_of(1, 2, 1, impls[k]);

        ASSERT_OK(ct_softmax_forward(&p, x, y));
        ASSERT_FLOAT(0.75, y[0], 1e-6);
        ASSERT_FLOAT(0.25, y[1], 1e-6);
        ASSERT_OK(ct_softmax_backward(&p, y, (float[]){ 1, 0 }, dx));
        ASSERT_FLOAT(0.1875, dx[0], 1e-6);
        ASSERT_FLOAT(-0.1875, dx[1], 1e-6);
        ct_softmax_fini(&p);
    }
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

static void check_forward(const int64_t *shape, const struct ct_impl *impl)
{
    int64_t c = shape[1], inner = shape[2], n = shape[0] * c * inner;
    struct ct_softmax p = softmax_of(shape[0], c, inner, impl);
    float *x = test_values(n, (uint64_t)c, 0), *y = test_floats(n);

    for (int64_t i = 0; i < n; i++)
        x[i] *= 20;
    ASSERT_OK(ct_softmax_forward(&p, x, y));
    for (int64_t i = 0; i < n; i++) {
        double w = want(x, c, inner, i / inner / c, i / inner % c, i % inner);

        ASSERT_FLOAT(1, y[i] / w, 1e-5);
    }
    ASSERT_OK(ct_softmax_forward(&p, x, x)); /* in place */
    for (int64_t i = 0; i < n; i++)
        ASSERT_FLOAT(y[i], x[i], 0);
    ct_softmax_fini(&p);
}

TEST(device_softmax, agrees_with_the_definition_for_all_shapes)
{
    static const int64_t shapes[][3] = { { 3, 1000, 1 }, { 2, 7, 100 },
                                         { 5, 1, 3 },    { 1, 3, 64 },
                                         { 2, 33, 1 },   { 1, 2, 1 },
                                         { 70, 10, 1 },  { 4, 16, 1 } };

    for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++)
        for (int k = 0; k < N_IMPLS; k++)
            check_forward(shapes[s], impls[k]);
}

TEST(device_softmax, large_and_far_values_neither_overflow_nor_turn_into_nan)
{
    static const float x[] = { 1e30f, 1e30f, -1e30f, -INFINITY };
    float y[4];

    for (int k = 0; k < N_IMPLS; k++) {
        struct ct_softmax p = softmax_of(1, 4, 1, impls[k]);

        ASSERT_OK(ct_softmax_forward(&p, x, y));
        ASSERT_FLOAT(0.5, y[0], 1e-6);
        ASSERT_FLOAT(0.5, y[1], 1e-6);
        ASSERT_FLOAT(0, y[2], 0);
        ASSERT_FLOAT(0, y[3], 0);
        ct_softmax_fini(&p);
    }
}

TEST(device_softmax, nan_stays_visible)
{
    static const float x[] = { 1, NAN, 2 };
    float y[3];

    for (int k = 0; k < N_IMPLS; k++) {
        struct ct_softmax p = softmax_of(1, 3, 1, impls[k]);

        ASSERT_OK(ct_softmax_forward(&p, x, y));
        ASSERT(isnan(y[1]));
        ct_softmax_fini(&p);
    }
}

static void check_backward(const int64_t *shape, const struct ct_impl *impl)
{
    int64_t c = shape[1], inner = shape[2], n = shape[0] * c * inner;
    struct ct_softmax p = softmax_of(shape[0], c, inner, impl);
    float *y = test_values(n, 1, 0), *dy = test_values(n, 2, 0);
    float *dx = test_floats(n);

    ASSERT_OK(ct_softmax_backward(&p, y, dy, dx));
    for (int64_t i = 0; i < n; i++) {
        const int64_t first = i / inner / c * c * inner + i % inner;
        double dot = 0;

        for (int64_t k = 0; k < c; k++)
            dot += (double)y[first + k * inner] * dy[first + k * inner];
        ASSERT_FLOAT(y[i] * (dy[i] - dot), dx[i], 1e-5);
    }
    ASSERT_OK(ct_softmax_backward(&p, y, dy, dy)); /* in place */
    for (int64_t i = 0; i < n; i++)
        ASSERT_FLOAT(dx[i], dy[i], 0);
    ct_softmax_fini(&p);
}

TEST(device_softmax, backward_agrees_with_the_definition)
{
    static const int64_t shapes[][3] = { { 3, 100, 1 }, { 2, 7, 100 },
                                         { 9, 10, 1 } };

    for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++)
        for (int k = 0; k < N_IMPLS; k++)
            check_backward(shapes[s], impls[k]);
}

TEST(device_softmax, nothing_to_do_is_done)
{
    struct ct_softmax p = { 0 };

    ASSERT_OK(ct_softmax_choose(&p, 0, 3, 1));
    ASSERT_OK(ct_softmax_forward(&p, NULL, NULL));
    ASSERT_OK(ct_softmax_choose(&p, 2, 0, 1));
    ASSERT_OK(ct_softmax_forward(&p, NULL, NULL));
    ct_softmax_fini(&p);
}
