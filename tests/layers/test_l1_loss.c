/* test_l1_loss.c - absolute differences, by hand.
 *
 * As 1 x 2 x 1 x 2 the differences 3 0 / 4 5 are the vectors (3, 4), (0, 5). */
#include "testing/layer_test.h"

static const float one[] = { 1 }, two[] = { 2 }, zero[4] = { 0 };
static const float x[] = { 3, 0, 4, 5 };

static struct layer_case *vectors(enum ct_device_kind dev, const char *param,
                                  const float *label)
{
    char text[256];
    struct layer_case *c;

    snprintf(text, sizeof(text),
             "name: 'l' type: 'L1Loss' l1_loss_param { %s }", param);
    c = layer_case(dev, text);
    case_bottom(c, 0, CT_SHAPE(1, 2, 1, 2), x);
    case_bottom(c, 1, CT_SHAPE(1, 2, 1, 2), label);
    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, one);
    return c;
}

TEST_EACH_DEVICE(l1_loss, is_a_mean_over_rows)
{
    static const float a[] = { 1, -2, 3, 0.5f }, b[] = { 0, 0, 1, 0.5f };
    struct layer_case *c = layer_case(dev, "type: 'L1Loss'");

    case_bottom(c, 0, CT_SHAPE(2, 2), a);
    case_bottom(c, 1, CT_SHAPE(2, 2), b);
    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, two);
    ASSERT_OK(case_backward(c));
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 2.5f);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 1, -1, 1, 0);
    ASSERT_NEAR(c, "bottom[1].diff", 0, -1, 1, -1, 0);
}

TEST_EACH_DEVICE(l1_loss, one_bottom_is_the_difference)
{
    struct layer_case *c = layer_case(dev, "type: 'L1Loss'");

    case_bottom(c, 0, CT_SHAPE(2, 2), x);
    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, one);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 6);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 0.5f, 0, 0.5f, 0.5f);
}

TEST_EACH_DEVICE(l1_loss, lengths_of_vectors)
{
    struct layer_case *c = vectors(dev, "l2_per_location: true epsilon: 11",
                                   zero);

    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-5f, 12);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 0.5f, 0, 4 / 6.0f, 5 / 6.0f);
}

TEST_EACH_DEVICE(l1_loss, a_label_that_is_nan_does_not_count)
{
    static const float unknown[] = { 0, NAN, 0, 0 };
    struct layer_case *c =
        vectors(dev, "normalize_by_num_entries: true", unknown);

    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-5f, 8); /* 12 over 3 of 2 channels */
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 2 / 3.0f, 0, 2 / 3.0f, 2 / 3.0f);
    c = vectors(dev, "l2_per_location: true epsilon: 11 "
                "normalize_by_num_entries: true", unknown);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-5f, 6);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 0.5f, 0, 4 / 6.0f, 0);
}

TEST_EACH_DEVICE(l1_loss, what_lies_on_the_plateau_adds_nothing)
{
    struct layer_case *c = vectors(dev, "plateau: 3", zero);

    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 9);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 0, 0, 1, 1);
}

TEST_EACH_DEVICE(l1_loss, gradient_matches_finite_differences)
{
    struct layer_case *c = layer_case(dev, "type: 'L1Loss' l1_loss_param { "
        "l2_per_location: true l2_prescale_by_channels: true }");

    case_bottom(c, 0, CT_SHAPE(2, 3, 2, 2), NULL);
    case_bottom_range(c, 1, CT_SHAPE(2, 3, 2, 2), 2, -2);
    ASSERT_OK(case_setup(c));
    ASSERT_GRADIENT(c, 1e-2f, 1e-2f);
}

TEST(l1_loss, bottoms_that_differ_are_refused)
{
    struct layer_case *c = layer_case(CT_CPU, "name: 'l' type: 'L1Loss'");

    case_bottom(c, 0, CT_SHAPE(2, 2), x);
    case_bottom(c, 1, CT_SHAPE(2, 1), x);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer l: bottoms have 4 and 2", ct_last_error());
}
