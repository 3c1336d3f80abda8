/* test_together.c - ways that are not usual on a GPU, all of them at once, give
 * what usual ones do: in recorded passes, with gradients that add up, after a
 * batch of another size, and where a reader passes no gradient on.
 *
 * On a GPU, where CORTADO_TEST_DEVICE names one. */
#include <stdio.h>
#include <string.h>

#include "layers/batch_norm.h"
#include "layers/conv_base.h"
#include "net_gpu.h"
#include "residual.h"

static const char *const unusual =
    "mask:all,clamp:pool,ends:conv,thin:conv,norms:one,rounding:large,"
    "product:cublaslt+small+shared,weights:ahead";

#define POOL(name, bottom, more)                                             \
    "layer { name: '" name "' type: 'Pooling' bottom: '" bottom "' "         \
    "  top: '" name "' pooling_param { " more " } }"
#define KERNEL "kernel_size: 3 pad: 1 "

/* ResNet's three kinds of block: a has a convolution in both branches; the end
 * of a is read by a convolution and a sum; that of b by two strides. */
static const char *const text =
    "layer { name: 'in' type: 'Input' top: 'x' top: 'label' "
    "  input_param { shape { dim: 6 dim: 8 dim: 30 dim: 26 } "
    "                shape { dim: 6 } } }"
    CONV("head", "x", 16, KERNEL) RELU("head")
    POOL("p1", "head", "kernel_size: 2 stride: 2")
    CONV("neck", "p1", 24, KERNEL)
    POOL("p2", "neck", "kernel_size: 3 stride: 1 pad: 1") RELU("p2")
    POINT("side_a", "p2", 64, "") NORM("side_a")
    POINT("a1", "p2", 24, "") NORM("a1") RELU("a1")
    CONV("a2", "a1", 64, KERNEL "bias_term: false ") NORM("a2")
    SUM("a", "side_a", "a2") RELU("a")
    POINT("b1", "a", 40, "") NORM("b1") RELU("b1")
    POINT("b2", "b1", 64, "") NORM("b2") SUM("b", "a", "b2") RELU("b")
    POINT("side_c", "b", 128, "stride: 2 ") NORM("side_c")
    POINT("c1", "b", 32, "stride: 2 ") NORM("c1") RELU("c1")
    POINT("c2", "c1", 128, "") NORM("c2") SUM("c", "side_c", "c2") RELU("c")
    CONV("tail", "c", 32, "kernel_size: 3 ") RELU("tail")
    POOL("p3", "tail", "pool: AVE global_pooling: true")
    PRODUCT("fc", "p3", 5) LOSS("fc");

/* `still`: a convolution that passes no gradient on, or NULL. */
static struct ct_net *net_on(const struct ct_device *g, const char *still,
                             const char *impl)
{
    char all[8192], name[64];
    const char *at = text + strlen(text);

    if (still) {
        snprintf(name, sizeof(name), "layer { name: '%s' ", still);
        at = strstr(text, name);
        ASSERT(at != NULL);
        at += strlen("layer { ");
    }
    ASSERT(snprintf(all, sizeof(all), "%.*s%s%s", (int)(at - text), text,
                    still ? "propagate_down: false " : "", at) <
           (int)sizeof(all));
    return net_gpu(g, all, CAFFE__PHASE__TRAIN, impl);
}

static double pass(const struct ct_device *g, struct ct_net *net, uint64_t turn,
                   bool fresh)
{
    net_gpu_draw(g, net_blob_named(net, "x"), 5, turn, 1);
    net_gpu_label(g, net_blob_named(net, "label"), 5);
    return net_gpu_pass(g, net, fresh);
}

/* Five passes, recorded from the third on, and two whose gradients add up. */
static void same(const struct ct_device *g, struct ct_net *usual,
                 struct ct_net *other, uint64_t first)
{
    const size_t n = ct_net_arena_count(usual);

    for (uint64_t turn = first; turn < first + 7; turn++) {
        const bool fresh = turn < first + 5;

        ASSERT_FLOAT(pass(g, usual, turn, fresh), pass(g, other, turn, fresh),
                     0.05);
        net_gpu_near(g, "gradient", n, ct_net_arena_diff(usual),
                     ct_net_arena_diff(other), 0.05);
    }
    net_gpu_near(g, "parameter", n, ct_net_arena_data(usual),
                 ct_net_arena_data(other), 0.05);
}

static void resize(struct ct_net *net, int64_t n, int64_t h, int64_t w)
{
    ASSERT_OK(ct_reshape(net_blob_named(net, "x"), CT_SHAPE(n, 8, h, w)));
    ASSERT_OK(ct_reshape(net_blob_named(net, "label"), CT_SHAPE(n)));
    ASSERT_OK(ct_net_reshape(net));
}

static void compare(enum ct_precision p, const char *still)
{
    const struct ct_device *g = test_gpu(p);
    struct ct_net *usual      = net_on(g, still, "");
    struct ct_net *other      = net_on(g, still, unusual);
    struct ct_net *both[]     = { usual, other };

    same(g, usual, other, 0);
    for (int i = 0; i < 2; i++)
        resize(both[i], 5, 22, 38);
    same(g, usual, other, 10);
    for (int i = 0; i < 2; i++)
        resize(both[i], 6, 30, 26);
    same(g, usual, other, 20);
}

TEST(together, ways_that_are_not_usual_give_what_usual_ones_do)
{
    compare(CT_BF16_MIXED, NULL);
    compare(CT_TF32, NULL);
    compare(CT_FP16_MIXED, NULL);
    compare(CT_FP32, NULL);
}

/* The reader of an end by itself, one of two strides, a branch. */
TEST(together, so_they_do_where_a_layer_passes_no_gradient_on)
{
    static const char *const stills[] = { "b1", "side_c", "c1", "c2" };

    for (size_t i = 0; i < sizeof(stills) / sizeof(stills[0]); i++) {
        compare(CT_BF16_MIXED, stills[i]);
        compare(CT_TF32, stills[i]);
    }
}

static const struct batch_norm *norm_of(const struct ct_net *net,
                                        const char *name)
{
    return net_layer_named(net, name)->state;
}

static const struct ct_conv_layer *conv_of(const struct ct_net *net,
                                           const char *name)
{
    return net_layer_named(net, name)->state;
}

/* Of the net above, so that it tests what it says. */
TEST(together, blocks_of_the_net_go_these_ways)
{
    const struct ct_device *g = test_gpu(CT_BF16_MIXED);
    struct ct_net *net        = net_on(g, NULL, unusual);

    (void)pass(g, net, 0, true);
    ASSERT(norm_of(net, "bn_side_a")->left && norm_of(net, "bn_side_c")->left);
    ASSERT(conv_of(net, "b1")->end != NULL);
    ASSERT(conv_of(net, "c1")->thin && conv_of(net, "side_c")->thin);
}
