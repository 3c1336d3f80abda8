/* test_upsample.c - repeating and un-pooling, by hand. */
#include "testing/layer_test.h"

static const float x[] = { 1, 2, 3, 4 }, mask[] = { 0, 3, 13, 10 };

static struct layer_case *image(enum ct_device_kind dev, const char *param)
{
    char text[256];
    struct layer_case *c;

    snprintf(text, sizeof(text),
             "name: 'u' type: 'Upsample' upsample_param { %s }", param);
    c = layer_case(dev, text);
    case_bottom(c, 0, CT_SHAPE(1, 1, 2, 2), x);
    case_want_grad(c, 1, false);
    return c;
}

TEST_EACH_DEVICE(upsample, one_bottom_repeats_values)
{
    struct layer_case *c = image(dev, "scale_h: 1 scale_w: 3");
    static const float dy[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 };

    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 1, 1, 2, 6);
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 6, 15, 24, 33);
}

TEST_EACH_DEVICE(upsample, a_size_takes_the_nearest)
{
    struct layer_case *c = image(dev, "upsample_h: 3 upsample_w: 2");

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 1, 2, 1, 2, 3, 4);
}

TEST_EACH_DEVICE(upsample, two_bottoms_put_values_back_in_their_place)
{
    struct layer_case *c = image(dev, "scale: 2");
    float dy[16];

    for (int i = 0; i < 16; i++)
        dy[i] = (float)i;
    case_bottom(c, 1, CT_SHAPE(1, 1, 2, 2), mask);
    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 1, 0, 0, 2, 0, 0, 0, 0, 0, 0, 4, 0, 0, 3,
                0, 0);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 0, 3, 13, 10);
}

TEST_EACH_DEVICE(upsample, pad_out_leaves_the_last_row_and_column)
{
    struct layer_case *c = image(dev, "scale: 2 pad_out_h: true");

    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 1, 1, 3, 4);
}

TEST_EACH_DEVICE(upsample, gradient_matches_finite_differences)
{
    struct layer_case *c = image(dev, "scale_h: 2 scale_w: 3");

    case_bottom(c, 0, CT_SHAPE(2, 3, 4, 5), NULL);
    ASSERT_OK(case_setup(c));
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}

TEST(upsample, a_mask_from_a_larger_image_is_refused)
{
    static const float far[] = { 0, 3, 16, 10 };
    struct layer_case *c = image(CT_CPU, "scale: 2");

    case_bottom(c, 1, CT_SHAPE(1, 1, 2, 2), far);
    ASSERT_OK(case_setup(c));
    ASSERT_STATUS(CT_EINVAL, case_forward(c));
    ASSERT_HAS("layer u: mask value 2 is 16", ct_last_error());
}

static void refused(const char *param)
{
    ASSERT_STATUS(CT_EINVAL, case_setup(image(CT_CPU, param)));
    ASSERT_HAS("layer u", ct_last_error());
}

TEST(upsample, parameters_that_make_no_sense_are_refused)
{
    refused("scale: 0");
    refused("scale: 2 scale_h: 2 scale_w: 2");
    refused("scale_h: 2");
    refused("upsample_h: 3");
    refused("scale: 3 pad_out_w: true");
}

TEST(upsample, bottoms_that_do_not_fit_are_refused)
{
    struct layer_case *c = image(CT_CPU, "scale: 2");

    case_bottom(c, 1, CT_SHAPE(1, 1, 2, 3), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer u", ct_last_error());
    c = image(CT_CPU, "scale: 2");
    case_bottom(c, 0, CT_SHAPE(2, 2), x);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
}
