/* test_inception.c - a Concat behind convolutions gives what its layers give
 * one by one.
 *
 * Every net is built as it comes, with CORTADO_IMPL=concat:parts and with
 * fuse:none, and trained on the same numbers.  CORTADO_TEST_DEVICE names the
 * device; on a CPU a Concat does nothing for others. */
#include <stdlib.h>

#include "net_test.h"

#define CONV(name, from, outputs, size, pad)                                 \
    "layer { name: '" name "' type: 'Convolution' bottom: '" from "' "       \
    "  top: '" name "' convolution_param { num_output: " outputs             \
    "  kernel_size: " size " pad: " pad                                      \
    "  weight_filler { type: 'xavier' } "                                    \
    "  bias_filler { type: 'uniform' min: -0.3 max: 0.3 } } }"
#define RELU(name, more)                                                     \
    "layer { name: 'r" name "' type: 'ReLU' bottom: '" name "' top: '" name  \
    "' " more "}"
#define HEAD                                                                 \
    "layer { name: 'in' type: 'Input' top: 'x' top: 'label' "                \
    "  input_param { shape { dim: 4 dim: 8 dim: 7 dim: 6 } "                 \
    "                shape { dim: 4 } } }"
#define TAIL                                                                 \
    "layer { name: 'fc' type: 'InnerProduct' bottom: 'm' top: 'fc' "         \
    "  inner_product_param { num_output: 3 "                                 \
    "  weight_filler { type: 'xavier' } } }"                                 \
    "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'fc' "                \
    "  bottom: 'label' top: 'l' }"
#define CONCAT(name, bottoms)                                                \
    "layer { name: '" name "' type: 'Concat' " bottoms " top: '" name "' }"

/* Four branches: two with ReLUs that convolutions absorb, one leaky, and one
 * of pooling. */
#define FOUR(n)                                                              \
    CONV("a", "x", n, "1", "0") RELU("a", "")                                \
    CONV("b", "x", "24", "3", "1") RELU("b", "")                             \
    CONV("c", "x", "16", "1", "0")                                           \
    RELU("c", "relu_param { negative_slope: 0.1 } ")                         \
    "layer { name: 'd' type: 'Pooling' bottom: 'x' top: 'd' pooling_param {" \
    "  kernel_size: 3 pad: 1 } }"                                            \
    CONCAT("y", "bottom: 'a' bottom: 'b' bottom: 'c' bottom: 'd'")

/* Readers of y, whose sum is m. */
#define READERS                                                              \
    CONV("e", "y", "16", "1", "0") RELU("e", "")                             \
    CONV("f", "y", "16", "3", "1") CONV("g", "y", "16", "1", "0")            \
    "layer { name: 'm' type: 'Eltwise' bottom: 'e' bottom: 'f' "             \
    "  bottom: 'g' top: 'm' }"

static struct ct_net *built(const char *text, const char *impl)
{
    struct ct_net_options o = { .device = test_device() };
    struct ct_net *net;

    if (impl)
        setenv("CORTADO_IMPL", impl, 1);
    net = net_with(text, CAFFE__PHASE__TRAIN, o);
    unsetenv("CORTADO_IMPL");
    return net;
}

static double pass(struct ct_net *net, uint64_t turn)
{
    net_draw(net, turn, 3);
    return net_pass(net);
}

/* Of a parameter's largest gradient.  In short formats what is rounded between
 * two layers differs from what is not. */
static double tolerance(void)
{
    return ct_device_prefers_nhwc(test_device()) ? 0.05 : 2e-5;
}

static void same_gradients(const char *what, struct ct_net *want,
                           struct ct_net *got)
{
    int n_zero = 0;

    for (int i = 0; i < ct_net_n_params(want); i++) {
        const struct ct_blob *a = ct_net_param(want, i)->blob;
        const struct ct_blob *b = ct_net_param(got, i)->blob;
        char text[96];

        snprintf(text, sizeof(text), "%s, parameter %d", what, i);
        n_zero += !(net_near(text, a->count, ct_diff(a), ct_diff(b),
                             tolerance()) > 1e-4);
    }
    ASSERT(n_zero <= 1); /* a bias may have no gradient */
}

/* `group`: what the plan says of the Concat on a GPU. */
static void check(const char *text, const char *group)
{
    struct ct_net *net   = built(text, NULL);
    struct ct_net *parts = built(text, "concat:parts");
    struct ct_net *alone = built(text, "fuse:none");

    if (group && test_device()->kind != CT_CPU &&
        ct_device_prefers_nhwc(test_device()))
        ASSERT_HAS(group, net_plan(net));
    for (uint64_t turn = 0; turn < 4; turn++) {
        const double loss = pass(net, turn);

        ASSERT_FLOAT(pass(parts, turn), loss, tolerance());
        ASSERT_FLOAT(pass(alone, turn), loss, tolerance());
        same_gradients("against parts", parts, net);
        same_gradients("against single layers", alone, net);
    }
}

TEST(inception, a_concat_and_the_split_behind_it_are_one)
{
    check(HEAD FOUR("8") READERS TAIL, "y (Concat) + y_y_0_split (Split)\n");
}

TEST(inception, a_concat_with_one_reader_masks_too)
{
    check(HEAD FOUR("40") CONV("m", "y", "16", "3", "1") TAIL, NULL);
}

/* 12 channels are no whole number of 16-byte vectors of short values, and 6
 * are none of float32 ones. */
TEST(inception, odd_branches_are_the_same)
{
    check(HEAD FOUR("12") READERS TAIL, NULL);
    check(HEAD FOUR("6") READERS TAIL, NULL);
}

/* Seven readers are more than one pass adds up. */
TEST(inception, many_readers_are_the_same)
{
    check(HEAD FOUR("8")
          CONV("e1", "y", "16", "1", "0") CONV("e2", "y", "16", "1", "0")
          CONV("e3", "y", "16", "1", "0") CONV("e4", "y", "16", "1", "0")
          CONV("e5", "y", "16", "1", "0") CONV("e6", "y", "16", "1", "0")
          CONV("e7", "y", "16", "1", "0")
          "layer { name: 'm' type: 'Eltwise' bottom: 'e1' bottom: 'e2' "
          "  bottom: 'e3' bottom: 'e4' bottom: 'e5' bottom: 'e6' "
          "  bottom: 'e7' top: 'm' }" TAIL,
          "y (Concat) + y_y_0_split (Split)\n");
}

/* A branch that is read elsewhere has a Split between, and its convolution
 * masks for itself; a bias that does not learn has no gradient. */
TEST(inception, branches_that_others_read_are_the_same)
{
    check(HEAD CONV("a", "x", "16", "1", "0") RELU("a", "")
          "layer { name: 'b' type: 'Convolution' bottom: 'x' top: 'b' "
          "  param { lr_mult: 1 } param { lr_mult: 0 } convolution_param { "
          "  num_output: 16 kernel_size: 3 pad: 1 "
          "  weight_filler { type: 'xavier' } } }" RELU("b", "")
          CONCAT("y", "bottom: 'a' bottom: 'b'")
          CONV("e", "y", "16", "1", "0")
          "layer { name: 'm' type: 'Eltwise' bottom: 'a' bottom: 'e' "
          "  top: 'm' }" TAIL, NULL);
}
