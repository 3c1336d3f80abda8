/* test_dropout.c - what is left out, how often, and that it repeats. */
#include "layout_case.h"

enum { N = 4, PER = 1001 };

static struct layer_case *ones(enum ct_device_kind dev, const char *prototxt)
{
    static float x[N * PER];
    struct layer_case *c = layer_case(dev, prototxt);

    for (int i = 0; i < N * PER; i++)
        x[i] = 1;
    case_bottom(c, 0, CT_SHAPE(N, PER), x);
    return c;
}

TEST_EACH_DEVICE(dropout, train_keeps_the_expected_part_scaled_up)
{
    struct layer_case *c = ones(dev, "type: 'Dropout' "
                                "dropout_param { dropout_ratio: 0.2 }");
    const float *y;
    int n_kept = 0;

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    y = ct_data(case_find(c, "top[0]"));
    for (int i = 0; i < N * PER; i++) {
        if (y[i] != 0)
            ASSERT_FLOAT(1.25, y[i], 1e-6);
        n_kept += y[i] != 0;
    }
    /* 3203 expected, with a standard deviation of 25. */
    ASSERT(n_kept > 3203 - 150 && n_kept < 3203 + 150);
}

TEST_EACH_DEVICE(dropout, backward_leaves_out_the_same_values)
{
    struct layer_case *c = ones(dev, "type: 'Dropout'");
    static float dy[N * PER];
    const float *y, *dx;

    for (int i = 0; i < N * PER; i++)
        dy[i] = (float)(i % 7 + 1);
    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    y  = ct_data(case_find(c, "top[0]"));
    dx = ct_diff(case_find(c, "bottom[0]"));
    for (int i = 0; i < N * PER; i++)
        ASSERT_FLOAT(y[i] * dy[i], dx[i], 0);
}

TEST_EACH_DEVICE(dropout, draws_depend_on_the_global_sample_only)
{
    struct layer_case *c = ones(dev, "name: 'd' type: 'Dropout' "
                                "dropout_param { dropout_ratio: 0.3 }");
    const uint64_t pass = 3;
    const float *y;

    ASSERT_OK(case_setup(c));
    case_run(c)->pass = pass;
    case_run(c)->size = 2;
    case_run(c)->rank = 1;
    ASSERT_OK(case_forward(c));
    y = ct_data(case_find(c, "top[0]"));
    for (uint64_t n = 0; n < N; n++)
        for (uint64_t i = 0; i < PER; i++) {
            uint64_t sample = (pass * 2 + 1) * N + n;
            float u = ct_uniform(case_layer(c)->key, sample, i);

            ASSERT_FLOAT(u < 0.3f ? 0 : 1 / 0.7, y[n * PER + i], 1e-6);
        }
}

TEST_EACH_DEVICE(dropout, every_pass_draws_anew)
{
    struct layer_case *c = ones(dev, "type: 'Dropout'");
    static float first[N * PER];
    const float *y;
    int n_same = 0;

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    y = ct_data(case_find(c, "top[0]"));
    memcpy(first, y, sizeof(first));
    case_run(c)->pass++;
    ASSERT_OK(case_forward(c));
    for (int i = 0; i < N * PER; i++)
        n_same += first[i] == y[i];
    ASSERT(n_same > N * PER / 2 - 200 && n_same < N * PER / 2 + 200);
}

TEST_EACH_DEVICE(dropout, works_in_place)
{
    static const float dy[] = { 1, 2, 3, 4, 5, 6 };
    struct layer_case *c = layer_case(dev, "type: 'Dropout'");
    const float *y, *dx;

    case_in_place(c);
    case_bottom(c, 0, CT_SHAPE(2, 3), NULL);
    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    y  = ct_data(case_find(c, "top[0]"));
    dx = ct_diff(case_find(c, "bottom[0]"));
    for (int i = 0; i < 6; i++)
        ASSERT_FLOAT(y[i] != 0 ? 2 * dy[i] : 0, dx[i], 0);
}

TEST_EACH_DEVICE(dropout, gradient_matches_finite_differences)
{
    struct layer_case *c = layer_case(dev, "type: 'Dropout' "
                                      "dropout_param { dropout_ratio: 0.3 }");

    case_bottom(c, 0, CT_SHAPE(2, 3, 4), NULL);
    ASSERT_OK(case_setup(c));
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}

TEST_EACH_DEVICE(dropout, test_phase_passes_everything_on)
{
    static const float x[] = { 1, -2, 3 }, dy[] = { 4, 5, 6 };
    struct layer_case *c = layer_case(dev, "type: 'Dropout'");

    case_phase(c, CAFFE__PHASE__TEST);
    case_bottom(c, 0, CT_SHAPE(3), x);
    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 1, -2, 3);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 4, 5, 6);
}

TEST_EACH_DEVICE(dropout, ratio_zero_keeps_everything)
{
    static const float x[] = { 1, -2, 3 };
    struct layer_case *c = layer_case(dev, "type: 'Dropout' "
                                      "dropout_param { dropout_ratio: 0 }");

    case_bottom(c, 0, CT_SHAPE(3), x);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 1, -2, 3);
}

TEST(dropout, a_ratio_of_one_or_below_zero_is_refused)
{
    struct layer_case *c = layer_case(CT_CPU, "name: 'drop6' type: 'Dropout' "
                                      "dropout_param { dropout_ratio: 1 }");

    case_bottom(c, 0, CT_SHAPE(3), NULL);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer drop6: dropout_ratio is 1", ct_last_error());
    c = layer_case(CT_CPU, "type: 'Dropout' "
                   "dropout_param { dropout_ratio: -0.1 }");
    case_bottom(c, 0, CT_SHAPE(3), NULL);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
}

TEST(dropout, all_layouts_leave_out_the_same)
{
    check_layouts("type: 'Dropout'", CT_SHAPE(3, 19, 5, 4), false);
    check_layouts("type: 'Dropout'", CT_SHAPE(2, 16, 1, 1), true);
}
