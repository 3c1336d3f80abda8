/* test_permute.c - axes in another order. */
#include "layout_case.h"

static const float x[] = { 1, 2, 3, 4, 5, 6 };

TEST_EACH_DEVICE(permute, two_axes_swapped_are_a_transpose)
{
    static const float dy[] = { 10, 20, 30, 40, 50, 60 };
    struct layer_case *c = layer_case(
        dev, "type: 'Permute' permute_param { order: 1 order: 0 }");

    case_bottom(c, 0, CT_SHAPE(2, 3), x);
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 3, 2);
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 1, 4, 2, 5, 3, 6);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 10, 30, 50, 20, 40, 60);
}

/* Item 0 of 2 x 3 x 1 x 2: channels 0 1, 2 3, 4 5 become pixels 0 2 4, 1 3 5;
 * a cycle of three axes tells the order from its inverse. */
TEST_EACH_DEVICE(permute, channels_go_last)
{
    float ramp[12];
    struct layer_case *c = layer_case(dev, "type: 'Permute' permute_param "
        "{ order: 0 order: 2 order: 3 order: 1 }");

    for (int i = 0; i < 12; i++)
        ramp[i] = (float)i;
    case_bottom(c, 0, CT_SHAPE(2, 3, 1, 2), ramp);
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 2, 1, 2, 3);
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11);
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}

TEST_EACH_DEVICE(permute, axes_not_named_follow_in_order)
{
    struct layer_case *c =
        layer_case(dev, "type: 'Permute' permute_param { order: 2 }");

    case_bottom(c, 0, CT_SHAPE(2, 3, 4, 5), NULL);
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 4, 2, 3, 5);
}

TEST_EACH_DEVICE(permute, no_order_passes_on)
{
    static const float dy[] = { 10, 20, 30, 40, 50, 60 };
    struct layer_case *c = layer_case(dev, "type: 'Permute'");

    case_bottom(c, 0, CT_SHAPE(2, 3), x);
    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 1, 2, 3, 4, 5, 6);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 10, 20, 30, 40, 50, 60);
}

TEST(permute, axes_twice_or_out_of_range_are_refused)
{
    struct layer_case *c = layer_case(CT_CPU, "name: 'p' type: 'Permute' "
        "permute_param { order: 1 order: 1 }");

    case_bottom(c, 0, CT_SHAPE(2, 3), x);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer p: order names axis 1 twice", ct_last_error());
    c = layer_case(CT_CPU, "name: 'p' type: 'Permute' "
                   "permute_param { order: 2 }");
    case_bottom(c, 0, CT_SHAPE(2, 3), x);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer p", ct_last_error());
}

TEST(permute, channels_that_lie_innermost_are_passed_on)
{
    check_packed("type: 'Permute' permute_param { order: 0 order: 2 order: 3 "
                 "order: 1 }", true, CT_SHAPE(3, 13, 7, 5));
}
