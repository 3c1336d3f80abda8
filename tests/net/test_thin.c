/* test_thin.c - gradients of a residual block's end of which convolutions with
 * a stride leave out the zeros give what whole ones do.
 *
 * On a GPU, where CORTADO_TEST_DEVICE names one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "layers/batch_norm.h"
#include "layers/conv_base.h"
#include "net/training.h"
#include "net_gpu.h"

#define CONV(name, bottom, n, stride)                                        \
    "layer { name: '" name "' type: 'Convolution' bottom: '" bottom "' "     \
    "  top: '" name "' convolution_param { num_output: " n " "               \
    "  kernel_size: 1 bias_term: false " stride                              \
    "  weight_filler { type: 'xavier' } } }"
#define NORM(name)                                                           \
    "layer { name: 'bn_" name "' type: 'BatchNorm' bottom: '" name "' "      \
    "  top: '" name "' } layer { name: 'sc_" name "' type: 'Scale' "         \
    "  bottom: '" name "' top: '" name "' scale_param { bias_term: true } }"
#define RELU(name)                                                           \
    "layer { name: 'relu_" name "' type: 'ReLU' bottom: '" name "' "         \
    "  top: '" name "' }"
#define SUM(name, one, two)                                                  \
    "layer { name: '" name "' type: 'Eltwise' bottom: '" one "' "            \
    "  bottom: '" two "' top: '" name "' }"

/* The end of block a is read by two convolutions with strides, of which the
 * second one's may be another. */
static const char *const blocks =
    "layer { name: 'in' type: 'Input' top: 'x' top: 'label' "
    "  input_param { shape { dim: %d dim: 8 dim: %d dim: %d } "
    "                shape { dim: %d } } }"
    CONV("stem", "x", "%d", "") NORM("stem") RELU("stem")
    CONV("a1", "stem", "%d", "") NORM("a1")
    SUM("a", "stem", "a1") RELU("a")
    CONV("side", "a", "24", "stride_h: %d stride_w: %d") NORM("side")
    CONV("b1", "a", "16", "stride_h: %d stride_w: %d") NORM("b1") RELU("b1")
    "layer { name: 'fs' type: 'InnerProduct' bottom: 'side' top: 'fs' "
    "  inner_product_param { num_output: 3 "
    "  weight_filler { type: 'xavier' } } }"
    "layer { name: 'fb' type: 'InnerProduct' bottom: 'b1' top: 'fb' "
    "  inner_product_param { num_output: 3 "
    "  weight_filler { type: 'xavier' } } }"
    SUM("fc", "fs", "fb")
    "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'fc' "
    "  bottom: 'label' top: 'l' }";

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
    ASSERT(setenv("CORTADO_IMPL", impl, 1) == 0);
    return net_with(text, CAFFE__PHASE__TRAIN,
                    (struct ct_net_options){ .device = g });
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

static void near_gradients(const struct ct_device *g, const struct ct_net *want,
                           const struct ct_net *got)
{
    const size_t n = ct_net_arena_count(want);
    float *a = ct_malloc(2 * n * sizeof(*a), "test values"), *b = a + n;
    double most = 0;

    ASSERT(a != NULL);
    ASSERT_OK(g->ops->to_host(g, n * sizeof(*a), ct_net_arena_diff(want), a));
    ASSERT_OK(g->ops->to_host(g, n * sizeof(*b), ct_net_arena_diff(got), b));
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)a[i]));
    ASSERT(most > 1e-3);
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)a[i] - (double)b[i]) <= 0.03 * most))
            FAIL("gradient %zu is %.9g, wanted %.9g", i, (double)b[i],
                 (double)a[i]);
    ct_free(a);
}

static const struct ct_layer *layer_named(const struct ct_net *net,
                                          const char *name)
{
    const int i = ct_net_find_layer(net, name);

    ASSERT(i >= 0);
    return ct_net_layer(net, i);
}

/* Whether all readers of the end of block a leave out zeros. */
static bool is_thin(const struct ct_net *net)
{
    const struct ct_conv_layer *side = layer_named(net, "side")->state;
    const struct ct_layer *norm      = layer_named(net, "bn_a1");

    return side->thin == norm && side->thin_conv && batch_norm_takes_thin(norm);
}

static bool is_nhwc(const struct ct_net *net)
{
    const struct batch_norm *s = layer_named(net, "bn_a1")->state;

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
    near_gradients(g, full, thin);
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
        const struct ct_device *g = net_gpu_open(ways[w]);
        int n_thin                = 0;

        for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
            n_thin += compare(g, &shapes[i]);
        ASSERT(n_thin >= 3);
    }
}
