/* test_spp.c - a pyramid over this image, 3 x 4:
 *
 *      1  2  3  4      level 0: the whole
 *      8  7  6  5      level 1: kernel 2 x 2, pad 1 x 0:
 *      9 10 12 11               rows -1..0 and 1..2, columns 0..1 and 2..3 */
#include "testing/layer_test.h"

static const float x[] = { 1, 2, 3, 4, 8, 7, 6, 5, 9, 10, 12, 11 };

TEST_EACH_DEVICE(spp, two_levels_of_maxima)
{
    struct layer_case *c = layer_case(dev,
        "type: 'SPP' spp_param { pyramid_height: 2 }");

    case_bottom(c, 0, CT_SHAPE(1, 1, 3, 4), x);
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 1, 5);
    case_top_diff(c, 0, (const float[]){ 100, 1, 2, 3, 4 });
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 12, 2, 4, 10, 12);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 3, 104, 0);
}

TEST_EACH_DEVICE(spp, averages_divide_by_the_padded_window)
{
    struct layer_case *c = layer_case(dev,
        "type: 'SPP' spp_param { pyramid_height: 2 pool: AVE }");

    case_bottom(c, 0, CT_SHAPE(1, 1, 3, 4), x);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 6.5f, 0.75f, 1.75f, 8.5f, 8.5f);
}

TEST_EACH_DEVICE(spp, one_level_keeps_four_axes)
{
    struct layer_case *c = layer_case(dev,
        "type: 'SPP' spp_param { pyramid_height: 1 }");

    case_bottom(c, 0, CT_SHAPE(2, 1, 2, 3), x);
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 2, 1, 1, 1);
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 8, 12);
}

TEST_EACH_DEVICE(spp, images_of_another_size_give_rows_of_the_same_width)
{
    struct layer_case *c = layer_case(dev,
        "type: 'SPP' spp_param { pyramid_height: 3 pool: AVE }");

    case_bottom(c, 0, CT_SHAPE(2, 3, 9, 11), NULL);
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 2, 63);
    case_bottom(c, 0, CT_SHAPE(2, 3, 8, 6), NULL);
    ASSERT_OK(case_reshape(c));
    ASSERT_SHAPE(c, "top[0]", 2, 63);
    ASSERT_GRADIENT(c, 1e-2f, 1e-2f);
}

TEST(spp, pyramids_that_do_not_work_are_refused)
{
    struct layer_case *c = layer_case(CT_CPU, "name: 's' type: 'SPP'");

    case_bottom(c, 0, CT_SHAPE(1, 1, 3, 4), x);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer s: pyramid_height", ct_last_error());
    c = layer_case(CT_CPU, "name: 's' type: 'SPP' "
                           "spp_param { pyramid_height: 4 }");
    case_bottom(c, 0, CT_SHAPE(1, 1, 3, 4), x);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("lower pyramid_height", ct_last_error());
    c = layer_case(CT_CPU, "name: 's' type: 'SPP' "
                           "spp_param { pyramid_height: 2 pool: STOCHASTIC }");
    case_bottom(c, 0, CT_SHAPE(1, 1, 3, 4), x);
    ASSERT_STATUS(CT_ENOTSUP, case_setup(c));
    c = layer_case(CT_CPU, "name: 's' type: 'SPP' "
                           "spp_param { pyramid_height: 1 }");
    case_bottom(c, 0, CT_SHAPE(3, 4), x);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("4 axes", ct_last_error());
}
