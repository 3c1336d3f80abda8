/* test_thin.c - gradients of a residual block's end of which convolutions with
 * a stride leave out the zeros give what whole ones do.
 *
 * On a GPU, where CORTADO_TEST_DEVICE names one. */
#include <stdio.h>
#include <string.h>

#include "layers/batch_norm.h"
#include "layers/conv_base.h"
#include "net_gpu.h"
#include "residual.h"

/* The end of block a is read by two convolutions with strides, of which the
 * second one's may be another. */
static const char *const blocks =
    "layer { name: 'in' type: 'Input' top: 'x' top: 'label' "
    "  input_param { shape { dim: %d dim: 8 dim: %d dim: %d } "
    "                shape { dim: %d } } }"
    POINT("stem", "x", %d, "") NORM("stem") RELU("stem")
    POINT("a1", "stem", %d, "") NORM("a1") SUM("a", "stem", "a1") RELU("a")
    POINT("side", "a", 24, "stride_h: %d stride_w: %d") NORM("side")
    POINT("b1", "a", 16, "stride_h: %d stride_w: %d") NORM("b1") RELU("b1")
    PRODUCT("fs", "side", 3) PRODUCT("fb", "b1", 3) SUM("fc", "fs", "fb")
    LOSS("fc");

struct shape {
    int batch, channels, in[2], stride[2], other[2];
};

static struct ct_net *net_on(const struct ct_device *g, const struct shape *s,
                             const char *impl)
{
    char text[4096];

    ASSERT(snprintf(text, sizeof(text), blocks, s->batch, s->in[0], s->in[1],
                    s->batch, s->channels, s->channels, s->stride[0],
                    s->stride[1], s->other[0], s->other[1]) <
           (int)sizeof(text));
    return net_gpu(g, text, CAFFE__PHASE__TRAIN, impl);
}

static double pass(const struct ct_device *g, struct ct_net *net, uint64_t turn)
{
    net_gpu_draw(g, net_blob_named(net, "x"), 5, turn, 2);
    net_gpu_label(g, net_blob_named(net, "label"), 3);
    return net_gpu_pass(g, net, true);
}

/* Whether all readers of the end of block a leave out zeros. */
static bool is_thin(const struct ct_net *net)
{
    const struct ct_conv_layer *side = net_layer_named(net, "side")->state;
    const struct ct_layer *norm      = net_layer_named(net, "bn_a1");

    return side->thin == norm && side->thin_conv && batch_norm_takes_thin(norm);
}

static bool is_nhwc(const struct ct_net *net)
{
    const struct batch_norm *s = net_layer_named(net, "bn_a1")->state;

    return s->view.layout == CT_NHWC;
}

/* Passes one by one, and recorded ones from the third on. */
static bool compare(const struct ct_device *g, const struct shape *s)
{
    struct ct_net *full = net_on(g, s, "thin:full");
    struct ct_net *thin;
    double want[5];

    for (uint64_t turn = 0; turn < 5; turn++)
        want[turn] = pass(g, full, turn);
    thin = net_on(g, s, "thin:conv");
    for (uint64_t turn = 0; turn < 5; turn++)
        ASSERT_FLOAT(want[turn], pass(g, thin, turn), 0.01);
    net_gpu_near(g, "gradient", ct_net_arena_count(full),
                 ct_net_arena_diff(full), ct_net_arena_diff(thin), 0.03);
    ASSERT(!is_thin(full));
    ASSERT_INT(memcmp(s->stride, s->other, sizeof(s->stride)) == 0 &&
                   is_nhwc(thin), is_thin(thin));
    return is_thin(thin);
}

TEST(thin, gradients_are_as_good_as_whole_ones)
{
    static const enum ct_precision ways[] = { CT_BF16_MIXED, CT_TF32 };
    static const struct shape shapes[] = {
        { 6, 64, { 9, 7 }, { 2, 2 }, { 2, 2 } },
        { 16, 72, { 8, 8 }, { 2, 2 }, { 2, 2 } },
        { 5, 128, { 13, 10 }, { 3, 2 }, { 3, 2 } },
        { 9, 20, { 5, 12 }, { 1, 2 }, { 1, 2 } },
        { 7, 64, { 9, 7 }, { 2, 2 }, { 2, 1 } },
        { 33, 256, { 14, 14 }, { 2, 2 }, { 2, 2 } },
    };

    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
        const struct ct_device *g = test_gpu(ways[w]);
        int n_thin                = 0;

        for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
            n_thin += compare(g, &shapes[i]);
        ASSERT(n_thin >= 3);
    }
}
