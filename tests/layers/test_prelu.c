/* test_prelu.c - learned slopes, one a channel or one for all.
 *
 * Two items of two channels of two values: channel 0 has -1 2 and 5 -6 with
 * slope 0.5, channel 1 has -3 -4 and 7 -8 with slope 2. */
#include "testing/layer_test.h"

static const float x[] = { -1, 2, -3, -4, 5, -6, 7, -8 };
static const float dy[] = { 1, 2, 3, 4, 5, 6, 7, 8 }, a[] = { 0.5f, 2 };

static struct layer_case *eight(enum ct_device_kind dev, const char *prototxt)
{
    struct layer_case *c = layer_case(dev, prototxt);

    case_bottom(c, 0, CT_SHAPE(2, 2, 2), x);
    return c;
}

static void check(struct layer_case *c)
{
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "blob[0]", 2);
    case_blob(c, 0, a);
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_OK(case_backward(c));     /* twice, to tell += from = */
    ASSERT_NEAR(c, "top[0].data", 0, -0.5f, 2, -6, -8, 5, -3, 7, -16);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 0.5f, 2, 6, 8, 5, 3, 7, 16);
    ASSERT_NEAR(c, "blob[0].diff", 0, -74, -178);
}

TEST_EACH_DEVICE(prelu, each_channel_has_its_slope)
{
    check(eight(dev, "type: 'PReLU'"));
}

TEST_EACH_DEVICE(prelu, works_in_place)
{
    struct layer_case *c = eight(dev, "type: 'PReLU'");

    case_in_place(c);
    check(c);
}

TEST_EACH_DEVICE(prelu, slopes_start_at_a_quarter_or_as_the_filler_says)
{
    struct layer_case *c = eight(dev, "type: 'PReLU'");

    ASSERT_OK(case_setup(c));
    ASSERT_NEAR(c, "blob[0].data", 0, 0.25f, 0.25f);
    c = eight(dev, "type: 'PReLU' prelu_param { filler { value: 0.125 } }");
    ASSERT_OK(case_setup(c));
    ASSERT_NEAR(c, "blob[0].data", 0, 0.125f, 0.125f);
}

TEST_EACH_DEVICE(prelu, a_shared_slope_adds_up_over_all)
{
    struct layer_case *c =
        eight(dev, "type: 'PReLU' prelu_param { channel_shared: true }");

    ASSERT_OK(case_setup(c));
    ASSERT_INT(0, case_find(c, "blob[0]")->shape.n_axes);
    case_blob(c, 0, a);
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_OK(case_backward(c));     /* twice, to tell += from = */
    ASSERT_NEAR(c, "top[0].data", 0, -0.5f, 2, -1.5f, -2, 5, -3, 7, -4);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 0.5f, 2, 1.5f, 2, 5, 3, 7, 4);
    ASSERT_NEAR(c, "blob[0].diff", 0, -252);
}

TEST_EACH_DEVICE(prelu, gradient_matches_finite_differences)
{
    struct layer_case *c = layer_case(dev, "type: 'PReLU'");

    case_bottom(c, 0, CT_SHAPE(2, 19, 3), NULL); /* more than one group */
    ASSERT_OK(case_setup(c));
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
    c = layer_case(dev, "type: 'PReLU'");
    case_bottom(c, 0, CT_SHAPE(3, 4), NULL);
    ASSERT_OK(case_setup(c));
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}

TEST_EACH_DEVICE(prelu, a_slope_that_does_not_learn_gets_no_gradient)
{
    struct layer_case *c = eight(dev, "type: 'PReLU'");

    ASSERT_OK(case_setup(c));
    case_layer(c)->blob_wants_grad[0] = false;
    case_blob(c, 0, a);
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "blob[0].diff", 0, 0, 0);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 0.5f, 2, 6, 8, 5, 3, 7, 16);
}

TEST(prelu, one_axis_is_refused)
{
    struct layer_case *c = layer_case(CT_CPU, "name: 'p' type: 'PReLU'");

    case_bottom(c, 0, CT_SHAPE(8), x);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer p", ct_last_error());
}

TEST(prelu, another_number_of_channels_is_refused)
{
    struct layer_case *c = eight(CT_CPU, "name: 'p' type: 'PReLU'");

    ASSERT_OK(case_setup(c));
    case_bottom(c, 0, CT_SHAPE(2, 3), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_reshape(c));
    ASSERT_HAS("layer p", ct_last_error());
}
