/* test_block_ends.c - a BatchNorm whose gradient the convolution behind its
 * block has ended gives what one gives that ends it in a pass of its own (meet,
 * cortado/layer.h).
 *
 * On a GPU, in bfloat16, where CORTADO_TEST_DEVICE names one. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "layers/batch_norm.h"
#include "layers/conv_base.h"
#include "net/training.h"
#include "net_gpu.h"

#define CONV(name, bottom, n)                                                \
    "layer { name: '" name "' type: 'Convolution' bottom: '" bottom "' "     \
    "  top: '" name "' convolution_param { num_output: " #n " "              \
    "  kernel_size: 1 bias_term: false weight_filler { type: 'xavier' } } }"
#define NORM(name)                                                           \
    "layer { name: 'bn_" name "' type: 'BatchNorm' bottom: '" name "' "      \
    "  top: '" name "' } layer { name: 'sc_" name "' type: 'Scale' "         \
    "  bottom: '" name "' top: '" name "' scale_param { bias_term: true } }"
#define RELU(name)                                                           \
    "layer { name: 'relu_" name "' type: 'ReLU' bottom: '" name "' "         \
    "  top: '" name "' }"
/* A block whose shortcut is `from`. */
#define BLOCK(name, from, inside, n)                                         \
    CONV(name "1", from, inside) NORM(name "1") RELU(name "1")               \
    CONV(name "2", name "1", n) NORM(name "2")                               \
    "layer { name: '" name "' type: 'Eltwise' bottom: '" from "' "           \
    "  bottom: '" name "2' top: '" name "' }" RELU(name)

/* The ends of blocks a and b are read by a convolution and a sum, that of c by
 * two convolutions. */
static const char *const blocks =
    "layer { name: 'in' type: 'Input' top: 'x' top: 'label' "
    "  input_param { shape { dim: 6 dim: 8 dim: 9 dim: 7 } "
    "                shape { dim: 6 } } }"
    CONV("stem", "x", 192) NORM("stem") RELU("stem")
    BLOCK("a", "stem", 24, 192) BLOCK("b", "a", 72, 192)
    BLOCK("c", "b", 16, 192)
    CONV("side", "c", 64) NORM("side")
    CONV("d1", "c", 16) NORM("d1") RELU("d1") CONV("d2", "d1", 64) NORM("d2")
    "layer { name: 'd' type: 'Eltwise' bottom: 'side' bottom: 'd2' top: 'd' }"
    RELU("d")
    "layer { name: 'fc' type: 'InnerProduct' bottom: 'd' top: 'fc' "
    "  inner_product_param { num_output: 3 "
    "  weight_filler { type: 'xavier' } } }"
    "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'fc' "
    "  bottom: 'label' top: 'l' }";

static struct ct_net *net_on(const struct ct_device *g, Caffe__Phase phase,
                             const char *impl)
{
    ASSERT(setenv("CORTADO_IMPL", impl, 1) == 0);
    return net_with(blocks, phase, (struct ct_net_options){ .device = g });
}

static double pass(const struct ct_device *g, struct ct_net *net, uint64_t turn)
{
    const struct ct_blob *x = net_blob_named(net, "x");
    const struct ct_blob *y = net_blob_named(net, "label");
    float *v = ct_malloc((size_t)x->count * sizeof(*v), "test values");
    double loss;

    ASSERT(v != NULL);
    for (int64_t i = 0; i < x->count; i++)
        v[i] = ct_normal(5, turn, (uint64_t)i) + 2;
    net_gpu_send(g, x, v);
    for (int64_t i = 0; i < y->count; i++)
        v[i] = (float)(i % 3);
    net_gpu_send(g, y, v);
    ct_free(v);
    ASSERT_OK(ct_net_forward_backward(net, true, &loss));
    ASSERT_OK(g->ops->sync(g));
    return loss;
}

/* Not further from each other than rounding takes them, and not the same:
 * gradients that are rounded between differ somewhere. */
static void near_arena(const struct ct_device *g, const char *what,
                       const float *want, const float *got, size_t n)
{
    float *a = ct_malloc(2 * n * sizeof(*a), "test values"), *b = a + n;
    double most = 0;

    ASSERT(a != NULL);
    ASSERT_OK(g->ops->to_host(g, n * sizeof(*a), want, a));
    ASSERT_OK(g->ops->to_host(g, n * sizeof(*b), got, b));
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)a[i]));
    ASSERT(most > 1e-3);
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)a[i] - (double)b[i]) <= 0.05 * most))
            FAIL("%s: value %zu is %.9g, wanted %.9g", what, i, (double)b[i],
                 (double)a[i]);
    ASSERT(memcmp(a, b, n * sizeof(*a)) != 0);
    ct_free(a);
}

/* The norm whose gradient a convolution ends, or NULL. */
static const struct ct_layer *ends(const struct ct_net *net, const char *name)
{
    const int i = ct_net_find_layer(net, name);
    const struct ct_conv_layer *s;

    ASSERT(i >= 0);
    s = ct_net_layer(net, i)->state;
    ASSERT(!s->end || ct_conv_description(s->conv[0])->ends);
    return s->end;
}

static const struct ct_layer *layer_named(const struct ct_net *net,
                                          const char *name)
{
    return ct_net_layer(net, ct_net_find_layer(net, name));
}

/* Passes one by one, and recorded ones from the third on. */
TEST(block_ends, of_blocks_by_convolutions_train_as_those_of_a_pass_do)
{
    const struct ct_device *g = net_gpu_open(CT_BF16_MIXED);
    struct ct_net *other = net_on(g, CAFFE__PHASE__TRAIN, "ends:pass");
    struct ct_net *net;
    double want[6];

    for (uint64_t turn = 0; turn < 6; turn++)
        want[turn] = pass(g, other, turn);
    net = net_on(g, CAFFE__PHASE__TRAIN, "ends:conv");
    for (uint64_t turn = 0; turn < 6; turn++)
        ASSERT_FLOAT(want[turn], pass(g, net, turn), 0.03);
    near_arena(g, "gradient", ct_net_arena_diff(other),
               ct_net_arena_diff(net), ct_net_arena_count(net));
    /* The last reader backward is the first one of the net. */
    ASSERT(ends(net, "b1") == layer_named(net, "bn_a2"));
    ASSERT(ends(net, "c1") == layer_named(net, "bn_b2"));
    ASSERT(ends(net, "side") == layer_named(net, "bn_c2"));
    ASSERT(!ends(net, "a1") && !ends(net, "d1") && !ends(net, "d2"));
    ASSERT(!ends(other, "b1") && !ends(other, "side"));
}

/* By convolutions of which none, some or all measure faster. */
TEST(block_ends, may_be_chosen_by_measuring)
{
    const struct ct_device *g = net_gpu_open(CT_BF16_MIXED);
    struct ct_net *other = net_on(g, CAFFE__PHASE__TRAIN, "ends:pass");
    struct ct_net *net;
    double want[5];

    for (uint64_t turn = 0; turn < 5; turn++)
        want[turn] = pass(g, other, turn);
    net = net_on(g, CAFFE__PHASE__TRAIN, "ends:faster");
    for (uint64_t turn = 0; turn < 5; turn++)
        ASSERT_FLOAT(want[turn], pass(g, net, turn), 0.03);
    ASSERT(ends(net, "b1") != NULL);
}

TEST(block_ends, are_for_nets_that_run_layers_as_one)
{
    const struct ct_device *g = net_gpu_open(CT_BF16_MIXED);
    struct ct_net *alone = net_on(g, CAFFE__PHASE__TRAIN,
                                  "ends:conv,fuse:none");

    ASSERT(!ends(alone, "b1") && !ends(alone, "side"));
}
