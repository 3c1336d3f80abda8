/* test_reorg.c - 4 x 2 x 2 values 0 to 15, seen as one 4 x 4 image:
 *
 *      0  1  2  3      darknet's order takes the corner of each 2 x 2 block
 *      4  5  6  7      first (0 2 8 10), then the other columns (1 3 9 11),
 *      8  9 10 11      then the rows below.
 *     12 13 14 15                                                     */
#include "testing/layer_test.h"

static const float order[] = { 0, 2, 8,  10, 1, 3, 9,  11,
                               4, 6, 12, 14, 5, 7, 13, 15 };
static float x[16];

static struct layer_case *image(enum ct_device_kind dev, const char *param)
{
    char text[256];
    struct layer_case *c;

    for (int i = 0; i < 16; i++)
        x[i] = (float)i;
    snprintf(text, sizeof(text),
             "name: 'r' type: 'Reorg' reorg_param { %s }", param);
    c = layer_case(dev, text);
    case_bottom(c, 0, CT_SHAPE(1, 4, 2, 2), x);
    return c;
}

TEST_EACH_DEVICE(reorg, order_is_darknets)
{
    struct layer_case *c = image(dev, "stride: 2");
    float back[16];

    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 1, 16, 1, 1);
    case_top_diff(c, 0, x);
    ASSERT_OK(case_backward(c));
    ASSERT_OK(case_backward(c));
    case_near(c, __FILE__, __LINE__, "top[0].data", 0, order, 16);
    for (int i = 0; i < 16; i++)
        back[(int)order[i]] = (float)i;
    case_near(c, __FILE__, __LINE__, "bottom[0].diff", 0, back, 16);
}

TEST_EACH_DEVICE(reorg, reverse_spreads_channels)
{
    struct layer_case *c = image(dev, "stride: 2 reverse: true");
    float want[16];

    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 1, 1, 4, 4);
    ASSERT_OK(case_forward(c));
    for (int i = 0; i < 16; i++)
        want[(int)order[i]] = (float)i;
    case_near(c, __FILE__, __LINE__, "top[0].data", 0, want, 16);
}

TEST_EACH_DEVICE(reorg, gradient_matches_finite_differences)
{
    struct layer_case *c = image(dev, "stride: 2");

    case_bottom(c, 0, CT_SHAPE(2, 8, 4, 2), NULL);
    ASSERT_OK(case_setup(c));
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
    c = image(dev, "stride: 2 reverse: true");
    case_bottom(c, 0, CT_SHAPE(2, 8, 3, 2), NULL);
    ASSERT_OK(case_setup(c));
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}

TEST(reorg, sizes_that_do_not_fit_are_refused)
{
    struct layer_case *c = image(CT_CPU, "stride: 0");

    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer r: stride is 0", ct_last_error());
    c = image(CT_CPU, "stride: 3");
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer r: 4 channels are no multiple of stride 3 squared",
               ct_last_error());
    c = image(CT_CPU, "stride: 2");
    case_bottom(c, 0, CT_SHAPE(1, 4, 3, 2), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer r: 3 x 2 positions", ct_last_error());
    c = image(CT_CPU, "stride: 2");
    case_bottom(c, 0, CT_SHAPE(4, 4), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
}
