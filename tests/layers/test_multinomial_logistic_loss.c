/* test_multinomial_logistic_loss.c - by hand.
 *
 *     p = 1/4 1/2 1/4   t = 1     -log p = ln 2
 *         1/2 1/4 1/4       2              ln 4     mean 1.5 ln 2      */
#include "testing/layer_test.h"

static const float p[] = { .25f, .5f, .25f, .5f, .25f, .25f };
static const float t[] = { 1, 2 };

static struct layer_case *two(enum ct_device_kind dev)
{
    struct layer_case *c =
        layer_case(dev, "name: 'm' type: 'MultinomialLogisticLoss'");

    case_bottom(c, 0, CT_SHAPE(2, 3), p);
    case_bottom(c, 1, CT_SHAPE(2), t);
    case_want_grad(c, 1, false);
    return c;
}

TEST_EACH_DEVICE(multinomial_logistic_loss, only_the_labels_probability_counts)
{
    static const float weight[] = { 2 };
    struct layer_case *c = two(dev);

    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, weight);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 1.03972077f);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-5f, 0, -2, 0, 0, 0, -4);
    ASSERT_GRADIENT(c, 1e-3f, 1e-3f);
}

/* -log(1e-20) = 46.0517 */
TEST(multinomial_logistic_loss, a_probability_of_zero_costs_a_finite_loss)
{
    static const float none[] = { 1, 0, 0, 1, 0, 0 };
    struct layer_case *c = two(CT_CPU);

    case_bottom(c, 0, CT_SHAPE(2, 3), none);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-3f, 46.0517f);
}

TEST(multinomial_logistic_loss, a_label_out_of_range_is_refused)
{
    static const float wrong[] = { 5, 0 };
    struct layer_case *c = two(CT_CPU);

    ASSERT_OK(case_setup(c));
    case_bottom(c, 1, CT_SHAPE(2), wrong);
    ASSERT_STATUS(CT_EINVAL, case_forward(c));
    ASSERT_HAS("layer m: label 0 is 5", ct_last_error());
}

TEST(multinomial_logistic_loss, two_labels_a_row_are_refused)
{
    struct layer_case *c = two(CT_CPU);

    case_bottom(c, 1, CT_SHAPE(2, 2), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer m", ct_last_error());
}
