/* test_batch_norm.c - two channels, two items of two values:
 *
 *     channel 0:  1 3 | 5 7      mean 4, variance 5
 *     channel 1:  0 0 | 2 2      mean 1, variance 1                       */
#include "layout_case.h"

static const float x[] = { 1, 3, 0, 0, 5, 7, 2, 2 };
static const float dy[] = { 1, 0, 0, 0, 0, 0, 0, 4 };

static struct layer_case *two_channels(enum ct_device_kind dev,
                                       const char *prototxt)
{
    struct layer_case *c = layer_case(dev, prototxt);

    case_bottom(c, 0, CT_SHAPE(2, 2, 2), x);
    return c;
}

/* 5 and 1 plus eps are 9 and 5 with eps 4. */
static const char eps_four[] =
    "name: 'bn' type: 'BatchNorm' batch_norm_param { eps: 4 "
    "moving_average_fraction: 0.5 }";

TEST_EACH_DEVICE(batch_norm, training_normalizes_by_the_batch)
{
    struct layer_case *c = two_channels(dev, eps_four);
    const float r = sqrtf(5);

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, -1, -1 / 3.f, -1 / r, -1 / r,
                1 / 3.f, 1, 1 / r, 1 / r);
}

TEST_EACH_DEVICE(batch_norm, running_sums_decay_and_hold_unbiased_variances)
{
    struct layer_case *c = two_channels(dev, eps_four);

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "blob[0].data", 1e-6f, 4, 1);
    ASSERT_NEAR(c, "blob[1].data", 1e-6f, 20 / 3.f, 4 / 3.f);
    ASSERT_NEAR(c, "blob[2].data", 0, 1);
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "blob[0].data", 1e-6f, 6, 1.5f);
    ASSERT_NEAR(c, "blob[1].data", 1e-5f, 10, 2);
    ASSERT_NEAR(c, "blob[2].data", 0, 1.5f);
}

TEST_EACH_DEVICE(batch_norm, testing_divides_the_running_sums)
{
    struct layer_case *c = two_channels(dev, eps_four);

    case_phase(c, CAFFE__PHASE__TEST);
    ASSERT_OK(case_setup(c));
    case_blob(c, 0, (const float[]){ 6, 2 });
    case_blob(c, 1, (const float[]){ 10, 0 });
    case_blob(c, 2, (const float[]){ 2 });
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    /* Means 3 and 1, variances 5 and 0: roots 3 and 2. */
    ASSERT_NEAR(c, "top[0].data", 1e-6f, -2 / 3.f, 0, -0.5f, -0.5f, 2 / 3.f,
                4 / 3.f, 0.5f, 0.5f);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 1 / 3.f, 0, 0, 0, 0, 0, 0, 2);
    ASSERT_NEAR(c, "blob[2].data", 0, 2); /* untouched */
}

TEST_EACH_DEVICE(batch_norm, without_any_statistics_testing_divides_by_root_eps)
{
    struct layer_case *c = two_channels(dev, eps_four);

    case_phase(c, CAFFE__PHASE__TEST);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 0.5f, 1.5f, 0, 0, 2.5f, 3.5f, 1, 1);
}

TEST_EACH_DEVICE(batch_norm, use_global_stats_decides_against_the_phase)
{
    struct layer_case *c = two_channels(dev, "type: 'BatchNorm' "
        "batch_norm_param { use_global_stats: true eps: 4 }");

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 0.5f, 1.5f, 0, 0, 2.5f, 3.5f, 1, 1);
    c = two_channels(dev, "type: 'BatchNorm' batch_norm_param { "
                          "use_global_stats: false eps: 4 }");
    case_phase(c, CAFFE__PHASE__TEST);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "blob[0].data", 1e-6f, 4, 1);
}

TEST_EACH_DEVICE(batch_norm, gradient_matches_finite_differences)
{
    static const struct ct_shape shapes[] = {
        { 4, { 2, 3, 4, 5 } }, { 2, { 6, 3 } }, { 1, { 7 } },
        { 3, { 4, 2, 3 } }
    };

    for (int i = 0; i < 4; i++)
        for (int in_place = 0; in_place < 2; in_place++) {
            struct layer_case *c = layer_case(dev, "type: 'BatchNorm'");

            case_bottom(c, 0, shapes[i], NULL);
            if (in_place)
                case_in_place(c);
            ASSERT_OK(case_setup(c));
            ASSERT_GRADIENT(c, 1e-2f, 1e-2f);
        }
}

/* As in BatchNorm -> Scale -> ReLU, all on one blob. */
TEST_EACH_DEVICE(batch_norm, in_place_it_does_not_need_the_top_any_more)
{
    struct layer_case *a = two_channels(dev, eps_four);
    struct layer_case *b = two_channels(dev, eps_four);
    struct ct_blob *y;
    const bool want = true;
    struct ct_io io = { &y, &y, 1, 1, &want };

    ASSERT_OK(case_setup(a));
    case_top_diff(a, 0, dy);
    ASSERT_OK(case_backward(a));
    case_in_place(b);
    ASSERT_OK(case_setup(b));
    case_top_diff(b, 0, dy);
    ASSERT_OK(case_forward(b));
    y = (void *)(uintptr_t)case_find(b, "top[0]");
    memcpy(ct_diff(y), dy, sizeof(dy));
    memset(ct_data(y), 0, sizeof(x));
    ASSERT_OK(ct_layer_backward(case_layer(b), &io));
    ASSERT_OK(y->dev->ops->sync(y->dev));
    for (int i = 0; i < 8; i++)
        ASSERT_FLOAT(ct_diff(case_find(a, "bottom[0]"))[i], ct_diff(y)[i],
                     1e-6);
}

TEST(batch_norm, all_layouts_give_the_same)
{
    check_layouts("type: 'BatchNorm'", CT_SHAPE(3, 19, 5, 4), false);
    check_layouts("type: 'BatchNorm'", CT_SHAPE(3, 19, 5, 4), true);
    check_layouts("type: 'BatchNorm' batch_norm_param { use_global_stats: true "
                  "eps: 1 }", CT_SHAPE(3, 19, 5, 4), true);
}

TEST(batch_norm, statistics_are_not_learned)
{
    struct layer_case *c = two_channels(CT_CPU, "name: 'bn' type: 'BatchNorm' "
        "param { lr_mult: 0 } param { lr_mult: 0 } param { lr_mult: 1 }");

    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer bn: ", ct_last_error());
    ASSERT_HAS("lr_mult: 0", ct_last_error());
    c = two_channels(CT_CPU, "type: 'BatchNorm' param { lr_mult: 0 }");
    ASSERT_OK(case_setup(c));
    for (int i = 0; i < 3; i++)
        ASSERT(!case_layer(c)->blob_wants_grad[i]);
}

TEST(batch_norm, another_number_of_channels_is_refused)
{
    struct layer_case *c = two_channels(CT_CPU, eps_four);

    ASSERT_OK(case_setup(c));
    case_bottom(c, 0, CT_SHAPE(2, 3, 2), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_reshape(c));
    ASSERT_HAS("layer bn: the bottom has 3 channels", ct_last_error());
}
