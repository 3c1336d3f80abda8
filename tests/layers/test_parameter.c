/* test_parameter.c - learned values as a top. */
#include "testing/layer_test.h"

static const float w[] = { 1, 2, 3, 4, 5, 6 }, dy[] = { 6, 5, 4, 3, 2, 1 };

TEST_EACH_DEVICE(parameter, the_top_is_the_blob_and_gradients_add_up)
{
    struct layer_case *c = layer_case(dev, "type: 'Parameter' "
        "parameter_param { shape { dim: 2 dim: 3 } }");

    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 2, 3);
    ASSERT_SHAPE(c, "blob[0]", 2, 3);
    case_blob(c, 0, w);
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_OK(case_backward(c));     /* twice, to tell += from = */
    ASSERT_NEAR(c, "top[0].data", 0, 1, 2, 3, 4, 5, 6);
    ASSERT_NEAR(c, "blob[0].diff", 0, 12, 10, 8, 6, 4, 2);
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}

TEST_EACH_DEVICE(parameter, writing_to_the_top_leaves_the_blob_alone)
{
    struct layer_case *c = layer_case(dev, "type: 'Parameter' "
        "parameter_param { shape { dim: 2 } }");

    ASSERT_OK(case_setup(c));
    case_blob(c, 0, w);
    ASSERT_OK(case_forward(c));
    ct_data(case_find(c, "top[0]"))[0] = 7;
    ASSERT_NEAR(c, "blob[0].data", 0, 1, 2);
}

TEST_EACH_DEVICE(parameter, one_that_does_not_learn_gets_no_gradient)
{
    struct layer_case *c = layer_case(dev, "type: 'Parameter' "
        "parameter_param { shape { dim: 6 } }");

    ASSERT_OK(case_setup(c));
    case_layer(c)->blob_wants_grad[0] = false;
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "blob[0].diff", 0, 0, 0, 0, 0, 0, 0);
}

TEST(parameter, a_negative_dimension_is_refused)
{
    struct layer_case *c = layer_case(CT_CPU, "name: 'p' type: 'Parameter' "
        "parameter_param { shape { dim: -2 } }");

    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer p", ct_last_error());
}
