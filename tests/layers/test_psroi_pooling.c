/* test_psroi_pooling.c - four 2 x 2 maps, map k with 10 k + 0 1 / 2 3. */
#include "testing/layer_test.h"

static struct layer_case *maps(enum ct_device_kind dev, const char *param,
                               int channels, int n, const float *rois)
{
    float x[16];
    char text[256];
    struct layer_case *c;

    for (int i = 0; i < 16; i++)
        x[i] = (float)(i / 4 * 10 + i % 4);
    snprintf(text, sizeof(text), "name: 'p' type: 'PSROIPooling' "
             "psroi_pooling_param { %s }", param);
    c = layer_case(dev, text);
    case_bottom(c, 0, CT_SHAPE(1, channels, 2, 2), x);
    case_bottom(c, 1, CT_SHAPE(n, 5), rois);
    case_want_grad(c, 1, false);
    return c;
}

TEST_EACH_DEVICE(psroi_pooling, each_bin_reads_its_own_map)
{
    static const float whole[] = { 0, 0, 0, 1, 1 }, dy[] = { 1, 2, 3, 4 };
    struct layer_case *c = maps(dev, "spatial_scale: 1 output_dim: 1 "
                                "group_size: 2", 4, 1, whole);

    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 1, 1, 2, 2);
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 0, 11, 22, 33);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 3, 0, 0,
                0, 0, 4);
}

/* Half of the scale: one pixel, which all bins touch. */
TEST_EACH_DEVICE(psroi_pooling, bins_are_rounded_outwards)
{
    static const float one[] = { 0, 0, 0, 1, 1 };
    struct layer_case *c = maps(dev, "spatial_scale: 0.5 output_dim: 1 "
                                "group_size: 2", 4, 1, one);

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 0, 10, 20, 30);
}

TEST_EACH_DEVICE(psroi_pooling, regions_are_means_and_add_up)
{
    static const float two[] = { 0, 0, 0, 1, 1, 0, 1.4f, 0, 1, 1,
                                 0, 5, 5, 6, 6 };
    static const float dy[] = { 4, 2, 8 };
    struct layer_case *c = maps(dev, "spatial_scale: 1 output_dim: 1 "
                                "group_size: 1", 1, 3, two);

    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 1.5f, 2, 0);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 1, 2, 1, 2);
}

TEST_EACH_DEVICE(psroi_pooling, gradient_matches_finite_differences)
{
    static const float rois[] = { 1, 0, 0, 9, 7, 0, 1, 2, 6, 3,
                                  1, 2, 1, 15, 3 };
    struct layer_case *c = maps(dev, "spatial_scale: 0.5 output_dim: 2 "
                                "group_size: 2", 4, 3, rois);

    case_bottom(c, 0, CT_SHAPE(2, 8, 5, 6), NULL);
    ASSERT_OK(case_setup(c));
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}

TEST(psroi_pooling, what_does_not_fit_is_refused)
{
    static const float rois[] = { 0, 0, 0, 1, 1 }, other[] = { 1, 0, 0, 1, 1 };
    struct layer_case *c = maps(CT_CPU, "spatial_scale: 1 output_dim: 2 "
                                "group_size: 2", 4, 1, rois);

    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer p: 4 channels, but output_dim and group_size need 2 x 2 "
               "x 2", ct_last_error());
    c = maps(CT_CPU, "spatial_scale: 1 output_dim: 1 group_size: 0", 4, 1,
             rois);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    c = maps(CT_CPU, "spatial_scale: 1 output_dim: 1 group_size: 2", 4, 1,
             other);
    ASSERT_OK(case_setup(c));
    ASSERT_STATUS(CT_EINVAL, case_forward(c));
    ASSERT_HAS("layer p: region 0 (image 1 of 1", ct_last_error());
    c = maps(CT_CPU, "spatial_scale: 1 output_dim: 1 group_size: 2", 4, 1,
             rois);
    case_bottom(c, 1, CT_SHAPE(1, 4), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer p: bottom 1", ct_last_error());
}
