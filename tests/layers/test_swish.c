/* test_swish.c - x times its logistic function.
 *
 *     s = 1 / (1 + e^-2) = 0.880797 at x = 1 and beta = 2, where y = s and
 *     y' = 2 y + s (1 - 2 y) = 1.090784; at x = -1, s = 0.119203, y = -s and
 *     y' = -2 s + s (1 + 2 s) = -0.090784 */
#include "testing/layer_test.h"

static const float x[] = { 0, 1, -1, 60 }, dy[] = { 1, 2, 10, 3 };

static void check(struct layer_case *c)
{
    case_bottom(c, 0, CT_SHAPE(2, 2), x);
    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 0, 0.880797078f, -0.119202922f, 60);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-5f, 0.5f, 2.18156850f, -0.90784249f,
                3);
}

TEST_EACH_DEVICE(swish, large_values_pass_and_negative_ones_fade)
{
    check(layer_case(dev, "type: 'Swish' swish_param { beta: 2 }"));
}

TEST_EACH_DEVICE(swish, works_in_place)
{
    struct layer_case *c =
        layer_case(dev, "type: 'Swish' swish_param { beta: 2 }");

    case_in_place(c);
    check(c);
}

TEST_EACH_DEVICE(swish, gradient_matches_finite_differences)
{
    struct layer_case *c = layer_case(dev, "type: 'Swish'");

    case_bottom_range(c, 0, CT_SHAPE(2, 3, 4), -4, 4);
    ASSERT_OK(case_setup(c));
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}
