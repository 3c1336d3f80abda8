/* test_dummy_data.c - fillers as data. */
#include "testing/layer_test.h"

TEST_EACH_DEVICE(dummy_data, tops_take_their_own_filler_and_shape)
{
    struct layer_case *c = layer_case(dev, "type: 'DummyData' "
        "dummy_data_param { shape { dim: 2 dim: 1 } shape { dim: 3 } "
        "data_filler { type: 'constant' value: 5 } "
        "data_filler { type: 'uniform' min: 2 max: 3 } }");
    const float *y;

    case_tops(c, 2);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_SHAPE(c, "top[0]", 2, 1);
    ASSERT_NEAR(c, "top[0].data", 0, 5, 5);
    ASSERT_SHAPE(c, "top[1]", 3);
    y = ct_data(case_find(c, "top[1]"));
    for (int i = 0; i < 3; i++)
        ASSERT(y[i] >= 2 && y[i] < 3);
    ASSERT(y[0] != y[1]);
}

TEST_EACH_DEVICE(dummy_data, without_a_filler_it_is_zero)
{
    struct layer_case *c = layer_case(dev, "type: 'DummyData' "
        "dummy_data_param { num: 1 channels: 2 height: 1 width: 1 width: 2 }");

    case_tops(c, 2);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_SHAPE(c, "top[0]", 1, 2, 1, 1);
    ASSERT_SHAPE(c, "top[1]", 1, 2, 1, 2);
    ASSERT_NEAR(c, "top[1].data", 0, 0, 0, 0, 0);
}

TEST_EACH_DEVICE(dummy_data, constants_are_filled_once_and_draws_every_pass)
{
    struct layer_case *c = layer_case(dev, "type: 'DummyData' "
        "dummy_data_param { shape { dim: 1 } data_filler { value: 5 } "
        "data_filler { type: 'gaussian' } }");
    float *constant, *drawn, first, other_rank;

    case_tops(c, 2);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    constant    = ct_data(case_find(c, "top[0]"));
    drawn       = ct_data(case_find(c, "top[1]"));
    first       = drawn[0];
    constant[0] = 6;
    case_run(c)->pass = 1;
    ASSERT_OK(case_forward(c));
    ASSERT_FLOAT(6, constant[0], 0);
    ASSERT(drawn[0] != first);
    case_run(c)->pass = 0;
    ASSERT_OK(case_forward(c));
    ASSERT_FLOAT(first, drawn[0], 0);
    case_run(c)->size = 2;
    case_run(c)->rank = 1;
    ASSERT_OK(case_forward(c));
    other_rank = drawn[0];
    ASSERT(other_rank != first);
}

static void refused(const char *param, const char *text)
{
    char prototxt[512];
    struct layer_case *c;

    snprintf(prototxt, sizeof(prototxt),
             "name: 'd' type: 'DummyData' dummy_data_param { %s }", param);
    c = layer_case(CT_CPU, prototxt);
    case_tops(c, 3);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer d", ct_last_error());
    ASSERT_HAS(text, ct_last_error());
}

TEST(dummy_data, counts_that_fit_no_top_are_refused)
{
    refused("", "`shape`");
    refused("shape { dim: 1 } shape { dim: 2 }", "2 `shape` for 3 tops");
    refused("num: 1 num: 2 channels: 1 height: 1 width: 1", "`num`");
    refused("num: 1 channels: 1 height: 1", "0 `width`");
    refused("shape { dim: 1 } num: 1 channels: 1 height: 1 width: 1",
            "not both");
    refused("shape { dim: 1 } data_filler { } data_filler { }",
            "`data_filler`");
}

TEST(dummy_data, an_unknown_filler_is_refused)
{
    struct layer_case *c = layer_case(CT_CPU, "name: 'd' type: 'DummyData' "
        "dummy_data_param { shape { dim: 1 } data_filler { type: 'odd' } }");

    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer d", ct_last_error());
    ASSERT_HAS("odd", ct_last_error());
}
