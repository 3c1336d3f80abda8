/* test_block_ends.c - a BatchNorm whose gradient the convolution behind its
 * block has ended gives what one gives that ends it in a pass of its own (meet,
 * cortado/layer.h).
 *
 * On a GPU, in bfloat16, where CORTADO_TEST_DEVICE names one. */
#include "layers/batch_norm.h"
#include "layers/conv_base.h"
#include "net_gpu.h"
#include "residual.h"

/* A block whose shortcut is `from`. */
#define BLOCK(name, from, inside, n)                                         \
    POINT(name "1", from, inside, "") NORM(name "1") RELU(name "1")          \
    POINT(name "2", name "1", n, "") NORM(name "2")                          \
    SUM(name, from, name "2") RELU(name)

/* The ends of blocks a and b are read by a convolution and a sum, that of c by
 * two convolutions. */
static const char *const blocks =
    "layer { name: 'in' type: 'Input' top: 'x' top: 'label' "
    "  input_param { shape { dim: 6 dim: 8 dim: 9 dim: 7 } "
    "                shape { dim: 6 } } }"
    POINT("stem", "x", 192, "") NORM("stem") RELU("stem")
    BLOCK("a", "stem", 24, 192) BLOCK("b", "a", 72, 192)
    BLOCK("c", "b", 16, 192)
    POINT("side", "c", 64, "") NORM("side")
    POINT("d1", "c", 16, "") NORM("d1") RELU("d1")
    POINT("d2", "d1", 64, "") NORM("d2") SUM("d", "side", "d2") RELU("d")
    PRODUCT("fc", "d", 3) LOSS("fc");

static double pass(const struct ct_device *g, struct ct_net *net, uint64_t turn)
{
    net_gpu_draw(g, net_blob_named(net, "x"), 5, turn, 2);
    net_gpu_label(g, net_blob_named(net, "label"), 3);
    return net_gpu_pass(g, net, true);
}

/* The norm whose gradient a convolution ends, or NULL. */
static const struct ct_layer *ends(const struct ct_net *net, const char *name)
{
    const struct ct_conv_layer *s = net_layer_named(net, name)->state;

    ASSERT(!s->end || ct_conv_description(s->conv[0])->ends);
    return s->end;
}

/* Passes one by one, and recorded ones from the third on. */
TEST(block_ends, of_blocks_by_convolutions_train_as_those_of_a_pass_do)
{
    const struct ct_device *g = test_gpu(CT_BF16_MIXED);
    struct ct_net *other = net_gpu(g, blocks, CAFFE__PHASE__TRAIN, "ends:pass");
    struct ct_net *net;
    double want[6];

    for (uint64_t turn = 0; turn < 6; turn++)
        want[turn] = pass(g, other, turn);
    net = net_gpu(g, blocks, CAFFE__PHASE__TRAIN, "ends:conv");
    for (uint64_t turn = 0; turn < 6; turn++)
        ASSERT_FLOAT(want[turn], pass(g, net, turn), 0.03);
    /* Not the same: gradients that are rounded between differ somewhere. */
    ASSERT(net_gpu_near(g, "gradient", ct_net_arena_count(net),
                        ct_net_arena_diff(other), ct_net_arena_diff(net),
                        0.05) > 0);
    /* The last reader backward is the first one of the net. */
    ASSERT(ends(net, "b1") == net_layer_named(net, "bn_a2"));
    ASSERT(ends(net, "c1") == net_layer_named(net, "bn_b2"));
    ASSERT(ends(net, "side") == net_layer_named(net, "bn_c2"));
    ASSERT(!ends(net, "a1") && !ends(net, "d1") && !ends(net, "d2"));
    ASSERT(!ends(other, "b1") && !ends(other, "side"));
}

/* By convolutions of which none, some or all measure faster. */
TEST(block_ends, may_be_chosen_by_measuring)
{
    const struct ct_device *g = test_gpu(CT_BF16_MIXED);
    struct ct_net *other = net_gpu(g, blocks, CAFFE__PHASE__TRAIN, "ends:pass");
    struct ct_net *net;
    double want[5];

    for (uint64_t turn = 0; turn < 5; turn++)
        want[turn] = pass(g, other, turn);
    net = net_gpu(g, blocks, CAFFE__PHASE__TRAIN, "ends:faster");
    for (uint64_t turn = 0; turn < 5; turn++)
        ASSERT_FLOAT(want[turn], pass(g, net, turn), 0.03);
    ASSERT(ends(net, "b1") != NULL);
}

TEST(block_ends, are_for_nets_that_run_layers_as_one)
{
    const struct ct_device *g = test_gpu(CT_BF16_MIXED);
    struct ct_net *alone = net_gpu(g, blocks, CAFFE__PHASE__TRAIN,
                                   "ends:conv,fuse:none");

    ASSERT(!ends(alone, "b1") && !ends(alone, "side"));
}
