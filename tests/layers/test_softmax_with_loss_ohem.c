/* test_softmax_with_loss_ohem.c - the numbers of test_softmax_with_loss.c: the
 * labels cost ln 2 and ln 8/3. */
#include "testing/layer_test.h"

#define LN2 0.69314718f
#define LN3 1.09861229f
#define LN4 1.38629436f

static const float x[] = { 0, 0, LN2, LN3, LN4, 0 };

static struct layer_case *rois(enum ct_device_kind dev, const char *text,
                               const float *labels, int n_top)
{
    struct layer_case *c = layer_case(dev, text);

    case_tops(c, n_top);
    case_bottom(c, 0, CT_SHAPE(2, 3, 1, 1), x);
    case_bottom(c, 1, CT_SHAPE(2, 1, 1, 1), labels);
    case_want_grad(c, 1, false);
    ASSERT_OK(case_setup(c));
    return c;
}

TEST_EACH_DEVICE(softmax_with_loss_ohem, the_third_top_is_the_loss_of_each)
{
    static const float labels[] = { 2, 0 }, two[] = { 2 };
    struct layer_case *c =
        rois(dev, "type: 'SoftmaxWithLossOHEM'", labels, 3);

    ASSERT_SHAPE(c, "top[2]", 2, 1, 1, 1);
    case_top_diff(c, 0, two);
    ASSERT_OK(case_backward(c));
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, (LN2 + 0.98082925f) / 2);
    ASSERT_NEAR(c, "top[1].data", 1e-6f, 0.25f, 0.25f, 0.5f, 0.375f, 0.5f,
                0.125f);
    ASSERT_NEAR(c, "top[2].data", 1e-6f, LN2, 0.98082925f);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 0.25f, 0.25f, -0.5f, -0.625f, 0.5f,
                0.125f);
}

TEST_EACH_DEVICE(softmax_with_loss_ohem, an_ignored_roi_costs_nothing)
{
    static const float labels[] = { -1, 0 };
    struct layer_case *c = rois(dev, "type: 'SoftmaxWithLossOHEM' loss_param "
        "{ ignore_label: -1 normalization: PRE_FIXED pre_fixed_normalizer: 4 "
        "}", labels, 3);

    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 0.98082925f / 4);
    ASSERT_NEAR(c, "top[2].data", 1e-6f, 0, 0.98082925f);
}

TEST_EACH_DEVICE(softmax_with_loss_ohem, gradient_matches_finite_differences)
{
    static const float labels[] = { 1, 0 };

    ASSERT_GRADIENT(rois(dev, "type: 'SoftmaxWithLossOHEM'", labels, 1),
                    1e-2f, 1e-3f);
}

TEST(softmax_with_loss_ohem, labels_that_do_not_match_are_refused)
{
    struct layer_case *c = layer_case(CT_CPU, "name: 'loss' "
                                      "type: 'SoftmaxWithLossOHEM'");

    case_bottom(c, 0, CT_SHAPE(2, 3), x);
    case_bottom(c, 1, CT_SHAPE(2, 2), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer loss: 4 labels for 2 predictions", ct_last_error());
}
