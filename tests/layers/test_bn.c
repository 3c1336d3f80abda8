/* test_bn.c - by hand.
 *
 *     channel 0: 1 3 5 7    mean 4, variance 5; eps 4: v = 1/3
 *     channel 1: 0 0 0 8    mean 2, variance 12; eps 4: v = 1/4 */
#include "testing/layer_test.h"

static const float x[] = { 1, 3, 0, 0, 5, 7, 0, 8 };
static const float dy[] = { 1, 0, 0, 0, 0, 0, 0, 1 };
static const float two_ten[] = { 2, 10 }, one_two[] = { 1, 2 };

static struct layer_case *image(enum ct_device_kind dev, const char *param)
{
    char text[256];
    struct layer_case *c;

    snprintf(text, sizeof(text), "name: 'b' type: 'BN' bn_param { %s }",
             param);
    c = layer_case(dev, text);
    case_bottom(c, 0, CT_SHAPE(2, 2, 1, 2), x);
    return c;
}

static void trained(struct layer_case *c)
{
    ASSERT_OK(case_setup(c));
    case_blob(c, 0, two_ten);
    case_blob(c, 1, one_two);
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-5f, -1, 1 / 3.0f, -3, -3, 5 / 3.0f, 3, -3,
                17);
    /* 2 v (dy - 1/4 - v^2 (x - 4) (-3)/4), 10 v (dy - 1/4 - v^2 (x - 2) 6/4) */
    ASSERT_NEAR(c, "bottom[0].diff", 1e-5f, 1 / 3.0f, -2 / 9.0f,
                2.5f * (-0.25f + 3 / 16.0f), 2.5f * (-0.25f + 3 / 16.0f),
                -1 / 9.0f, 0, 2.5f * (-0.25f + 3 / 16.0f),
                2.5f * (0.75f - 9 / 16.0f));
    ASSERT_NEAR(c, "blob[0].diff", 1e-5f, -1, 1.5f);
    ASSERT_NEAR(c, "blob[1].diff", 1e-5f, 1, 1);
}

TEST_EACH_DEVICE(bn, pspnets_takes_the_batch_in_training)
{
    struct layer_case *c = image(dev, "eps: 4 momentum: 0.75");

    trained(c);
    ASSERT_INT(4, case_layer(c)->n_blob);
    ASSERT_SHAPE(c, "blob[0]", 1, 2, 1, 1);
    ASSERT_NEAR(c, "blob[2].data", 1e-6f, 1, 0.5f);
    ASSERT_NEAR(c, "blob[3].data", 1e-6f, 1.25f, 3);
    ASSERT_OK(case_backward(c)); /* twice: += for blobs, a step for averages */
    ASSERT_NEAR(c, "blob[0].diff", 1e-5f, -2, 3);
    ASSERT_NEAR(c, "blob[1].diff", 1e-5f, 2, 2);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-5f, 1 / 3.0f, -2 / 9.0f, -0.15625f,
                -0.15625f, -1 / 9.0f, 0, -0.15625f, 0.46875f);
    ASSERT_NEAR(c, "blob[2].data", 1e-6f, 1.75f, 0.875f);
}

TEST_EACH_DEVICE(bn, works_in_place)
{
    struct layer_case *c = image(dev, "eps: 4");

    case_in_place(c);
    trained(c);
}

static void averaged(struct layer_case *c)
{
    static const float mean[] = { 4, 2 }, var[] = { 5, 12 };

    ASSERT_OK(case_setup(c));
    case_blob(c, 0, two_ten);
    case_blob(c, 1, one_two);
    case_blob(c, 2, mean);
    case_blob(c, 3, var);
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-5f, -1, 1 / 3.0f, -3, -3, 5 / 3.0f, 3, -3,
                17);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-5f, 2 / 3.0f, 0, 0, 0, 0, 0, 0, 2.5f);
    ASSERT_NEAR(c, "blob[2].data", 0, 4, 2);
}

TEST_EACH_DEVICE(bn, pspnets_uses_its_averages_in_tests_and_when_frozen)
{
    struct layer_case *c = image(dev, "eps: 4");

    case_phase(c, CAFFE__PHASE__TEST);
    averaged(c);
    c = image(dev, "eps: 4 frozen: true");
    ASSERT_OK(case_setup(c));
    ASSERT_NEAR(c, "blob[3].data", 0, 1, 1);
    c = image(dev, "eps: 4 frozen: true");
    averaged(c);
    ASSERT(!case_layer(c)->blob_wants_grad[0]);
    ASSERT_NEAR(c, "blob[0].diff", 0, 0, 0);
}

TEST_EACH_DEVICE(bn, an_older_pspnets_counts_with_decay)
{
    struct layer_case *c = image(dev, "var_eps: 4 decay: 0.25");

    trained(c);
    ASSERT_NEAR(c, "blob[2].data", 1e-6f, 1, 0.5f);
    ASSERT_NEAR(c, "blob[3].data", 1e-6f, 1.25f, 3);
    c = image(dev, "var_eps: 4 moving_average: true");
    case_phase(c, CAFFE__PHASE__TEST);
    averaged(c);
    c = image(dev, "var_eps: 4"); /* without averages the batch, in TEST too */
    case_phase(c, CAFFE__PHASE__TEST);
    trained(c);
    ASSERT_NEAR(c, "blob[2].data", 0, 0, 0);
}

TEST_EACH_DEVICE(bn, an_older_pspnets_may_have_channels_on_axis_2)
{
    static const float rows[] = { 1, 3, 5, 7, 0, 0, 0, 8 };
    struct layer_case *c = image(dev, "var_eps: 4 axis: 2 scale_filler { "
                                 "type: 'constant' value: 1 }");

    case_bottom(c, 0, CT_SHAPE(1, 1, 2, 4), rows);
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "blob[0]", 1, 1, 2, 1);
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-5f, -1, -1 / 3.0f, 1 / 3.0f, 1, -0.5f,
                -0.5f, -0.5f, 1.5f);
}

/* eps is 1e-9 here: v = 1 / sqrt(5) and 1 / sqrt(12). */
TEST_EACH_DEVICE(bn, segnets_learns_with_two_blobs)
{
    struct layer_case *c = image(dev, "scale_filler { type: 'constant' "
        "value: 1 } shift_filler { type: 'constant' value: 0.5 }");

    case_tops(c, 3);
    case_phase(c, CAFFE__PHASE__TEST); /* the batch's, in TEST as well */
    ASSERT_OK(case_setup(c));
    ASSERT_INT(2, case_layer(c)->n_blob);
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[1].data", 1e-5f, 4, 2);
    ASSERT_NEAR(c, "top[2].data", 1e-5f, 5, 12);
    ASSERT_NEAR(c, "top[0].data", 1e-5f, 0.5f - 1.34164079f,
                0.5f - 0.44721360f, 0.5f - 0.57735027f, 0.5f - 0.57735027f,
                0.5f + 0.44721360f, 0.5f + 1.34164079f, 0.5f - 0.57735027f,
                0.5f + 1.73205081f);
}

TEST_EACH_DEVICE(bn, segnets_inference_is_scale_and_shift)
{
    struct layer_case *c = image(dev, "bn_mode: INFERENCE");

    ASSERT_OK(case_setup(c));
    case_blob(c, 0, two_ten);
    case_blob(c, 1, one_two);
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-5f, 3, 7, 2, 2, 11, 15, 2, 82);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-5f, 2, 0, 0, 0, 0, 0, 0, 10);
    ASSERT_NEAR(c, "blob[0].diff", 1e-5f, 1, 8);
    ASSERT_NEAR(c, "blob[1].diff", 1e-5f, 1, 1);
}

TEST_EACH_DEVICE(bn, gradient_matches_finite_differences)
{
    static const char *const params[] = {
        "eps: 0.1 momentum: 1 slope_filler { value: 0.7 }",
        "bn_mode: INFERENCE scale_filler { value: 0.7 }",
        "scale_filler { value: 0.7 }",
    };

    for (int i = 0; i < 3; i++) {
        struct layer_case *c = image(dev, params[i]);

        case_bottom(c, 0, CT_SHAPE(2, 3, 2, 2), NULL);
        ASSERT_OK(case_setup(c));
        ASSERT_GRADIENT(c, 1e-2f, 1e-2f);
    }
}

TEST(bn, what_makes_no_sense_is_refused)
{
    struct layer_case *c = image(CT_CPU, "bn_mode: LEARN frozen: true");

    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer b: bn_param mixes fields of SegNet", ct_last_error());
    c = image(CT_CPU, "eps: 1");
    case_tops(c, 2);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer b: only SegNet's LEARN mode", ct_last_error());
    c = image(CT_CPU, "axis: 3");
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    c = image(CT_CPU, "");
    ASSERT_OK(case_setup(c));
    case_bottom(c, 0, CT_SHAPE(2, 3, 1, 2), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_reshape(c));
    ASSERT_HAS("layer b: the bottom must have 2 channels", ct_last_error());
}
