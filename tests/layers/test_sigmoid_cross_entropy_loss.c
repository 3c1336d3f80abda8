/* test_sigmoid_cross_entropy_loss.c - by hand.
 *
 *     x = 0    ln 3    sigmoid = 1/2  3/4     t = 1  0    loss = ln 2  ln 4
 *         -ln3  0                1/4  1/2         1 .5           ln 4  ln 2 */
#include "testing/layer_test.h"

#define LN2 0.69314718f
#define LN3 1.09861229f

static const float x[] = { 0, LN3, -LN3, 0 }, t[] = { 1, 0, 1, .5f };
static const float weight[] = { 1 };

static struct layer_case *two(enum ct_device_kind dev, const char *prototxt)
{
    struct layer_case *c = layer_case(dev, prototxt);

    case_bottom(c, 0, CT_SHAPE(2, 2), x);
    case_bottom(c, 1, CT_SHAPE(2, 2), t);
    case_want_grad(c, 1, false);
    return c;
}

TEST_EACH_DEVICE(sigmoid_cross_entropy_loss, the_batch_size_divides_by_default)
{
    struct layer_case *c = two(dev, "type: 'SigmoidCrossEntropyLoss'");

    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, weight);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 3 * LN2);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, -.25f, .375f, -.375f, 0);
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}

TEST(sigmoid_cross_entropy_loss, other_normalizations_divide_by_their_count)
{
    struct layer_case *c = two(CT_CPU, "type: 'SigmoidCrossEntropyLoss' "
        "loss_param { normalize: true }");

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 1.5f * LN2);
    c = two(CT_CPU, "type: 'SigmoidCrossEntropyLoss' "
        "loss_param { normalization: NONE }");
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 6 * LN2);
}

/* Targets lose their fraction before they are compared, so .5 is a 0. */
TEST_EACH_DEVICE(sigmoid_cross_entropy_loss, ignored_targets_do_not_count)
{
    struct layer_case *c = two(dev, "type: 'SigmoidCrossEntropyLoss' "
        "loss_param { ignore_label: 0 normalization: VALID }");

    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, weight);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 1.5f * LN2);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, -.25f, 0, -.375f, 0);
}

TEST(sigmoid_cross_entropy_loss, large_values_stay_finite)
{
    static const float far[] = { 200, -200, 200, -200 };
    struct layer_case *c = two(CT_CPU, "type: 'SigmoidCrossEntropyLoss'");

    case_bottom(c, 0, CT_SHAPE(2, 2), far);
    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, weight);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-4f, 50);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 0, 0, 0, -.25f);
}

TEST(sigmoid_cross_entropy_loss, counts_that_differ_are_refused)
{
    struct layer_case *c =
        two(CT_CPU, "name: 's' type: 'SigmoidCrossEntropyLoss'");

    case_bottom(c, 1, CT_SHAPE(2, 3), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer s: 6 targets for 4", ct_last_error());
}
