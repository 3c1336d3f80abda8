/* test_moments.c - a BatchNorm that takes its statistics from the convolution
 * before it gives what one gives that reads its bottom (meet, cortado/layer.h).
 *
 * On a GPU, in bfloat16, where CORTADO_TEST_DEVICE names one. */
#include "layers/batch_norm.h"
#include "layers/conv_base.h"
#include "net_gpu.h"
#include "residual.h"

/* A stem, and two residual blocks of which the first has a convolution in both
 * branches. */
static const char *const blocks =
    "layer { name: 'in' type: 'Input' top: 'x' top: 'label' "
    "  input_param { shape { dim: 6 dim: 8 dim: 9 dim: 7 } "
    "                shape { dim: 6 } } }"
    POINT("stem", "x", 24, "") NORM("stem") RELU("stem")
    POINT("side", "stem", 72, "") NORM("side")
    POINT("a1", "stem", 16, "") NORM("a1") RELU("a1")
    POINT("a2", "a1", 72, "") NORM("a2") SUM("a", "side", "a2") RELU("a")
    POINT("b1", "a", 16, "") NORM("b1") RELU("b1")
    POINT("b2", "b1", 72, "") NORM("b2") SUM("b", "a", "b2") RELU("b")
    PRODUCT("fc", "b", 3) LOSS("fc");

static double pass(const struct ct_device *g, struct ct_net *net, uint64_t turn)
{
    net_gpu_draw(g, net_blob_named(net, "x"), 5, turn, 2);
    net_gpu_label(g, net_blob_named(net, "label"), 3);
    return net_gpu_pass(g, net, true);
}

/* Whether a convolution leaves sums when it runs by itself. */
static bool leaves_sums(const struct ct_layer *norm)
{
    const struct batch_norm *s = norm->state;
    const struct ct_conv_layer *conv;
    struct ct_moments m;
    void *x, *y;
    bool left;

    if (!s->before)
        return false;
    conv = s->before->state;
    if (!conv->conv[0])
        return false;
    ASSERT_OK(norm->dev->ops->alloc(norm->dev, 1 << 20, "test", &x));
    ASSERT_OK(norm->dev->ops->alloc(norm->dev, 1 << 20, "test", &y));
    ASSERT_OK(ct_conv_forward(conv->conv[0], x,
                              ct_data(s->before->blob[CT_CONV_WEIGHT]), NULL,
                              y));
    left = ct_conv_moments(conv->conv[0], y, &m);
    norm->dev->ops->free(norm->dev, x);
    norm->dev->ops->free(norm->dev, y);
    return left;
}

/* Passes one by one, and recorded ones from the third on. */
TEST(moments, of_the_convolution_train_as_those_of_a_pass_do)
{
    static const char *const norms[] = { "bn_side", "bn_a1", "bn_a2", "bn_b1",
                                         "bn_b2" };
    const struct ct_device *g = test_gpu(CT_BF16_MIXED);
    struct ct_net *other = net_gpu(g, blocks, CAFFE__PHASE__TRAIN,
                                   "moments:pass");
    struct ct_net *net;
    double want[6];

    for (uint64_t turn = 0; turn < 6; turn++)
        want[turn] = pass(g, other, turn);
    net = net_gpu(g, blocks, CAFFE__PHASE__TRAIN, "moments:conv");
    for (uint64_t turn = 0; turn < 6; turn++)
        ASSERT_FLOAT(want[turn], pass(g, net, turn), 0.03);
    net_gpu_near(g, "gradient", ct_net_arena_count(net),
                 ct_net_arena_diff(other), ct_net_arena_diff(net), 0.05);
    net_gpu_near(g, "parameter", ct_net_arena_count(net),
                 ct_net_arena_data(other), ct_net_arena_data(net), 0.05);
    for (size_t i = 0; i < sizeof(norms) / sizeof(norms[0]); i++) {
        ASSERT(leaves_sums(net_layer_named(net, norms[i])));
        ASSERT(!leaves_sums(net_layer_named(other, norms[i])));
    }
}

TEST(moments, are_for_statistics_of_the_batch_alone)
{
    const struct ct_device *g = test_gpu(CT_BF16_MIXED);
    struct ct_net *test  = net_gpu(g, blocks, CAFFE__PHASE__TEST,
                                   "moments:conv");
    struct ct_net *alone = net_gpu(g, blocks, CAFFE__PHASE__TRAIN,
                                   "moments:conv,fuse:none");

    ASSERT(!leaves_sums(net_layer_named(test, "bn_a1")));
    ASSERT(!leaves_sums(net_layer_named(alone, "bn_a1")));
}
