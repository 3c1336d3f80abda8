/* test_im2col.c - windows as channels, by hand:
 *
 *     x = 1 2 3       windows of 2 x 2:  1 2 4 5 | 2 3 5 6
 *         4 5 6                                                           */
#include "testing/layer_test.h"

static const float x[] = { 1, 2, 3, 4, 5, 6 };

static struct layer_case *make(enum ct_device_kind dev, struct ct_shape shape,
                               const float *values, const char *param)
{
    char text[256];
    struct layer_case *c;

    snprintf(text, sizeof(text), "name: 'i' type: 'Im2col' "
             "convolution_param { %s }", param);
    c = layer_case(dev, text);
    case_bottom(c, 0, shape, values);
    return c;
}

TEST_EACH_DEVICE(im2col, windows_become_channels)
{
    struct layer_case *c = make(dev, CT_SHAPE(1, 1, 2, 3), x, "kernel_size: 2");

    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 1, 4, 1, 2);
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 1, 2, 2, 3, 4, 5, 5, 6);
}

TEST_EACH_DEVICE(im2col, padding_is_zero)
{
    struct layer_case *c = make(dev, CT_SHAPE(1, 1, 2, 3), x, "kernel_h: 1 "
        "kernel_w: 2 pad_h: 1 pad_w: 1 stride_h: 2 stride_w: 3");

    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 1, 2, 2, 2);
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 0, 0, 0, 6, 0, 0, 4, 0);
}

TEST_EACH_DEVICE(im2col, dilation_leaves_gaps)
{
    struct layer_case *c = make(dev, CT_SHAPE(1, 1, 2, 3), x,
        "kernel_size: 1 kernel_size: 2 dilation: 1 dilation: 2");

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 1, 4, 3, 6);
}

TEST_EACH_DEVICE(im2col, backward_adds_up_what_overlaps)
{
    static const float dy[] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    struct layer_case *c = make(dev, CT_SHAPE(1, 1, 2, 3), x, "kernel_size: 2");

    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_OK(case_backward(c)); /* twice: the bottom is overwritten */
    ASSERT_NEAR(c, "bottom[0].diff", 0, 1, 5, 4, 5, 13, 8);
}

TEST_EACH_DEVICE(im2col, gradient_matches_finite_differences)
{
    struct layer_case *c = make(dev, CT_SHAPE(2, 3, 4, 5, 3), NULL,
        "kernel_size: 2 kernel_size: 3 kernel_size: 1 pad: 1 pad: 2 pad: 0 "
        "stride: 2 stride: 1 stride: 2 dilation: 1 dilation: 2 dilation: 1");

    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 2, 18, 3, 5, 2);
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
    c = make(dev, CT_SHAPE(2, 3, 2, 5), NULL, "kernel_size: 2 axis: 2");
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 2, 3, 4, 4);
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}

TEST(im2col, kernels_that_do_not_fit_are_refused)
{
    struct layer_case *c = make(CT_CPU, CT_SHAPE(1, 1, 2, 3), x,
                                "kernel_size: 3");

    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer i", ct_last_error());
    c = make(CT_CPU, CT_SHAPE(1, 1, 2, 3), x, "kernel_size: 0");
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer i", ct_last_error());
}
