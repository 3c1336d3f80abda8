/* depthwise_case.h - one kernel a channel, for a layer type of either name.
 *
 *     x = 1 2 | 5 6    w = 1 10   | 2 0     b = 0.5 | 100
 *         3 4 | 7 8        0 1000 | 0 1                                   */
#ifndef CT_TESTS_LAYERS_DEPTHWISE_CASE_H
#define CT_TESTS_LAYERS_DEPTHWISE_CASE_H

#include "testing/layer_test.h"

static const float x[] = { 1, 2, 3, 4, 5, 6, 7, 8 };
static const float w[] = { 1, 10, 0, 1000, 2, 0, 0, 1 };
static const float b[] = { 0.5f, 100 };

static inline struct layer_case *two_channels(const char *type,
                                              const char *param)
{
    struct layer_case *c;
    char text[512];

    snprintf(text, sizeof(text), "name: 'dw' type: '%s' "
             "convolution_param { kernel_size: 2 weight_filler { "
             "type: 'gaussian' } %s }", type, param);
    c = layer_case(CT_CPU, text);
    case_bottom(c, 0, CT_SHAPE(1, 2, 2, 2), x);
    return c;
}

static inline void each_channel_has_its_kernel(const char *type)
{
    static const char *const same[] = { "", "num_output: 2", "group: 2",
                                        "num_output: 2 group: 2" };

    for (int i = 0; i < 4; i++) {
        struct layer_case *c = two_channels(type, same[i]);

        ASSERT_OK(case_setup(c));
        ASSERT_SHAPE(c, "blob[0]", 2, 1, 2, 2);
        case_blob(c, 0, w);
        case_blob(c, 1, b);
        ASSERT_OK(case_forward(c));
        ASSERT_NEAR(c, "top[0].data", 1e-3f, 4021.5f, 118);
    }
}

static inline void backward_adds_to_blobs_and_overwrites_bottom(
    const char *type)
{
    static const float dy[] = { 1, 2 };
    struct layer_case *c = two_channels(type, "");

    ASSERT_OK(case_setup(c));
    case_blob(c, 0, w);
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_OK(case_backward(c)); /* twice, to tell += from = */
    ASSERT_NEAR(c, "blob[0].diff", 1e-4f, 2, 4, 6, 8, 20, 24, 28, 32);
    ASSERT_NEAR(c, "blob[1].diff", 1e-4f, 2, 4);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-3f, 1, 10, 0, 1000, 4, 0, 0, 2);
}

static inline void several_outputs_a_channel_are_possible(const char *type)
{
    struct layer_case *c = two_channels(type,
                                        "num_output: 6 pad: 1 stride: 2");

    case_bottom(c, 0, CT_SHAPE(2, 3, 4, 5), NULL);
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "blob[0]", 6, 1, 2, 2);
    ASSERT_SHAPE(c, "top[0]", 2, 6, 3, 3);
    ASSERT_GRADIENT(c, 1e-2f, 2e-3f);
}

static inline void other_groups_are_refused(const char *type)
{
    struct layer_case *c = two_channels(type, "group: 4");

    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer dw", ct_last_error());
    c = two_channels(type, "num_output: 3");
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("num_output 3", ct_last_error());
}

#define DEPTHWISE_TESTS(suite, type)                                         \
    TEST(suite, each_channel_has_its_kernel)                                 \
    {                                                                        \
        each_channel_has_its_kernel(type);                                   \
    }                                                                        \
    TEST(suite, backward_adds_to_blobs_and_overwrites_bottom)                \
    {                                                                        \
        backward_adds_to_blobs_and_overwrites_bottom(type);                  \
    }                                                                        \
    TEST(suite, several_outputs_a_channel_are_possible)                      \
    {                                                                        \
        several_outputs_a_channel_are_possible(type);                        \
    }                                                                        \
    TEST(suite, other_groups_are_refused)                                    \
    {                                                                        \
        other_groups_are_refused(type);                                      \
    }

#endif
