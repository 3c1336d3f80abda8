/* test_euclidean_loss.c - distances by hand.
 *
 *     a - b = 1 -2     sum of squares = 1 + 4 + 9 + 0 = 14, N = 2: 14 / 4
 *             3  0                                                    */
#include "testing/layer_test.h"

static const float a[] = { 2, 1, 5, 4 }, b[] = { 1, 3, 2, 4 };

static struct layer_case *two(enum ct_device_kind dev)
{
    struct layer_case *c = layer_case(dev, "name: 'e' type: 'EuclideanLoss'");

    case_bottom(c, 0, CT_SHAPE(2, 2), a);
    case_bottom(c, 1, CT_SHAPE(2, 2, 1), b);
    return c;
}

TEST_EACH_DEVICE(euclidean_loss, both_bottoms_get_opposite_gradients)
{
    static const float weight[] = { 4 };
    struct layer_case *c = two(dev);

    ASSERT_OK(case_setup(c));
    ASSERT_INT(0, case_find(c, "top[0]")->shape.n_axes);
    case_top_diff(c, 0, weight);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 3.5f);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 2, -4, 6, 0);
    ASSERT_NEAR(c, "bottom[1].diff", 1e-6f, -2, 4, -6, 0);
}

TEST_EACH_DEVICE(euclidean_loss, an_unwanted_gradient_is_not_written)
{
    static const float weight[] = { 4 };
    struct layer_case *c = two(dev);

    ASSERT_OK(case_setup(c));
    case_want_grad(c, 0, false);
    case_top_diff(c, 0, weight);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "bottom[0].diff", 0, 0, 0, 0, 0);
    ASSERT_NEAR(c, "bottom[1].diff", 1e-6f, -2, 4, -6, 0);
}

TEST_EACH_DEVICE(euclidean_loss, gradient_matches_finite_differences)
{
    struct layer_case *c = layer_case(dev, "type: 'EuclideanLoss'");

    case_bottom(c, 0, CT_SHAPE(2, 3, 4), NULL);
    case_bottom(c, 1, CT_SHAPE(2, 3, 4), NULL);
    ASSERT_OK(case_setup(c));
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}

TEST(euclidean_loss, shapes_that_differ_are_refused)
{
    struct layer_case *c = two(CT_CPU);

    case_bottom(c, 1, CT_SHAPE(2, 3), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer e", ct_last_error());
}

TEST(euclidean_loss, batches_that_differ_are_refused)
{
    struct layer_case *c = two(CT_CPU);

    case_bottom(c, 1, CT_SHAPE(4, 1), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("first dimension", ct_last_error());
}
