/* test_fit.c - the memory a net takes at batches that it was not built at. */
#include "net/net_inner.h"
#include "net_test.h"
#include "proto/batch_size.h"

#define FIT_NET(batch)                                                       \
    "layer { name: 'd' type: 'DummyData' top: 'x' top: 'y' "                 \
    "  dummy_data_param { shape { dim: " batch " dim: 3 dim: 9 dim: 9 } "    \
    "  shape { dim: " batch " } } }"                                         \
    "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' "            \
    "  convolution_param { num_output: 5 kernel_size: 3 } }"                 \
    "layer { name: 'r' type: 'ReLU' bottom: 'c' top: 'c' }"                  \
    "layer { name: 'p' type: 'Pooling' bottom: 'c' top: 'p' "                \
    "  pooling_param { kernel_size: 2 stride: 2 } }"                         \
    "layer { name: 'i' type: 'InnerProduct' bottom: 'p' top: 'i' "           \
    "  inner_product_param { num_output: 7 } }"                              \
    "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'i' bottom: 'y' "     \
    "  top: 'l' }"

static void free_fit(void *f)
{
    net_fit_destroy(f);
}

static struct net_fit *fit_of(const char *text)
{
    Caffe__NetParameter *p  = NULL;
    struct ct_net_options o = { .phase = CAFFE__PHASE__TRAIN, .seed = 11 };
    struct net_fit *f       = NULL;
    enum ct_status st;

    ASSERT_OK(ct_text_parse(&caffe__net_parameter__descriptor, text,
                            strlen(text), "test", &p));
    ASSERT_INT(100, ct_batch_of(p));
    st = net_fit_create(p, &o, &f);
    ct_message_free(p);
    ASSERT_OK(st);
    test_defer(free_fit, f);
    return f;
}

static size_t at_batch(const struct net_fit *f, int64_t batch)
{
    size_t bytes;

    ASSERT_OK(net_fit_bytes(f, batch, &bytes));
    return bytes;
}

TEST(fit, a_plan_for_another_batch_is_the_one_that_its_net_makes)
{
    struct net_fit *f = fit_of(FIT_NET("100"));

    ASSERT_INT(net_of(FIT_NET("1"))->activation_bytes, at_batch(f, 1));
    ASSERT_INT(net_of(FIT_NET("17"))->activation_bytes, at_batch(f, 17));
    ASSERT_INT(net_of(FIT_NET("64"))->activation_bytes, at_batch(f, 64));
    ASSERT_INT(net_of(FIT_NET("100"))->activation_bytes, at_batch(f, 100));
}

TEST(fit, the_largest_batch_is_the_last_that_fits)
{
    struct net_fit *f = fit_of(FIT_NET("100"));
    int64_t batch;

    ASSERT_OK(net_fit_largest(f, at_batch(f, 32), 100, &batch));
    ASSERT(batch >= 32 && at_batch(f, batch) <= at_batch(f, 32));
    ASSERT(at_batch(f, batch + 1) > at_batch(f, 32));
    ASSERT_OK(net_fit_largest(f, at_batch(f, 1) - 1, 100, &batch));
    ASSERT_INT(0, batch);
    ASSERT_OK(net_fit_largest(f, (size_t)1 << 50, 100, &batch));
    ASSERT_INT(99, batch);
}

/* Sources that name their samples of a batch, each in its own message. */
#define FIT_SOURCES(X)                                                       \
    X("Data", "data_param") X("AnnotatedData", "data_param")                 \
    X("ImageData", "image_data_param") X("ImageSegData", "image_data_param") \
    X("DenseImageData", "dense_image_data_param")                            \
    X("HDF5Data", "hdf5_data_param") X("WindowData", "window_data_param")    \
    X("MemoryData", "memory_data_param")
#define FIT_SOURCE(type, param)                                              \
    "layer { type: '" type "' " param " { batch_size: 12 } }",

TEST(fit, the_batch_of_every_source_can_be_divided)
{
    static const char *const net[] = { FIT_SOURCES(FIT_SOURCE) };

    for (size_t i = 0; i < sizeof(net) / sizeof(net[0]); i++) {
        Caffe__NetParameter *p = NULL;

        ASSERT_OK(ct_text_parse(&caffe__net_parameter__descriptor, net[i],
                                strlen(net[i]), "test", &p));
        ASSERT_INT(12, ct_batch_of(p));
        ct_batch_set(p, 12, 4);
        ASSERT_INT(4, *ct_batch_size(p->layer[0]));
        ct_message_free(p);
    }
}
