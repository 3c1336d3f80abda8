/* test_crop.c - a window of a bottom. */
#include "testing/layer_test.h"

static const float x[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 };

static struct layer_case *window(const char *prototxt, struct ct_shape from,
                                 struct ct_shape like)
{
    struct layer_case *c = layer_case(CT_CPU, prototxt);

    case_bottom(c, 0, from, NULL);
    case_bottom(c, 1, like, NULL);
    case_want_grad(c, 1, false);
    return c;
}

TEST_EACH_DEVICE(crop, offsets_place_the_window)
{
    static const float dy[] = { 1, 2, 3, 4 };
    struct layer_case *c = layer_case(dev, "type: 'Crop' crop_param "
                                      "{ axis: 0 offset: 1 offset: 2 }");

    case_bottom(c, 0, CT_SHAPE(3, 4), x);
    case_bottom(c, 1, CT_SHAPE(2, 2), x);
    case_want_grad(c, 1, false);
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 2, 2);
    case_top_diff(c, 0, dy);
    ct_diff(case_find(c, "bottom[0]"))[0] = 7; /* must become 0 */
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 7, 8, 11, 12);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 3, 4);
}

TEST_EACH_DEVICE(crop, three_axes_are_cropped_at_once)
{
    struct layer_case *c = layer_case(
        dev, "type: 'Crop' crop_param { axis: 0 offset: 1 offset: 0 "
        "offset: 1 }");

    case_bottom(c, 0, CT_SHAPE(3, 2, 2), x);
    case_bottom(c, 1, CT_SHAPE(2, 1, 1), x);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 6, 10);
}

TEST_EACH_DEVICE(crop, axes_before_stay_whole_and_one_offset_serves_all)
{
    struct layer_case *c = window("type: 'Crop' crop_param { offset: 1 }",
                                  CT_SHAPE(2, 3, 4, 5), CT_SHAPE(9, 9, 2, 3));

    (void)dev;
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 2, 3, 2, 3);
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
    c = window("type: 'Crop' crop_param { axis: -1 }", CT_SHAPE(2, 3, 5),
               CT_SHAPE(1, 1, 2));
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 2, 3, 2);
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}

TEST(crop, windows_that_do_not_fit_are_refused)
{
    struct layer_case *c =
        window("name: 'w' type: 'Crop' crop_param { axis: 0 offset: 2 }",
               CT_SHAPE(3, 4), CT_SHAPE(2, 2));

    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer w: on axis 0", ct_last_error());
    c = window("name: 'w' type: 'Crop' crop_param { axis: 1 }",
               CT_SHAPE(3, 4), CT_SHAPE(2));
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    c = window("name: 'w' type: 'Crop' crop_param { axis: 0 offset: 0 "
               "offset: 0 offset: 0 }", CT_SHAPE(3, 4), CT_SHAPE(2, 2));
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer w: 2 axes", ct_last_error());
    c = window("name: 'w' type: 'Crop'", CT_SHAPE(3, 4), CT_SHAPE(2, 2));
    ASSERT_STATUS(CT_EINVAL, case_setup(c)); /* axis 2 of two axes */
    ASSERT_HAS("layer w", ct_last_error());
}

/* Nets crop one branch to the size of another that learns. */
TEST(crop, the_bottom_that_gives_the_size_gets_no_gradient)
{
    static const float ones[] = { 1, 1, 1, 1 };
    struct layer_case *c = layer_case(CT_CPU, "type: 'Crop'");

    case_bottom(c, 0, CT_SHAPE(1, 1, 3, 3), NULL);
    case_bottom(c, 1, CT_SHAPE(1, 1, 2, 2), NULL);
    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, ones);
    memcpy(ct_diff(case_find(c, "bottom[1]")), ones, sizeof(ones));
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "bottom[1].diff", 0, 0, 0, 0, 0);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 1, 1, 0, 1, 1, 0, 0, 0, 0);
}
