/* test_scale.c - x of shape 2 x 2 x 2:
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

TEST_EACH_DEVICE(scale, channels_by_default_starting_with_one)
{
    struct layer_case *c = cube(dev, "type: 'Scale'");

    ASSERT_OK(case_setup(c));
    ASSERT_INT(1, case_layer(c)->n_blob);
    ASSERT_SHAPE(c, "blob[0]", 2);
    ASSERT_NEAR(c, "blob[0].data", 0, 1, 1);
    case_blob(c, 0, (const float[]){ 10, 100 });
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 10, 20, 300, 400, 50, 60, 700, 800);
}

TEST_EACH_DEVICE(scale, backward_adds_to_blobs_and_overwrites_bottom)
{
    for (int in_place = 0; in_place < 2; in_place++) {
        struct layer_case *c = cube(dev,
            "type: 'Scale' scale_param { bias_term: true }");

        if (in_place)
            case_in_place(c);
        ASSERT_OK(case_setup(c));
        case_blob(c, 0, (const float[]){ 10, 100 });
        case_blob(c, 1, (const float[]){ -1, 1 });
        case_top_diff(c, 0, dy);
        ASSERT_OK(case_backward(c));
        ASSERT_OK(case_backward(c)); /* twice, to tell += from = */
        ASSERT_NEAR(c, "top[0].data", 0, 9, 19, 301, 401, 49, 59, 701, 801);
        ASSERT_NEAR(c, "blob[0].diff", 1e-5f, 22, 56);
        ASSERT_NEAR(c, "blob[1].diff", 1e-5f, 6, 8);
        ASSERT_NEAR(c, "bottom[0].diff", 1e-5f, 10, 0, 0, 100, 20, 0, 0, 300);
    }
}

TEST_EACH_DEVICE(scale, axes_choose_the_shape_of_the_blob)
{
    struct layer_case *c = cube(dev,
        "type: 'Scale' scale_param { axis: 0 num_axes: -1 }");

    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "blob[0]", 2, 2, 2);
    c = cube(dev, "type: 'Scale' scale_param { axis: -1 }");
    ASSERT_OK(case_setup(c));
    case_blob(c, 0, (const float[]){ 1, -1 });
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 1, -2, 3, -4, 5, -6, 7, -8);
    c = cube(dev, "type: 'Scale' scale_param { num_axes: 0 }");
    ASSERT_OK(case_setup(c));
    ASSERT_INT(0, case_find(c, "blob[0]")->shape.n_axes);
    case_blob(c, 0, (const float[]){ 2 });
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 2, 4, 6, 8, 10, 12, 14, 16);
    ASSERT_NEAR(c, "blob[0].diff", 1e-5f, 39);
}

TEST_EACH_DEVICE(scale, a_second_bottom_is_the_scale)
{
    struct layer_case *c = cube(dev, "type: 'Scale' scale_param { axis: 0 }");

    case_bottom(c, 1, CT_SHAPE(2, 2), (const float[]){ 1, 2, 3, 4 });
    ASSERT_OK(case_setup(c));
    ASSERT_INT(0, case_layer(c)->n_blob);
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_OK(case_backward(c)); /* overwrites */
    ASSERT_NEAR(c, "top[0].data", 0, 1, 2, 6, 8, 15, 18, 28, 32);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 1, 0, 0, 2, 6, 0, 0, 12);
    ASSERT_NEAR(c, "bottom[1].diff", 1e-5f, 1, 4, 10, 24);
}

TEST_EACH_DEVICE(scale, only_the_gradients_asked_for_are_made)
{
    struct layer_case *c = cube(dev, "type: 'Scale' scale_param { axis: 0 }");
    struct ct_blob *b;

    case_bottom(c, 1, CT_SHAPE(2, 2), (const float[]){ 1, 2, 3, 4 });
    ASSERT_OK(case_setup(c));
    case_want_grad(c, 0, false);
    case_want_grad(c, 1, false);
    b = (void *)(uintptr_t)case_find(c, "bottom[1]");
    ct_diff(b)[0] = 77;
    b = (void *)(uintptr_t)case_find(c, "bottom[0]");
    ct_diff(b)[0] = 78;
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "bottom[1].diff", 0, 77, 0, 0, 0);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 78, 0, 0, 0, 0, 0, 0, 0);
}

TEST_EACH_DEVICE(scale, gradient_matches_finite_differences)
{
    static const char *const kinds[] = {
        "type: 'Scale' scale_param { bias_term: true filler { "
        "type: 'gaussian' } bias_filler { type: 'gaussian' } }",
        "type: 'Scale' scale_param { axis: 2 num_axes: 2 bias_term: true "
        "filler { type: 'gaussian' } }",
        "type: 'Scale' scale_param { num_axes: 0 bias_term: true }"
    };

    for (int i = 0; i < 6; i++) {
        struct layer_case *c = layer_case(dev, kinds[i / 2]);

        case_bottom(c, 0, CT_SHAPE(2, 3, 4, 5), NULL);
        if (i % 2)
            case_in_place(c);
        ASSERT_OK(case_setup(c));
        ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
    }
    for (int i = 0; i < 2; i++) {
        struct layer_case *c = layer_case(dev,
            "type: 'Scale' scale_param { axis: 1 bias_term: true }");

        case_bottom(c, 0, CT_SHAPE(2, 3, 4, 5), NULL);
        case_bottom(c, 1, CT_SHAPE(3, 4), NULL);
        if (i)
            case_in_place(c);
        ASSERT_OK(case_setup(c));
        ASSERT_SHAPE(c, "blob[0]", 3, 4);
        ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
    }
}

TEST(scale, all_layouts_give_the_same)
{
    static const char *const kinds[] = {
        "type: 'Scale' scale_param { bias_term: true filler { "
        "type: 'gaussian' } bias_filler { type: 'gaussian' } }",
        "type: 'Scale' scale_param { axis: 2 num_axes: 1 bias_term: true "
        "filler { type: 'gaussian' } bias_filler { type: 'gaussian' } }",
        "type: 'Scale' scale_param { num_axes: 0 bias_term: true "
        "bias_filler { value: 1 } }"
    };

    for (int i = 0; i < 6; i++)
        check_layouts(kinds[i / 2], CT_SHAPE(3, 19, 5, 4), i % 2);
}

TEST(scale, coefficients_that_do_not_fit_are_refused)
{
    struct layer_case *c = cube(CT_CPU, "name: 's' type: 'Scale' "
                                "scale_param { axis: 1 num_axes: 3 }");

    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer s: 3 axes from axis 1", ct_last_error());
    c = cube(CT_CPU, "name: 's' type: 'Scale' scale_param { num_axes: -2 }");
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer s: num_axes", ct_last_error());
    c = cube(CT_CPU, "name: 's' type: 'Scale' scale_param { axis: 3 }");
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer s: axis 3", ct_last_error());
    c = cube(CT_CPU, "name: 's' type: 'Scale'");
    case_bottom(c, 1, CT_SHAPE(3), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer s: coefficients of shape 3", ct_last_error());
    c = cube(CT_CPU, "name: 's' type: 'Scale'");
    ASSERT_OK(case_setup(c));
    case_bottom(c, 0, CT_SHAPE(2, 3, 2), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_reshape(c));
}
