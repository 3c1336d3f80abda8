/* test_build.c - from prototxt to layers and blobs: rules, splits, wiring,
 * loss weights, sharing, and who needs a gradient. */
#include <stdlib.h>

#include "net_test.h"

#define INPUT "layer { name: 'in' type: 'Input' top: 'x' " \
              "input_param { shape { dim: 2 dim: 3 } } }"

static int n_named(const char *text, struct ct_net_options o,
                   Caffe__Phase phase, const char *layer)
{
    return ct_net_find_layer(net_with(text, phase, o), layer) >= 0;
}

TEST(build, rules_choose_layers_by_phase_level_and_stage)
{
    static const char *const a_b[] = { "a", "b" };
    const struct ct_net_options none = { 0 };
    const struct ct_net_options high = { .level = 3 };
    const struct ct_net_options staged = { .stage = a_b, .n_stage = 2 };
    const char *text = INPUT
        "layer { name: 'tr' type: 'ReLU' bottom: 'x' top: 't1' "
        "  include { phase: TRAIN } }"
        "layer { name: 'lv' type: 'ReLU' bottom: 'x' top: 't2' "
        "  include { min_level: 2 max_level: 4 } }"
        "layer { name: 'ab' type: 'ReLU' bottom: 'x' top: 't3' "
        "  include { stage: 'a' stage: 'b' } include { stage: 'c' } }"
        "layer { name: 'not' type: 'ReLU' bottom: 'x' top: 't4' "
        "  exclude { not_stage: 'a' } }";

    ASSERT(n_named(text, none, CAFFE__PHASE__TRAIN, "tr"));
    ASSERT(!n_named(text, none, CAFFE__PHASE__TEST, "tr"));
    ASSERT(!n_named(text, none, CAFFE__PHASE__TRAIN, "lv"));
    ASSERT(n_named(text, high, CAFFE__PHASE__TRAIN, "lv"));
    ASSERT(!n_named(text, none, CAFFE__PHASE__TRAIN, "ab"));
    ASSERT(n_named(text, staged, CAFFE__PHASE__TRAIN, "ab"));
    ASSERT(!n_named(text, none, CAFFE__PHASE__TRAIN, "not"));
    ASSERT(n_named(text, staged, CAFFE__PHASE__TRAIN, "not"));
}

TEST(build, include_with_exclude_is_refused)
{
    net_refused(INPUT "layer { name: 'both' type: 'ReLU' bottom: 'x' top: 'y' "
                "include { phase: TRAIN } exclude { phase: TEST } }", "both");
}

TEST(build, a_blob_read_twice_is_split_with_caffes_names)
{
    struct ct_net *net = net_of(INPUT
        "layer { name: 'a' type: 'ReLU' bottom: 'x' top: 'y' }"
        "layer { name: 'b' type: 'TanH' bottom: 'y' top: 'p' }"
        "layer { name: 'c' type: 'Sigmoid' bottom: 'y' top: 'q' }");
    int split = ct_net_find_layer(net, "y_a_0_split");

    ASSERT_INT(2, split);
    ASSERT_INT(2, ct_net_io(net, split).n_top);
    ASSERT_STR("y_a_0_split_1",
               ct_net_blob_name(net, ct_net_top_id(net, split, 1)));
    ASSERT_STR("y_a_0_split_0",
               ct_net_blob_name(net, ct_net_bottom_id(net, 3, 0)));
}

TEST(build, the_split_comes_after_the_last_layer_that_works_in_place)
{
    struct ct_net *net = net_of(INPUT
        "layer { name: 'a' type: 'TanH' bottom: 'x' top: 'y' }"
        "layer { name: 'r' type: 'ReLU' bottom: 'y' top: 'y' }"
        "layer { name: 'b' type: 'TanH' bottom: 'y' top: 'p' }"
        "layer { name: 'c' type: 'TanH' bottom: 'y' top: 'q' }");

    ASSERT_INT(3, ct_net_find_layer(net, "y_r_0_split"));
}

TEST(build, outputs_are_alphabetical_and_inputs_in_order)
{
    struct ct_net *net = net_of(
        "layer { name: 'in' type: 'Input' top: 'b' top: 'a' "
        "  input_param { shape { dim: 1 } } }"
        "layer { name: 'r' type: 'ReLU' bottom: 'a' top: 'z' }"
        "layer { name: 's' type: 'ReLU' bottom: 'b' top: 'm' }");

    ASSERT_INT(2, ct_net_n_inputs(net));
    ASSERT_STR("b", ct_net_blob_name(net, ct_net_input_id(net, 0)));
    ASSERT_INT(2, ct_net_n_outputs(net));
    ASSERT_STR("m", ct_net_blob_name(net, ct_net_output_id(net, 0)));
    ASSERT_STR("z", ct_net_blob_name(net, ct_net_output_id(net, 1)));
}

TEST(build, wiring_mistakes_are_named)
{
    net_refused(INPUT "layer { name: 'r' type: 'ReLU' bottom: 'nope' "
                "top: 'y' }", "nope");
    net_refused(INPUT "layer { name: 'r' type: 'ReLU' bottom: 'x' top: 'y' }"
                "layer { name: 's' type: 'TanH' bottom: 'x' top: 'y' }", "'y'");
    net_refused(INPUT "layer { name: 'r' type: 'NoSuch' bottom: 'x' }",
                "NoSuch");
    net_refused(INPUT "layer { name: 'r' type: 'TanH' bottom: 'x' top: 'y' "
                "loss_weight: 1 loss_weight: 2 }", "loss_weight");
    net_refused(INPUT "layer { name: 'r' type: 'TanH' bottom: 'x' top: 'y' "
                "propagate_down: true propagate_down: true }",
                "propagate_down");
    net_refused(INPUT "layer { name: 'fc' type: 'InnerProduct' bottom: 'x' "
                "top: 'y' inner_product_param { num_output: 1 } "
                "param {} param {} param {} }", "fc");
}

static void unset(void *unused)
{
    (void)unused;
    unsetenv("CORTADO_IMPL");
}

TEST(build, a_misspelt_switch_is_refused)
{
    test_defer(unset, NULL);
    setenv("CORTADO_IMPL", "pool:ref,fuse:nnoe", 1);
    net_refused(INPUT, "CORTADO_IMPL: fuse has no value 'nnoe'; did you mean "
                "'none'?");
    setenv("CORTADO_IMPL", "fuse:none", 1);
    (void)net_of(INPUT);
}

/* Two layers on one 1 x 2 weight: the gradients add up. */
static const char *const shared_text =
    "force_backward: true layer { name: 'in' type: 'Input' top: 'x' "
    "  input_param { shape { dim: 1 dim: 2 } } }"
    "layer { name: 'a' type: 'InnerProduct' bottom: 'x' top: 'p' "
    "  param { name: 'w' } inner_product_param { num_output: 1 "
    "  bias_term: false } }"
    "layer { name: 'b' type: 'InnerProduct' bottom: 'x' top: 'q' "
    "  param { name: 'w' } inner_product_param { num_output: 1 "
    "  bias_term: false } }";

TEST(build, parameters_of_one_name_are_one_parameter)
{
    struct ct_net *net = net_of(shared_text);
    struct ct_blob *x  = net_blob_named(net, "x");
    struct ct_layer *a = net_layer_named(net, "a");
    struct ct_layer *b = net_layer_named(net, "b");

    ASSERT_INT(1, ct_net_n_params(net));
    ASSERT(ct_data(a->blob[0]) == ct_data(b->blob[0]));
    ct_data(x)[0] = 3;
    ct_data(x)[1] = 5;
    ASSERT_OK(ct_net_forward(net, NULL));
    ct_diff(net_blob_named(net, "p"))[0] = 1;
    ct_diff(net_blob_named(net, "q"))[0] = 10;
    ASSERT_OK(ct_net_clear_diffs(net));
    ASSERT_OK(ct_net_backward(net));
    ASSERT_FLOAT(33, ct_diff(a->blob[0])[0], 1e-5);
    ASSERT_FLOAT(55, ct_diff(a->blob[0])[1], 1e-5);
}

TEST(build, sharing_refuses_other_shapes_and_other_multipliers)
{
    net_refused(INPUT
        "layer { name: 'a' type: 'InnerProduct' bottom: 'x' top: 'p' "
        "  param { name: 'w' } inner_product_param { num_output: 1 } }"
        "layer { name: 'b' type: 'InnerProduct' bottom: 'x' top: 'q' "
        "  param { name: 'w' } inner_product_param { num_output: 2 } }",
        "'w'");
    net_refused(INPUT
        "layer { name: 'a' type: 'InnerProduct' bottom: 'x' top: 'p' "
        "  param { name: 'w' lr_mult: 1 } "
        "  inner_product_param { num_output: 1 } }"
        "layer { name: 'b' type: 'InnerProduct' bottom: 'x' top: 'q' "
        "  param { name: 'w' lr_mult: 2 } "
        "  inner_product_param { num_output: 1 } }", "lr_mult");
}

#define TWO_LAYERS(first, second)                                            \
    "layer { name: 'in' type: 'Input' top: 'x' top: 't' "                    \
    "  input_param { shape { dim: 2 dim: 3 } } }"                            \
    "layer { name: 'a' type: 'InnerProduct' bottom: 'x' top: 'h' " first     \
    "  inner_product_param { num_output: 4 } }"                              \
    "layer { name: 'b' type: 'InnerProduct' bottom: 'h' top: 'y' " second    \
    "  inner_product_param { num_output: 3 } }"                              \
    "layer { name: 'l' type: 'EuclideanLoss' bottom: 'y' bottom: 't' }"

/* Statistics are never learned, whatever specs the prototxt gives: not even by
 * weight decay. */
TEST(build, statistics_do_not_learn)
{
    static const char *const specs[] = {
        "", "param { lr_mult: 2 }", "param { } param { }",
        "param { } param { } param { lr_mult: 1 }",
        "param { } param { } param { } param { }"
    };

    for (size_t i = 0; i < sizeof(specs) / sizeof(*specs); i++) {
        char text[1024];
        struct ct_net *net;

        snprintf(text, sizeof(text), INPUT
            "layer { name: 'a' type: 'BN' bottom: 'x' top: 'y' %s "
            "  bn_param { slope_filler { value: 1 } } }", specs[i]);
        net = net_of(text);
        ASSERT_INT(4, ct_net_n_params(net));
        for (int k = 0; k < 4; k++)
            ASSERT_FLOAT(k >= 2 ? 0 : k == 0 && i == 1 ? 2 : 1,
                         ct_net_param(net, k)->lr_mult, 0);
    }
}

TEST(build, gradients_flow_only_where_something_learns)
{
    struct ct_net *net = net_of(TWO_LAYERS("", ""));
    struct ct_net *cut = net_of(
        TWO_LAYERS("", "propagate_down: false"));
    struct ct_net *fixed = net_of(TWO_LAYERS(
        "param { lr_mult: 0 } param { lr_mult: 0 }", ""));

    ASSERT(ct_net_layer_needs_backward(net, 1));
    ASSERT(!ct_net_io(net, 1).want_grad[0]); /* nobody learns below x */
    ASSERT(ct_net_io(net, 2).want_grad[0]);
    ASSERT(!ct_net_io(net, 3).want_grad[1]);
    ASSERT(!ct_net_layer_needs_backward(cut, 1));
    ASSERT(ct_net_layer_needs_backward(cut, 2));
    ASSERT(!ct_net_layer_needs_backward(fixed, 1));
    ASSERT(!ct_net_io(fixed, 2).want_grad[0]);
}

TEST(build, layers_under_no_loss_do_not_run_backward)
{
    struct ct_net *net = net_of(INPUT
        "layer { name: 'a' type: 'InnerProduct' bottom: 'x' top: 'h' "
        "  inner_product_param { num_output: 4 } }");

    ASSERT(!ct_net_layer_needs_backward(net, 1));
}

TEST(build, loss_layers_get_a_top_and_weight_one)
{
    struct ct_net *net = net_of(TWO_LAYERS("", ""));

    ASSERT_INT(1, ct_net_n_outputs(net));
    ASSERT_STR("(automatic)", ct_net_blob_name(net, ct_net_output_id(net, 0)));
    ASSERT_FLOAT(1, ct_net_blob_loss_weight(net, ct_net_output_id(net, 0)), 0);
}

TEST(build, the_loss_is_the_weighted_sum_over_every_weighted_top)
{
    struct ct_net *net = net_of(
        "layer { name: 'in' type: 'Input' top: 'x' "
        "  input_param { shape { dim: 2 } } }"
        "layer { name: 'r' type: 'Power' bottom: 'x' top: 'y' "
        "  loss_weight: 0.5 }"
        "layer { name: 's' type: 'Power' bottom: 'y' top: 'z' "
        "  power_param { scale: 2 } loss_weight: 3 }");
    double loss = 0;

    ct_data(net_blob_named(net, "x"))[0] = 1;
    ct_data(net_blob_named(net, "x"))[1] = 5;
    ASSERT_OK(ct_net_forward(net, &loss));
    ASSERT_FLOAT(0.5 * 6 + 3 * 12, loss, 1e-5);
}

TEST(build, labels_that_depend_on_parameters_are_refused_at_the_start)
{
    net_refused(INPUT
        "layer { name: 'a' type: 'InnerProduct' bottom: 'x' top: 'p' "
        "  inner_product_param { num_output: 1 } }"
        "layer { name: 'b' type: 'InnerProduct' bottom: 'x' top: 'q' "
        "  inner_product_param { num_output: 1 } }"
        "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'p' bottom: 'q' }",
        "layer l");
}
