/* test_together.c - ways that are not usual on a GPU, all of them at once, give
 * what usual ones do: in recorded passes, with gradients that add up, after a
 * batch of another size, and where a reader passes no gradient on.
 *
 * On a GPU, where CORTADO_TEST_DEVICE names one. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "layers/batch_norm.h"
#include "layers/conv_base.h"
#include "net/training.h"
#include "net_gpu.h"

static const char *const unusual =
    "mask:all,clamp:pool,ends:conv,thin:conv,norms:one,rounding:large,"
    "product:cublaslt+small+shared,weights:ahead";

#define CONV(name, bottom, n, more)                                          \
    "layer { name: '" name "' type: 'Convolution' bottom: '" bottom "' "     \
    "  top: '" name "' convolution_param { num_output: " #n " " more         \
    "  weight_filler { type: 'xavier' } } }"
#define POINT  "kernel_size: 1 bias_term: false "
#define STRIDE POINT "stride: 2 "
#define NORM(name)                                                           \
    "layer { name: 'bn_" name "' type: 'BatchNorm' bottom: '" name "' "      \
    "  top: '" name "' } layer { name: 'sc_" name "' type: 'Scale' "         \
    "  bottom: '" name "' top: '" name "' scale_param { bias_term: true } }"
#define RELU(name)                                                           \
    "layer { name: 'relu_" name "' type: 'ReLU' bottom: '" name "' "         \
    "  top: '" name "' }"
#define POOL(name, bottom, more)                                             \
    "layer { name: '" name "' type: 'Pooling' bottom: '" bottom "' "         \
    "  top: '" name "' pooling_param { " more " } }"
#define SUM(name, one, two)                                                  \
    "layer { name: '" name "' type: 'Eltwise' bottom: '" one "' "            \
    "  bottom: '" two "' top: '" name "' }" RELU(name)

/* ResNet's three kinds of block: a has a convolution in both branches; the end
 * of a is read by a convolution and a sum; that of b by two strides. */
static const char *const text =
    "layer { name: 'in' type: 'Input' top: 'x' top: 'label' "
    "  input_param { shape { dim: 6 dim: 8 dim: 30 dim: 26 } "
    "                shape { dim: 6 } } }"
    CONV("head", "x", 16, "kernel_size: 3 pad: 1 ") RELU("head")
    POOL("p1", "head", "kernel_size: 2 stride: 2")
    CONV("neck", "p1", 24, "kernel_size: 3 pad: 1 ")
    POOL("p2", "neck", "kernel_size: 3 stride: 1 pad: 1") RELU("p2")
    CONV("side_a", "p2", 64, POINT) NORM("side_a")
    CONV("a1", "p2", 24, POINT) NORM("a1") RELU("a1")
    CONV("a2", "a1", 64, "kernel_size: 3 pad: 1 bias_term: false ") NORM("a2")
    SUM("a", "side_a", "a2")
    CONV("b1", "a", 40, POINT) NORM("b1") RELU("b1")
    CONV("b2", "b1", 64, POINT) NORM("b2") SUM("b", "a", "b2")
    CONV("side_c", "b", 128, STRIDE) NORM("side_c")
    CONV("c1", "b", 32, STRIDE) NORM("c1") RELU("c1")
    CONV("c2", "c1", 128, POINT) NORM("c2") SUM("c", "side_c", "c2")
    CONV("tail", "c", 32, "kernel_size: 3 ") RELU("tail")
    POOL("p3", "tail", "pool: AVE global_pooling: true")
    "layer { name: 'fc' type: 'InnerProduct' bottom: 'p3' top: 'fc' "
    "  inner_product_param { num_output: 5 "
    "  weight_filler { type: 'xavier' } } }"
    "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'fc' "
    "  bottom: 'label' top: 'l' }";

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
    ASSERT(setenv("CORTADO_IMPL", impl, 1) == 0);
    return net_with(all, CAFFE__PHASE__TRAIN,
                    (struct ct_net_options){ .device = g });
}

static double pass(const struct ct_device *g, struct ct_net *net, uint64_t turn,
                   bool fresh)
{
    const struct ct_blob *x = net_blob_named(net, "x");
    const struct ct_blob *y = net_blob_named(net, "label");
    float *v = ct_malloc((size_t)x->count * sizeof(*v), "test values");
    double loss;

    ASSERT(v != NULL);
    for (int64_t i = 0; i < x->count; i++)
        v[i] = ct_normal(5, turn, (uint64_t)i) + 1;
    net_gpu_send(g, x, v);
    for (int64_t i = 0; i < y->count; i++)
        v[i] = (float)(i % 5);
    net_gpu_send(g, y, v);
    ct_free(v);
    ASSERT_OK(ct_net_forward_backward(net, fresh, &loss));
    ASSERT_OK(g->ops->sync(g));
    return loss;
}

/* Not further from each other than rounding takes them. */
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
    ct_free(a);
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
        near_arena(g, "gradient", ct_net_arena_diff(usual),
                   ct_net_arena_diff(other), n);
    }
    near_arena(g, "parameter", ct_net_arena_data(usual),
               ct_net_arena_data(other), n);
}

static void resize(struct ct_net *net, int64_t n, int64_t h, int64_t w)
{
    ASSERT_OK(ct_reshape(net_blob_named(net, "x"), CT_SHAPE(n, 8, h, w)));
    ASSERT_OK(ct_reshape(net_blob_named(net, "label"), CT_SHAPE(n)));
    ASSERT_OK(ct_net_reshape(net));
}

static void compare(enum ct_precision p, const char *still)
{
    const struct ct_device *g = net_gpu_open(p);
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
    const int i = ct_net_find_layer(net, name);

    ASSERT(i >= 0);
    return ct_net_layer(net, i)->state;
}

static const struct ct_conv_layer *conv_of(const struct ct_net *net,
                                           const char *name)
{
    const int i = ct_net_find_layer(net, name);

    ASSERT(i >= 0);
    return ct_net_layer(net, i)->state;
}

/* Of the net above, so that it tests what it says. */
TEST(together, blocks_of_the_net_go_these_ways)
{
    const struct ct_device *g = net_gpu_open(CT_BF16_MIXED);
    struct ct_net *net        = net_on(g, NULL, unusual);

    (void)pass(g, net, 0, true);
    ASSERT(norm_of(net, "bn_side_a")->left && norm_of(net, "bn_side_c")->left);
    ASSERT(conv_of(net, "b1")->end != NULL);
    ASSERT(conv_of(net, "c1")->thin && conv_of(net, "side_c")->thin);
}
