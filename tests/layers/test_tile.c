/* test_tile.c - copies side by side. */
#include "testing/layer_test.h"

static const float x[] = { 1, 2, 3, 4 };

TEST_EACH_DEVICE(tile, copies_follow_one_another_on_the_axis)
{
    static const float dy[] = { 1, 2, 3, 4, 10, 20, 30, 40 };
    struct layer_case *c =
        layer_case(dev, "type: 'Tile' tile_param { tiles: 2 }");

    case_bottom(c, 0, CT_SHAPE(2, 2), x);
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 2, 4);
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 1, 2, 1, 2, 3, 4, 3, 4);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 4, 6, 40, 60);
}

TEST_EACH_DEVICE(tile, axis_counts_from_either_end)
{
    struct layer_case *c =
        layer_case(dev, "type: 'Tile' tile_param { axis: 0 tiles: 2 }");

    case_bottom(c, 0, CT_SHAPE(2, 2), x);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_SHAPE(c, "top[0]", 4, 2);
    ASSERT_NEAR(c, "top[0].data", 0, 1, 2, 3, 4, 1, 2, 3, 4);
    c = layer_case(dev, "type: 'Tile' tile_param { axis: -1 tiles: 3 }");
    case_bottom(c, 0, CT_SHAPE(2, 3, 4), NULL);
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 2, 3, 12);
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}

TEST(tile, no_tiles_are_refused)
{
    static const char *const bad[] = {
        "name: 't' type: 'Tile'",
        "name: 't' type: 'Tile' tile_param { tiles: 0 }",
        "name: 't' type: 'Tile' tile_param { tiles: -1 }",
        "name: 't' type: 'Tile' tile_param { tiles: 2 axis: 2 }" };

    for (int i = 0; i < 4; i++) {
        struct layer_case *c = layer_case(CT_CPU, bad[i]);

        case_bottom(c, 0, CT_SHAPE(2, 2), x);
        ASSERT_STATUS(CT_EINVAL, case_setup(c));
        ASSERT_HAS("layer t", ct_last_error());
    }
}
