/* test_threshold.c - one above the bound, else zero. */
#include "testing/layer_test.h"

static const float x[] = { -1, 0, 0.5f, 1 };

TEST_EACH_DEVICE(threshold, only_values_above_the_bound_are_one)
{
    struct layer_case *c = layer_case(dev, "type: 'Threshold' "
                                      "threshold_param { threshold: 0.5 }");

    case_bottom(c, 0, CT_SHAPE(2, 2), x);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 0, 0, 0, 1);
}

TEST_EACH_DEVICE(threshold, the_bound_is_zero_unless_given)
{
    struct layer_case *c = layer_case(dev, "type: 'Threshold'");

    case_in_place(c);
    case_bottom(c, 0, CT_SHAPE(2, 2), x);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 0, 0, 1, 1);
}

TEST(threshold, there_is_no_backward)
{
    struct layer_case *c = layer_case(CT_CPU, "name: 't' type: 'Threshold'");

    case_bottom(c, 0, CT_SHAPE(2, 2), x);
    ASSERT_OK(case_setup(c));
    ASSERT_STATUS(CT_ENOTSUP, case_backward(c));
    ASSERT_HAS("layer t", ct_last_error());
}
