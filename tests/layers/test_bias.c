/* test_bias.c - x of shape 2 x 2 x 2:
 *
 *     item 0:  1 2 | 3 4      item 1:  5 6 | 7 8                          */
#include "layout_case.h"

static const float x[] = { 1, 2, 3, 4, 5, 6, 7, 8 };
static const float dy[] = { 1, 0, 0, 1, 2, 0, 0, 3 };

static struct layer_case *cube(enum ct_device_kind dev, const char *prototxt)
{
    struct layer_case *c = layer_case(dev, prototxt);

    case_bottom(c, 0, CT_SHAPE(2, 2, 2), x);
    return c;
}

TEST_EACH_DEVICE(bias, backward_adds_to_the_blob_and_overwrites_bottom)
{
    for (int in_place = 0; in_place < 2; in_place++) {
        struct layer_case *c = cube(dev, "type: 'Bias'");

        if (in_place)
            case_in_place(c);
        ASSERT_OK(case_setup(c));
        ASSERT_SHAPE(c, "blob[0]", 2);
        ASSERT_NEAR(c, "blob[0].data", 0, 0, 0);
        case_blob(c, 0, (const float[]){ 10, 100 });
        case_top_diff(c, 0, dy);
        ASSERT_OK(case_backward(c));
        ASSERT_OK(case_backward(c)); /* twice, to tell += from = */
        ASSERT_NEAR(c, "top[0].data", 0, 11, 12, 103, 104, 15, 16, 107, 108);
        ASSERT_NEAR(c, "blob[0].diff", 1e-5f, 6, 8);
        ASSERT_NEAR(c, "bottom[0].diff", 0, 1, 0, 0, 1, 2, 0, 0, 3);
    }
}

TEST_EACH_DEVICE(bias, a_second_bottom_is_the_bias)
{
    struct layer_case *c = cube(dev, "type: 'Bias' bias_param { axis: 0 }");

    case_bottom(c, 1, CT_SHAPE(2, 2), (const float[]){ 10, 20, 30, 40 });
    ASSERT_OK(case_setup(c));
    ASSERT_INT(0, case_layer(c)->n_blob);
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_OK(case_backward(c)); /* overwrites */
    ASSERT_NEAR(c, "top[0].data", 0, 11, 12, 23, 24, 35, 36, 47, 48);
    ASSERT_NEAR(c, "bottom[1].diff", 0, 1, 1, 2, 3);
}

TEST_EACH_DEVICE(bias, a_scalar_goes_everywhere)
{
    struct layer_case *c = cube(dev, "type: 'Bias' bias_param { num_axes: 0 "
                                     "filler { value: -1 } }");

    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 0, 1, 2, 3, 4, 5, 6, 7);
    ASSERT_NEAR(c, "blob[0].diff", 0, 7);
}

TEST_EACH_DEVICE(bias, gradient_matches_finite_differences)
{
    static const char *const kinds[] = {
        "type: 'Bias' bias_param { filler { type: 'gaussian' } }",
        "type: 'Bias' bias_param { axis: 1 num_axes: 2 }",
        "type: 'Bias' bias_param { axis: -1 }",
        "type: 'Bias' bias_param { axis: 0 num_axes: -1 }"
    };

    for (int i = 0; i < 4; i++) {
        struct layer_case *c = layer_case(dev, kinds[i]);

        case_bottom(c, 0, CT_SHAPE(2, 3, 4, 5), NULL);
        ASSERT_OK(case_setup(c));
        ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
    }
}

TEST(bias, all_layouts_give_the_same)
{
    check_layouts("type: 'Bias' bias_param { filler { type: 'gaussian' } }",
                  CT_SHAPE(3, 19, 5, 4), false);
    check_layouts("type: 'Bias' bias_param { axis: 2 filler { "
                  "type: 'gaussian' } }", CT_SHAPE(3, 19, 5, 4), true);
    check_layouts("type: 'Bias' bias_param { num_axes: 0 filler { value: 1 } }",
                  CT_SHAPE(3, 19, 5, 4), true);
}

TEST(bias, coefficients_that_do_not_fit_are_refused)
{
    struct layer_case *c = cube(CT_CPU, "name: 'b' type: 'Bias' "
                                "bias_param { axis: 2 num_axes: 2 }");

    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer b: 2 axes from axis 2", ct_last_error());
    c = cube(CT_CPU, "name: 'b' type: 'Bias' "
             "bias_param { num_axes: 2147483647 }");
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    c = cube(CT_CPU, "name: 'b' type: 'Bias'");
    case_bottom(c, 1, CT_SHAPE(2, 3), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer b: coefficients", ct_last_error());
}
