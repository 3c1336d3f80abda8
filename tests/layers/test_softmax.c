/* test_softmax.c - probabilities out of logarithms of small numbers. */
#include "testing/layer_test.h"

/* ln 1, ln 3, ln 6: 1 3 6 over 10; and ln 2, ln 2, ln 4 over 8. */
static const float x[] = { 0, 1.0986123f, 1.7917595f,
                           0.69314718f, 0.69314718f, 1.3862944f };
static const float dy[] = { 1, 0, 0, 0, 4, 0 };

static struct layer_case *two_rows(enum ct_device_kind dev)
{
    struct layer_case *c = layer_case(dev, "type: 'Softmax'");

    case_bottom(c, 0, CT_SHAPE(2, 3), x);
    return c;
}

TEST_EACH_DEVICE(softmax, rows_become_probabilities)
{
    struct layer_case *c = two_rows(dev);

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 0.1f, 0.3f, 0.6f, 0.25f, 0.25f, 0.5f);
}

TEST_EACH_DEVICE(softmax, backward_by_hand)
{
    struct layer_case *c = two_rows(dev);

    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    /* dy . y is 0.1 and 1. */
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 0.09f, -0.03f, -0.06f, -0.25f,
                0.75f, -0.5f);
}

TEST_EACH_DEVICE(softmax, works_in_place)
{
    struct layer_case *c = two_rows(dev);

    case_in_place(c);
    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 0.1f, 0.3f, 0.6f, 0.25f, 0.25f, 0.5f);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 0.09f, -0.03f, -0.06f, -0.25f,
                0.75f, -0.5f);
}

TEST_EACH_DEVICE(softmax, axis_may_be_counted_from_the_end)
{
    struct layer_case *c = layer_case(dev,
        "type: 'Softmax' softmax_param { axis: -2 }");

    case_bottom(c, 0, CT_SHAPE(3, 2), (const float[]){ x[0], x[3], x[1], x[4],
                                                       x[2], x[5] });
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 0.1f, 0.25f, 0.3f, 0.25f, 0.6f, 0.5f);
}

TEST_EACH_DEVICE(softmax, gradient_matches_finite_differences)
{
    struct layer_case *c = layer_case(dev,
        "type: 'Softmax' softmax_param { axis: 2 }");

    case_bottom(c, 0, CT_SHAPE(2, 3, 4, 5), NULL);
    ASSERT_OK(case_setup(c));
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}

TEST(softmax, an_axis_that_is_not_there_is_refused)
{
    struct layer_case *c = layer_case(CT_CPU,
        "name: 's' type: 'Softmax' softmax_param { axis: 2 }");

    case_bottom(c, 0, CT_SHAPE(2, 3), x);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer s: axis 2", ct_last_error());
}
