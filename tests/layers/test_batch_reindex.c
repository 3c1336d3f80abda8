/* test_batch_reindex.c - a batch picked from another. */
#include "testing/layer_test.h"

static const float x[] = { 1, 2, 3, 4, 5, 6 };

static struct layer_case *pick(struct ct_shape shape, const float *index,
                               int n)
{
    struct layer_case *c =
        layer_case(CT_CPU, "name: 'b' type: 'BatchReindex'");

    case_bottom(c, 0, shape, x);
    case_bottom(c, 1, CT_SHAPE(n), index);
    case_want_grad(c, 1, false);
    return c;
}

TEST(batch_reindex, items_repeat_and_their_gradients_add_up)
{
    static const float dy[] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    struct layer_case *c =
        pick(CT_SHAPE(3, 2), (const float[]){ 2, 0, 2, 2 }, 4);

    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 4, 2);
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_OK(case_backward(c)); /* twice: dx is overwritten */
    ASSERT_NEAR(c, "top[0].data", 0, 5, 6, 1, 2, 5, 6, 5, 6);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 3, 4, 0, 0, 13, 16);
}

TEST(batch_reindex, gradient_matches_finite_differences)
{
    struct layer_case *c =
        pick(CT_SHAPE(3, 2, 1), (const float[]){ 1, 1, 0, 2, 1 }, 5);

    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 5, 2, 1);
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}

TEST(batch_reindex, an_index_out_of_range_is_refused)
{
    static const float bad[] = { 3, -1, NAN };

    for (int i = 0; i < 3; i++) {
        struct layer_case *c = pick(CT_SHAPE(3, 2), &bad[i], 1);

        ASSERT_OK(case_setup(c));
        ASSERT_STATUS(CT_EINVAL, case_forward(c));
        ASSERT_HAS("layer b: index", ct_last_error());
    }
}

TEST(batch_reindex, a_list_of_two_axes_is_refused)
{
    struct layer_case *c =
        layer_case(CT_CPU, "name: 'b' type: 'BatchReindex'");

    case_bottom(c, 0, CT_SHAPE(3, 2), x);
    case_bottom(c, 1, CT_SHAPE(2, 1), x);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer b", ct_last_error());
}
