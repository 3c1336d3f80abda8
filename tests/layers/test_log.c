/* test_log.c - the logarithm with its base, scale and shift. */
#include "testing/layer_test.h"

TEST_EACH_DEVICE(log, base_is_e_unless_given)
{
    static const float x[] = { 1, 2.71828183f, 0.5f }, dy[] = { 1, 2, 3 };
    struct layer_case *c = layer_case(dev, "type: 'Log'");

    case_bottom(c, 0, CT_SHAPE(3), x);
    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 0, 1, -0.693147181f);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-5f, 1, 0.735758882f, 6);
}

/* log2(1 + 3x) at 1 + 3x = 1, 4, 16; the slope is 3 / (log 2 (1 + 3x)). */
static void check_base(struct layer_case *c)
{
    static const float x[] = { 0, 1, 5 }, dy[] = { 1, 2, 4 };

    case_bottom(c, 0, CT_SHAPE(3), x);
    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 0, 2, 4);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-5f, 4.32808512f, 2.16404256f,
                1.08202128f);
}

TEST_EACH_DEVICE(log, base_scale_and_shift_change_value_and_slope)
{
    check_base(layer_case(
        dev, "type: 'Log' log_param { base: 2 scale: 3 shift: 1 }"));
}

TEST_EACH_DEVICE(log, works_in_place)
{
    struct layer_case *c = layer_case(
        dev, "type: 'Log' log_param { base: 2 scale: 3 shift: 1 }");

    case_in_place(c);
    check_base(c);
}

TEST_EACH_DEVICE(log, gradient_matches_finite_differences)
{
    struct layer_case *c = layer_case(
        dev, "type: 'Log' log_param { base: 0.4 scale: -1 shift: 5 }");

    case_bottom_range(c, 0, CT_SHAPE(2, 3, 4), 0.5f, 3);
    ASSERT_OK(case_setup(c));
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}

TEST(log, a_base_of_one_or_below_zero_is_refused)
{
    struct layer_case *c =
        layer_case(CT_CPU, "name: 'g' type: 'Log' log_param { base: 1 }");

    case_bottom(c, 0, CT_SHAPE(2), NULL);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer g: base is 1", ct_last_error());
    c = layer_case(CT_CPU, "type: 'Log' log_param { base: -3 }");
    case_bottom(c, 0, CT_SHAPE(2), NULL);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
}
