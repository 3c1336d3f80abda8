/* test_focal_loss.c - the softmax of test_softmax_with_loss.c, p = 1/2 and 3/8
 * at the labels, with alpha 1/4 and gamma 2:
 *
 *     1/4 (1/2)^2 ln 2 = 0.0433217     1/4 (5/8)^2 ln 8/3 = 0.0957841 */
#include "testing/layer_test.h"

#define LN2 0.69314718f
#define LN3 1.09861229f
#define LN4 1.38629436f

static const float x[] = { 0, 0, LN2, LN3, LN4, 0 }, labels[] = { 2, 0 };
static const float one[] = { 1 };

TEST_EACH_DEVICE(focal_loss, easy_labels_count_less)
{
    struct layer_case *c = layer_case(dev, "type: 'FocalLoss'");

    case_bottom(c, 0, CT_SHAPE(2, 3), x);
    case_bottom(c, 1, CT_SHAPE(2), labels);
    ASSERT_OK(case_setup(c));
    case_want_grad(c, 1, false);
    case_top_diff(c, 0, one);
    ASSERT_OK(case_backward(c));
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 0.06955290f);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 0.018642925f, 0.018642925f,
                -0.037285849f, -0.066436618f, 0.053149295f, 0.013287324f);
}

/* p = 3/4, 1/4, 3/4 with targets 1, 0, 0. */
TEST_EACH_DEVICE(focal_loss, a_target_for_each_score_is_the_logistic_form)
{
    static const float s[] = { LN3, -LN3, LN3 }, t[] = { 1, 0, 0 };
    struct layer_case *c   = layer_case(dev, "type: 'FocalLoss'");

    case_bottom(c, 0, CT_SHAPE(1, 3), s);
    case_bottom(c, 1, CT_SHAPE(1, 3), t);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 0.60282306f);
}

TEST_EACH_DEVICE(focal_loss, gamma_zero_is_cross_entropy)
{
    struct layer_case *c = layer_case(dev, "type: 'FocalLoss' "
        "focal_loss_param { alpha: 1 gamma: 0 } "
        "loss_param { normalization: NONE }");

    case_bottom(c, 0, CT_SHAPE(2, 3), x);
    case_bottom(c, 1, CT_SHAPE(2), labels);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, LN2 + 0.98082925f);
}

TEST_EACH_DEVICE(focal_loss, an_ignored_label_adds_nothing)
{
    static const float some[] = { 2, -1 };
    struct layer_case *c = layer_case(dev, "type: 'FocalLoss' "
                                      "loss_param { ignore_label: -1 }");

    case_bottom(c, 0, CT_SHAPE(2, 3), x);
    case_bottom(c, 1, CT_SHAPE(2), some);
    ASSERT_OK(case_setup(c));
    case_want_grad(c, 1, false);
    case_top_diff(c, 0, one);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 0.04332170f);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 0.037285849f, 0.037285849f,
                -0.074571699f, 0, 0, 0);
}

static void gradient(enum ct_device_kind dev, const char *text, bool each)
{
    struct layer_case *c = layer_case(dev, text);

    case_bottom_range(c, 0, CT_SHAPE(2, 3, 2), -2, 2);
    if (each)
        case_bottom_labels(c, 1, CT_SHAPE(2, 3, 2), 2);
    else
        case_bottom_labels(c, 1, CT_SHAPE(2, 2), 3);
    ASSERT_OK(case_setup(c));
    case_want_grad(c, 1, false);
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}

TEST_EACH_DEVICE(focal_loss, gradient_matches_finite_differences)
{
    gradient(dev, "type: 'FocalLoss'", false);
    gradient(dev, "type: 'FocalLoss' focal_loss_param { gamma: 0.5 }", false);
    gradient(dev, "type: 'FocalLoss'", true);
    gradient(dev, "type: 'FocalLoss' focal_loss_param { type: LINEAR }",
             true);
}

TEST(focal_loss, what_makes_no_sense_is_refused)
{
    static const float high[] = { 2, 3 };
    struct layer_case *c = layer_case(CT_CPU, "name: 'f' type: 'FocalLoss'");

    case_bottom(c, 0, CT_SHAPE(2, 3), x);
    case_bottom(c, 1, CT_SHAPE(2, 2), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer f: 4 labels for 2 predictions", ct_last_error());
    c = layer_case(CT_CPU, "name: 'f' type: 'FocalLoss'");
    case_bottom(c, 0, CT_SHAPE(2, 3), x);
    case_bottom(c, 1, CT_SHAPE(2), high);
    ASSERT_OK(case_setup(c));
    ASSERT_STATUS(CT_EINVAL, case_forward(c));
    ASSERT_HAS("layer f: label 1 is 3", ct_last_error());
    c = layer_case(CT_CPU, "name: 'f' type: 'FocalLoss' "
                   "focal_loss_param { type: LINEAR }");
    case_bottom(c, 0, CT_SHAPE(2, 3), x);
    case_bottom(c, 1, CT_SHAPE(2), labels);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer f: type LINEAR needs", ct_last_error());
    c = layer_case(CT_CPU, "name: 'f' type: 'FocalLoss' "
                   "focal_loss_param { gamma: -1 }");
    case_bottom(c, 0, CT_SHAPE(2, 3), x);
    case_bottom(c, 1, CT_SHAPE(2), labels);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
}
