/* test_shuffle_channel.c - channels dealt out over groups. */
#include "testing/layer_test.h"

/* Channels 1..6 as 2 x 3, transposed: 1 4 2 5 3 6. */
TEST_EACH_DEVICE(shuffle_channel, groups_are_dealt_out_in_turn)
{
    static const float x[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 };
    static const float dy[] = { 1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60 };
    struct layer_case *c = layer_case(
        dev, "type: 'ShuffleChannel' shuffle_channel_param { group: 2 }");

    case_bottom(c, 0, CT_SHAPE(2, 6), x);
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 2, 6);
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 1, 4, 2, 5, 3, 6, 7, 10, 8, 11, 9, 12);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 1, 3, 5, 2, 4, 6, 10, 30, 50, 20, 40,
                60);
}

TEST_EACH_DEVICE(shuffle_channel, gradient_matches_finite_differences)
{
    struct layer_case *c = layer_case(
        dev, "type: 'ShuffleChannel' shuffle_channel_param { group: 3 }");

    case_bottom(c, 0, CT_SHAPE(2, 6, 3, 2), NULL);
    ASSERT_OK(case_setup(c));
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}

TEST(shuffle_channel, groups_that_do_not_divide_are_refused)
{
    struct layer_case *c = layer_case(CT_CPU, "name: 's' "
        "type: 'ShuffleChannel' shuffle_channel_param { group: 4 }");

    case_bottom(c, 0, CT_SHAPE(2, 6), NULL);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer s: 6 channels", ct_last_error());
    c = layer_case(CT_CPU, "name: 's' type: 'ShuffleChannel' "
                   "shuffle_channel_param { group: 0 }");
    case_bottom(c, 0, CT_SHAPE(2, 6), NULL);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    c = layer_case(CT_CPU, "name: 's' type: 'ShuffleChannel'");
    case_bottom(c, 0, CT_SHAPE(6), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
}
