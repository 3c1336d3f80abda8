/* test_relu6.c - the rectifier that saturates at 6. */
#include "testing/layer_test.h"

static const float x[] = { -2, 0, 0.5f, 5.5f, 6.5f, 9 };
static const float dy[] = { 1, 2, 3, 4, 5, 6 };

static void check(struct layer_case *c)
{
    case_bottom(c, 0, CT_SHAPE(2, 3), x);
    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 0, 0, 0.5f, 5.5f, 6, 6);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 0, 0, 3, 4, 0, 0);
}

TEST_EACH_DEVICE(relu6, values_stay_between_zero_and_six)
{
    check(layer_case(dev, "type: 'ReLU6'"));
}

TEST_EACH_DEVICE(relu6, works_in_place)
{
    struct layer_case *c = layer_case(dev, "type: 'ReLU6'");

    case_in_place(c);
    check(c);
}

TEST_EACH_DEVICE(relu6, gradient_matches_finite_differences)
{
    struct layer_case *c =
        layer_case(dev, "type: 'ReLU6' relu_param { negative_slope: 0.25 }");

    case_bottom(c, 0, CT_SHAPE(2, 3, 2), (const float[]){
        -2, -0.5f, 0.5f, 5.5f, 6.5f, 9, 1, 2, 7, -3, -4, 3 });
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, -0.5f, -0.125f, 0.5f, 5.5f, 6, 6, 1, 2, 6,
                -0.75f, -1, 3);
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}
