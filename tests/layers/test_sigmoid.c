/* test_sigmoid.c - the logistic function.  1 / (1 + 1/e) = 0.731059 */
#include "testing/layer_test.h"

static const float x[] = { 0, 1, -1, 200, -200, 0 };
static const float dy[] = { 4, 1, 2, 3, 4, -8 };

static void check(struct layer_case *c)
{
    case_bottom(c, 0, CT_SHAPE(2, 3), x);
    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 0.5f, 0.731058579f, 0.268941421f, 1,
                0, 0.5f);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 1, 0.196611933f, 0.393223866f, 0,
                0, -2);
}

TEST_EACH_DEVICE(sigmoid, values_lie_between_zero_and_one)
{
    check(layer_case(dev, "type: 'Sigmoid'"));
}

TEST_EACH_DEVICE(sigmoid, works_in_place)
{
    struct layer_case *c = layer_case(dev, "type: 'Sigmoid'");

    case_in_place(c);
    check(c);
}

TEST_EACH_DEVICE(sigmoid, gradient_matches_finite_differences)
{
    struct layer_case *c = layer_case(dev, "type: 'Sigmoid' "
                                      "sigmoid_param { engine: CAFFE }");

    case_bottom_range(c, 0, CT_SHAPE(2, 3, 4), -4, 4);
    ASSERT_OK(case_setup(c));
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}
