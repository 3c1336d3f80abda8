/* test_group_norm.c - by hand.
 *
 *     x = 1 3 5 7: mean 4, variance 5; with eps 4 y = (x - 4) / 3
 *     halves: means 2 and 6, variance 1; with eps 3 y = (x - mean) / 2 */
#include "testing/layer_test.h"

static const float x[] = { 1, 3, 5, 7 }, dy[] = { 1, 0, 0, 0 };

static struct layer_case *group(enum ct_device_kind dev, const char *param,
                                bool in_place)
{
    char text[256];
    struct layer_case *c;

    snprintf(text, sizeof(text),
             "name: 'g' type: 'GroupNorm' group_norm_param { %s }", param);
    c = layer_case(dev, text);
    if (in_place)
        case_in_place(c);
    case_bottom(c, 0, CT_SHAPE(1, 2, 2), x);
    return c;
}

static void check(struct layer_case *c)
{
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, -1, -1 / 3.0f, 1 / 3.0f, 1);
}

TEST_EACH_DEVICE(group_norm, one_group_is_all_channels)
{
    struct layer_case *c = group(dev, "group_num: 1 eps: 4", false);

    check(c);
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 1 / 6.0f, -1 / 9.0f, -1 / 18.0f,
                0);
}

TEST_EACH_DEVICE(group_norm, groups_do_not_see_each_other)
{
    struct layer_case *c = group(dev, "group_num: 2 eps: 3", false);

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, -0.5f, 0.5f, -0.5f, 0.5f);
}

TEST_EACH_DEVICE(group_norm, works_in_place)
{
    struct layer_case *c = group(dev, "group_num: 1 eps: 4", true);

    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, -1, -1 / 3.0f, 1 / 3.0f, 1);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 1 / 6.0f, -1 / 9.0f, -1 / 18.0f,
                0);
}

TEST_EACH_DEVICE(group_norm, gradient_matches_finite_differences)
{
    struct layer_case *c = group(dev, "group_num: 2 eps: 0.01", false);

    case_bottom(c, 0, CT_SHAPE(2, 4, 3, 2), NULL);
    ASSERT_OK(case_setup(c));
    ASSERT_GRADIENT(c, 1e-2f, 1e-2f);
}

TEST(group_norm, channels_that_cannot_be_divided_are_refused)
{
    struct layer_case *c = group(CT_CPU, "", false);

    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer g: 2 channels cannot be divided into 32 groups",
               ct_last_error());
    c = group(CT_CPU, "group_num: 0", false);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer g: group_num is 0", ct_last_error());
    c = group(CT_CPU, "group_num: 1", false);
    case_bottom(c, 0, CT_SHAPE(4), x);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
}
