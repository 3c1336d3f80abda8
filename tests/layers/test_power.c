/* test_power.c - (shift + scale x)^power, and the powers that are special. */
#include "testing/layer_test.h"

static const float x[] = { -1, 0, 1, 2 }, dy[] = { 1, 2, 3, 4 };

static struct layer_case *four(enum ct_device_kind dev, const char *prototxt)
{
    struct layer_case *c = layer_case(dev, prototxt);

    case_bottom(c, 0, CT_SHAPE(2, 2), x);
    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, dy);
    return c;
}

TEST_EACH_DEVICE(power, without_parameters_passes_on)
{
    struct layer_case *c = four(dev, "type: 'Power'");

    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 0, -1, 0, 1, 2);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 1, 2, 3, 4);
}

TEST_EACH_DEVICE(power, power_two_is_a_square)
{
    struct layer_case *c =
        four(dev, "type: 'Power' power_param { power: 2 scale: 3 shift: 1 }");

    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-5f, 4, 1, 16, 49);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-5f, -12, 12, 72, 168);
}

TEST_EACH_DEVICE(power, power_three_has_slope_zero_at_zero)
{
    struct layer_case *c =
        four(dev, "type: 'Power' power_param { power: 3 scale: 2 }");

    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-4f, -8, 0, 8, 64);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-3f, 24, 0, 72, 384);
}

TEST_EACH_DEVICE(power, power_zero_is_one_everywhere)
{
    struct layer_case *c =
        four(dev, "type: 'Power' power_param { power: 0 scale: 2 shift: 3 }");

    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 1, 1, 1, 1);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 0, 0, 0, 0);
}

TEST_EACH_DEVICE(power, scale_zero_is_shift_to_the_power)
{
    struct layer_case *c =
        four(dev, "type: 'Power' power_param { power: 3 scale: 0 shift: 2 }");

    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 8, 8, 8, 8);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 0, 0, 0, 0);
}

TEST_EACH_DEVICE(power, gradient_matches_finite_differences)
{
    static const char *const prototxt[] = {
        "type: 'Power' power_param { power: 0.37 scale: 0.83 shift: 1.5 }",
        "type: 'Power' power_param { power: -1.5 scale: 0.83 shift: 2 }",
        "type: 'Power' power_param { power: 2 scale: -0.5 shift: 0.1 }",
        "type: 'Power' power_param { power: 0.5 shift: 2 }",
        "type: 'Power' power_param { power: 1 scale: -0.5 shift: 0.1 }",
        "type: 'Power' power_param { power: 3 scale: -0.5 }",
    };

    for (size_t i = 0; i < sizeof(prototxt) / sizeof(*prototxt); i++) {
        struct layer_case *c = layer_case(dev, prototxt[i]);

        case_bottom(c, 0, CT_SHAPE(2, 3, 2), NULL);
        ASSERT_OK(case_setup(c));
        ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
    }
}

TEST_EACH_DEVICE(power, scale_and_shift_work_in_place)
{
    struct layer_case *c = layer_case(
        dev, "type: 'Power' power_param { scale: -2 shift: 1 }");

    case_in_place(c);
    case_bottom(c, 0, CT_SHAPE(2, 2), x);
    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 3, 1, -1, -3);
    ASSERT_NEAR(c, "bottom[0].diff", 0, -2, -4, -6, -8);
}

TEST(power, a_square_in_place_has_no_backward)
{
    struct layer_case *c = layer_case(
        CT_CPU, "name: 'sq' type: 'Power' power_param { power: 2 }");

    case_in_place(c);
    case_bottom(c, 0, CT_SHAPE(2, 2), x);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 1, 0, 1, 4);
    ASSERT_STATUS(CT_ENOTSUP, case_backward(c));
    ASSERT_HAS("layer sq", ct_last_error());
}
