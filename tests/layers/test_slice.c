/* test_slice.c - a bottom cut along an axis. */
#include "testing/layer_test.h"

static const float x[] = { 1, 2, 3, 4, 5, 6, 7, 8 };

TEST_EACH_DEVICE(slice, two_tops_take_half_of_the_channels_each)
{
    static const float d0[] = { 1, 2, 3, 4 }, d1[] = { 5, 6, 7, 8 };
    struct layer_case *c = layer_case(dev, "type: 'Slice'");

    case_tops(c, 2);
    case_bottom(c, 0, CT_SHAPE(2, 4), x);
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 2, 2);
    case_top_diff(c, 0, d0);
    case_top_diff(c, 1, d1);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 1, 2, 5, 6);
    ASSERT_NEAR(c, "top[1].data", 0, 3, 4, 7, 8);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 1, 2, 5, 6, 3, 4, 7, 8);
}

TEST_EACH_DEVICE(slice, slice_points_cut_where_they_say)
{
    struct layer_case *c = layer_case(
        dev, "type: 'Slice' slice_param { slice_point: 1 slice_point: 3 }");

    case_tops(c, 3);
    case_bottom(c, 0, CT_SHAPE(2, 4), x);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 1, 5);
    ASSERT_NEAR(c, "top[1].data", 0, 2, 3, 6, 7);
    ASSERT_NEAR(c, "top[2].data", 0, 4, 8);
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}

TEST_EACH_DEVICE(slice, axis_counts_from_the_end_and_slice_dim_is_its_name)
{
    static const char *const same[] = {
        "type: 'Slice' slice_param { axis: -3 slice_point: 1 }",
        "type: 'Slice' slice_param { slice_dim: 0 slice_point: 1 }" };

    for (int i = 0; i < 2; i++) {
        struct layer_case *c = layer_case(dev, same[i]);

        case_tops(c, 2);
        case_bottom(c, 0, CT_SHAPE(3, 2, 4), NULL);
        ASSERT_OK(case_setup(c));
        ASSERT_SHAPE(c, "top[0]", 1, 2, 4);
        ASSERT_SHAPE(c, "top[1]", 2, 2, 4);
        ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
    }
}

TEST_EACH_DEVICE(slice, one_top_is_passed_on)
{
    struct layer_case *c = layer_case(dev, "type: 'Slice'");

    case_bottom(c, 0, CT_SHAPE(2, 4), x);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 1, 2, 3, 4, 5, 6, 7, 8);
}

static void refuse(const char *prototxt, int n_top, enum ct_status want)
{
    struct layer_case *c = layer_case(CT_CPU, prototxt);

    case_tops(c, n_top);
    case_bottom(c, 0, CT_SHAPE(2, 4), x);
    ASSERT_STATUS(want, case_setup(c));
    ASSERT_HAS("layer s", ct_last_error());
}

TEST(slice, parts_that_do_not_fit_are_refused)
{
    refuse("name: 's' type: 'Slice'", 3, CT_ESHAPE);
    refuse("name: 's' type: 'Slice' slice_param { slice_point: 5 }", 2,
           CT_ESHAPE);
    refuse("name: 's' type: 'Slice' slice_param { slice_point: 1 }", 3,
           CT_EINVAL);
    refuse("name: 's' type: 'Slice' "
           "slice_param { slice_point: 2 slice_point: 2 }", 3, CT_EINVAL);
    refuse("name: 's' type: 'Slice' slice_param { slice_point: 0 }", 2,
           CT_EINVAL);
    refuse("name: 's' type: 'Slice' slice_param { axis: 1 slice_dim: 1 }", 2,
           CT_EINVAL);
    refuse("name: 's' type: 'Slice' slice_param { axis: 2 }", 2, CT_EINVAL);
}
