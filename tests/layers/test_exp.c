/* test_exp.c - the exponential with its base, scale and shift. */
#include "testing/layer_test.h"

static const float x[] = { -1, 0, 1, 2 }, dy[] = { 1, 2, 3, 4 };

TEST_EACH_DEVICE(exp, base_is_e_unless_given)
{
    struct layer_case *c = layer_case(dev, "type: 'Exp'");

    case_bottom(c, 0, CT_SHAPE(2, 2), x);
    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-5f, 0.367879441f, 1, 2.71828183f,
                7.3890561f);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-5f, 0.367879441f, 2, 8.15484549f,
                29.5562244f);
}

/* 2^(1 + 3x); the slope is 3 log 2 = 2.07944 times that. */
TEST_EACH_DEVICE(exp, base_scale_and_shift_work_in_place)
{
    struct layer_case *c = layer_case(
        dev, "type: 'Exp' exp_param { base: 2 scale: 3 shift: 1 }");

    case_in_place(c);
    case_bottom(c, 0, CT_SHAPE(2, 2), x);
    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-4f, 0.25f, 2, 16, 128);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-3f, 0.519860385f, 8.31776617f,
                99.813194f, 1064.67407f);
}

TEST_EACH_DEVICE(exp, gradient_matches_finite_differences)
{
    struct layer_case *c = layer_case(
        dev, "type: 'Exp' exp_param { scale: -0.7 shift: 0.3 }");

    case_bottom(c, 0, CT_SHAPE(2, 3, 4), NULL);
    ASSERT_OK(case_setup(c));
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}

TEST(exp, a_base_of_zero_or_less_is_refused)
{
    struct layer_case *c =
        layer_case(CT_CPU, "name: 'e' type: 'Exp' exp_param { base: 0 }");

    case_bottom(c, 0, CT_SHAPE(2), x);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer e: base is 0", ct_last_error());
    c = layer_case(CT_CPU, "type: 'Exp' exp_param { base: -2 }");
    case_bottom(c, 0, CT_SHAPE(2), x);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
}
