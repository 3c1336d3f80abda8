/* test_concat.c - bottoms joined along an axis. */
#include "testing/layer_test.h"

static const float a[] = { 1, 2, 3, 4 }, b[] = { 5, 6 };

TEST_EACH_DEVICE(concat, axis_one_joins_the_channels_of_each_item)
{
    static const float dy[] = { 10, 20, 30, 40, 50, 60 };
    struct layer_case *c = layer_case(dev, "type: 'Concat'");

    case_bottom(c, 0, CT_SHAPE(2, 2), a);
    case_bottom(c, 1, CT_SHAPE(2, 1), b);
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 2, 3);
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 1, 2, 5, 3, 4, 6);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 10, 20, 40, 50);
    ASSERT_NEAR(c, "bottom[1].diff", 0, 30, 60);
}

TEST_EACH_DEVICE(concat, axis_zero_joins_batches)
{
    struct layer_case *c =
        layer_case(dev, "type: 'Concat' concat_param { axis: 0 }");

    case_bottom(c, 0, CT_SHAPE(2, 2), a);
    case_bottom(c, 1, CT_SHAPE(1, 2), b);
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 3, 2);
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 1, 2, 3, 4, 5, 6);
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}

TEST_EACH_DEVICE(concat, axis_counts_from_the_end_and_concat_dim_is_its_name)
{
    static const char *const same[] = {
        "type: 'Concat' concat_param { axis: -2 }",
        "type: 'Concat' concat_param { concat_dim: 1 }" };

    for (int i = 0; i < 2; i++) {
        struct layer_case *c = layer_case(dev, same[i]);

        case_bottom(c, 0, CT_SHAPE(2, 3, 4), NULL);
        case_bottom(c, 1, CT_SHAPE(2, 1, 4), NULL);
        case_bottom(c, 2, CT_SHAPE(2, 2, 4), NULL);
        ASSERT_OK(case_setup(c));
        ASSERT_SHAPE(c, "top[0]", 2, 6, 4);
        ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
    }
}

TEST_EACH_DEVICE(concat, one_bottom_is_passed_on)
{
    struct layer_case *c = layer_case(dev, "type: 'Concat'");

    case_bottom(c, 0, CT_SHAPE(2, 2), a);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 1, 2, 3, 4);
}

TEST_EACH_DEVICE(concat, only_wanted_gradients_are_written)
{
    static const float dy[] = { 10, 20, 30, 40, 50, 60 };
    struct layer_case *c = layer_case(dev, "type: 'Concat'");

    case_bottom(c, 0, CT_SHAPE(2, 2), a);
    case_bottom(c, 1, CT_SHAPE(2, 1), b);
    ASSERT_OK(case_setup(c));
    case_want_grad(c, 0, false);
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "bottom[0].diff", 0, 0, 0, 0, 0);
    ASSERT_NEAR(c, "bottom[1].diff", 0, 30, 60);
}

TEST(concat, bottoms_that_differ_elsewhere_are_refused)
{
    struct layer_case *c = layer_case(CT_CPU, "name: 'cc' type: 'Concat'");

    case_bottom(c, 0, CT_SHAPE(2, 2), a);
    case_bottom(c, 1, CT_SHAPE(1, 2), b);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer cc", ct_last_error());
    c = layer_case(CT_CPU, "name: 'cc' type: 'Concat'");
    case_bottom(c, 0, CT_SHAPE(2, 2), a);
    case_bottom(c, 1, CT_SHAPE(2), b);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
}

TEST(concat, an_axis_out_of_range_or_named_twice_is_refused)
{
    static const char *const bad[] = {
        "name: 'cc' type: 'Concat' concat_param { axis: 2 }",
        "name: 'cc' type: 'Concat' concat_param { axis: -3 }",
        "name: 'cc' type: 'Concat' concat_param { concat_dim: 4294967295 }",
        "name: 'cc' type: 'Concat' concat_param { axis: 1 concat_dim: 1 }" };

    for (int i = 0; i < 4; i++) {
        struct layer_case *c = layer_case(CT_CPU, bad[i]);

        case_bottom(c, 0, CT_SHAPE(2, 2), a);
        ASSERT_STATUS(CT_EINVAL, case_setup(c));
        ASSERT_HAS("layer cc", ct_last_error());
    }
}
