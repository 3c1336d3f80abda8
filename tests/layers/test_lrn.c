/* test_lrn.c - three channels of one value, x = 1 2 4.  With local_size 3 and
 * alpha 3 each square counts once: s = k + 5, k + 21, k + 20. */
#include <stdlib.h>

#include "layout_case.h"

static const float x[] = { 1, 2, 4 };

TEST_EACH_DEVICE(lrn, across_channels_by_hand)
{
    struct layer_case *c = layer_case(dev, "type: 'LRN' lrn_param { "
        "local_size: 3 alpha: 3 beta: 1 k: 3 }");

    case_bottom(c, 0, CT_SHAPE(1, 3, 1, 1), x);
    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, (const float[]){ 8, 0, 0 });
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 1 / 8.f, 2 / 24.f, 4 / 23.f);
    /* y0 = x0 / (3 + x0^2 + x1^2): dy0/dx0 = 1/8 - 2/64, dy0/dx1 = -4/64. */
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 0.75f, -0.5f, 0);
}

TEST_EACH_DEVICE(lrn, within_a_channel_ignores_k_and_divides_by_all_nine)
{
    struct layer_case *c = layer_case(dev, "type: 'LRN' lrn_param { "
        "local_size: 3 alpha: 9 beta: 1 k: 77 norm_region: WITHIN_CHANNEL }");

    case_bottom(c, 0, CT_SHAPE(1, 1, 1, 3), x);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 1 / 6.f, 2 / 22.f, 4 / 21.f);
}

TEST_EACH_DEVICE(lrn, the_usual_beta_is_three_quarters)
{
    struct layer_case *c = layer_case(dev, "type: 'LRN' lrn_param { "
        "local_size: 1 alpha: 1 }");

    case_bottom(c, 0, CT_SHAPE(1, 2, 1, 1), (const float[]){ 3.8729833f, 0 });
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 3.8729833f / 8, 0); /* 16^0.75 = 8 */
}

TEST_EACH_DEVICE(lrn, gradient_matches_finite_differences)
{
    static const char *const kinds[] = {
        "type: 'LRN' lrn_param { local_size: 5 alpha: 2 k: 2 }",
        "type: 'LRN' lrn_param { local_size: 3 alpha: 2 beta: 0.6 }",
        "type: 'LRN' lrn_param { local_size: 3 alpha: 2 "
        "norm_region: WITHIN_CHANNEL }",
        "type: 'LRN' lrn_param { local_size: 5 alpha: 2 beta: 0.4 "
        "norm_region: WITHIN_CHANNEL }"
    };

    for (int i = 0; i < 4; i++) {
        struct layer_case *c = layer_case(dev, kinds[i]);

        case_bottom(c, 0, CT_SHAPE(2, 7, 3, 4), NULL);
        ASSERT_OK(case_setup(c));
        ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
    }
}

TEST(lrn, all_layouts_give_the_same)
{
    check_layouts("type: 'LRN' lrn_param { local_size: 5 alpha: 2 }",
                  CT_SHAPE(2, 19, 5, 4), false);
    check_layouts("type: 'LRN' lrn_param { local_size: 3 alpha: 2 "
                  "norm_region: WITHIN_CHANNEL }", CT_SHAPE(2, 19, 5, 4),
                  false);
}

static void unforce(void *unused)
{
    (void)unused;
    unsetenv("CORTADO_IMPL");
}

enum { PLANES = 3 * 37 * 16 * 16 };

/* Both results of one layer, behind each other. */
static void run_within(enum ct_device_kind dev, const char *prototxt,
                       struct ct_shape shape, float *out)
{
    static float dy[PLANES];
    struct layer_case *c = layer_case(dev, prototxt);
    const struct ct_blob *b;

    for (int i = 0; i < PLANES; i++)
        dy[i] = 2 * ct_uniform(5, 1, (uint64_t)i) - 1;
    case_bottom(c, 0, shape, NULL);
    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    b = case_find(c, "top[0].data");
    memcpy(out, ct_data(b), (size_t)b->count * sizeof(float));
    b = case_find(c, "bottom[0].diff");
    memcpy(out + b->count, ct_diff(b), (size_t)b->count * sizeof(float));
}

/* Rows that fall into fours, of one four and of several, and some that do not;
 * images smaller than a window. */
TEST_EACH_DEVICE(lrn, within_a_channel_every_way_gives_what_the_definition_does)
{
    static const char *const kinds[] = {
        "type: 'LRN' lrn_param { local_size: 3 alpha: 2 "
        "norm_region: WITHIN_CHANNEL }",
        "type: 'LRN' lrn_param { local_size: 5 alpha: 2 beta: 0.6 "
        "norm_region: WITHIN_CHANNEL }"
    };
    static const int64_t shapes[][4] = { { 3, 37, 16, 16 }, { 2, 5, 9, 13 },
                                         { 3, 2, 31, 28 }, { 1, 3, 1, 4 },
                                         { 2, 3, 2, 8 } };
    static float want[2 * PLANES], got[2 * PLANES];

    test_defer(unforce, NULL);
    for (int i = 0; i < 10; i++) {
        const int64_t *d        = shapes[i / 2];
        const struct ct_shape s = CT_SHAPE(d[0], d[1], d[2], d[3]);

        run_within(dev, kinds[i % 2], s, got);
        ASSERT(setenv("CORTADO_IMPL",
                      dev == CT_CUDA ? "within:values" : "lrn:ref", 1) == 0);
        run_within(dev, kinds[i % 2], s, want);
        unforce(NULL);
        for (int64_t j = 0; j < 2 * d[0] * d[1] * d[2] * d[3]; j++)
            ASSERT_FLOAT(want[j], got[j], 1e-5f);
    }
}

TEST(lrn, packed_images_within_a_channel_give_what_plain_ones_do)
{
    /* Channels that come in packs, in packs of some types alone, in none. */
    static const int64_t shapes[][4] = { { 3, 32, 16, 16 }, { 2, 19, 5, 4 },
                                         { 2, 12, 9, 7 }, { 1, 8, 1, 1 },
                                         { 2, 40, 8, 2 } };
    static const char *const kinds[] = {
        "type: 'LRN' lrn_param { local_size: 3 alpha: 2 "
        "norm_region: WITHIN_CHANNEL }",
        "type: 'LRN' lrn_param { local_size: 5 alpha: 2 beta: 0.6 "
        "norm_region: WITHIN_CHANNEL }",
        "type: 'LRN' lrn_param { local_size: 7 alpha: 2 "
        "norm_region: WITHIN_CHANNEL }"
    };

    for (int i = 0; i < 15; i++) {
        const int64_t *d = shapes[i / 3];

        check_packed(kinds[i % 3], false, CT_SHAPE(d[0], d[1], d[2], d[3]));
    }
}

TEST(lrn, what_caffe_refuses_is_refused)
{
    struct layer_case *c = layer_case(CT_CPU, "name: 'norm1' type: 'LRN' "
                                      "lrn_param { local_size: 4 }");

    case_bottom(c, 0, CT_SHAPE(1, 3, 1, 1), x);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer norm1: local_size must be odd", ct_last_error());
    c = layer_case(CT_CPU, "name: 'norm1' type: 'LRN'");
    case_bottom(c, 0, CT_SHAPE(3, 1), x);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer norm1: the bottom must have 4 axes", ct_last_error());
}
