/* test_normalize.c - two positions, vectors (3, 4) of length 5 and (0, 2) of
 * length 2; as one vector they have length sqrt(29). */
#include "layout_case.h"

static const float x[] = { 3, 0, 4, 2 };

static struct layer_case *vectors(enum ct_device_kind dev,
                                  const char *prototxt)
{
    struct layer_case *c = layer_case(dev, prototxt);

    case_bottom(c, 0, CT_SHAPE(1, 2, 1, 2), x);
    return c;
}

TEST_EACH_DEVICE(normalize, by_default_the_whole_item_and_one_scale)
{
    struct layer_case *c = vectors(dev, "type: 'Normalize'");
    const float r = sqrtf(29);

    ASSERT_OK(case_setup(c));
    ASSERT_INT(0, case_find(c, "blob[0]")->shape.n_axes);
    ASSERT_NEAR(c, "blob[0].data", 0, 1);
    case_top_diff(c, 0, (const float[]){ 1, 0, 0, 0 });
    ASSERT_OK(case_backward(c));
    ASSERT_OK(case_backward(c)); /* twice, to tell += from = */
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 3 / r, 0, 4 / r, 2 / r);
    ASSERT_NEAR(c, "blob[0].diff", 1e-5f, 2 * 3 / r);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 1 / r - 9 / (29 * r), 0,
                -12 / (29 * r), -6 / (29 * r));
}

TEST_EACH_DEVICE(normalize, channels_of_a_position_each_with_its_scale)
{
    struct layer_case *c = vectors(dev, "type: 'Normalize' norm_param { "
        "across_spatial: false channel_shared: false "
        "scale_filler { value: 20 } }");

    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "blob[0]", 2);
    ASSERT_NEAR(c, "blob[0].data", 0, 20, 20);
    case_blob(c, 0, (const float[]){ 10, 100 });
    case_top_diff(c, 0, (const float[]){ 1, 0, 0, 1 });
    ASSERT_OK(case_backward(c));
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-4f, 6, 0, 80, 100);
    ASSERT_NEAR(c, "blob[0].diff", 1e-5f, 2 * 0.6f, 2);
    /* Position 0: 10/5 - 3 * 30/125, -4 * 30/125; position 1: 0, 0. */
    ASSERT_NEAR(c, "bottom[0].diff", 1e-4f, 1.28f, 0, -0.96f, 0);
}

TEST_EACH_DEVICE(normalize, eps_keeps_zero_vectors_at_zero)
{
    struct layer_case *c = layer_case(dev, "type: 'Normalize' norm_param { "
                                           "across_spatial: false }");

    case_bottom(c, 0, CT_SHAPE(1, 2), (const float[]){ 0, 0 });
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 0, 0);
}

TEST_EACH_DEVICE(normalize, gradient_matches_finite_differences)
{
    static const char *const kinds[] = {
        "type: 'Normalize' norm_param { across_spatial: true "
        "channel_shared: true scale_filler { value: 2 } }",
        "type: 'Normalize' norm_param { across_spatial: true "
        "channel_shared: false scale_filler { type: 'gaussian' } }",
        "type: 'Normalize' norm_param { across_spatial: false "
        "channel_shared: true scale_filler { value: 2 } }",
        "type: 'Normalize' norm_param { across_spatial: false "
        "channel_shared: false scale_filler { type: 'gaussian' } }"
    };

    for (int i = 0; i < 4; i++) {
        struct layer_case *c = layer_case(dev, kinds[i]);

        case_bottom(c, 0, CT_SHAPE(2, 3, 4, 5), NULL);
        ASSERT_OK(case_setup(c));
        ASSERT_GRADIENT(c, 1e-2f, 1e-2f);
    }
}

/* More positions than one tile of the inner loops takes. */
TEST_EACH_DEVICE(normalize, large_images_have_unit_length_everywhere)
{
    struct layer_case *c = layer_case(dev, "type: 'Normalize' norm_param { "
                                           "across_spatial: false }");
    const float *y;

    case_bottom(c, 0, CT_SHAPE(1, 3, 10, 17), NULL);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    y = ct_data(case_find(c, "top[0]"));
    for (int i = 0; i < 170; i++)
        ASSERT_FLOAT(1, y[i] * y[i] + y[170 + i] * y[170 + i] +
                            y[340 + i] * y[340 + i], 1e-5);
}

TEST(normalize, bottoms_that_do_not_fit_are_refused)
{
    struct layer_case *c = layer_case(CT_CPU, "name: 'n' type: 'Normalize'");

    case_bottom(c, 0, CT_SHAPE(4), x);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer n: ", ct_last_error());
    c = vectors(CT_CPU, "name: 'n' type: 'Normalize'");
    ASSERT_OK(case_setup(c));
    case_bottom(c, 0, CT_SHAPE(1, 3, 1, 1), x);
    ASSERT_STATUS(CT_ESHAPE, case_reshape(c));
    ASSERT_HAS("layer n: the bottom no longer has 2 channels",
               ct_last_error());
}

TEST(normalize, channels_that_lie_innermost_give_what_the_cpu_gives)
{
    /* 12 channels are whole packs of floats, 13 are of nothing, and 264 are
     * more than a warp takes at once. */
    static const int64_t channels[] = { 12, 13, 264 };

    for (int i = 0; i < 3; i++) {
        check_packed("type: 'Normalize' norm_param { across_spatial: false "
                     "channel_shared: false scale_filler { type: 'uniform' "
                     "min: 1 max: 3 } }", false,
                     CT_SHAPE(3, channels[i], 7, 9));
        check_packed("type: 'Normalize' norm_param { across_spatial: false "
                     "scale_filler { value: 2 } }", false,
                     CT_SHAPE(2, channels[i], 5, 3));
    }
}
