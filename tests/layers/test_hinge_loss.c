/* test_hinge_loss.c - margins by hand.
 *
 *     x = 2  -3  .5    t = 0    m = 0   0  1.5     sum m = 1.5, m^2 = 2.25
 *         0  -.5  1        1        1  1.5  2      sum m = 4.5, m^2 = 7.25 */
#include "testing/layer_test.h"

static const float x[] = { 2, -3, .5f, 0, -.5f, 1 }, t[] = { 0, 1 };
static const float weight[] = { 2 };

static struct layer_case *two(enum ct_device_kind dev, const char *prototxt)
{
    struct layer_case *c = layer_case(dev, prototxt);

    case_bottom(c, 0, CT_SHAPE(2, 3), x);
    case_bottom(c, 1, CT_SHAPE(2, 1), t);
    case_want_grad(c, 1, false);
    return c;
}

TEST_EACH_DEVICE(hinge_loss, l1_sums_margins)
{
    struct layer_case *c = two(dev, "type: 'HingeLoss'");

    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, weight);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 3);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 0, 0, 1, 1, -1, 1);
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}

TEST_EACH_DEVICE(hinge_loss, l2_sums_squares)
{
    struct layer_case *c =
        two(dev, "type: 'HingeLoss' hinge_loss_param { norm: L2 }");

    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, weight);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 4.75f);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 0, 0, 3, 2, -3, 4);
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}

TEST(hinge_loss, a_label_out_of_range_is_refused)
{
    static const float wrong[] = { 0, 3 };
    struct layer_case *c = two(CT_CPU, "name: 'h' type: 'HingeLoss'");

    ASSERT_OK(case_setup(c));
    case_bottom(c, 1, CT_SHAPE(2, 1), wrong);
    ASSERT_STATUS(CT_EINVAL, case_forward(c));
    ASSERT_HAS("layer h: label 1 is 3", ct_last_error());
}

TEST(hinge_loss, two_labels_a_row_are_refused)
{
    struct layer_case *c = two(CT_CPU, "name: 'h' type: 'HingeLoss'");

    case_bottom(c, 1, CT_SHAPE(2, 2), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer h: 4 labels for 2", ct_last_error());
}
