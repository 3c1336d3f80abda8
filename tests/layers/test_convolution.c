/* test_convolution.c - the numbers of the small cases are worked out by hand.
 *
 *     x = 1 2 3    w = 1 2    b = 1      x * w = 37 47
 *         4 5 6        3 4                       67 77
 *         7 8 9                                                           */
#include "testing/layer_test.h"

static const float x[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
static const float w[] = { 1, 2, 3, 4 }, one[] = { 1 };

static struct layer_case *two_by_two(enum ct_device_kind dev,
                                     const char *prototxt)
{
    struct layer_case *c = layer_case(dev, prototxt);

    case_bottom(c, 0, CT_SHAPE(1, 1, 3, 3), x);
    ASSERT_OK(case_setup(c));
    case_blob(c, 0, w);
    case_blob(c, 1, one);
    return c;
}

/* A layer of random weights over a bottom of odd sizes. */
static struct layer_case *random_case(enum ct_device_kind dev,
                                      struct ct_shape shape, const char *param)
{
    struct layer_case *c;
    char text[512];

    snprintf(text, sizeof(text), "type: 'Convolution' convolution_param { "
             "weight_filler { type: 'gaussian' std: 0.5 } "
             "bias_filler { type: 'gaussian' } %s }", param);
    c = layer_case(dev, text);
    case_bottom(c, 0, shape, NULL);
    ASSERT_OK(case_setup(c));
    return c;
}

TEST_EACH_DEVICE(convolution, forward_slides_the_kernel_without_flipping_it)
{
    struct layer_case *c = two_by_two(dev, "type: 'Convolution' "
        "convolution_param { num_output: 1 kernel_size: 2 }");

    ASSERT_SHAPE(c, "blob[0]", 1, 1, 2, 2);
    ASSERT_SHAPE(c, "blob[1]", 1);
    ASSERT_SHAPE(c, "top[0]", 1, 1, 2, 2);
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-5f, 38, 48, 68, 78);
}

TEST_EACH_DEVICE(convolution, backward_adds_to_blobs_and_overwrites_bottom)
{
    static const float dy[] = { 1, 0, 0, 2 };
    struct layer_case *c = two_by_two(dev, "type: 'Convolution' "
        "convolution_param { num_output: 1 kernel_size: 2 }");

    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_OK(case_backward(c)); /* twice, to tell += from = */
    ASSERT_NEAR(c, "blob[0].diff", 1e-5f, 22, 28, 40, 46);
    ASSERT_NEAR(c, "blob[1].diff", 1e-5f, 6);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-5f, 1, 2, 0, 3, 6, 4, 0, 6, 8);
}

TEST_EACH_DEVICE(convolution, pad_and_stride_place_the_windows)
{
    struct layer_case *c = two_by_two(dev, "type: 'Convolution' "
        "convolution_param { num_output: 1 kernel_size: 2 pad: 1 stride: 2 "
        "bias_filler { type: 'constant' value: 1 } }");

    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-5f, 1 + 4, 1 + 3 * 2 + 4 * 3,
                1 + 2 * 4 + 4 * 7, 78);
}

TEST_EACH_DEVICE(convolution, dilation_leaves_gaps_in_the_kernel)
{
    struct layer_case *c = two_by_two(dev, "type: 'Convolution' "
        "convolution_param { num_output: 1 kernel_size: 2 dilation: 2 }");

    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-5f, 1 + 1 + 6 + 21 + 36);
}

TEST_EACH_DEVICE(convolution, heights_and_widths_may_differ)
{
    static const float row[] = { 1, 10, 100 };
    struct layer_case *c = layer_case(dev, "type: 'Convolution' "
        "convolution_param { num_output: 1 bias_term: false kernel_h: 1 "
        "kernel_w: 3 stride_h: 2 stride_w: 1 pad_h: 0 pad_w: 1 }");

    case_bottom(c, 0, CT_SHAPE(1, 1, 3, 3), x);
    ASSERT_OK(case_setup(c));
    ASSERT_INT(1, case_layer(c)->n_blob);
    case_blob(c, 0, row);
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-4f, 210, 321, 32, 870, 987, 98);
}

TEST_EACH_DEVICE(convolution, groups_see_their_own_channels_only)
{
    static const float in[] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    static const float k[]  = { 1, 10, 100, 1000 };
    struct layer_case *c = layer_case(dev, "type: 'Convolution' "
        "convolution_param { num_output: 2 kernel_size: 1 group: 2 "
        "bias_term: false }");

    case_bottom(c, 0, CT_SHAPE(1, 4, 1, 2), in);
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "blob[0]", 2, 2, 1, 1);
    case_blob(c, 0, k);
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-3f, 31, 42, 7500, 8600);
}

TEST_EACH_DEVICE(convolution, bottoms_share_the_weights)
{
    static const float dy[] = { 1, 0, 0, 2 };
    struct layer_case *c = layer_case(dev, "type: 'Convolution' "
        "convolution_param { num_output: 1 kernel_size: 2 }");

    case_tops(c, 2);
    case_bottom(c, 0, CT_SHAPE(1, 1, 3, 3), x);
    case_bottom(c, 1, CT_SHAPE(1, 1, 3, 3), x);
    ASSERT_OK(case_setup(c));
    ASSERT_INT(2, case_layer(c)->n_blob);
    case_blob(c, 0, w);
    case_blob(c, 1, one);
    case_top_diff(c, 0, dy);
    case_top_diff(c, 1, dy);
    case_want_grad(c, 0, false);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[1].data", 1e-5f, 38, 48, 68, 78);
    ASSERT_NEAR(c, "blob[0].diff", 1e-5f, 22, 28, 40, 46);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    ASSERT_NEAR(c, "bottom[1].diff", 1e-5f, 1, 2, 0, 3, 6, 4, 0, 6, 8);
}

TEST_EACH_DEVICE(convolution, frozen_blobs_are_left_alone)
{
    static const float dy[] = { 1, 0, 0, 2 };
    struct layer_case *c = two_by_two(dev, "type: 'Convolution' "
        "convolution_param { num_output: 1 kernel_size: 2 }");

    case_layer(c)->blob_wants_grad[0] = false;
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "blob[0].diff", 0, 0, 0, 0, 0);
    ASSERT_NEAR(c, "blob[1].diff", 0, 3);
}

TEST_EACH_DEVICE(convolution, gradient_matches_finite_differences)
{
    ASSERT_GRADIENT(random_case(dev, CT_SHAPE(2, 4, 5, 6), "num_output: 6 "
                                "kernel_size: 3 kernel_size: 2 pad: 1 pad: 2 "
                                "stride: 2 stride: 1 dilation: 1 dilation: 2 "
                                "group: 2"), 1e-2f, 2e-3f);
    ASSERT_GRADIENT(random_case(dev, CT_SHAPE(2, 3, 4, 5), "num_output: 5 "
                                "kernel_size: 1"), 1e-2f, 2e-3f);
}

TEST_EACH_DEVICE(convolution, one_three_and_four_spatial_axes_work)
{
    struct layer_case *c = random_case(dev, CT_SHAPE(2, 3, 7),
        "num_output: 2 kernel_size: 3 stride: 2 pad: 1");

    ASSERT_SHAPE(c, "top[0]", 2, 2, 4);
    ASSERT_GRADIENT(c, 1e-2f, 2e-3f);
    c = random_case(dev, CT_SHAPE(1, 2, 3, 4, 5), "num_output: 3 "
                    "kernel_size: 2 pad: 1 pad: 0 pad: 1 "
                    "force_nd_im2col: true");
    ASSERT_SHAPE(c, "blob[0]", 3, 2, 2, 2, 2);
    ASSERT_SHAPE(c, "top[0]", 1, 3, 4, 3, 6);
    ASSERT_GRADIENT(c, 1e-2f, 2e-3f);
    c = random_case(dev, CT_SHAPE(1, 2, 2, 3, 2, 3), "num_output: 2 "
                    "kernel_size: 2");
    ASSERT_SHAPE(c, "top[0]", 1, 2, 1, 2, 1, 2);
    ASSERT_GRADIENT(c, 1e-2f, 2e-3f);
}

TEST_EACH_DEVICE(convolution, channels_may_be_any_axis)
{
    struct layer_case *c = random_case(dev, CT_SHAPE(2, 3, 4, 5, 3),
        "num_output: 2 kernel_size: 2 axis: 2");

    ASSERT_SHAPE(c, "blob[0]", 2, 4, 2, 2);
    ASSERT_SHAPE(c, "top[0]", 2, 3, 2, 4, 2);
    ASSERT_GRADIENT(c, 1e-2f, 2e-3f);
    c = random_case(dev, CT_SHAPE(2, 3, 4), "num_output: 5 kernel_size: 1 "
                    "axis: -1");
    ASSERT_SHAPE(c, "blob[0]", 5, 4);
    ASSERT_SHAPE(c, "top[0]", 2, 3, 5);
    ASSERT_GRADIENT(c, 1e-2f, 2e-3f);
    c = random_case(dev, CT_SHAPE(2, 5), "num_output: 3 kernel_size: 2 "
                    "axis: 0");
    ASSERT_SHAPE(c, "top[0]", 3, 4);
    ASSERT_GRADIENT(c, 1e-2f, 2e-3f);
}

TEST_EACH_DEVICE(convolution, bottoms_may_change_size_but_not_channels)
{
    struct layer_case *c = two_by_two(dev, "name: 'c' type: 'Convolution' "
        "convolution_param { num_output: 1 kernel_size: 2 }");

    case_bottom(c, 0, CT_SHAPE(2, 1, 2, 2), x);
    ASSERT_OK(case_reshape(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-5f, 1 + 1 + 4 + 9 + 16,
                1 + 5 + 12 + 21 + 32);
    case_bottom(c, 0, CT_SHAPE(0, 1, 4, 4), NULL);
    ASSERT_OK(case_reshape(c));
    ASSERT_SHAPE(c, "top[0]", 0, 1, 3, 3);
    ASSERT_OK(case_backward(c));
    case_bottom(c, 0, CT_SHAPE(1, 2, 2, 2), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_reshape(c));
    ASSERT_HAS("layer c", ct_last_error());
    case_bottom(c, 0, CT_SHAPE(1, 1, 2), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_reshape(c));
}

static void set_layout(struct layer_case *c, const char *what,
                       enum ct_layout layout)
{
    struct ct_blob *b = (void *)(uintptr_t)case_find(c, what);

    b->data.layout = layout;
    b->diff.layout = layout;
}

/* n x 16 x h x w, plain, as n x h x w x 16: blocked without padding. */
static const float *blocked(const float *from, int64_t n, int64_t hw)
{
    static float to[2 * 16 * 30];

    for (int64_t i = 0; i < n; i++)
        for (int64_t s = 0; s < hw; s++)
            for (int64_t ch = 0; ch < 16; ch++)
                to[(i * hw + s) * 16 + ch] = from[(i * 16 + ch) * hw + s];
    return to;
}

TEST(convolution, blocked_bottoms_and_tops_give_the_same)
{
    const enum ct_device_kind dev = CT_CPU; /* alone has blocks */
    static const char param[] = "num_output: 16 kernel_size: 3 pad: 1";
    struct layer_case *plain = random_case(dev, CT_SHAPE(2, 16, 5, 6), param);
    struct layer_case *c     = random_case(dev, CT_SHAPE(2, 16, 5, 6), param);
    const struct ct_blob *y  = case_find(plain, "top[0]");
    const struct ct_blob *dx = case_find(plain, "bottom[0]");
    float dy[2 * 16 * 30];

    for (int i = 0; i < 2 * 16 * 30; i++)
        dy[i] = (float)(i % 7) - 3;
    case_top_diff(plain, 0, dy);
    ASSERT_OK(case_backward(plain));
    case_bottom(c, 0, CT_SHAPE(2, 16, 5, 6), blocked(ct_data(dx), 2, 30));
    set_layout(c, "bottom[0]", CT_BLOCKED16);
    set_layout(c, "top[0]", CT_BLOCKED16);
    ASSERT_OK(case_reshape(c));
    case_top_diff(c, 0, blocked(dy, 2, 30));
    ASSERT_OK(case_backward(c));
    case_near(c, __FILE__, __LINE__, "top[0].data", 1e-4f,
              blocked(ct_data(y), 2, 30), y->count);
    case_near(c, __FILE__, __LINE__, "bottom[0].diff", 1e-4f,
              blocked(ct_diff(dx), 2, 30), dx->count);
    case_near(c, __FILE__, __LINE__, "blob[0].diff", 1e-3f,
              ct_diff(case_find(plain, "blob[0]")), 16 * 16 * 9);
    case_near(c, __FILE__, __LINE__, "blob[1].diff", 1e-3f,
              ct_diff(case_find(plain, "blob[1]")), 16);
}

TEST(convolution, multiply_adds_are_counted)
{
    struct layer_case *c = random_case(CT_CPU, CT_SHAPE(2, 4, 5, 6),
        "num_output: 6 kernel_size: 3 group: 2");
    struct ct_blob *const tops[] = { NULL };
    const struct ct_io io = { tops, tops, 1, 1, NULL };
    struct ct_layer *l = case_layer(c);

    ASSERT_FLOAT(2 * 6 * 2 * 9 * 12, l->type->macs(l, &io), 0);
}

TEST(convolution, engines_of_other_builds_are_accepted)
{
    ASSERT_OK(case_forward(random_case(CT_CPU, CT_SHAPE(1, 2, 3, 3),
        "num_output: 1 kernel_size: 3 engine: CUDNN")));
    ASSERT_OK(case_forward(random_case(CT_CPU, CT_SHAPE(1, 2, 3, 3),
        "num_output: 1 kernel_size: 3 engine: CAFFE")));
}

TEST(convolution, what_makes_no_sense_is_refused_by_layer_name)
{
    static const struct {
        const char    *param, *says;
        enum ct_status status;
    } bad[] = {
        { "num_output: 0 kernel_size: 1", "num_output", CT_EINVAL },
        { "kernel_size: 1", "num_output", CT_EINVAL },
        { "num_output: 1 kernel_size: 0", "kernel_size", CT_EINVAL },
        { "num_output: 1", "kernel_size", CT_EINVAL },
        { "num_output: 1 kernel_h: 2", "kernel_size is zero", CT_EINVAL },
        { "num_output: 1 kernel_size: 1 stride: 0", "stride", CT_EINVAL },
        { "num_output: 1 kernel_size: 1 stride_h: 2", "stride", CT_EINVAL },
        { "num_output: 1 kernel_size: 1 kernel_h: 1", "not both", CT_EINVAL },
        { "num_output: 1 kernel_size: 1 pad: 1 pad_w: 1", "not both",
          CT_EINVAL },
        { "num_output: 1 kernel_size: 1 kernel_size: 1 kernel_size: 1",
          "3 times", CT_EINVAL },
        { "num_output: 1 kernel_size: 1 dilation: 1 dilation: 1 dilation: 1",
          "dilation", CT_EINVAL },
        { "num_output: 1 kernel_size: 1 axis: 0 kernel_h: 1", "not both",
          CT_EINVAL },
        { "num_output: 1 kernel_h: 1 kernel_w: 1 axis: 0", "2 spatial",
          CT_EINVAL },
        { "num_output: 1 kernel_size: 1 axis: 4", "axis", CT_EINVAL },
        { "num_output: 4 kernel_size: 1 group: 3", "group 3", CT_EINVAL },
        { "num_output: 3 kernel_size: 1 group: 2", "group 2", CT_EINVAL },
        { "num_output: 1 kernel_size: 1 group: 0", "group", CT_EINVAL },
        { "num_output: 1 kernel_size: 6", "axis 2", CT_ESHAPE },
        { "num_output: 1 kernel_size: 3 dilation: 3", "axis 2", CT_ESHAPE },
        { "num_output: 1 kernel_size: 4294967295", "too large", CT_EINVAL },
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char text[256];
        struct layer_case *c;

        snprintf(text, sizeof(text), "name: 'c9' type: 'Convolution' "
                 "convolution_param { %s }", bad[i].param);
        c = layer_case(CT_CPU, text);
        case_bottom(c, 0, CT_SHAPE(1, 4, 5, 6), NULL);
        ASSERT_STATUS(bad[i].status, case_setup(c));
        ASSERT_HAS("layer c9", ct_last_error());
        ASSERT_HAS(bad[i].says, ct_last_error());
    }
}

TEST(convolution, bottoms_of_unlike_shape_are_refused)
{
    struct layer_case *c = layer_case(CT_CPU, "name: 'c' type: 'Convolution' "
        "convolution_param { num_output: 1 kernel_size: 2 }");

    case_tops(c, 2);
    case_bottom(c, 0, CT_SHAPE(1, 1, 3, 3), x);
    case_bottom(c, 1, CT_SHAPE(1, 1, 3, 2), x);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("bottom 1", ct_last_error());
}
