/* test_filter.c - only the chosen items of a batch. */
#include "testing/layer_test.h"

static const float x[] = { 1, 2, 3, 4, 5, 6, 7, 8 }, z[] = { 10, 20, 30, 40 };

static struct layer_case *choose(const float *selector)
{
    struct layer_case *c = layer_case(CT_CPU, "name: 'f' type: 'Filter'");

    case_tops(c, 2);
    case_bottom(c, 0, CT_SHAPE(4, 2), x);
    case_bottom(c, 1, CT_SHAPE(4), z);
    case_bottom(c, 2, CT_SHAPE(4, 1, 1), selector);
    ASSERT_OK(case_setup(c));
    case_want_grad(c, 2, false);
    return c;
}

TEST(filter, items_whose_number_is_not_zero_pass)
{
    struct layer_case *c = choose((const float[]){ 0, 1, 0, -0.5f });

    ASSERT_SHAPE(c, "top[0]", 4, 2);
    ASSERT_OK(case_forward(c));
    ASSERT_SHAPE(c, "top[0]", 2, 2);
    ASSERT_SHAPE(c, "top[1]", 2);
    ASSERT_NEAR(c, "top[0].data", 0, 3, 4, 7, 8);
    ASSERT_NEAR(c, "top[1].data", 0, 20, 40);
    case_top_diff(c, 0, (const float[]){ 1, 2, 3, 4 });
    case_top_diff(c, 1, (const float[]){ 5, 6 });
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "bottom[0].diff", 0, 0, 0, 1, 2, 0, 0, 3, 4);
    ASSERT_NEAR(c, "bottom[1].diff", 0, 0, 5, 0, 6);
}

TEST(filter, another_choice_follows_in_the_next_pass)
{
    struct layer_case *c = choose((const float[]){ 0, 1, 0, 1 });

    ASSERT_OK(case_forward(c));
    case_bottom(c, 2, CT_SHAPE(4, 1, 1), (const float[]){ 1, 1, 0, 1 });
    ASSERT_OK(case_forward(c));
    ASSERT_SHAPE(c, "top[0]", 3, 2);
    ASSERT_NEAR(c, "top[1].data", 0, 10, 20, 40);
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}

TEST(filter, no_choice_gives_an_empty_batch_and_a_gradient_of_zero)
{
    struct layer_case *c = choose((const float[]){ 0, 0, 0, 0 });

    ASSERT_OK(case_forward(c));
    ASSERT_SHAPE(c, "top[0]", 0, 2);
    ASSERT_SHAPE(c, "top[1]", 0);
    ct_diff(case_find(c, "bottom[1]"))[3] = 7;
    ct_diff(case_find(c, "bottom[2]"))[0] = 7;
    case_want_grad(c, 2, true);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "bottom[1].diff", 0, 0, 0, 0, 0);
    ASSERT_NEAR(c, "bottom[2].diff", 0, 0, 0, 0, 0);
}

TEST(filter, selectors_that_do_not_fit_are_refused)
{
    struct layer_case *c = layer_case(CT_CPU, "name: 'f' type: 'Filter'");

    case_bottom(c, 0, CT_SHAPE(4, 2), x);
    case_bottom(c, 1, CT_SHAPE(3), z);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer f", ct_last_error());
    c = layer_case(CT_CPU, "name: 'f' type: 'Filter'");
    case_bottom(c, 0, CT_SHAPE(4, 2), x);
    case_bottom(c, 1, CT_SHAPE(4, 2), x);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer f: the selector", ct_last_error());
    c = layer_case(CT_CPU, "name: 'f' type: 'Filter'");
    case_tops(c, 2);
    case_bottom(c, 0, CT_SHAPE(4), z);
    case_bottom(c, 1, CT_SHAPE(4), z);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
}
