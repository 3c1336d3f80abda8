/* test_pad.c - a border around the image
 *
 *     1 2 3
 *     4 5 6  */
#include "testing/layer_test.h"

static const float x[] = { 1, 2, 3, 4, 5, 6 };

static struct layer_case *image(enum ct_device_kind dev, const char *param)
{
    char text[256];
    struct layer_case *c;

    snprintf(text, sizeof(text), "name: 'p' type: 'Pad' pad_param { %s }",
             param);
    c = layer_case(dev, text);
    case_bottom(c, 0, CT_SHAPE(1, 1, 2, 3), x);
    return c;
}

TEST_EACH_DEVICE(pad, zeros_are_the_default)
{
    struct layer_case *c = image(dev, "pad: 1");

    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 1, 1, 4, 5);
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 0,
                0, 4, 5, 6, 0, 0, 0, 0, 0, 0);
}

/* dy counts 1, 2, ... so that sums tell who was read where. */
static void check(struct layer_case *c, int width, const float *row,
                  const float *dx)
{
    float dy[4 * 7], want[4 * 7];
    const int rows = 4;

    for (int i = 0; i < rows * width; i++)
        dy[i] = (float)(i + 1);
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 1, 1, rows, width);
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_OK(case_backward(c));
    for (int i = 0; i < rows * width; i++)
        want[i] = row[i];
    case_near(c, __FILE__, __LINE__, "top[0].data", 0, want, rows * width);
    case_near(c, __FILE__, __LINE__, "bottom[0].diff", 0, dx, 6);
}

TEST_EACH_DEVICE(pad, replicate_repeats_the_edge)
{
    static const float y[] = { 1, 1, 2, 3, 3, 1, 1, 2, 3, 3,
                               4, 4, 5, 6, 6, 4, 4, 5, 6, 6 };
    static const float dx[] = { 1 + 2 + 6 + 7,     3 + 8,
                                4 + 5 + 9 + 10,    11 + 12 + 16 + 17,
                                13 + 18,           14 + 15 + 19 + 20 };

    check(image(dev, "type: REPLICATE pad: 1"), 5, y, dx);
}

TEST_EACH_DEVICE(pad, reflect_mirrors_with_the_edge)
{
    static const float y[] = { 2, 1, 1, 2, 3, 3, 2, 2, 1, 1, 2, 3, 3, 2,
                               5, 4, 4, 5, 6, 6, 5, 5, 4, 4, 5, 6, 6, 5 };
    static const float dx[] = {
        2 + 3 + 9 + 10,   1 + 4 + 7 + 8 + 11 + 14,     5 + 6 + 12 + 13,
        16 + 17 + 23 + 24, 15 + 18 + 21 + 22 + 25 + 28, 19 + 20 + 26 + 27
    };

    check(image(dev, "type: REFLECT pad_h: 1 pad_w: 2"), 7, y, dx);
}

TEST_EACH_DEVICE(pad, reflect_101_mirrors_without_it)
{
    static const float y[] = { 6, 5, 4, 5, 6, 5, 4, 3, 2, 1, 2, 3, 2, 1,
                               6, 5, 4, 5, 6, 5, 4, 3, 2, 1, 2, 3, 2, 1 };
    static const float dx[] = {
        10 + 14 + 24 + 28,          9 + 11 + 13 + 23 + 25 + 27,
        8 + 12 + 22 + 26,           3 + 7 + 17 + 21,
        2 + 4 + 6 + 16 + 18 + 20,   1 + 5 + 15 + 19
    };

    check(image(dev, "type: REFLECT_101 pad_h: 1 pad_w: 2"), 7, y, dx);
}

TEST_EACH_DEVICE(pad, any_axis_takes_paddings)
{
    static const float dy[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 };
    struct layer_case *c = image(dev, "paddings: 1 paddings: 0 paddings: 0 "
                                 "paddings: 1 constant_values: 7");

    case_bottom(c, 0, CT_SHAPE(2, 3), x);
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 3, 4);
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 7, 7, 7, 7, 1, 2, 3, 7, 4, 5, 6, 7);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 5, 6, 7, 9, 10, 11);
}

TEST_EACH_DEVICE(pad, gradient_matches_finite_differences)
{
    static const char *const types[] = { "ZERO", "REPLICATE", "REFLECT",
                                         "REFLECT_101" };

    for (int i = 0; i < 4; i++) {
        char text[64];
        struct layer_case *c;

        snprintf(text, sizeof(text), "type: %s pad: 2", types[i]);
        c = image(dev, text);
        case_bottom(c, 0, CT_SHAPE(2, 2, 3, 4), NULL);
        ASSERT_OK(case_setup(c));
        ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
    }
}

TEST(pad, what_cannot_be_is_refused)
{
    struct layer_case *c = image(CT_CPU, "type: REFLECT_101 pad: 2");

    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer p: a border of 2 cannot reflect axis 2 of 2",
               ct_last_error());
    c = image(CT_CPU, "pad: 1 paddings: 1 paddings: 1");
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer p: give paddings, or pad", ct_last_error());
    c = image(CT_CPU, "paddings: 1 paddings: 1");
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer p: 2 paddings for 4 axes", ct_last_error());
    c = image(CT_CPU, "type: REFLECT paddings: 1");
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    c = image(CT_CPU, "pad: 1");
    case_bottom(c, 0, CT_SHAPE(2, 3), x);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
}
