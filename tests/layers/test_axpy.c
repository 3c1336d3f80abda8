/* test_axpy.c - channels scaled and added. */
#include "testing/layer_test.h"

static const float a[] = { 2, -1 }, x[] = { 1, 2, 3, 4 };
static const float y[] = { 10, 20, 30, 40 }, df[] = { 1, 2, 3, 4 };

static struct layer_case *channels(struct ct_shape scale)
{
    struct layer_case *c = layer_case(CT_CPU, "name: 'ax' type: 'Axpy'");

    case_bottom(c, 0, scale, a);
    case_bottom(c, 1, CT_SHAPE(1, 2, 1, 2), x);
    case_bottom(c, 2, CT_SHAPE(1, 2, 1, 2), y);
    return c;
}

TEST(axpy, each_channel_is_scaled_and_added)
{
    static const struct ct_shape scale[] = { { 4, { 1, 2, 1, 1 } },
                                             { 2, { 1, 2 } } };

    for (int i = 0; i < 2; i++) {
        struct layer_case *c = channels(scale[i]);

        ASSERT_OK(case_setup(c));
        ASSERT_SHAPE(c, "top[0]", 1, 2, 1, 2);
        case_top_diff(c, 0, df);
        ASSERT_OK(case_backward(c));
        ASSERT_NEAR(c, "top[0].data", 0, 12, 24, 27, 36);
        ASSERT_NEAR(c, "bottom[0].diff", 0, 5, 25);
        ASSERT_NEAR(c, "bottom[1].diff", 0, 2, 4, -3, -4);
        ASSERT_NEAR(c, "bottom[2].diff", 0, 1, 2, 3, 4);
    }
}

TEST(axpy, gradient_matches_finite_differences)
{
    struct layer_case *c = layer_case(CT_CPU, "type: 'Axpy'");

    case_bottom(c, 0, CT_SHAPE(2, 3, 1, 1), NULL);
    case_bottom(c, 1, CT_SHAPE(2, 3, 5, 4), NULL);
    case_bottom(c, 2, CT_SHAPE(2, 3, 5, 4), NULL);
    ASSERT_OK(case_setup(c));
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}

TEST(axpy, shapes_that_do_not_fit_are_refused)
{
    struct layer_case *c = channels(CT_SHAPE(2, 1));

    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer ax: bottom 0", ct_last_error());
    c = channels(CT_SHAPE(1, 2));
    case_bottom(c, 2, CT_SHAPE(1, 2, 2, 1), y);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer ax: bottom 1", ct_last_error());
}
