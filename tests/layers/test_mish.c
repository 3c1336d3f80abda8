/* test_mish.c - x tanh(log(1 + e^x)).
 *
 *     tanh(log 2) = 0.6;  at 1: y = 0.86509839, y' = 1.04903620;
 *     at -1: y = -0.30340146, y' = 0.05921675 */
#include "testing/layer_test.h"

static const float x[] = { 0, 1, -1, 60 }, dy[] = { 1, 2, 10, 3 };

static void check(struct layer_case *c)
{
    case_bottom(c, 0, CT_SHAPE(2, 2), x);
    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 0, 0.86509839f, -0.30340146f, 60);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-5f, 0.6f, 2.0980724f, 0.5921675f, 3);
}

TEST_EACH_DEVICE(mish, large_values_pass_and_negative_ones_fade)
{
    check(layer_case(dev, "type: 'Mish'"));
}

TEST_EACH_DEVICE(mish, works_in_place)
{
    struct layer_case *c = layer_case(dev, "type: 'Mish'");

    case_in_place(c);
    check(c);
}

TEST_EACH_DEVICE(mish, backward_overwrites)
{
    struct layer_case *c = layer_case(dev, "type: 'Mish'");

    case_bottom(c, 0, CT_SHAPE(2, 2), x);
    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "bottom[0].diff", 1e-5f, 0.6f, 2.0980724f, 0.5921675f, 3);
}

TEST_EACH_DEVICE(mish, gradient_matches_finite_differences)
{
    struct layer_case *c = layer_case(dev, "type: 'Mish'");

    case_bottom_range(c, 0, CT_SHAPE(2, 3, 4), -4, 4);
    ASSERT_OK(case_setup(c));
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}
