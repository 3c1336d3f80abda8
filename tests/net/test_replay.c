/* test_replay.c - passes that a GPU replays, with what runs aside in them, give
 * what one layer after the other gives.  On the CPU both are the same. */
#include <stdlib.h>

#include "net/arena.h"
#include "net_test.h"

static const char *const small =
    "layer { name: 'in' type: 'Input' top: 'x' top: 'label' "
    "  input_param { shape { dim: 4 dim: 3 dim: 9 dim: 8 } "
    "                shape { dim: 4 } } }"
    "layer { name: 'c1' type: 'Convolution' bottom: 'x' top: 'c1' "
    "  convolution_param { num_output: 16 kernel_size: 3 pad: 1 "
    "  weight_filler { type: 'xavier' } } }"
    "layer { name: 'p1' type: 'Pooling' bottom: 'c1' top: 'p1' top: 'mask' "
    "  pooling_param { pool: MAX kernel_size: 2 stride: 2 } }"
    "layer { name: 'q' type: 'Silence' bottom: 'mask' }"
    "layer { name: 'r1' type: 'ReLU' bottom: 'p1' top: 'p1' }"
    "layer { name: 'c2' type: 'Convolution' bottom: 'p1' top: 'c2' "
    "  convolution_param { num_output: 16 kernel_size: 3 pad: 1 "
    "  weight_filler { type: 'xavier' } } }"
    "layer { name: 'f1' type: 'InnerProduct' bottom: 'c2' top: 'f1' "
    "  inner_product_param { num_output: 10 "
    "  weight_filler { type: 'xavier' } } }"
    "layer { name: 'r2' type: 'ReLU' bottom: 'f1' top: 'f1' }"
    "layer { name: 'd' type: 'Dropout' bottom: 'f1' top: 'f1' }"
    "layer { name: 'f2' type: 'InnerProduct' bottom: 'f1' top: 'f2' "
    "  inner_product_param { num_output: 3 "
    "  weight_filler { type: 'xavier' } } }"
    "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'f2' bottom: 'label' "
    "  top: 'l' }"
    "layer { name: 'l2' type: 'EuclideanLoss' bottom: 'f2' bottom: 'f2' "
    "  top: 'l2' loss_weight: 0.5 }";

static double pass(struct ct_net *net, uint64_t turn, bool fresh)
{
    double loss;

    net_settle();
    net_draw(net, turn, 3);
    ASSERT_OK(ct_net_forward_backward(net, fresh, &loss));
    return loss;
}

static struct ct_net *device_net(const char *impl)
{
    struct ct_net *net;

    if (impl)
        setenv("CORTADO_IMPL", impl, 1);
    net = net_with(small, CAFFE__PHASE__TRAIN,
                   (struct ct_net_options){ .device = test_device() });
    unsetenv("CORTADO_IMPL");
    return net;
}

/* Gradients of two passes each, added up, as iter_size has it. */
TEST(replay, recorded_passes_give_the_same_gradients)
{
    struct ct_net *recorded = device_net(NULL);
    struct ct_net *plain    = device_net("side:none");
    size_t n                = ct_net_arena_count(plain);
    double want[12];

    for (uint64_t i = 0; i < 12; i++) {
        setenv("CORTADO_IMPL", "replay:none", 1);
        want[i] = pass(plain, i, i % 2 == 0);
        unsetenv("CORTADO_IMPL");
    }
    for (uint64_t i = 0; i < 12; i++)
        ASSERT_FLOAT(want[i], pass(recorded, i, i % 2 == 0), 1e-4);
    net_settle();
    for (size_t i = 0; i < n; i++)
        ASSERT_FLOAT(ct_net_arena_diff(plain)[i],
                     ct_net_arena_diff(recorded)[i], 1e-4);
    ASSERT(ct_net_arena_diff(plain)[CT_ARENA_RIDERS] != 0);
}

/* Places in an image do not fit into 16 bits. */
TEST(replay, the_places_of_max_pooling_stay_plain_float32)
{
    struct ct_net *net         = device_net(NULL);
    const struct ct_blob *mask = net_blob_named(net, "mask");

    ASSERT_INT(CT_PLAIN, mask->data.layout);
    ASSERT_INT(CT_F32, mask->data.dtype);
}
