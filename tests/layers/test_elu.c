/* test_elu.c - the exponential linear unit.  1 - 1/e = 0.632121 */
#include "testing/layer_test.h"

static const float x[] = { -1, 0, 0.5f, 3 }, dy[] = { 1, 2, 3, 4 };

static void check(struct layer_case *c)
{
    case_bottom(c, 0, CT_SHAPE(2, 2), x);
    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, -1.26424112f, 0, 0.5f, 3);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 0.735758882f, 4, 3, 4);
}

TEST_EACH_DEVICE(elu, negative_values_saturate_at_minus_alpha)
{
    check(layer_case(dev, "type: 'ELU' elu_param { alpha: 2 }"));
}

TEST_EACH_DEVICE(elu, works_in_place)
{
    struct layer_case *c =
        layer_case(dev, "type: 'ELU' elu_param { alpha: 2 }");

    case_in_place(c);
    check(c);
}

TEST_EACH_DEVICE(elu, gradient_matches_finite_differences)
{
    struct layer_case *c = layer_case(dev, "type: 'ELU'");

    case_bottom(c, 0, CT_SHAPE(2, 3, 4), NULL);
    ASSERT_OK(case_setup(c));
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
    c = layer_case(dev, "type: 'ELU' elu_param { alpha: -0.5 }");
    case_bottom(c, 0, CT_SHAPE(2, 3, 4), NULL);
    ASSERT_OK(case_setup(c));
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}
