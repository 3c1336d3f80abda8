/* test_tanh.c - the hyperbolic tangent.  tanh 1 = 0.761594 */
#include "testing/layer_test.h"

static const float x[] = { 0, 1, -1, 100, -100, 1e-4f };
static const float dy[] = { 2, 1, 10, 3, 4, 1 };

static void check(struct layer_case *c)
{
    case_bottom(c, 0, CT_SHAPE(2, 3), x);
    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 0, 0.761594156f, -0.761594156f, 1, -1,
                1e-4f);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-5f, 2, 0.419974342f, 4.19974342f, 0, 0,
                1);
}

TEST_EACH_DEVICE(tanh, values_lie_between_minus_one_and_one)
{
    check(layer_case(dev, "type: 'TanH'"));
}

TEST_EACH_DEVICE(tanh, works_in_place)
{
    struct layer_case *c = layer_case(dev, "type: 'TanH'");

    case_in_place(c);
    check(c);
}

TEST_EACH_DEVICE(tanh, gradient_matches_finite_differences)
{
    struct layer_case *c = layer_case(dev, "type: 'TanH'");

    case_bottom_range(c, 0, CT_SHAPE(2, 3, 4), -2, 2);
    ASSERT_OK(case_setup(c));
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}
