/* test_smooth_l1_loss.c - by hand.
 *
 *     a - b = 0.5  0.1   u = 1 2   d = 0.5 0.2   f(d) = 0.125 0.02
 *            -1    0         1 1      -1   0             0.5   0
 *
 * with outside weights 1, 1, 0.5, 3; sigma 2 moves the corner to 1/4. */
#include "testing/layer_test.h"

static const float a[] = { 1, 0.1f, -1, 0.5f }, b[] = { 0.5f, 0, 0, 0.5f };
static const float u[] = { 1, 2, 1, 1 }, v[] = { 1, 1, 0.5f, 3 };
static const float two[] = { 2 };

static struct layer_case *boxes(enum ct_device_kind dev, const char *text,
                                int n_bottom)
{
    static const float *const x[] = { a, b, u, v };
    struct layer_case *c = layer_case(dev, text);

    for (int i = 0; i < n_bottom; i++)
        case_bottom(c, i, CT_SHAPE(2, 2), x[i]);
    ASSERT_OK(case_setup(c));
    for (int i = 2; i < n_bottom; i++)
        case_want_grad(c, i, false);
    return c;
}

TEST_EACH_DEVICE(smooth_l1_loss, weights_stand_inside_and_outside)
{
    struct layer_case *c = boxes(dev, "type: 'SmoothL1Loss'", 4);

    case_top_diff(c, 0, two);
    ASSERT_OK(case_backward(c));
    ASSERT_OK(case_backward(c)); /* twice, to tell = from += */
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 0.1975f);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 0.5f, 0.4f, -0.5f, 0);
    ASSERT_NEAR(c, "bottom[1].diff", 1e-6f, -0.5f, -0.4f, 0.5f, 0);
}

TEST_EACH_DEVICE(smooth_l1_loss, sigma_moves_the_corner)
{
    struct layer_case *c = boxes(dev, "type: 'SmoothL1Loss' "
                                 "smooth_l1_loss_param { sigma: 2 }", 4);

    case_top_diff(c, 0, two);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 0.44625f);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 1, 1.6f, -0.5f, 0);
}

TEST_EACH_DEVICE(smooth_l1_loss, two_bottoms_have_weights_of_one)
{
    struct layer_case *c = boxes(dev, "type: 'SmoothL1Loss'", 2);

    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 0.315f);
}

TEST_EACH_DEVICE(smooth_l1_loss, gradient_matches_finite_differences)
{
    struct layer_case *c = layer_case(dev, "type: 'SmoothL1Loss' "
                                      "smooth_l1_loss_param { sigma: 3 }");

    case_bottom_range(c, 0, CT_SHAPE(2, 3, 2), -2, 2);
    case_bottom_range(c, 1, CT_SHAPE(2, 3, 2), 1, -1);
    case_bottom_range(c, 2, CT_SHAPE(2, 3, 2), 0.2f, 1);
    case_bottom_range(c, 3, CT_SHAPE(2, 3, 2), -1, 1);
    ASSERT_OK(case_setup(c));
    case_want_grad(c, 2, false);
    case_want_grad(c, 3, false);
    ASSERT_GRADIENT(c, 1e-3f, 1e-2f);
}

TEST(smooth_l1_loss, bottoms_that_differ_are_refused)
{
    struct layer_case *c = layer_case(CT_CPU, "name: 'box' "
                                      "type: 'SmoothL1Loss'");

    case_bottom(c, 0, CT_SHAPE(2, 2), a);
    case_bottom(c, 1, CT_SHAPE(2, 2), b);
    case_bottom(c, 2, CT_SHAPE(2, 1), u);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer box: bottoms 0 and 2 have 4 and 2", ct_last_error());
}

TEST(smooth_l1_loss, a_sigma_of_zero_is_refused)
{
    struct layer_case *c = layer_case(CT_CPU, "name: 'box' "
        "type: 'SmoothL1Loss' smooth_l1_loss_param { sigma: 0 }");

    case_bottom(c, 0, CT_SHAPE(2, 2), a);
    case_bottom(c, 1, CT_SHAPE(2, 2), b);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer box: sigma is 0", ct_last_error());
}
