/* test_diffs.c - gradients that are written over need no zeros.
 *
 * Every net computes its gradients twice: into diffs that were cleared, and
 * into diffs full of NaN of which ct_net_begin_diffs() says that they count as
 * zero. */
#include <stdio.h>
#include <stdlib.h>

#include "net/arena.h"
#include "net/training.h"
#include "net_test.h"

#define HEAD                                                                 \
    "layer { name: 'in' type: 'Input' top: 'x' top: 'label' "                \
    "  input_param { shape { dim: 4 dim: 20 dim: 7 dim: 6 } "                \
    "                shape { dim: 4 } } }"
#define CONV(name, bottom, words)                                            \
    "layer { name: '" name "' type: 'Convolution' bottom: '" bottom "' "     \
    "  top: '" name "' convolution_param { num_output: 20 "                  \
    "  weight_filler { type: 'xavier' } " words " }"
#define TAIL(bottom)                                                         \
    "layer { name: 'fc' type: 'InnerProduct' bottom: '" bottom "' "          \
    "  top: 'fc' inner_product_param { num_output: 3 "                       \
    "  weight_filler { type: 'xavier' } } }"                                 \
    "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'fc' "                \
    "  bottom: 'label' top: 'l' }"

static void pass(struct ct_net *net)
{
    net_draw(net, 1, 3);
    ASSERT_OK(ct_net_forward(net, NULL));
    ASSERT_OK(ct_net_backward(net));
}

static void spoil(struct ct_net *net)
{
    for (size_t i = 0; i < ct_net_arena_count(net); i++)
        ct_net_arena_diff(net)[i] = NAN;
}

/* Parameters lie on lines of 16 values; nobody reads what is between them. */
static void same(const struct ct_net *one, const struct ct_net *other)
{
    for (int p = 0; p < ct_net_n_params(one); p++) {
        const struct ct_blob *a = ct_net_param(one, p)->blob;
        const struct ct_blob *b = ct_net_param(other, p)->blob;
        double most             = 1e-3;

        for (int64_t i = 0; i < b->count; i++)
            most = fmax(most, fabs((double)ct_diff(b)[i]));
        for (int64_t i = 0; i < b->count; i++)
            ASSERT_FLOAT(ct_diff(b)[i], ct_diff(a)[i], 2e-6 * most);
    }
    for (int i = 0; i < CT_ARENA_RIDERS; i++)
        ASSERT_FLOAT(0, ct_net_arena_diff(one)[i], 0);
}

static void check(const char *text)
{
    static const char *const impls[] = { "", "conv:onednn,ip:onednn",
                                         "conv:gemm,layout:plain",
                                         "conv:ref,fuse:none", "chain:2" };

    for (int i = 0; i < 5; i++) {
        struct ct_net *one, *other;

        setenv("CORTADO_IMPL", impls[i], 1);
        one   = net_of(text);
        other = net_of(text);
        unsetenv("CORTADO_IMPL");
        for (int turn = 0; turn < 2; turn++) {
            spoil(one);
            spoil(other);
            ASSERT_OK(ct_net_begin_diffs(one));
            ASSERT_OK(ct_net_clear_diffs(other));
            pass(one);
            pass(other);
            same(one, other);
            pass(one); /* and is added to */
            pass(other);
            same(one, other);
        }
        spoil(one);
        ASSERT_OK(ct_net_begin_diffs(one));
        ASSERT_OK(ct_net_clear_diffs(one)); /* takes the marks off */
        ASSERT_OK(ct_net_clear_diffs(other));
        pass(one);
        pass(other);
        same(one, other);
    }
}

TEST(diffs, stale_gradients_of_weights_are_written_over)
{
    check(HEAD CONV("c", "x", "kernel_size: 3 pad: 1 }") TAIL("c"));
    check(HEAD CONV("c", "x", "kernel_size: 5 pad: 2 }")
          "layer { name: 'r' type: 'ReLU' bottom: 'c' top: 'c' }"
          CONV("d", "c", "kernel_size: 1 bias_term: false group: 2 }")
          TAIL("d"));
}

TEST(diffs, layers_that_only_add_find_zeros)
{
    check(HEAD CONV("c", "x", "kernel_size: 3 }")
          "layer { name: 'n' type: 'BatchNorm' bottom: 'c' top: 'c' }"
          "layer { name: 's' type: 'Scale' bottom: 'c' top: 'c' "
          "  scale_param { bias_term: true } }"
          "layer { name: 'p' type: 'PReLU' bottom: 'c' top: 'c' }"
          TAIL("c"));
}

TEST(diffs, shared_parameters_add_up)
{
    check(HEAD CONV("c", "x", "kernel_size: 1 } param { name: 'w' } "
                    "param { name: 'b' }")
          CONV("d", "c", "kernel_size: 1 } param { name: 'w' } "
               "param { name: 'b' }") TAIL("d"));
}

#define PRODUCT(name, words)                                                 \
    "layer { name: '" name "' type: 'InnerProduct' bottom: 'x' "             \
    "  top: '" name "' inner_product_param { num_output: 3 "                 \
    "  weight_filler { type: 'xavier' } } " words " }"

/* Each sharer has one diff that others add to and one that only it writes. */
TEST(diffs, a_weight_may_be_shared_without_its_bias_and_the_other_way_round)
{
    static const char *const shared[] = { "param { name: 's' } param { }",
                                          "param { } param { name: 's' }" };
    char text[4096];

    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof(text),
                 HEAD CONV("c", "x", "kernel_size: 1 } %s")
                 CONV("d", "c", "kernel_size: 1 } %s") TAIL("d"), shared[i],
                 shared[i]);
        check(text);
        snprintf(text, sizeof(text),
                 HEAD PRODUCT("a", "%s") PRODUCT("b", "%s")
                 "layer { name: 'sum' type: 'Eltwise' bottom: 'a' "
                 "  bottom: 'b' top: 'sum' }"
                 "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'sum' "
                 "  bottom: 'label' top: 'l' }", shared[i], shared[i]);
        check(text);
    }
}

TEST(diffs, several_bottoms_of_a_convolution_add_up)
{
    check(HEAD CONV("a", "x", "kernel_size: 1 }")
          "layer { name: 'c' type: 'Convolution' bottom: 'x' bottom: 'a' "
          "  top: 'c1' top: 'c2' convolution_param { num_output: 8 "
          "  kernel_size: 3 weight_filler { type: 'xavier' } } }"
          "layer { name: 'm' type: 'Eltwise' bottom: 'c1' bottom: 'c2' "
          "  top: 'm' }" TAIL("m"));
}

TEST(diffs, parameters_that_do_not_learn_have_none)
{
    check(HEAD CONV("b", "x", "kernel_size: 1 } param { lr_mult: 0 } "
                    "param { lr_mult: 0 }")
          CONV("c", "b", "kernel_size: 3 } param { lr_mult: 0 } "
               "param { lr_mult: 1 }")
          CONV("d", "c", "kernel_size: 3 } param { lr_mult: 1 } "
               "param { lr_mult: 0 }") TAIL("d"));
}

/* A frozen parameter of an LSTM or RNN has the gradient that it has when it
 * learns, as in Caffe: clip_gradients counts it. */
TEST(diffs, frozen_parameters_of_recurrent_layers_have_gradients)
{
    static const char *const types[] = { "LSTM", "RNN" };

    for (int i = 0; i < 2; i++) {
        struct ct_net *net[2];
        char text[2048];

        for (int frozen = 0; frozen < 2; frozen++) {
            snprintf(text, sizeof(text),
                     "layer { name: 'in' type: 'Input' top: 'x' top: 'label' "
                     "  top: 's' input_param { shape { dim: 3 dim: 2 dim: 4 } "
                     "  shape { dim: 3 dim: 2 } shape { dim: 2 dim: 3 } } }"
                     "layer { name: 'r' type: '%s' bottom: 'x' "
                     "  bottom: 'label' bottom: 's' top: 'r' %s "
                     "  recurrent_param { num_output: 5 weight_filler { "
                     "  type: 'uniform' min: -1 max: 1 } } }"
                     "layer { name: 'l' type: 'Reduction' bottom: 'r' "
                     "  top: 'l' loss_weight: 1 }", types[i],
                     frozen ? "param { lr_mult: 0 } param { lr_mult: 0 } "
                              "param { lr_mult: 0 } param { lr_mult: 1 } "
                            : "");
            net[frozen] = net_of(text);
            for (int64_t k = 0; k < 6; k++)
                ct_data(net_blob_named(net[frozen], "s"))[k] = (float)k - 2;
            ASSERT_OK(ct_net_clear_diffs(net[frozen]));
            pass(net[frozen]);
        }
        for (int p = 0; p < 3; p++) {
            const struct ct_blob *want = ct_net_param(net[0], p)->blob;
            double sum                 = 0;

            for (int64_t k = 0; k < want->count; k++)
                sum += fabs((double)ct_diff(want)[k]);
            ASSERT(sum > 0.01);
        }
        same(net[1], net[0]);
    }
}
