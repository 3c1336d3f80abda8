/* test_reduction.c - trailing axes reduced to a number. */
#include "testing/layer_test.h"

static const float x[] = { 1, -2, 3, 4, 0, -6 }, dy[] = { 1, 10 };

static struct layer_case *rows(const char *prototxt)
{
    struct layer_case *c = layer_case(CT_CPU, prototxt);

    case_bottom(c, 0, CT_SHAPE(2, 3), x);
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 2);
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    return c;
}

TEST(reduction, sum_and_mean_spread_the_gradient)
{
    struct layer_case *c =
        rows("type: 'Reduction' reduction_param { axis: 1 coeff: 1.5 }");

    ASSERT_NEAR(c, "top[0].data", 0, 3, -3);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 1.5f, 1.5f, 1.5f, 15, 15, 15);
    c = rows("type: 'Reduction' reduction_param "
             "{ operation: MEAN axis: -1 coeff: 1.5 }");
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 1, -1);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 0.5f, 0.5f, 0.5f, 5, 5, 5);
}

TEST(reduction, absolute_sum_has_the_sign_as_gradient)
{
    struct layer_case *c = rows(
        "type: 'Reduction' reduction_param { operation: ASUM axis: 1 }");

    ASSERT_NEAR(c, "top[0].data", 0, 6, 10);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 1, -1, 1, 10, 0, -10);
}

TEST(reduction, sum_of_squares_has_twice_the_value_as_gradient)
{
    struct layer_case *c = rows("type: 'Reduction' reduction_param "
                                "{ operation: SUMSQ axis: 1 coeff: 0.5 }");

    ASSERT_NEAR(c, "top[0].data", 0, 7, 26);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 1, -2, 3, 40, 0, -60);
}

TEST(reduction, everything_becomes_a_scalar_unless_told_otherwise)
{
    struct layer_case *c = layer_case(CT_CPU, "type: 'Reduction'");

    case_bottom(c, 0, CT_SHAPE(2, 3), x);
    ASSERT_OK(case_setup(c));
    ASSERT_INT(0, case_find(c, "top[0]")->shape.n_axes);
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 0);
}

/* 19 values to a row are two vectors and a rest. */
TEST(reduction, gradient_matches_finite_differences)
{
    static const char *const all[] = {
        "type: 'Reduction' reduction_param { operation: SUM axis: 1 }",
        "type: 'Reduction' reduction_param { operation: ASUM axis: 1 }",
        "type: 'Reduction' reduction_param { operation: SUMSQ axis: 1 }",
        "type: 'Reduction' reduction_param { operation: MEAN axis: 1 }",
        "type: 'Reduction' reduction_param { operation: MEAN coeff: -2 }" };

    for (int i = 0; i < 5; i++) {
        struct layer_case *c = layer_case(CT_CPU, all[i]);

        case_bottom(c, 0, CT_SHAPE(2, 19, 1), NULL);
        ASSERT_OK(case_setup(c));
        ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
    }
}

TEST(reduction, an_axis_out_of_range_is_refused)
{
    struct layer_case *c = layer_case(
        CT_CPU, "name: 'r' type: 'Reduction' reduction_param { axis: 2 }");

    case_bottom(c, 0, CT_SHAPE(2, 3), x);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer r", ct_last_error());
}
