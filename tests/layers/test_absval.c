/* test_absval.c - the absolute value, by hand and by finite differences. */
#include "testing/layer_test.h"

TEST_EACH_DEVICE(absval, negative_values_lose_their_sign)
{
    static const float x[] = { -2, -0.5f, 0, 3 }, dy[] = { 1, 2, 3, 4 };
    struct layer_case *c = layer_case(dev, "type: 'AbsVal'");

    case_bottom(c, 0, CT_SHAPE(2, 2), x);
    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 2, 0.5f, 0, 3);
    ASSERT_NEAR(c, "bottom[0].diff", 0, -1, -2, 0, 4);
}

TEST_EACH_DEVICE(absval, gradient_matches_finite_differences)
{
    struct layer_case *c = layer_case(dev, "type: 'AbsVal'");

    case_bottom(c, 0, CT_SHAPE(2, 3, 4), NULL);
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 2, 3, 4);
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}

TEST(absval, in_place_is_refused)
{
    struct layer_case *c = layer_case(CT_CPU, "name: 'a' type: 'AbsVal'");

    case_bottom(c, 0, CT_SHAPE(2, 2), NULL);
    case_in_place(c);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer a", ct_last_error());
}
