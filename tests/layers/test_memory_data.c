/* test_memory_data.c - batches walk through the program's arrays. */
#include "cortado/memory_data.h"
#include "testing/layer_test.h"

static const float data[] = { 1, 2, 3, 4, 5, 6, 7, 8 };
static const float labels[] = { 10, 20, 30, 40 };

static struct layer_case *twos(enum ct_device_kind dev)
{
    struct layer_case *c = layer_case(dev, "name: 'm' type: 'MemoryData' "
        "memory_data_param { batch_size: 2 channels: 1 height: 1 width: 2 }");

    ASSERT_OK(case_setup(c));
    return c;
}

TEST_EACH_DEVICE(memory_data, batches_walk_and_start_over)
{
    struct layer_case *c = twos(dev);

    ASSERT_SHAPE(c, "top[0]", 2, 1, 1, 2);
    ASSERT_SHAPE(c, "top[1]", 2);
    ASSERT_OK(ct_memory_data_set(case_layer(c), data, labels, 4));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 1, 2, 3, 4);
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 5, 6, 7, 8);
    ASSERT_NEAR(c, "top[1].data", 0, 30, 40);
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[1].data", 0, 10, 20);
    ASSERT_OK(case_layer(c)->type->seek(case_layer(c), 5));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[1].data", 0, 30, 40);
    ASSERT_OK(ct_memory_data_set(case_layer(c), data + 4, labels + 2, 2));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 5, 6, 7, 8);
}

TEST(memory_data, nothing_set_is_refused)
{
    struct layer_case *c = twos(CT_CPU);

    ASSERT_STATUS(CT_EINVAL, case_forward(c));
    ASSERT_HAS("layer m", ct_last_error());
}

TEST(memory_data, arrays_that_do_not_fit_are_refused)
{
    struct layer_case *c = twos(CT_CPU);

    ASSERT_STATUS(CT_EINVAL,
                  ct_memory_data_set(case_layer(c), data, labels, 3));
    ASSERT_HAS("layer m: 3 entries", ct_last_error());
    ASSERT_STATUS(CT_EINVAL,
                  ct_memory_data_set(case_layer(c), data, labels, 0));
    ASSERT_STATUS(CT_EINVAL, ct_memory_data_set(case_layer(c), data, NULL, 2));
}

TEST(memory_data, another_type_takes_no_arrays)
{
    struct layer_case *c = layer_case(CT_CPU, "name: 'i' type: 'Input'");

    ASSERT_OK(case_setup(c));
    ASSERT_STATUS(CT_EINVAL,
                  ct_memory_data_set(case_layer(c), data, labels, 2));
    ASSERT_HAS("layer i: a layer of type Input", ct_last_error());
}

TEST(memory_data, a_missing_size_is_refused)
{
    struct layer_case *c = layer_case(CT_CPU, "name: 'm' type: 'MemoryData' "
        "memory_data_param { batch_size: 2 channels: 1 height: 1 }");

    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer m", ct_last_error());
}
