/* test_moments.c - a BatchNorm that takes its statistics from the convolution
 * before it gives what one gives that reads its bottom (meet, cortado/layer.h).
 *
 * On a GPU, in bfloat16, where CORTADO_TEST_DEVICE names one. */
#include <stdlib.h>

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
#define NORM(name, blob)                                                     \
    "layer { name: 'bn_" name "' type: 'BatchNorm' bottom: '" blob "' "      \
    "  top: '" blob "' } layer { name: 'sc_" name "' type: 'Scale' "         \
    "  bottom: '" blob "' top: '" blob "' scale_param { bias_term: true } }"
#define RELU(name, blob)                                                     \
    "layer { name: '" name "' type: 'ReLU' bottom: '" blob "' "              \
    "  top: '" blob "' }"

/* A stem, and two residual blocks of which the first has a convolution in both
 * branches. */
static const char *const blocks =
    "layer { name: 'in' type: 'Input' top: 'x' top: 'label' "
    "  input_param { shape { dim: 6 dim: 8 dim: 9 dim: 7 } "
    "                shape { dim: 6 } } }"
    CONV("stem", "x", 24) NORM("stem", "stem") RELU("r0", "stem")
    CONV("side", "stem", 72) NORM("side", "side")
    CONV("a1", "stem", 16) NORM("a1", "a1") RELU("ra1", "a1")
    CONV("a2", "a1", 72) NORM("a2", "a2")
    "layer { name: 'a' type: 'Eltwise' bottom: 'side' bottom: 'a2' top: 'a' }"
    RELU("ra", "a")
    CONV("b1", "a", 16) NORM("b1", "b1") RELU("rb1", "b1")
    CONV("b2", "b1", 72) NORM("b2", "b2")
    "layer { name: 'b' type: 'Eltwise' bottom: 'a' bottom: 'b2' top: 'b' }"
    RELU("rb", "b")
    "layer { name: 'fc' type: 'InnerProduct' bottom: 'b' top: 'fc' "
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

static void same_arena(const struct ct_device *g, const char *what,
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
    ct_free(a);
}

static const struct ct_layer *layer_named(const struct ct_net *net,
                                          const char *name)
{
    const int i = ct_net_find_layer(net, name);

    ASSERT(i >= 0);
    return ct_net_layer(net, i);
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
    const struct ct_device *g = net_gpu_open(CT_BF16_MIXED);
    struct ct_net *other = net_on(g, CAFFE__PHASE__TRAIN, "moments:pass");
    struct ct_net *net;
    double want[6];

    for (uint64_t turn = 0; turn < 6; turn++)
        want[turn] = pass(g, other, turn);
    net = net_on(g, CAFFE__PHASE__TRAIN, "moments:conv");
    for (uint64_t turn = 0; turn < 6; turn++)
        ASSERT_FLOAT(want[turn], pass(g, net, turn), 0.03);
    same_arena(g, "gradient", ct_net_arena_diff(other),
               ct_net_arena_diff(net), ct_net_arena_count(net));
    same_arena(g, "parameter", ct_net_arena_data(other),
               ct_net_arena_data(net), ct_net_arena_count(net));
    for (size_t i = 0; i < sizeof(norms) / sizeof(norms[0]); i++) {
        ASSERT(leaves_sums(layer_named(net, norms[i])));
        ASSERT(!leaves_sums(layer_named(other, norms[i])));
    }
}

TEST(moments, are_for_statistics_of_the_batch_alone)
{
    const struct ct_device *g = net_gpu_open(CT_BF16_MIXED);
    struct ct_net *test = net_on(g, CAFFE__PHASE__TEST, "moments:conv");
    struct ct_net *alone = net_on(g, CAFFE__PHASE__TRAIN,
                                  "moments:conv,fuse:none");

    ASSERT(!leaves_sums(layer_named(test, "bn_a1")));
    ASSERT(!leaves_sums(layer_named(alone, "bn_a1")));
}
