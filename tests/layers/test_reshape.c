/* test_reshape.c - the same values in another shape. */
#include "testing/layer_test.h"

static struct layer_case *two_eight(const char *reshape_param)
{
    static char text[512];
    struct layer_case *c;

    snprintf(text, sizeof(text), "name: 'r' type: 'Reshape' reshape_param "
             "{ %s }", reshape_param);
    c = layer_case(CT_CPU, text);
    case_bottom(c, 0, CT_SHAPE(2, 8), NULL);
    return c;
}

TEST_EACH_DEVICE(reshape, values_and_gradients_stay_in_order)
{
    static const float x[] = { 1, 2, 3, 4, 5, 6 };
    static const float dy[] = { 6, 5, 4, 3, 2, 1 };
    struct layer_case *c = layer_case(dev, "type: 'Reshape' reshape_param "
                                      "{ shape { dim: 3 dim: 2 } }");

    case_bottom(c, 0, CT_SHAPE(2, 3), x);
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 3, 2);
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 1, 2, 3, 4, 5, 6);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 6, 5, 4, 3, 2, 1);
}

TEST(reshape, zero_copies_and_minus_one_takes_the_rest)
{
    struct layer_case *c = two_eight("shape { dim: 0 dim: 2 dim: -1 }");

    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 2, 2, 4);
    c = two_eight("shape { dim: -1 }");
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 16);
    c = two_eight("shape { dim: -1 dim: 0 dim: 1 }");
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 2, 8, 1);
}

TEST(reshape, axis_and_num_axes_choose_what_is_replaced)
{
    struct layer_case *c = two_eight("shape { dim: 2 dim: 4 } axis: 1");

    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 2, 2, 4);
    c = two_eight("shape { dim: 0 dim: 1 } axis: 1");
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 2, 8, 1);
    c = two_eight("shape { dim: 2 dim: 4 } axis: -2");
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 2, 2, 4);
    c = two_eight("shape { dim: 1 } axis: 1 num_axes: 0");
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 2, 1, 8);
    c = two_eight("shape { dim: 1 dim: 1 } axis: -1 num_axes: 0");
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 2, 8, 1, 1);
    c = two_eight("shape { dim: -1 dim: 1 } axis: 0 num_axes: 1");
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 2, 1, 8);
}

TEST(reshape, follows_a_bottom_that_changes_shape)
{
    struct layer_case *c = two_eight("shape { dim: 0 dim: 2 dim: -1 }");

    ASSERT_OK(case_setup(c));
    case_bottom(c, 0, CT_SHAPE(5, 6, 3), NULL);
    ASSERT_OK(case_reshape(c));
    ASSERT_SHAPE(c, "top[0]", 5, 2, 9);
}

static void refuse(const char *reshape_param, enum ct_status want)
{
    struct layer_case *c = two_eight(reshape_param);

    ASSERT_STATUS(want, case_setup(c));
    ASSERT_HAS("layer r:", ct_last_error());
}

TEST(reshape, shapes_that_cannot_be_are_refused)
{
    refuse("shape { dim: 3 dim: 5 }", CT_ESHAPE);
    refuse("shape { dim: 3 dim: -1 }", CT_ESHAPE);
    refuse("shape { dim: -1 dim: -1 }", CT_EINVAL);
    refuse("shape { dim: -2 dim: 8 }", CT_EINVAL);
    refuse("shape { dim: 2 dim: 8 dim: 0 }", CT_ESHAPE);
    refuse("shape { dim: 16 } axis: 3", CT_EINVAL);
    refuse("shape { dim: 16 } axis: -4", CT_EINVAL);
    refuse("shape { dim: 16 } num_axes: -2", CT_EINVAL);
    refuse("shape { dim: 16 } num_axes: 3", CT_EINVAL);
    refuse("shape { dim: 9223372036854775807 dim: 9223372036854775807 "
           "dim: -1 }", CT_ESHAPE);
    refuse("", CT_ESHAPE);
}

TEST(reshape, in_place_is_refused)
{
    struct layer_case *c = two_eight("shape { dim: 16 }");

    case_in_place(c);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer r", ct_last_error());
}
