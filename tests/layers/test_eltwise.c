/* test_eltwise.c - sums, products and maxima of bottoms. */
#include "testing/layer_test.h"

static const float a[] = { 1, -2, 3, 0 }, b[] = { 4, 5, -6, 0 };
static const float d[] = { 1, 5, 3, 2 }, dy[] = { 1, 2, 3, 4 };

static struct layer_case *three(const char *prototxt)
{
    struct layer_case *c = layer_case(CT_CPU, prototxt);

    case_bottom(c, 0, CT_SHAPE(2, 2), a);
    case_bottom(c, 1, CT_SHAPE(2, 2), b);
    case_bottom(c, 2, CT_SHAPE(2, 2), d);
    return c;
}

TEST(eltwise, bottoms_are_added_unless_told_otherwise)
{
    struct layer_case *c = three("type: 'Eltwise'");

    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 6, 8, 0, 2);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 1, 2, 3, 4);
    ASSERT_NEAR(c, "bottom[2].diff", 0, 1, 2, 3, 4);
}

TEST(eltwise, coefficients_weigh_the_sum)
{
    struct layer_case *c = three("type: 'Eltwise' eltwise_param "
                                 "{ coeff: 1 coeff: -0.5 coeff: 2 }");

    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 1, 5.5f, 12, 4);
    ASSERT_NEAR(c, "bottom[1].diff", 0, -0.5f, -1, -1.5f, -2);
    ASSERT_NEAR(c, "bottom[2].diff", 0, 2, 4, 6, 8);
}

TEST(eltwise, a_product_with_zeros_has_a_gradient_either_way)
{
    static const char *const both[] = {
        "type: 'Eltwise' eltwise_param { operation: PROD }",
        "type: 'Eltwise' eltwise_param "
        "{ operation: PROD stable_prod_grad: false }" };

    for (int i = 0; i < 2; i++) {
        struct layer_case *c = three(both[i]);

        ASSERT_OK(case_setup(c));
        case_top_diff(c, 0, dy);
        ASSERT_OK(case_backward(c));
        ASSERT_NEAR(c, "top[0].data", 0, 4, -50, -54, 0);
        ASSERT_NEAR(c, "bottom[0].diff", 0, 4, 50, -54, 0);
        ASSERT_NEAR(c, "bottom[1].diff", 0, 1, -20, 27, 0);
        ASSERT_NEAR(c, "bottom[2].diff", 0, 4, -20, -54, 0);
    }
}

/* Ties: bottoms 1 and 2 in place 1, 0 and 2 in place 2. */
TEST(eltwise, the_largest_takes_the_gradient)
{
    struct layer_case *c =
        three("type: 'Eltwise' eltwise_param { operation: MAX }");

    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 4, 5, 3, 2);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 0, 0, 3, 0);
    ASSERT_NEAR(c, "bottom[1].diff", 0, 1, 2, 0, 0);
    ASSERT_NEAR(c, "bottom[2].diff", 0, 0, 0, 0, 4);
}

TEST(eltwise, of_two_equal_values_bottom_one_wins)
{
    struct layer_case *c = layer_case(
        CT_CPU, "type: 'Eltwise' eltwise_param { operation: MAX }");

    case_bottom(c, 0, CT_SHAPE(2, 2), a);
    case_bottom(c, 1, CT_SHAPE(2, 2), a);
    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "bottom[0].diff", 0, 0, 0, 0, 0);
    ASSERT_NEAR(c, "bottom[1].diff", 0, 1, 2, 3, 4);
}

TEST(eltwise, gradient_matches_finite_differences)
{
    static const char *const all[] = {
        "type: 'Eltwise' eltwise_param { coeff: 0.5 coeff: -2 }",
        "type: 'Eltwise' eltwise_param { operation: PROD }",
        "type: 'Eltwise' eltwise_param { operation: MAX }" };

    for (int i = 0; i < 3; i++) {
        struct layer_case *c = layer_case(CT_CPU, all[i]);

        case_bottom(c, 0, CT_SHAPE(2, 3, 4), NULL);
        case_bottom_range(c, 1, CT_SHAPE(2, 3, 4), -0.02f, 0.02f);
        ASSERT_OK(case_setup(c));
        ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
    }
}

TEST(eltwise, only_wanted_gradients_are_written)
{
    struct layer_case *c = three("type: 'Eltwise'");

    ASSERT_OK(case_setup(c));
    case_want_grad(c, 1, false);
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "bottom[1].diff", 0, 0, 0, 0, 0);
    ASSERT_NEAR(c, "bottom[2].diff", 0, 1, 2, 3, 4);
}

TEST(eltwise, wrong_coefficients_and_shapes_are_refused)
{
    struct layer_case *c =
        three("name: 'e' type: 'Eltwise' eltwise_param { coeff: 1 }");

    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer e: 3 bottoms", ct_last_error());
    c = three("name: 'e' type: 'Eltwise' eltwise_param { operation: PROD "
              "coeff: 1 coeff: 1 coeff: 1 }");
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    c = three("name: 'e' type: 'Eltwise'");
    case_bottom(c, 2, CT_SHAPE(4), d);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer e", ct_last_error());
    c = layer_case(CT_CPU, "name: 'e' type: 'Eltwise'");
    case_bottom(c, 0, CT_SHAPE(4), d);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
}
