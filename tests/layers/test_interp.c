/* test_interp.c - bilinear sizes by hand.
 *
 *     1 3        1 2 3
 *     5 7   ->   3 4 5
 *                5 6 7                                                */
#include "testing/layer_test.h"

static const float x[] = { 1, 3, 5, 7 };

static struct layer_case *image(enum ct_device_kind dev, const char *param)
{
    char text[256];
    struct layer_case *c;

    snprintf(text, sizeof(text),
             "name: 'i' type: 'Interp' interp_param { %s }", param);
    c = layer_case(dev, text);
    case_bottom(c, 0, CT_SHAPE(1, 1, 2, 2), x);
    return c;
}

TEST_EACH_DEVICE(interp, corners_stay_and_the_middle_is_the_mean)
{
    static const float dy[] = { 1, 0, 0, 0, 4, 0, 0, 2, 0 };
    struct layer_case *c = image(dev, "height: 3 width: 3");

    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 1, 2, 3, 3, 4, 5, 5, 6, 7);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 2, 1, 2, 2);
}

TEST_EACH_DEVICE(interp, zoom_puts_points_between)
{
    struct layer_case *c = image(dev, "zoom_factor: 2");

    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 1, 1, 3, 3);
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 1, 2, 3, 3, 4, 5, 5, 6, 7);
}

TEST_EACH_DEVICE(interp, shrink_takes_every_second_point)
{
    static const float five[] = { 1, 2, 3, 4, 5 };
    struct layer_case *c = image(dev, "shrink_factor: 2");

    case_bottom(c, 0, CT_SHAPE(1, 1, 1, 5), five);
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 1, 1, 1, 3);
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 1, 3, 5);
}

TEST_EACH_DEVICE(interp, one_output_is_the_first_corner)
{
    struct layer_case *c = image(dev, "height: 1 width: 1");

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 1);
}

TEST_EACH_DEVICE(interp, negative_padding_crops)
{
    static const float nine[] = { 9, 9, 9, 9, 1, 3, 9, 5, 7 };
    static const float ones[] = { 1, 1, 1, 1 };
    struct layer_case *c = image(dev, "height: 2 width: 2 pad_beg: -1");

    case_bottom(c, 0, CT_SHAPE(1, 1, 3, 3), nine);
    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, ones);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 1, 3, 5, 7);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 0, 0, 0, 0, 1, 1, 0, 1, 1);
}

TEST_EACH_DEVICE(interp, gradient_matches_finite_differences)
{
    struct layer_case *c =
        image(dev, "height: 7 width: 4 pad_beg: -1 pad_end: -1");

    case_bottom(c, 0, CT_SHAPE(2, 3, 5, 8), NULL);
    ASSERT_OK(case_setup(c));
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}

static void refused(const char *param)
{
    ASSERT_STATUS(CT_EINVAL, case_setup(image(CT_CPU, param)));
    ASSERT_HAS("layer i", ct_last_error());
}

TEST(interp, parameters_that_make_no_sense_are_refused)
{
    refused("");
    refused("height: 3");
    refused("height: 3 width: 3 zoom_factor: 2");
    refused("height: 0 width: 3");
    refused("zoom_factor: 0");
    refused("zoom_factor: 2 pad_end: 1");
}

TEST(interp, bottoms_that_do_not_fit_are_refused)
{
    struct layer_case *c = image(CT_CPU, "zoom_factor: 2");

    case_bottom(c, 0, CT_SHAPE(2, 2), x);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    c = image(CT_CPU, "zoom_factor: 2 pad_beg: -1 pad_end: -1");
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer i", ct_last_error());
    c = image(CT_CPU, "zoom_factor: 2 pad_beg: -2147483648");
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
}
