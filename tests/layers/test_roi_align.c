/* test_roi_align.c - the map 4 y + x, 3 x 4 pixels, which bilinear samples
 * give back exactly. */
#include "testing/layer_test.h"

static struct layer_case *map(enum ct_device_kind dev, const char *param,
                              int n, const float *rois)
{
    float x[12];
    char text[256];
    struct layer_case *c;

    for (int i = 0; i < 12; i++)
        x[i] = (float)i;
    snprintf(text, sizeof(text), "name: 'a' type: 'ROIAlign' %s", param);
    c = layer_case(dev, text);
    case_bottom(c, 0, CT_SHAPE(1, 1, 3, 4), x);
    case_bottom(c, 1, CT_SHAPE(n, 5), rois);
    case_want_grad(c, 1, false);
    return c;
}

/* Bins of 1 x 1 from (1, 0) on; the first sample lies between four pixels. */
TEST_EACH_DEVICE(roi_align, samples_lie_in_the_middle_of_bins)
{
    static const float roi[] = { 0, 1, 0, 3, 2 }, dy[] = { 4, 0, 0, 0 };
    struct layer_case *c = map(dev, "roi_align_param { pooled_h: 2 "
                               "pooled_w: 2 sampling_ratio: 1 }", 1, roi);

    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 1, 1, 2, 2);
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 3.5f, 4.5f, 7.5f, 8.5f);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 0, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0,
                0);
}

TEST_EACH_DEVICE(roi_align, several_samples_have_a_mean)
{
    static const float roi[] = { 0, 2, 0, 6, 4 }, dy[] = { 4, 0, 0, 0 };
    struct layer_case *c = map(dev, "roi_align_param { pooled_h: 2 "
        "pooled_w: 2 spatial_scale: 0.5 sampling_ratio: 2 }", 1, roi);

    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 3.5f, 4.5f, 7.5f, 8.5f);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 0, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0,
                0);
}

/* One more pixel: bins of 1.5; what lies behind the last pixel is read at it.
 */
TEST_EACH_DEVICE(roi_align, regions_may_end_behind_their_last_pixel)
{
    static const float roi[] = { 0, 1, 0, 3, 2 };
    struct layer_case *c = map(dev, "roi_align_param { pooled_h: 2 "
        "pooled_w: 2 sampling_ratio: 1 roi_end_mode: 1 }", 1, roi);

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 4.75f, 6, 9.75f, 11);
}

/* Without a ratio a bin has a sample a pixel: here 2 x 3 in one bin. */
TEST_EACH_DEVICE(roi_align, samples_follow_the_size_of_bins)
{
    static const float roi[] = { 0, 0, 0, 3, 2 }, dy[] = { 6 };
    struct layer_case *c = map(dev, "roi_align_param { pooled_h: 1 "
                               "pooled_w: 1 }", 1, roi);

    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 5.5f);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 0.25f, 0.5f, 0.5f, 0.25f, 0.5f, 1,
                1, 0.5f, 0.25f, 0.5f, 0.5f, 0.25f);
}

/* Cascade R-CNN's samples corners, half a pixel before. */
TEST_EACH_DEVICE(roi_align, roi_pooling_param_means_corners)
{
    static const float roi[] = { 0, 1.5f, 0.5f, 3.5f, 2.5f };
    static const float dy[] = { 1, 2, 3, 4 };
    struct layer_case *c = map(dev, "roi_pooling_param { pooled_h: 1 "
                               "pooled_w: 1 }", 1, roi);

    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 1, 1, 2, 2);
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 1, 3, 9, 11);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 0, 1, 0, 2, 0, 0, 0, 0, 0, 3, 0,
                4);
    c = map(dev, "roi_pooling_param { pooled_h: 1 pooled_w: 1 "
            "pad_ratio: 0.1666666 }", 1, roi);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-4f, 0.5f, 3, 8.5f, 11);
}

TEST_EACH_DEVICE(roi_align, outside_and_inside_out_are_zero)
{
    static const float rois[] = { 0, 8, 8, 9, 9, 0, 3, 2, 1, 1 };
    struct layer_case *c = map(dev, "roi_pooling_param { pooled_h: 1 "
                               "pooled_w: 1 }", 2, rois);

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 0, 0, 0, 0, 0, 0, 0, 0);
}

TEST_EACH_DEVICE(roi_align, gradient_matches_finite_differences)
{
    static const float rois[] = { 1, 0, 0, 5, 4, 0, 1, 2, 3, 3,
                                  1, 2, 1, 9, 3 };
    static const char *const params[] = {
        "roi_align_param { pooled_h: 2 pooled_w: 3 sampling_ratio: 2 }",
        "roi_align_param { pooled_h: 2 pooled_w: 1 spatial_scale: 0.7 }",
        "roi_pooling_param { pooled_h: 2 pooled_w: 3 pad_ratio: 0.1 }",
    };

    for (int i = 0; i < 3; i++) {
        struct layer_case *c = map(dev, params[i], 3, rois);

        case_bottom(c, 0, CT_SHAPE(2, 2, 5, 6), NULL);
        ASSERT_OK(case_setup(c));
        ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
    }
}

TEST(roi_align, what_does_not_fit_is_refused)
{
    static const float rois[] = { 0, 0, 0, 1, 1 }, bad[] = { 0, 0, NAN, 1, 1 };
    struct layer_case *c = map(CT_CPU, "", 1, rois);

    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer a: give pooled_h and pooled_w", ct_last_error());
    c = map(CT_CPU, "roi_align_param { pooled_h: 1 pooled_w: 1 "
            "roi_end_mode: 2 }", 1, rois);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    c = map(CT_CPU, "roi_align_param { pooled_h: 1 pooled_w: 1 }", 1, bad);
    ASSERT_OK(case_setup(c));
    ASSERT_STATUS(CT_EINVAL, case_forward(c));
    ASSERT_HAS("layer a: region 0", ct_last_error());
    c = map(CT_CPU, "roi_align_param { pooled_h: 1 pooled_w: 1 }", 1, rois);
    case_bottom(c, 0, CT_SHAPE(3, 4), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    c = map(CT_CPU, "roi_align_param { pooled_h: 1 pooled_w: 1 }", 1, rois);
    case_bottom(c, 0, CT_SHAPE(1, 2, 0, 4), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("bottom 0, which is empty", ct_last_error());
}
