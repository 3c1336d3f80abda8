/* test_contrastive_loss.c - three pairs by hand, margin 6.
 *
 *     a - b = 3 4   alike            d = 5     25
 *             3 4   unlike, near     d = 5     (6 - 5)^2 = 1
 *             6 8   unlike, far      d = 10    0          loss = 26 / 6  */
#include "testing/layer_test.h"

static const float a[] = { 3, 4, 3, 4, 6, 8 }, b[6] = { 0 };
static const float alike[] = { 1, 0, 0 }, weight[] = { 3 };

static struct layer_case *three(enum ct_device_kind dev, const char *prototxt)
{
    struct layer_case *c = layer_case(dev, prototxt);

    case_bottom(c, 0, CT_SHAPE(3, 2), a);
    case_bottom(c, 1, CT_SHAPE(3, 2), b);
    case_bottom(c, 2, CT_SHAPE(3), alike);
    case_want_grad(c, 2, false);
    return c;
}

TEST_EACH_DEVICE(contrastive_loss, near_unlike_pairs_are_pushed_apart)
{
    struct layer_case *c = three(dev, "type: 'ContrastiveLoss' "
        "contrastive_loss_param { margin: 6 }");

    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, weight);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-5f, 26.0f / 6);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-4f, 3, 4, -.6f, -.8f, 0, 0);
    ASSERT_NEAR(c, "bottom[1].diff", 1e-4f, -3, -4, .6f, .8f, 0, 0);
    ASSERT_GRADIENT(c, 1e-2f, 1e-2f);
}

/* Legacy: the gap is to the squared distance, 30 - 25 = 5; 30 - 100 < 0. */
TEST_EACH_DEVICE(contrastive_loss, the_legacy_version_takes_squares)
{
    struct layer_case *c = three(dev, "type: 'ContrastiveLoss' "
        "contrastive_loss_param { margin: 30 legacy_version: true }");

    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, weight);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-5f, 30.0f / 6);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-5f, 3, 4, -3, -4, 0, 0);
    ASSERT_GRADIENT(c, 1e-2f, 1e-2f);
}

TEST_EACH_DEVICE(contrastive_loss, the_marks_get_no_gradient)
{
    struct layer_case *c = three(dev, "type: 'ContrastiveLoss'");

    case_want_grad(c, 2, true);
    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, weight);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "bottom[2].diff", 0, 0, 0, 0);
}

TEST(contrastive_loss, an_equal_unlike_pair_is_finite)
{
    struct layer_case *c = three(CT_CPU, "type: 'ContrastiveLoss'");

    case_bottom(c, 0, CT_SHAPE(3, 2), b);
    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, weight);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 2.0f / 6);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 0, 0, 0, 0, 0, 0);
}

static void refused(int bottom, struct ct_shape shape, const char *text)
{
    struct layer_case *c = three(CT_CPU, "name: 'c' type: 'ContrastiveLoss'");

    case_bottom(c, bottom, shape, NULL);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer c", ct_last_error());
    ASSERT_HAS(text, ct_last_error());
}

TEST(contrastive_loss, shapes_that_do_not_fit_are_refused)
{
    refused(1, CT_SHAPE(3, 4), "same shape");
    refused(1, CT_SHAPE(2, 3), "first dimension");
    refused(2, CT_SHAPE(3, 2), "6 marks of likeness for 3 pairs");
}

TEST(contrastive_loss, maps_are_refused)
{
    struct layer_case *c = three(CT_CPU, "name: 'c' type: 'ContrastiveLoss'");

    case_bottom(c, 0, CT_SHAPE(3, 1, 2), NULL);
    case_bottom(c, 1, CT_SHAPE(3, 1, 2), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("Flatten", ct_last_error());
}
