/* test_mvn.c - one item of two channels of two values:
 *
 *     channel 0:  1 3    mean 2, deviation 1
 *     channel 1:  6 2    mean 4, deviation 2
 *     together:          mean 3, variance (4 + 0 + 9 + 1) / 4 = 3.5        */
#include "testing/layer_test.h"

static const float x[] = { 1, 3, 6, 2 };

static struct layer_case *two_channels(enum ct_device_kind dev,
                                       const char *prototxt)
{
    struct layer_case *c = layer_case(dev, prototxt);

    case_bottom(c, 0, CT_SHAPE(1, 2, 1, 2), x);
    return c;
}

TEST_EACH_DEVICE(mvn, eps_is_added_to_the_deviation)
{
    struct layer_case *c = two_channels(dev,
                                        "type: 'MVN' mvn_param { eps: 1 }");

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, -0.5f, 0.5f, 2 / 3.f, -2 / 3.f);
}

/* As Caffe does it: (dy - mean(dy) - y mean(dy y)) / (deviation + eps). */
TEST_EACH_DEVICE(mvn, backward_by_hand)
{
    struct layer_case *c = two_channels(dev,
                                        "type: 'MVN' mvn_param { eps: 1 }");

    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, (const float[]){ 1, 0, 0, 0 });
    ASSERT_OK(case_backward(c));
    /* mean(dy) = 0.5, mean(dy y) = -0.25. */
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 0.1875f, -0.1875f, 0, 0);
}

TEST_EACH_DEVICE(mvn, across_channels_takes_the_whole_item)
{
    struct layer_case *c = two_channels(dev, "type: 'MVN' mvn_param { "
                                             "across_channels: true }");
    const float r = sqrtf(3.5f);

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, -2 / r, 0, 3 / r, -1 / r);
}

TEST_EACH_DEVICE(mvn, without_variance_only_the_mean_goes)
{
    struct layer_case *c = two_channels(dev, "type: 'MVN' mvn_param { "
                                             "normalize_variance: false }");

    case_in_place(c);
    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, (const float[]){ 1, 0, 2, 4 });
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, -1, 1, 2, -2);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 0.5f, -0.5f, -1, 1);
}

TEST_EACH_DEVICE(mvn, gradient_matches_finite_differences)
{
    static const char *const kinds[] = {
        "type: 'MVN'", "type: 'MVN' mvn_param { across_channels: true }",
        "type: 'MVN' mvn_param { normalize_variance: false }"
    };

    for (int i = 0; i < 6; i++) {
        struct layer_case *c = layer_case(dev, kinds[i / 2]);

        case_bottom(c, 0, CT_SHAPE(2, 3, 4, 5), NULL);
        if (i % 2)
            case_in_place(c);
        ASSERT_OK(case_setup(c));
        ASSERT_GRADIENT(c, 1e-2f, 1e-2f);
    }
}

TEST(mvn, takes_one_bottom)
{
    struct layer_case *c = two_channels(CT_CPU, "name: 'm' type: 'MVN'");

    case_bottom(c, 1, CT_SHAPE(1), x);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer m", ct_last_error());
}
