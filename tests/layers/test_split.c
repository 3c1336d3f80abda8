/* test_split.c - one bottom, several readers, one gradient. */
#include "testing/layer_test.h"

static const float x[] = { 1, -2, 3 }, d0[] = { 1, 2, 3 };
static const float d1[] = { 10, 20, 30 }, d2[] = { 100, 200, 300 };

static struct layer_case *tops(enum ct_device_kind dev, int n)
{
    struct layer_case *c = layer_case(dev, "type: 'Split'");

    case_tops(c, n);
    case_bottom(c, 0, CT_SHAPE(3), x);
    ASSERT_OK(case_setup(c));
    return c;
}

TEST_EACH_DEVICE(split, every_top_is_the_bottom_and_gradients_add_up)
{
    struct layer_case *c = tops(dev, 3);

    case_top_diff(c, 0, d0);
    case_top_diff(c, 1, d1);
    case_top_diff(c, 2, d2);
    ASSERT_OK(case_backward(c));
    ASSERT_OK(case_backward(c)); /* twice: dx is overwritten */
    ASSERT_NEAR(c, "top[0].data", 0, 1, -2, 3);
    ASSERT_NEAR(c, "top[1].data", 0, 1, -2, 3);
    ASSERT_NEAR(c, "top[2].data", 0, 1, -2, 3);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 111, 222, 333);
}

TEST_EACH_DEVICE(split, one_or_two_tops_do)
{
    struct layer_case *c = tops(dev, 1);

    case_top_diff(c, 0, d1);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "bottom[0].diff", 0, 10, 20, 30);
    c = tops(dev, 2);
    case_top_diff(c, 0, d0);
    case_top_diff(c, 1, d1);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "bottom[0].diff", 0, 11, 22, 33);
}

TEST_EACH_DEVICE(split, a_top_without_a_diff_counts_as_zero)
{
    struct layer_case *c = tops(dev, 3);
    struct ct_blob *top = (void *)(uintptr_t)case_find(c, "top[1]");
    float *kept = top->diff.ptr;

    case_top_diff(c, 0, d0);
    case_top_diff(c, 2, d2);
    top->diff.ptr = NULL;
    ASSERT_OK(case_backward(c));
    top->diff.ptr = kept;
    ASSERT_NEAR(c, "bottom[0].diff", 0, 101, 202, 303);
}

TEST_EACH_DEVICE(split, a_long_gradient_adds_up_to_its_end)
{
    struct layer_case *c = layer_case(dev, "type: 'Split'");

    case_tops(c, 3);
    case_bottom(c, 0, CT_SHAPE(3, 1667), NULL); /* more than one chunk */
    ASSERT_OK(case_setup(c));
    for (int t = 0; t < 3; t++) {
        float *d = ct_diff(case_find(c, (const char *[]){
            "top[0]", "top[1]", "top[2]" }[t]));

        for (int i = 0; i < 5001; i++)
            d[i] = (float)((t + 1) * i);
    }
    ASSERT_OK(case_backward(c));
    for (int i = 0; i < 5001; i++)
        ASSERT_FLOAT(6 * i, ct_diff(case_find(c, "bottom[0]"))[i], 0);
}
