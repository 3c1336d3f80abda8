/* test_flatten.c - several axes made one. */
#include "testing/layer_test.h"

static struct layer_case *four_axes(const char *prototxt)
{
    struct layer_case *c = layer_case(CT_CPU, prototxt);

    case_bottom(c, 0, CT_SHAPE(2, 3, 4, 5), NULL);
    return c;
}

TEST_EACH_DEVICE(flatten, items_become_rows)
{
    static const float x[] = { 1, 2, 3, 4 }, dy[] = { 5, 6, 7, 8 };
    struct layer_case *c = layer_case(dev, "type: 'Flatten'");

    case_bottom(c, 0, CT_SHAPE(1, 2, 2), x);
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 1, 4);
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 1, 2, 3, 4);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 5, 6, 7, 8);
}

TEST(flatten, axis_and_end_axis_choose_what_is_joined)
{
    struct layer_case *c = four_axes("type: 'Flatten'");

    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 2, 60);
    c = four_axes("type: 'Flatten' flatten_param { axis: 0 end_axis: 1 }");
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 6, 4, 5);
    c = four_axes("type: 'Flatten' flatten_param { axis: -3 end_axis: -2 }");
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 2, 12, 5);
    c = four_axes("type: 'Flatten' flatten_param { axis: 2 end_axis: 2 }");
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 2, 3, 4, 5);
    c = four_axes("type: 'Flatten' flatten_param { axis: 2 end_axis: 1 }");
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 2, 3, 1, 4, 5);
}

TEST(flatten, follows_a_bottom_that_changes_shape)
{
    struct layer_case *c = four_axes("type: 'Flatten'");

    ASSERT_OK(case_setup(c));
    case_bottom(c, 0, CT_SHAPE(7, 3, 2), NULL);
    ASSERT_OK(case_reshape(c));
    ASSERT_SHAPE(c, "top[0]", 7, 6);
}

TEST(flatten, axes_out_of_order_or_range_and_in_place_are_refused)
{
    struct layer_case *c = four_axes(
        "name: 'f' type: 'Flatten' flatten_param { axis: 3 end_axis: 1 }");

    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer f", ct_last_error());
    c = four_axes("name: 'f' type: 'Flatten' flatten_param { axis: 4 }");
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer f", ct_last_error());
    c = four_axes("name: 'f' type: 'Flatten'");
    case_in_place(c);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
}
