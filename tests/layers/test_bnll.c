/* test_bnll.c - the softplus, by hand and by finite differences.
 *
 *     log 2 = 0.693147   log(1 + e) = 1.313262   log(1 + 1/e) = 0.313262 */
#include "testing/layer_test.h"

static const float x[] = { 0, 1, -1, 100, -100, 30 };
static const float dy[] = { 2, 1, 1, 3, 3, 1 };

static void check(struct layer_case *c)
{
    case_bottom(c, 0, CT_SHAPE(2, 3), x);
    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 0.693147181f, 1.31326169f,
                0.313261688f, 100, 0, 30);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 1, 0.731058579f, 0.268941421f, 3,
                0, 1);
}

TEST_EACH_DEVICE(bnll, is_smooth_at_zero_and_linear_far_out)
{
    check(layer_case(dev, "type: 'BNLL'"));
}

TEST_EACH_DEVICE(bnll, works_in_place)
{
    struct layer_case *c = layer_case(dev, "type: 'BNLL'");

    case_in_place(c);
    check(c);
}

TEST_EACH_DEVICE(bnll, gradient_matches_finite_differences)
{
    struct layer_case *c = layer_case(dev, "type: 'BNLL'");

    case_bottom_range(c, 0, CT_SHAPE(2, 3, 4), -4, 4);
    ASSERT_OK(case_setup(c));
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}
