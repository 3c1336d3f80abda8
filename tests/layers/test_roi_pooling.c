/* test_roi_pooling.c - regions of a 3 x 4 map, by hand.
 *
 *      0  1  2  3
 *      4  5  6  7
 *      8  9 10 11                                                     */
#include "testing/layer_test.h"

static struct layer_case *map(enum ct_device_kind dev, const char *param,
                              int n, const float *rois)
{
    float x[12];
    char text[256];
    struct layer_case *c;

    for (int i = 0; i < 12; i++)
        x[i] = (float)i;
    snprintf(text, sizeof(text),
             "name: 'r' type: 'ROIPooling' roi_pooling_param { %s }", param);
    c = layer_case(dev, text);
    case_bottom(c, 0, CT_SHAPE(1, 1, 3, 4), x);
    case_bottom(c, 1, CT_SHAPE(n, 5), rois);
    case_want_grad(c, 1, false);
    return c;
}

/* Columns 0..3 make two bins of two, rows 0..2 make bins 0..1 and 1..2. */
TEST_EACH_DEVICE(roi_pooling, bins_are_rounded_outwards)
{
    static const float whole[] = { 0, 0, 0, 3, 2 }, dy[] = { 1, 2, 3, 4 };
    struct layer_case *c = map(dev, "pooled_h: 2 pooled_w: 2", 1, whole);

    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 1, 1, 2, 2);
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 5, 7, 9, 11);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 0, 0, 0, 0, 0, 1, 0, 2, 0, 3, 0, 4);
}

/* Scaled by 1/2: (2, 2)-(5, 4) becomes (1, 1)-(3, 2), and 2.5 rounds to 3. */
TEST_EACH_DEVICE(roi_pooling, regions_are_scaled_and_add_up)
{
    static const float rois[] = { 0, 2, 2, 5, 4, 0, 0, 0, 6, 4 };
    static const float dy[] = { 1, 10 };
    struct layer_case *c =
        map(dev, "pooled_h: 1 pooled_w: 1 spatial_scale: 0.5", 2, rois);

    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 11, 11);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11);
}

TEST_EACH_DEVICE(roi_pooling, outside_is_zero_and_inside_out_is_one_pixel)
{
    static const float rois[] = { 0, 8, 8, 9, 9, 0, 2, 1, 0, 0 };
    static const float dy[] = { 1, 10 };
    struct layer_case *c = map(dev, "pooled_h: 1 pooled_w: 1", 2, rois);

    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 0, 6);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0);
}

TEST_EACH_DEVICE(roi_pooling, gradient_matches_finite_differences)
{
    static const float rois[] = { 1, 0, 0, 5, 4, 0, 1, 2, 3, 3,
                                  1, 2, 1, 7, 3 };
    struct layer_case *c = map(dev, "pooled_h: 2 pooled_w: 3", 3, rois);

    case_bottom(c, 0, CT_SHAPE(2, 3, 5, 6), NULL);
    ASSERT_OK(case_setup(c));
    ASSERT_GRADIENT(c, 1e-3f, 1e-2f);
}

TEST(roi_pooling, an_image_that_is_not_there_is_refused)
{
    static const float rois[] = { 1, 0, 0, 1, 1 };
    static const float bad[] = { 0, 0, NAN, 1, 1 };
    struct layer_case *c = map(CT_CPU, "pooled_h: 1 pooled_w: 1", 1, rois);

    ASSERT_OK(case_setup(c));
    ASSERT_STATUS(CT_EINVAL, case_forward(c));
    ASSERT_HAS("layer r: region 0 is in image 1 of 1", ct_last_error());
    case_bottom(c, 1, CT_SHAPE(1, 5), bad);
    ASSERT_STATUS(CT_EINVAL, case_forward(c));
}

TEST(roi_pooling, sizes_that_make_no_sense_are_refused)
{
    static const float rois[] = { 0, 0, 0, 1, 1 };
    struct layer_case *c = map(CT_CPU, "pooled_h: 1", 1, rois);

    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer r", ct_last_error());
    c = map(CT_CPU, "pooled_h: 1 pooled_w: 1", 1, rois);
    case_bottom(c, 1, CT_SHAPE(1, 4), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer r: bottom 1", ct_last_error());
    c = map(CT_CPU, "pooled_h: 1 pooled_w: 1", 1, rois);
    case_bottom(c, 0, CT_SHAPE(3, 4), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
}
