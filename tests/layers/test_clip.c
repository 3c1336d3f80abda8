/* test_clip.c - values held between bounds. */
#include "testing/layer_test.h"

static const float x[] = { -2, -1, 0.5f, 2, 3, 7 };
static const float dy[] = { 1, 2, 3, 4, 5, 6 };

static struct layer_case *six(enum ct_device_kind dev)
{
    struct layer_case *c =
        layer_case(dev, "type: 'Clip' clip_param { min: -1 max: 2 }");

    case_bottom(c, 0, CT_SHAPE(2, 3), x);
    return c;
}

TEST_EACH_DEVICE(clip, gradient_passes_between_the_bounds_and_on_them)
{
    struct layer_case *c = six(dev);

    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 0, -1, -1, 0.5f, 2, 2, 2);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 0, 2, 3, 4, 0, 0);
}

TEST_EACH_DEVICE(clip, in_place_stops_the_gradient_of_clipped_values)
{
    struct layer_case *c = six(dev);

    case_in_place(c);
    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 0, -1, -1, 0.5f, 2, 2, 2);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 0, 0, 3, 0, 0, 0);
}

TEST_EACH_DEVICE(clip, gradient_matches_finite_differences)
{
    struct layer_case *c =
        layer_case(dev, "type: 'Clip' clip_param { min: -0.03 max: 0.02 }");

    case_bottom(c, 0, CT_SHAPE(2, 3, 4), NULL); /* all beyond +-0.05 */
    ASSERT_OK(case_setup(c));
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
    c = layer_case(dev, "type: 'Clip' clip_param { min: -2 max: 2 }");
    case_bottom(c, 0, CT_SHAPE(2, 3, 4), NULL);
    ASSERT_OK(case_setup(c));
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}

TEST(clip, bounds_must_be_given)
{
    struct layer_case *c = layer_case(CT_CPU, "name: 'k' type: 'Clip'");

    case_bottom(c, 0, CT_SHAPE(2), x);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer k: give the bounds", ct_last_error());
}
