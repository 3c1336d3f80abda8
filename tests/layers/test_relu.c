/* test_relu.c - the rectifier, by hand and by finite differences. */
#include "testing/layer_test.h"

static const float x[] = { -2, -0.5f, 0.5f, 3 }, dy[] = { 1, 2, 3, 4 };

static struct layer_case *four(enum ct_device_kind dev, const char *prototxt)
{
    struct layer_case *c = layer_case(dev, prototxt);

    case_bottom(c, 0, CT_SHAPE(2, 2), x);
    return c;
}

TEST_EACH_DEVICE(relu, negative_values_become_zero)
{
    struct layer_case *c = four(dev, "type: 'ReLU'");

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 0, 0, 0.5f, 3);
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "bottom[0].diff", 0, 0, 0, 3, 4);
}

TEST_EACH_DEVICE(relu, leaky_keeps_a_part_of_negative_values)
{
    struct layer_case *c =
        four(dev, "type: 'ReLU' relu_param { negative_slope: 0.5 }");

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, -1, -0.25f, 0.5f, 3);
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}

TEST_EACH_DEVICE(relu, works_in_place)
{
    struct layer_case *c = four(dev, "type: 'ReLU'");

    case_in_place(c);
    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 0, 0, 0.5f, 3);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 0, 0, 3, 4);
}

TEST(relu, two_bottoms_are_refused)
{
    struct layer_case *c = four(CT_CPU, "name: 'r' type: 'ReLU'");

    case_bottom(c, 1, CT_SHAPE(2, 2), x);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer r", ct_last_error());
}
