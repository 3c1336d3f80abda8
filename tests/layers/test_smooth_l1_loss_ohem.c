/* test_smooth_l1_loss_ohem.c - the numbers of test_smooth_l1_loss.c without
 * outside weights: the rows cost 0.145 and 0.5. */
#include "testing/layer_test.h"

static const float a[] = { 1, 0.1f, -1, 0.5f }, b[] = { 0.5f, 0, 0, 0.5f };
static const float u[] = { 1, 2, 1, 1 };

static struct layer_case *boxes(enum ct_device_kind dev, const char *text,
                                int n_top)
{
    struct layer_case *c = layer_case(dev, text);

    case_tops(c, n_top);
    case_bottom(c, 0, CT_SHAPE(2, 2, 1, 1), a);
    case_bottom(c, 1, CT_SHAPE(2, 2, 1, 1), b);
    case_bottom(c, 2, CT_SHAPE(2, 2, 1, 1), u);
    ASSERT_OK(case_setup(c));
    case_want_grad(c, 2, false);
    return c;
}

TEST_EACH_DEVICE(smooth_l1_loss_ohem, the_second_top_is_the_loss_of_each_box)
{
    static const float two[] = { 2 };
    struct layer_case *c = boxes(dev, "type: 'SmoothL1LossOHEM'", 2);

    ASSERT_SHAPE(c, "top[1]", 2, 1, 1, 1);
    case_top_diff(c, 0, two);
    ASSERT_OK(case_backward(c));
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 0.3225f);
    ASSERT_NEAR(c, "top[1].data", 1e-6f, 0.145f, 0.5f);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 0.5f, 0.4f, -1, 0);
    ASSERT_NEAR(c, "bottom[1].diff", 1e-6f, -0.5f, -0.4f, 1, 0);
}

TEST_EACH_DEVICE(smooth_l1_loss_ohem, pixels_are_summed_over_their_channels)
{
    static const float x[] = { 1, 2, 3, 4 }, zero[4] = { 0 };
    struct layer_case *c = layer_case(dev, "type: 'SmoothL1LossOHEM'");

    case_tops(c, 2);
    case_bottom(c, 0, CT_SHAPE(1, 2, 1, 2), x);
    case_bottom(c, 1, CT_SHAPE(1, 2, 1, 2), zero);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_SHAPE(c, "top[1]", 1, 1, 1, 2);
    ASSERT_NEAR(c, "top[1].data", 1e-6f, 0.5f + 2.5f, 1.5f + 3.5f);
}

TEST_EACH_DEVICE(smooth_l1_loss_ohem, a_normalizer_may_be_fixed)
{
    struct layer_case *c = boxes(dev, "type: 'SmoothL1LossOHEM' loss_param { "
        "normalization: PRE_FIXED pre_fixed_normalizer: 4 }", 1);

    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 0.16125f);
}

TEST_EACH_DEVICE(smooth_l1_loss_ohem, gradient_matches_finite_differences)
{
    struct layer_case *c = layer_case(dev, "type: 'SmoothL1LossOHEM'");

    case_bottom_range(c, 0, CT_SHAPE(2, 3, 2), -2, 2);
    case_bottom_range(c, 1, CT_SHAPE(2, 3, 2), 1, -1);
    case_bottom_range(c, 2, CT_SHAPE(2, 3, 2), 0.2f, 2);
    ASSERT_OK(case_setup(c));
    case_want_grad(c, 2, false);
    ASSERT_GRADIENT(c, 1e-3f, 1e-2f);
}

TEST(smooth_l1_loss_ohem, bottoms_that_differ_are_refused)
{
    struct layer_case *c = layer_case(CT_CPU, "name: 'box' "
                                      "type: 'SmoothL1LossOHEM'");

    case_bottom(c, 0, CT_SHAPE(2, 2), a);
    case_bottom(c, 1, CT_SHAPE(2, 1), b);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer box: bottoms 0 and 1", ct_last_error());
}
