/* test_deconvolution.c - the numbers of the small cases are worked out by
 * hand: each value of the bottom writes a scaled kernel into the top.
 *
 *     x = 1 2    w = 1 10       b = 0.5
 *         3 4        100 1000                                            */
#include "testing/layer_test.h"

static const float x[] = { 1, 2, 3, 4 }, w[] = { 1, 10, 100, 1000 };
static const float half[] = { 0.5f };

static struct layer_case *two_by_two(enum ct_device_kind dev,
                                     const char *prototxt)
{
    struct layer_case *c = layer_case(dev, prototxt);

    case_bottom(c, 0, CT_SHAPE(1, 1, 2, 2), x);
    ASSERT_OK(case_setup(c));
    case_blob(c, 0, w);
    case_blob(c, 1, half);
    return c;
}

static struct layer_case *random_case(enum ct_device_kind dev,
                                      struct ct_shape shape, const char *param)
{
    struct layer_case *c;
    char text[512];

    snprintf(text, sizeof(text), "type: 'Deconvolution' convolution_param { "
             "weight_filler { type: 'gaussian' std: 0.5 } "
             "bias_filler { type: 'gaussian' } %s }", param);
    c = layer_case(dev, text);
    case_bottom(c, 0, shape, NULL);
    ASSERT_OK(case_setup(c));
    return c;
}

TEST_EACH_DEVICE(deconvolution, stride_spreads_the_kernels_apart)
{
    struct layer_case *c = two_by_two(dev, "type: 'Deconvolution' "
        "convolution_param { num_output: 1 kernel_size: 2 stride: 2 }");

    ASSERT_SHAPE(c, "top[0]", 1, 1, 4, 4);
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-3f,
                1.5f, 10.5f, 2.5f, 20.5f, 100.5f, 1000.5f, 200.5f, 2000.5f,
                3.5f, 30.5f, 4.5f, 40.5f, 300.5f, 3000.5f, 400.5f, 4000.5f);
}

TEST_EACH_DEVICE(deconvolution, overlapping_kernels_add_up)
{
    struct layer_case *c = two_by_two(dev, "type: 'Deconvolution' "
        "convolution_param { num_output: 1 kernel_size: 2 }");

    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-3f, 1.5f, 12.5f, 20.5f, 103.5f, 1234.5f,
                2040.5f, 300.5f, 3400.5f, 4000.5f);
}

TEST_EACH_DEVICE(deconvolution, pad_cuts_the_border_off)
{
    struct layer_case *c = two_by_two(dev, "type: 'Deconvolution' "
        "convolution_param { num_output: 1 kernel_size: 2 pad: 1 }");

    ASSERT_SHAPE(c, "top[0]", 1, 1, 1, 1);
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-3f, 1234.5f);
}

TEST_EACH_DEVICE(deconvolution, backward_adds_to_blobs_and_overwrites_bottom)
{
    static const float dy[] = { 1, 0, 0, 0, 2, 0, 0, 0, 3 };
    struct layer_case *c = two_by_two(dev, "type: 'Deconvolution' "
        "convolution_param { num_output: 1 kernel_size: 2 }");

    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_OK(case_backward(c)); /* twice, to tell += from = */
    ASSERT_NEAR(c, "blob[0].diff", 1e-4f, 2 * (1 + 8), 2 * 6, 2 * 4,
                2 * (2 + 12));
    ASSERT_NEAR(c, "blob[1].diff", 1e-4f, 12);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-2f, 2001, 200, 20, 3002);
}

TEST_EACH_DEVICE(deconvolution, gradient_matches_finite_differences)
{
    struct layer_case *c = random_case(dev, CT_SHAPE(2, 4, 3, 5),
        "num_output: 6 kernel_size: 3 kernel_size: 4 stride: 2 stride: 1 "
        "pad: 1 pad: 2 dilation: 1 dilation: 2 group: 2");

    ASSERT_SHAPE(c, "blob[0]", 4, 3, 3, 4);
    ASSERT_SHAPE(c, "top[0]", 2, 6, 5, 7);
    ASSERT_GRADIENT(c, 1e-2f, 2e-3f);
    c = random_case(dev, CT_SHAPE(1, 2, 2, 3, 2), "num_output: 3 "
                    "kernel_size: 2 stride: 2 bias_term: false");
    ASSERT_INT(1, case_layer(c)->n_blob);
    ASSERT_SHAPE(c, "top[0]", 1, 3, 4, 6, 4);
    ASSERT_GRADIENT(c, 1e-2f, 2e-3f);
}

TEST_EACH_DEVICE(deconvolution, bilinear_upsampling_keeps_a_flat_image_flat)
{
    struct layer_case *c = layer_case(dev, "type: 'Deconvolution' "
        "convolution_param { num_output: 2 group: 2 kernel_size: 4 stride: 2 "
        "pad: 1 bias_term: false weight_filler { type: 'bilinear' } }");
    const struct ct_blob *y;

    case_bottom_range(c, 0, CT_SHAPE(1, 2, 4, 4), 3, 3);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_SHAPE(c, "top[0]", 1, 2, 8, 8);
    y = case_find(c, "top[0]");
    for (int ch = 0; ch < 2; ch++)
        for (int i = 2; i < 6; i++)
            ASSERT_FLOAT(3, ct_data(y)[ch * 64 + i * 8 + i], 1e-5);
}

TEST_EACH_DEVICE(deconvolution, bottoms_share_the_weights)
{
    struct layer_case *c = layer_case(dev, "type: 'Deconvolution' "
        "convolution_param { num_output: 2 kernel_size: 2 "
        "weight_filler { type: 'gaussian' } }");

    case_tops(c, 2);
    case_bottom(c, 0, CT_SHAPE(2, 3, 2, 3), NULL);
    case_bottom(c, 1, CT_SHAPE(2, 3, 2, 3), NULL);
    ASSERT_OK(case_setup(c));
    ASSERT_GRADIENT(c, 1e-2f, 2e-3f);
}

TEST(deconvolution, what_makes_no_sense_is_refused_by_layer_name)
{
    static const struct {
        const char    *param, *says;
        enum ct_status status;
    } bad[] = {
        { "num_output: 0 kernel_size: 1", "num_output", CT_EINVAL },
        { "num_output: 1 kernel_size: 0", "kernel_size", CT_EINVAL },
        { "num_output: 1 kernel_size: 1 stride: 0", "stride", CT_EINVAL },
        { "num_output: 1 kernel_size: 1 group: 2", "group 2", CT_EINVAL },
        { "num_output: 2 kernel_size: 1 pad: 1", "axis 2", CT_ESHAPE },
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char text[256];
        struct layer_case *c;

        snprintf(text, sizeof(text), "name: 'up' type: 'Deconvolution' "
                 "convolution_param { %s }", bad[i].param);
        c = layer_case(CT_CPU, text);
        case_bottom(c, 0, CT_SHAPE(1, 2, 2, 5), NULL);
        ASSERT_STATUS(bad[i].status, case_setup(c));
        ASSERT_HAS("layer up", ct_last_error());
        ASSERT_HAS(bad[i].says, ct_last_error());
    }
}
