/* test_silence.c - blobs that nobody wants get a gradient of zero. */
#include "testing/layer_test.h"

TEST_EACH_DEVICE(silence, gradients_become_zero_where_they_are_wanted)
{
    struct layer_case *c = layer_case(dev, "type: 'Silence'");
    float *d0, *d1;

    case_bottom(c, 0, CT_SHAPE(2), NULL);
    case_bottom(c, 1, CT_SHAPE(1, 2), NULL);
    ASSERT_OK(case_setup(c));
    case_want_grad(c, 1, false);
    d0 = ct_diff(case_find(c, "bottom[0]"));
    d1 = ct_diff(case_find(c, "bottom[1]"));
    d0[0] = d0[1] = d1[0] = d1[1] = 7;
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "bottom[0].diff", 0, 0, 0);
    ASSERT_NEAR(c, "bottom[1].diff", 0, 7, 7);
}

TEST(silence, a_top_or_no_bottom_is_refused)
{
    struct layer_case *c = layer_case(CT_CPU, "name: 's' type: 'Silence'");

    case_tops(c, 1);
    case_bottom(c, 0, CT_SHAPE(2), NULL);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer s", ct_last_error());
    c = layer_case(CT_CPU, "name: 's' type: 'Silence'");
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
}
