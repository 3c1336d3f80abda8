/* test_input.c - the layer gives shapes and leaves the values alone. */
#include "testing/layer_test.h"

TEST_EACH_DEVICE(input, every_top_has_its_shape)
{
    struct layer_case *c = layer_case(dev, "type: 'Input' input_param { "
        "shape { dim: 2 dim: 3 dim: 4 dim: 5 } shape { dim: 2 } }");

    case_tops(c, 2);
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 2, 3, 4, 5);
    ASSERT_SHAPE(c, "top[1]", 2);
}

TEST_EACH_DEVICE(input, one_shape_serves_all_tops)
{
    struct layer_case *c = layer_case(dev,
        "type: 'Input' input_param { shape { dim: 2 dim: 3 } }");

    case_tops(c, 3);
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[2]", 2, 3);
}

TEST_EACH_DEVICE(input, a_callers_shape_and_values_stay)
{
    struct layer_case *c = layer_case(dev,
        "type: 'Input' input_param { shape { dim: 2 dim: 3 } }");
    struct ct_blob *top;

    ASSERT_OK(case_setup(c));
    top = (void *)(uintptr_t)case_find(c, "top[0]");
    ASSERT_OK(ct_reshape(top, CT_SHAPE(1, 2)));
    ct_data(top)[0] = 5;
    ct_data(top)[1] = 6;
    ASSERT_OK(case_reshape(c));
    ASSERT_OK(case_forward(c));
    ASSERT_SHAPE(c, "top[0]", 1, 2);
    ASSERT_NEAR(c, "top[0].data", 0, 5, 6);
}

TEST(input, two_shapes_for_three_tops_are_refused)
{
    struct layer_case *c = layer_case(CT_CPU, "name: 'in' type: 'Input' "
        "input_param { shape { dim: 2 } shape { dim: 3 } }");

    case_tops(c, 3);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer in: 2 shapes for 3 tops", ct_last_error());
}

TEST(input, a_negative_dimension_is_refused)
{
    struct layer_case *c = layer_case(CT_CPU, "name: 'in' type: 'Input' "
        "input_param { shape { dim: -2 } }");

    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer in", ct_last_error());
}
