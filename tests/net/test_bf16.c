/* test_bf16.c - nets in bfloat16 on the CPU against the same in float32.
 *
 * Rounding moves single values by a hundredth and more where they nearly
 * cancel; whole gradients move by little.  So arrays are compared as vectors:
 * the length of the difference is a small share of the length. */
#include <stdlib.h>

#include "base/rng.h"
#include "net_test.h"

static const struct ct_device *bf16(void)
{
    const struct ct_device *d;

    ASSERT_OK(ct_device_cpu_open(CT_BF16_FORCED, &d));
    return d;
}

#define INPUTS(c, h, w)                                                      \
    "layer { name: 'in' type: 'Input' top: 'x' top: 'label' input_param { "  \
    "  shape { dim: 6 dim: " #c " dim: " #h " dim: " #w " } "                \
    "  shape { dim: 6 } } }"
#define CONV(name, from, n, more)                                            \
    "layer { name: '" name "' type: 'Convolution' bottom: '" from "' top: '" \
    name "' convolution_param { num_output: " #n " " more                    \
    "  weight_filler { type: 'msra' } } }"
#define ON(type, name, from, more)                                           \
    "layer { name: '" name "' type: '" type "' bottom: '" from "' top: '"    \
    name "' " more " }"
#define ENDS(from)                                                           \
    "layer { name: 'ip' type: 'InnerProduct' bottom: '" from "' top: 'ip' "  \
    "  inner_product_param { num_output: 5 weight_filler { type: 'xavier' } "\
    "  } }"                                                                  \
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' "             \
    "  bottom: 'label' top: 'loss' }"

static const char lenet_like[] =
    INPUTS(1, 20, 18) CONV("c1", "x", 20, "kernel_size: 5")
    ON("Pooling", "p1", "c1", "pooling_param { kernel_size: 2 stride: 2 }")
    CONV("c2", "p1", 50, "kernel_size: 3")
    ON("Pooling", "p2", "c2", "pooling_param { kernel_size: 3 stride: 2 "
       "pool: AVE }")
    ON("ReLU", "r2", "p2", "relu_param { negative_slope: 0.1 }") ENDS("r2");

static const char alexnet_like[] =
    INPUTS(3, 23, 19) CONV("c1", "x", 32, "kernel_size: 5 stride: 2")
    "layer { name: 'r1' type: 'ReLU' bottom: 'c1' top: 'c1' }"
    ON("LRN", "n1", "c1", "lrn_param { local_size: 5 alpha: 0.5 }")
    ON("Pooling", "p1", "n1", "pooling_param { kernel_size: 3 stride: 2 }")
    CONV("c2", "p1", 48, "kernel_size: 3 pad: 1 group: 2")
    "layer { name: 'r2' type: 'ReLU' bottom: 'c2' top: 'c2' }"
    ON("LRN", "n2", "c2", "lrn_param { local_size: 3 alpha: 0.5 "
       "norm_region: WITHIN_CHANNEL }")
    ON("Dropout", "d2", "n2", "") ENDS("d2");

static const char inception_like[] =
    INPUTS(3, 12, 12) CONV("c0", "x", 24, "kernel_size: 3 pad: 1")
    CONV("a", "c0", 16, "kernel_size: 1") CONV("b", "c0", 8, "kernel_size: 3 "
                                               "pad: 1")
    "layer { name: 'rb' type: 'ReLU' bottom: 'b' top: 'b' }"
    ON("Pooling", "p", "c0", "pooling_param { kernel_size: 3 stride: 1 "
       "pad: 1 }")
    CONV("c", "p", 9, "kernel_size: 1")
    "layer { name: 'j' type: 'Concat' bottom: 'a' bottom: 'b' bottom: 'c' "
    "  top: 'j' }"
    ON("TanH", "t", "j", "") ON("ELU", "e", "t", "")
    ON("AbsVal", "v", "e", "") ENDS("v");

static const char resnet_like[] =
    INPUTS(3, 12, 14)
    CONV("c0", "x", 32, "kernel_size: 3 pad: 1 bias_term: false")
    ON("BatchNorm", "b0", "c0", "")
    ON("Scale", "s0", "b0", "scale_param { bias_term: true }")
    "layer { name: 'r0' type: 'ReLU' bottom: 's0' top: 's0' }"
    CONV("c1", "s0", 32, "kernel_size: 3 pad: 1 bias_term: false")
    ON("BatchNorm", "b1", "c1", "")
    ON("Scale", "s1", "b1", "scale_param { bias_term: true }")
    "layer { name: 'sum' type: 'Eltwise' bottom: 's0' bottom: 's1' "
    "  top: 'sum' }"
    "layer { name: 'r1' type: 'ReLU' bottom: 'sum' top: 'sum' }"
    CONV("c2", "sum", 40, "kernel_size: 1") CONV("c3", "sum", 40,
                                                 "kernel_size: 1")
    "layer { name: 'prod' type: 'Eltwise' bottom: 'c2' bottom: 'c3' "
    "  top: 'prod' eltwise_param { operation: PROD } }"
    ON("BatchNorm", "b4", "prod", "") ON("Bias", "b5", "b4", "")
    ON("Pooling", "p", "b5", "pooling_param { pool: AVE global_pooling: true }")
    ENDS("p");

/* Types that take floats alone stand between others. */
static const char mixed[] =
    INPUTS(4, 11, 9) CONV("c0", "x", 16, "kernel_size: 3")
    ON("Sigmoid", "g", "c0", "") CONV("c1", "g", 16, "kernel_size: 3 "
                                      "dilation: 2 pad: 2")
    ON("Power", "w", "c1", "power_param { scale: 0.5 shift: 0.1 }")
    CONV("c2", "w", 24, "kernel_size: 1")
    ON("PReLU", "pr", "c2", "")
    ON("Deconvolution", "de", "pr", "convolution_param { num_output: 16 "
       "kernel_size: 2 stride: 2 weight_filler { type: 'msra' } "
       "bias_filler { value: 0.5 } }")
    CONV("c3", "de", 16, "kernel_size: 3") ON("Swish", "sw", "c3", "")
    "layer { name: 'max' type: 'Eltwise' bottom: 'sw' bottom: 'c3' top: "
    "  'max' eltwise_param { operation: MAX } }"
    ON("Pooling", "p", "max", "pooling_param { kernel_size: 3 stride: 3 }")
    ENDS("p");

static struct ct_net *made(const char *text, Caffe__Phase phase,
                           const struct ct_device *d, const char *impl)
{
    struct ct_net *net;

    if (impl)
        setenv("CORTADO_IMPL", impl, 1);
    net = net_with(text, phase, (struct ct_net_options){ .device = d });
    unsetenv("CORTADO_IMPL");
    return net;
}

static double pass(struct ct_net *net)
{
    net_draw(net, 1, 5);
    return net_pass(net);
}

static void near(const char *what, const float *want, const float *got,
                 int64_t n, double share)
{
    double off = 0, size = 0;

    for (int64_t i = 0; i < n; i++) {
        off += pow((double)want[i] - (double)got[i], 2);
        size += pow((double)want[i], 2);
    }
    if (!(sqrt(off) <= share * sqrt(size) + 1e-6))
        FAIL("%s is off by %g of its size", what, sqrt(off / size));
}

/* Losses, and the gradients of every parameter, of two passes. */
static void check(const char *text, const char *impl, double share)
{
    struct ct_net *want = made(text, CAFFE__PHASE__TRAIN, ct_device_cpu(),
                               NULL);
    struct ct_net *got  = made(text, CAFFE__PHASE__TRAIN, bf16(), impl);

    ASSERT_HAS("nhwc", net_plan(got));
    for (int turn = 0; turn < 2; turn++) {
        const double loss = pass(want);

        ASSERT_FLOAT(loss, pass(got), 0.01 * loss);
        near("the gradient", ct_net_arena_diff(want), ct_net_arena_diff(got),
             (int64_t)ct_net_arena_count(want), share);
        near("the statistics", ct_net_arena_data(want),
             ct_net_arena_data(got), (int64_t)ct_net_arena_count(want), share);
    }
}

static void check_ways(const char *text, double share)
{
    static const char *const impls[] = {
        NULL, "fuse:none", "chain:2", "chain:none",
        "conv:float32+gemm+ref"
    };

    for (int i = 0; i < (int)(sizeof(impls) / sizeof(impls[0])); i++)
        check(text, impls[i], share);
}

TEST(bf16, lenet_has_the_gradients_of_float32)
{
    check_ways(lenet_like, 0.05);
}

TEST(bf16, alexnet_has_the_gradients_of_float32)
{
    check_ways(alexnet_like, 0.05);
}

TEST(bf16, inception_has_the_gradients_of_float32)
{
    check_ways(inception_like, 0.05);
}

TEST(bf16, resnet_has_the_gradients_of_float32)
{
    check_ways(resnet_like, 0.08);
}

TEST(bf16, layers_that_take_floats_alone_get_them)
{
    check_ways(mixed, 0.08);
}

static double activation_megabytes(struct ct_net *net)
{
    static const char words[] = "memory: activations ";
    char *text = NULL, *at;
    double out;

    ASSERT_OK(ct_net_plan_text(net, &text));
    at  = strstr(text, words);
    out = at ? strtod(at + strlen(words), NULL) : 0;
    ct_free(text);
    return out;
}

/* One bfloat16 per value, and nothing beside it. */
TEST(bf16, activations_take_half_the_memory)
{
    struct ct_net *wide = made(resnet_like, CAFFE__PHASE__TRAIN,
                               ct_device_cpu(), "chain:none");
    struct ct_net *half = made(resnet_like, CAFFE__PHASE__TRAIN, bf16(),
                               "chain:none");
    const double share = activation_megabytes(half) /
                         activation_megabytes(wide);

    ASSERT(share > 0.4 && share <= 0.55);
}

/* Inputs and outputs are the user's: plain floats. */
TEST(bf16, inputs_and_outputs_stay_floats)
{
    static const char text[] =
        INPUTS(16, 5, 4) CONV("c1", "x", 16, "kernel_size: 3")
        CONV("c2", "c1", 16, "kernel_size: 1");
    struct ct_net *net = made(text, CAFFE__PHASE__TEST, bf16(), NULL);
    struct ct_net *ref = made(text, CAFFE__PHASE__TEST, ct_device_cpu(), NULL);

    ASSERT_INT(CT_F32, net_blob_named(net, "x")->data.dtype);
    ASSERT_INT(CT_BF16, net_blob_named(net, "c1")->data.dtype);
    ASSERT_INT(CT_F32, net_blob_named(net, "c2")->data.dtype);
    for (int i = 0; i < 2; i++) {
        struct ct_blob *x = net_blob_named(i ? ref : net, "x");

        for (int64_t k = 0; k < x->count; k++)
            ct_data(x)[k] = ct_normal(5, 1, (uint64_t)k);
        ASSERT_OK(ct_net_forward(i ? ref : net, NULL));
    }
    near("the output", ct_data(net_blob_named(ref, "c2")),
         ct_data(net_blob_named(net, "c2")), net_blob_named(net, "c2")->count,
         0.02);
}

/* Who looks at blobs sees floats, whatever lies there. */
TEST(bf16, a_blob_of_bfloat16_is_read_as_floats)
{
    struct ct_net *net = made(alexnet_like, CAFFE__PHASE__TRAIN, bf16(),
                              "fuse:none,chain:none");
    struct ct_blob *b  = net_blob_named(net, "c1");
    float *out = ct_calloc((size_t)b->count, sizeof(*out), "values");

    test_defer(ct_free, out);
    ASSERT_INT(CT_BF16, b->data.dtype);
    for (int64_t i = 0; i < b->count; i++)
        out[i] = (float)(i % 100);
    ASSERT_OK(ct_blob_put(b, false, out));
    memset(out, 0, (size_t)b->count * sizeof(*out));
    ASSERT_OK(ct_blob_get(b, false, out));
    for (int64_t i = 0; i < b->count; i++)
        ASSERT_FLOAT((float)(i % 100), out[i], 0);
}

TEST(bf16, a_cpu_has_no_fp16)
{
    const struct ct_device *d;

    ASSERT_STATUS(CT_ENOTSUP, ct_device_cpu_open(CT_FP16_MIXED, &d));
    ASSERT_HAS("fp16 needs a GPU", ct_last_error());
    ASSERT_OK(ct_device_cpu_open(CT_TF32, &d));
    ASSERT_INT(CT_F32, ct_device_dtype(d));
}
