/* test_prior_box.c - boxes of a 1 x 2 map over a 10 x 20 image, by hand:
 * steps are 10, centres (5, 5) and (15, 5). */
#include "testing/layer_test.h"

static struct layer_case *map(enum ct_device_kind dev, const char *param)
{
    char text[512];
    struct layer_case *c;

    snprintf(text, sizeof(text),
             "name: 'p' type: 'PriorBox' prior_box_param { %s }", param);
    c = layer_case(dev, text);
    case_bottom(c, 0, CT_SHAPE(1, 3, 1, 2), NULL);
    case_bottom(c, 1, CT_SHAPE(1, 3, 10, 20), NULL);
    return c;
}

TEST_EACH_DEVICE(prior_box, a_square_in_every_place)
{
    struct layer_case *c = map(dev, "min_size: 4.9");

    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 1, 2, 8);
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, .15f, .3f, .35f, .7f, .65f, .3f,
                .85f, .7f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f);
}

/* min 4, max 9: squares of 4 and 6; ratio 4: 8 x 2 and, flipped, 2 x 8. */
TEST_EACH_DEVICE(prior_box, sizes_then_ratios)
{
    struct layer_case *c = map(dev, "min_size: 4 max_size: 9 "
        "aspect_ratio: 1 aspect_ratio: 4 aspect_ratio: 0.25 img_size: 20 "
        "step: 4 offset: 1 variance: 0.1 variance: 0.2 variance: 0.3 "
        "variance: 0.4");

    case_bottom(c, 0, CT_SHAPE(1, 1, 1, 1), NULL);
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 1, 2, 16);
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, .1f, .1f, .3f, .3f, .05f, .05f, .35f,
                .35f, 0, .15f, .4f, .25f, .15f, 0, .25f, .4f, .1f, .2f, .3f,
                .4f, .1f, .2f, .3f, .4f, .1f, .2f, .3f, .4f, .1f, .2f, .3f,
                .4f);
}

TEST_EACH_DEVICE(prior_box, without_flip_and_with_clip)
{
    struct layer_case *c = map(dev, "min_size: 10 aspect_ratio: 4 flip: false "
        "clip: true step_h: 10 step_w: 10 img_h: 10 img_w: 20 variance: 2");

    case_bottom(c, 0, CT_SHAPE(1, 1, 1, 1), NULL);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 0, 0, .5f, 1, 0, .25f, .75f, .75f, 2,
                2, 2, 2, 2, 2, 2, 2);
}

static void refused(const char *param, const char *text)
{
    ASSERT_STATUS(CT_EINVAL, case_setup(map(CT_CPU, param)));
    ASSERT_HAS("layer p", ct_last_error());
    ASSERT_HAS(text, ct_last_error());
}

TEST(prior_box, parameters_that_make_no_sense_are_refused)
{
    refused("", "min_size");
    refused("min_size: 0", "min_size");
    refused("min_size: 4 max_size: 4", "max_size");
    refused("min_size: 4 min_size: 5 max_size: 9", "1 max_size for 2");
    refused("min_size: 4 aspect_ratio: 0", "aspect_ratio");
    refused("min_size: 4 variance: 1 variance: 1", "variance");
    refused("min_size: 4 variance: 0", "variance");
    refused("min_size: 4 img_size: 3 img_h: 3 img_w: 3", "img_size");
    refused("min_size: 4 step_h: 3", "step");
    refused("min_size: 4 step: 0", "above 0");
}

TEST(prior_box, maps_must_be_images)
{
    struct layer_case *c = map(CT_CPU, "min_size: 4");

    case_bottom(c, 0, CT_SHAPE(1, 3), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer p", ct_last_error());
}
