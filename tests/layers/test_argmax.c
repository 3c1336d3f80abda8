/* test_argmax.c - where the largest values are.
 *
 *     x = 3 1 3   8 0 2      two items of 2 x 3
 *         2 9 0   5 7 8                               */
#include "testing/layer_test.h"

static const float x[] = { 3, 1, 3, 2, 9, 0, 8, 0, 2, 5, 7, 8 };

static struct layer_case *two_items(enum ct_device_kind dev, const char *text)
{
    struct layer_case *c = layer_case(dev, text);

    case_bottom(c, 0, CT_SHAPE(2, 2, 3), x);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    return c;
}

TEST_EACH_DEVICE(argmax, each_item_has_one_of_two_equals_the_later)
{
    struct layer_case *c = two_items(dev, "type: 'ArgMax'");

    ASSERT_SHAPE(c, "top[0]", 2, 1, 1);
    ASSERT_NEAR(c, "top[0].data", 0, 4, 5);
}

TEST_EACH_DEVICE(argmax, top_k_come_best_first)
{
    struct layer_case *c =
        two_items(dev, "type: 'ArgMax' argmax_param { top_k: 3 }");

    ASSERT_SHAPE(c, "top[0]", 2, 1, 3);
    ASSERT_NEAR(c, "top[0].data", 0, 4, 2, 0, 5, 0, 4);
    c = two_items(dev, "type: 'ArgMax' argmax_param { top_k: 6 }");
    ASSERT_NEAR(c, "top[0].data", 0, 4, 2, 0, 3, 1, 5, 5, 0, 4, 3, 2, 1);
}

TEST_EACH_DEVICE(argmax, values_follow_the_indices_of_an_item)
{
    struct layer_case *c = two_items(
        dev, "type: 'ArgMax' argmax_param { top_k: 2 out_max_val: true }");

    ASSERT_SHAPE(c, "top[0]", 2, 2, 2);
    ASSERT_NEAR(c, "top[0].data", 0, 4, 2, 9, 3, 5, 0, 8, 8);
}

TEST_EACH_DEVICE(argmax, an_axis_is_replaced_by_the_best_on_it)
{
    struct layer_case *c =
        two_items(dev, "type: 'ArgMax' argmax_param { axis: 1 }");

    ASSERT_SHAPE(c, "top[0]", 2, 1, 3);
    ASSERT_NEAR(c, "top[0].data", 0, 0, 1, 0, 0, 1, 1);
    c = two_items(dev, "type: 'ArgMax' argmax_param "
                  "{ axis: -1 top_k: 2 out_max_val: true }");
    ASSERT_SHAPE(c, "top[0]", 2, 2, 2);
    ASSERT_NEAR(c, "top[0].data", 0, 3, 3, 9, 2, 8, 2, 8, 7);
    c = two_items(dev, "type: 'ArgMax' argmax_param "
                  "{ axis: 1 out_max_val: true }");
    ASSERT_NEAR(c, "top[0].data", 0, 3, 9, 3, 8, 7, 8);
    c = two_items(dev, "type: 'ArgMax' argmax_param { axis: 1 top_k: 2 }");
    ASSERT_NEAR(c, "top[0].data", 0, 0, 1, 0, 1, 0, 1, 0, 1, 1, 1, 0, 0);
}

TEST_EACH_DEVICE(argmax, the_top_has_three_axes_or_as_many_as_the_bottom)
{
    struct layer_case *c = layer_case(dev, "type: 'ArgMax' argmax_param "
                                      "{ top_k: 2 }");

    case_bottom(c, 0, CT_SHAPE(2, 5), NULL);
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 2, 1, 2);
    case_bottom(c, 0, CT_SHAPE(2, 5, 3, 4, 6), NULL);
    ASSERT_OK(case_reshape(c));
    ASSERT_SHAPE(c, "top[0]", 2, 1, 2, 1, 1);
}

TEST(argmax, more_than_there_are_and_none_are_refused)
{
    static const char *const bad[] = {
        "name: 'm' type: 'ArgMax' argmax_param { top_k: 7 }",
        "name: 'm' type: 'ArgMax' argmax_param { top_k: 0 }",
        "name: 'm' type: 'ArgMax' argmax_param { top_k: 3 axis: 1 }",
        "name: 'm' type: 'ArgMax' argmax_param { axis: 3 }" };

    for (int i = 0; i < 4; i++) {
        struct layer_case *c = layer_case(CT_CPU, bad[i]);

        case_bottom(c, 0, CT_SHAPE(2, 2, 3), x);
        ASSERT_STATUS(CT_EINVAL, case_setup(c));
        ASSERT_HAS("layer m", ct_last_error());
    }
}
