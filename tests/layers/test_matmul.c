/* test_matmul.c - two products of 2 x 2 matrices, by hand.
 *
 *     1 2   5 6   19 22        1 1   0 1   1 1
 *     3 4   7 8 = 43 50        0 1   1 0 = 1 0  */
#include "testing/layer_test.h"

static const float a[] = { 1, 2, 3, 4, 1, 1, 0, 1 };
static const float b[] = { 5, 6, 7, 8, 0, 1, 1, 0 };

TEST_EACH_DEVICE(matmul, each_item_has_its_own_product)
{
    static const float dc[] = { 1, 0, 0, 2, 1, 1, 1, 1 };
    struct layer_case *c    = layer_case(dev, "type: 'MatMul'");

    case_bottom(c, 0, CT_SHAPE(2, 2, 2), a);
    case_bottom(c, 1, CT_SHAPE(2, 2, 2), b);
    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, dc);
    ASSERT_OK(case_backward(c));
    ASSERT_OK(case_backward(c)); /* twice, to tell = from += */
    ASSERT_NEAR(c, "top[0].data", 1e-5f, 19, 22, 43, 50, 1, 1, 1, 0);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-5f, 5, 7, 12, 16, 1, 1, 1, 1);
    ASSERT_NEAR(c, "bottom[1].diff", 1e-5f, 1, 6, 2, 8, 1, 1, 2, 2);
}

TEST_EACH_DEVICE(matmul, either_side_may_be_transposed)
{
    struct layer_case *c = layer_case(dev, "type: 'MatMul' "
                                      "matmul_param { transpose_a: true }");

    case_bottom(c, 0, CT_SHAPE(2, 2), a);
    case_bottom(c, 1, CT_SHAPE(2, 2), b);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-5f, 26, 30, 38, 44);
    c = layer_case(dev, "type: 'MatMul' matmul_param { transpose_b: true }");
    case_bottom(c, 0, CT_SHAPE(2, 2), a);
    case_bottom(c, 1, CT_SHAPE(2, 2), b);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-5f, 17, 23, 39, 53);
}

TEST_EACH_DEVICE(matmul, gradient_matches_finite_differences)
{
    for (int i = 0; i < 4; i++) {
        const bool ta = i & 1, tb = i & 2;
        char text[128];
        struct layer_case *c;

        snprintf(text, sizeof(text), "type: 'MatMul' matmul_param { "
                 "transpose_a: %d transpose_b: %d }", ta, tb);
        c = layer_case(dev, text);
        case_bottom(c, 0, ta ? CT_SHAPE(2, 4, 3) : CT_SHAPE(2, 3, 4), NULL);
        case_bottom(c, 1, tb ? CT_SHAPE(2, 2, 4) : CT_SHAPE(2, 4, 2), NULL);
        ASSERT_OK(case_setup(c));
        ASSERT_SHAPE(c, "top[0]", 2, 3, 2);
        ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
    }
}

TEST(matmul, shapes_that_do_not_fit_are_refused)
{
    struct layer_case *c = layer_case(CT_CPU, "name: 'm' type: 'MatMul'");

    case_bottom(c, 0, CT_SHAPE(2, 3), NULL);
    case_bottom(c, 1, CT_SHAPE(2, 3), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer m: rows of bottom 0 have 3 values, columns of bottom 1 "
               "2", ct_last_error());
    c = layer_case(CT_CPU, "name: 'm' type: 'MatMul'");
    case_bottom(c, 0, CT_SHAPE(2, 3, 3), NULL);
    case_bottom(c, 1, CT_SHAPE(1, 3, 3), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer m: axis 0 is 2 in bottom 0 and 1", ct_last_error());
    c = layer_case(CT_CPU, "name: 'm' type: 'MatMul'");
    case_bottom(c, 0, CT_SHAPE(3), NULL);
    case_bottom(c, 1, CT_SHAPE(3), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
}
