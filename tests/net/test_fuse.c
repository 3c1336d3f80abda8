/* test_fuse.c - layers that run as one give what they give one by one.
 *
 * Every net is built twice, as it comes and with CORTADO_IMPL=fuse:none, and
 * trained on the same numbers; the plan says what was fused.  With
 * CORTADO_TEST_DEVICE the nets are on a GPU. */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/rng.h"
#include "cortado/log.h"
#include "net/training.h"
#include "net_test.h"

/* x -> c (convolution) -> MIDDLE -> fc -> loss; MIDDLE reads c, gives m. */
#define HEAD                                                                 \
    "layer { name: 'in' type: 'Input' top: 'x' top: 'label' "                \
    "  input_param { shape { dim: 4 dim: 2 dim: 7 dim: 6 } "                 \
    "                shape { dim: 4 } } }"                                   \
    "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' "            \
    "  convolution_param { num_output: 20 kernel_size: 3 pad: 1 "            \
    "  weight_filler { type: 'xavier' } } }"
#define TAIL                                                                 \
    "layer { name: 'fc' type: 'InnerProduct' bottom: 'm' top: 'fc' "         \
    "  inner_product_param { num_output: 3 "                                 \
    "  weight_filler { type: 'xavier' } } }"                                 \
    "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'fc' "                \
    "  bottom: 'label' top: 'l' }"
#define SCALE(bottom, top)                                                   \
    "layer { name: 'sc' type: 'Scale' bottom: '" bottom "' top: '" top "' "  \
    "  scale_param { bias_term: true filler { type: 'uniform' min: -1 } "    \
    "  bias_filler { type: 'uniform' min: -1 } } }"
#define MORE(bottom)                                                         \
    "layer { name: 'm' type: 'Convolution' bottom: '" bottom "' top: 'm' "   \
    "  convolution_param { num_output: 20 kernel_size: 1 "                   \
    "  weight_filler { type: 'xavier' } } }"

static const char *const in_place =
    HEAD "layer { name: 'bn' type: 'BatchNorm' bottom: 'c' top: 'c' }"
    SCALE("c", "c") "layer { name: 'r' type: 'ReLU' bottom: 'c' top: 'c' }"
    MORE("c") TAIL;

static const char *const apart =
    HEAD "layer { name: 'bn' type: 'BatchNorm' bottom: 'c' top: 'b' }"
    SCALE("b", "s") "layer { name: 'r' type: 'ReLU' bottom: 's' top: 'r' }"
    MORE("r") TAIL;

static struct ct_net *together(const char *text, Caffe__Phase phase,
                               struct ct_net_options o)
{
    o.device = test_device();
    return net_with(text, phase, o);
}

static struct ct_net *trained(const char *text)
{
    return together(text, CAFFE__PHASE__TRAIN, (struct ct_net_options){ 0 });
}

static struct ct_net *alone(const char *text, Caffe__Phase phase,
                            struct ct_net_options o)
{
    const char *asked = getenv("CORTADO_IMPL");
    char usual[256];
    struct ct_net *net;

    snprintf(usual, sizeof(usual), "%s", asked ? asked : "");
    setenv("CORTADO_IMPL", "fuse:none", 1);
    net = together(text, phase, o);
    setenv("CORTADO_IMPL", usual, 1); /* of tests/gpu/run */
    return net;
}

static double pass(struct ct_net *net, uint64_t turn)
{
    net_draw(net, turn, 3);
    return net_pass(net);
}

/* Of the largest value.  In short formats what is rounded between two layers
 * differs from what is not. */
static double tolerance(void)
{
    return ct_device_prefers_nhwc(test_device()) ? 0.05 : 2e-5;
}

/* Two passes each: loss, gradients, and statistics that forward moves. */
static void same_numbers(struct ct_net *fused, struct ct_net *other)
{
    const int64_t n = (int64_t)ct_net_arena_count(other);

    for (uint64_t turn = 0; turn < 2; turn++)
        ASSERT_FLOAT(pass(other, turn), pass(fused, turn), tolerance() / 2);
    ASSERT(net_near("gradient", n, ct_net_arena_diff(other),
                    ct_net_arena_diff(fused), tolerance()) > 1e-3);
    ASSERT(net_near("parameter", n, ct_net_arena_data(other),
                    ct_net_arena_data(fused), tolerance()) > 1e-3);
}

/* Fused as `group` says, or not at all, and the same numbers either way. */
static void check(const char *text, const char *group)
{
    struct ct_net *fused = trained(text);
    struct ct_net *other = alone(text, CAFFE__PHASE__TRAIN,
                                 (struct ct_net_options){ 0 });

    ASSERT_HAS(group ? group : "run as one:\nnone", net_plan(fused));
    ASSERT_HAS("run as one:\nnone", net_plan(other));
    same_numbers(fused, other);
}

TEST(fuse, batch_norm_scale_and_relu_in_place_are_one)
{
    check(in_place, "bn (BatchNorm) + sc (Scale) + r (ReLU)\n");
}

TEST(fuse, batch_norm_scale_and_relu_with_blobs_of_their_own_are_one)
{
    check(apart, "bn (BatchNorm) + sc (Scale) + r (ReLU)\n");
}

TEST(fuse, any_part_of_the_chain_is_one)
{
    check(HEAD "layer { name: 'bn' type: 'BatchNorm' bottom: 'c' top: 'c' }"
          SCALE("c", "c") MORE("c") TAIL,
          "bn (BatchNorm) + sc (Scale)\n");
    check(HEAD "layer { name: 'bn' type: 'BatchNorm' bottom: 'c' top: 'c' }"
          "layer { name: 'r' type: 'ReLU' bottom: 'c' top: 'c' }"
          MORE("c") TAIL, "bn (BatchNorm) + r (ReLU)\n");
    check(HEAD "layer { name: 'bn' type: 'BatchNorm' bottom: 'c' top: 'c' }"
          "layer { name: 'sc' type: 'Scale' bottom: 'c' top: 'c' "
          "  scale_param { filler { value: 0 } } }"
          MORE("c") TAIL, "bn (BatchNorm) + sc (Scale)\n");
}

TEST(fuse, layers_that_stand_alone_part_from_what_they_keep)
{
    check(HEAD "layer { name: 'bn' type: 'BatchNorm' bottom: 'c' top: 'c' }"
          MORE("c") TAIL, NULL);
    check(HEAD SCALE("c", "c") MORE("c") TAIL, NULL);
}

TEST(fuse, a_blob_that_another_layer_reads_stays)
{
    check(HEAD "layer { name: 'bn' type: 'BatchNorm' bottom: 'c' top: 'b' }"
          SCALE("b", "s")
          "layer { name: 'm' type: 'Eltwise' bottom: 'b' bottom: 's' "
          "  top: 'm' }" TAIL, NULL);
    check(HEAD "layer { name: 'bn' type: 'BatchNorm' bottom: 'c' top: 'b' }"
          SCALE("b", "s") "layer { name: 'r' type: 'ReLU' bottom: 's' "
          "  top: 'r' }"
          "layer { name: 'm' type: 'Eltwise' bottom: 's' bottom: 'r' "
          "  top: 'm' }" TAIL, "bn (BatchNorm) + sc (Scale)\n");
}

/* The blob that the chain works on in place is read before it, too. */
TEST(fuse, a_chain_behind_a_split_is_one)
{
    check(HEAD "layer { name: 'bn' type: 'BatchNorm' bottom: 'c' top: 'b' }"
          SCALE("b", "b") "layer { name: 'r' type: 'ReLU' bottom: 'b' "
          "  top: 'b' }"
          "layer { name: 'm' type: 'Eltwise' bottom: 'c' bottom: 'b' "
          "  top: 'm' }" TAIL, "bn (BatchNorm) + sc (Scale) + r (ReLU)\n");
}

TEST(fuse, what_it_cannot_do_is_left_alone)
{
    /* A slope below zero, a factor a value, a gradient that is cut off. */
    check(HEAD "layer { name: 'bn' type: 'BatchNorm' bottom: 'c' top: 'c' }"
          "layer { name: 'r' type: 'ReLU' bottom: 'c' top: 'c' "
          "  relu_param { negative_slope: 0.1 } }" MORE("c") TAIL, NULL);
    check(HEAD "layer { name: 'bn' type: 'BatchNorm' bottom: 'c' top: 'c' }"
          "layer { name: 'sc' type: 'Scale' bottom: 'c' top: 'c' "
          "  scale_param { axis: 1 num_axes: 2 } }" MORE("c") TAIL, NULL);
    check(HEAD "layer { name: 'bn' type: 'BatchNorm' bottom: 'c' top: 'b' }"
          "layer { name: 'sc' type: 'Scale' bottom: 'b' top: 's' "
          "  propagate_down: false }" MORE("s") TAIL, NULL);
}

TEST(fuse, parameters_that_do_not_learn_get_no_gradient)
{
    check(HEAD "layer { name: 'bn' type: 'BatchNorm' bottom: 'c' top: 'c' }"
          "layer { name: 'sc' type: 'Scale' bottom: 'c' top: 'c' "
          "  param { lr_mult: 0 } param { lr_mult: 1 } "
          "  scale_param { bias_term: true filler { value: 2 } } }"
          MORE("c") TAIL, "bn (BatchNorm) + sc (Scale)\n");
}

TEST(fuse, global_statistics_are_fused_too)
{
    check(HEAD "layer { name: 'bn' type: 'BatchNorm' bottom: 'c' top: 'c' "
          "  batch_norm_param { use_global_stats: true eps: 0.5 } }"
          SCALE("c", "c") "layer { name: 'r' type: 'ReLU' bottom: 'c' "
          "  top: 'c' }" MORE("c") TAIL,
          "bn (BatchNorm) + sc (Scale) + r (ReLU)\n");
}

TEST(fuse, statistics_of_the_input_are_fused_without_its_gradient)
{
    check("layer { name: 'in' type: 'Input' top: 'x' top: 'label' "
          "  input_param { shape { dim: 4 dim: 5 } shape { dim: 4 } } }"
          "layer { name: 'bn' type: 'BatchNorm' bottom: 'x' top: 'b' }"
          SCALE("b", "m") TAIL, "bn (BatchNorm) + sc (Scale)\n");
}

TEST(fuse, shared_scales_add_up_their_gradients)
{
    check(HEAD "layer { name: 'bn' type: 'BatchNorm' bottom: 'c' top: 'c' }"
          "layer { name: 's1' type: 'Scale' bottom: 'c' top: 'c' "
          "  param { name: 'w' } }"
          "layer { name: 'd' type: 'Convolution' bottom: 'c' top: 'd' "
          "  convolution_param { num_output: 20 kernel_size: 1 "
          "  weight_filler { type: 'xavier' } } }"
          "layer { name: 'b2' type: 'BatchNorm' bottom: 'd' top: 'd' }"
          "layer { name: 's2' type: 'Scale' bottom: 'd' top: 'd' "
          "  param { name: 'w' } }" MORE("d") TAIL,
          "b2 (BatchNorm) + s2 (Scale)\n");
}

TEST(fuse, a_fused_net_reshapes_and_allocates_nothing_in_a_step)
{
    struct ct_net *fused = trained(in_place);
    struct ct_net *other = alone(in_place, CAFFE__PHASE__TRAIN,
                                 (struct ct_net_options){ 0 });
    struct ct_net *both[] = { fused, other };
    uint64_t n_calls;

    same_numbers(fused, other);
    n_calls = ct_mem_stats().n_calls;
    pass(fused, 3);
    ASSERT_INT(n_calls, ct_mem_stats().n_calls);
    pass(other, 3);
    for (int i = 0; i < 2; i++) {
        ASSERT_OK(ct_reshape(net_blob_named(both[i], "x"),
                             CT_SHAPE(6, 2, 7, 6)));
        ASSERT_OK(ct_reshape(net_blob_named(both[i], "label"), CT_SHAPE(6)));
    }
    same_numbers(fused, other);
    ASSERT_OK(ct_net_reshape(fused));
    ASSERT_OK(ct_net_reshape(other));
    same_numbers(fused, other);
}

TEST(fuse, forward_alone_gives_the_same_outputs)
{
    const struct ct_net_options o = { .forward_only = true };
    struct ct_net *fused = together(in_place, CAFFE__PHASE__TEST, o);
    struct ct_net *other = alone(in_place, CAFFE__PHASE__TEST, o);
    struct ct_net *both[] = { fused, other };
    double loss[2];

    for (int i = 0; i < 2; i++) {
        struct ct_blob *x = net_blob_named(both[i], "x");
        struct ct_layer *bn = net_layer_named(both[i], "bn");

        for (int64_t k = 0; k < x->count; k++)
            ct_data(x)[k] = ct_normal(5, 1, (uint64_t)k);
        for (int64_t k = 0; k < bn->blob[0]->count; k++) {
            ct_data(bn->blob[0])[k] = ct_normal(5, 2, (uint64_t)k);
            ct_data(bn->blob[1])[k] = ct_uniform(5, 3, (uint64_t)k) + 1;
        }
        ct_data(bn->blob[2])[0] = 2;
        ASSERT_OK(ct_net_forward(both[i], &loss[i]));
    }
    ASSERT_FLOAT(loss[1], loss[0], tolerance() / 2);
}

#define SUM(coeff)                                                           \
    "layer { name: 'd' type: 'Convolution' bottom: 'c' top: 'd' "            \
    "  convolution_param { num_output: 20 kernel_size: 1 "                   \
    "  weight_filler { type: 'xavier' } } }"                                 \
    "layer { name: 'sum' type: 'Eltwise' bottom: 'c' bottom: 'd' "           \
    "  top: 's' eltwise_param { " coeff " } }"

TEST(fuse, a_sum_and_its_relu_are_one)
{
    check(HEAD SUM("") "layer { name: 'r' type: 'ReLU' bottom: 's' top: 's' }"
          MORE("s") TAIL, "sum (Eltwise) + r (ReLU)\n");
    check(HEAD SUM("") "layer { name: 'r' type: 'ReLU' bottom: 's' top: 'r' }"
          MORE("r") TAIL, "sum (Eltwise) + r (ReLU)\n");
    check(HEAD SUM("coeff: -0.5 coeff: 2")
          "layer { name: 'r' type: 'ReLU' bottom: 's' top: 's' }"
          MORE("s") TAIL, "sum (Eltwise) + r (ReLU)\n");
    check(HEAD SUM("coeff: 1 coeff: -1")
          "layer { name: 'r' type: 'ReLU' bottom: 's' top: 's' }"
          MORE("s") TAIL, "sum (Eltwise) + r (ReLU)\n");
}

TEST(fuse, a_sum_hands_its_gradient_on)
{
    check(HEAD SUM("") MORE("s") TAIL, NULL);
    check(HEAD SUM("coeff: 3 coeff: 1") MORE("s") TAIL, NULL);
    check(HEAD SUM("operation: MAX") "layer { name: 'r' type: 'ReLU' "
          "  bottom: 's' top: 's' }" MORE("s") TAIL, NULL);
}

/* A sum that nobody reads has a gradient of zeros, which it hands on; the sum
 * before it adds its own gradients up elsewhere. */
TEST(fuse, zeros_that_a_sum_hands_on_stay_zeros)
{
    static const char text[] = "force_backward: true " HEAD
        "layer { name: 'two' type: 'Eltwise' bottom: 'c' bottom: 'c' "
        "  top: 'm' } layer { name: 'idle' type: 'Eltwise' bottom: 'm' "
        "  bottom: 'c' top: 'idle' }" TAIL;

    same_numbers(trained(text), alone(text, CAFFE__PHASE__TRAIN,
                                      (struct ct_net_options){ 0 }));
}

#define PRODUCT(n, top)                                                      \
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'c' top: '" top "' "    \
    "  inner_product_param { num_output: " #n " "                            \
    "  weight_filler { type: 'xavier' } "                                    \
    "  bias_filler { type: 'uniform' min: -0.1 max: 0.1 } } }"

/* In place and not; with weights so large that they come first; and with a
 * Dropout that writes over what the mask is read from. */
TEST(fuse, an_inner_product_and_its_relu_are_one)
{
    const char *group = "ip (InnerProduct) + r (ReLU)\n";

    check(HEAD PRODUCT(9, "m") "layer { name: 'r' type: 'ReLU' bottom: 'm' "
          "  top: 'm' }" TAIL, group);
    check(HEAD PRODUCT(9, "p") "layer { name: 'r' type: 'ReLU' bottom: 'p' "
          "  top: 'm' }" TAIL, group);
    check(HEAD PRODUCT(1000, "m") "layer { name: 'r' type: 'ReLU' "
          "  bottom: 'm' top: 'm' }" TAIL, group);
    check(HEAD PRODUCT(9, "m") "layer { name: 'r' type: 'ReLU' bottom: 'm' "
          "  top: 'm' } layer { name: 'd' type: 'Dropout' bottom: 'm' "
          "  top: 'm' }" TAIL, group);
}

TEST(fuse, an_inner_product_leaves_a_leaky_relu_alone)
{
    check(HEAD PRODUCT(9, "m") "layer { name: 'r' type: 'ReLU' bottom: 'm' "
          "  top: 'm' relu_param { negative_slope: 0.1 } }" TAIL, NULL);
}

/* Loss weights rest in the sum's diff and are read pass after pass, while its
 * first bottom is worked on in place. */
TEST(fuse, a_sum_that_is_a_loss_keeps_its_weight)
{
    check(HEAD "layer { name: 't' type: 'TanH' bottom: 'c' top: 'c' }"
          "layer { name: 'd' type: 'Convolution' bottom: 'x' top: 'd' "
          "  convolution_param { num_output: 20 kernel_size: 3 pad: 1 "
          "  weight_filler { type: 'xavier' } } }"
          "layer { name: 'sum' type: 'Eltwise' bottom: 'c' bottom: 'd' "
          "  top: 'm' loss_weight: 0.01 }"
          "layer { name: 'q' type: 'Silence' bottom: 'label' }", NULL);
}

TEST(fuse, a_convolution_and_its_relu_are_one)
{
    check(HEAD "layer { name: 'r' type: 'ReLU' bottom: 'c' top: 'c' }"
          MORE("c") TAIL, "c (Convolution) + r (ReLU)\n");
    check(HEAD "layer { name: 'r' type: 'ReLU' bottom: 'c' top: 'r' }"
          MORE("r") TAIL, "c (Convolution) + r (ReLU)\n");
    check(HEAD "layer { name: 'r' type: 'ReLU' bottom: 'c' top: 'c' }"
          "layer { name: 'd' type: 'Convolution' bottom: 'c' top: 'd' "
          "  convolution_param { num_output: 32 kernel_size: 5 pad: 2 "
          "  weight_filler { type: 'xavier' } } }"
          "layer { name: 'q' type: 'ReLU' bottom: 'd' top: 'd' }"
          MORE("d") TAIL, "d (Convolution) + q (ReLU)\n");
}

/* Backward reads the sign off what the next layer changes in place. */
TEST(fuse, a_relu_whose_top_is_worked_on_in_place_stays)
{
    check(HEAD "layer { name: 'r' type: 'ReLU' bottom: 'c' top: 'r' }"
          "layer { name: 'p' type: 'Power' bottom: 'r' top: 'r' "
          "  power_param { shift: -0.5 } }" MORE("r") TAIL, NULL);
    check(HEAD SUM("") "layer { name: 'r' type: 'ReLU' bottom: 's' top: 'r' }"
          "layer { name: 'p' type: 'Power' bottom: 'r' top: 'r' "
          "  power_param { shift: 1 } }" MORE("r") TAIL, NULL);
}

/* ResNet's block: what is added is read by the next block, too. */
TEST(fuse, residual_blocks_are_the_same)
{
    check(HEAD "layer { name: 'bn' type: 'BatchNorm' bottom: 'c' top: 'c' }"
          SCALE("c", "c") "layer { name: 'r' type: 'ReLU' bottom: 'c' "
          "  top: 'c' }" SUM("")
          "layer { name: 'r2' type: 'ReLU' bottom: 's' top: 's' }"
          "layer { name: 'e' type: 'Convolution' bottom: 's' top: 'e' "
          "  convolution_param { num_output: 20 kernel_size: 1 "
          "  weight_filler { type: 'xavier' } } }"
          "layer { name: 'b3' type: 'BatchNorm' bottom: 'e' top: 'e' }"
          "layer { name: 'm' type: 'Eltwise' bottom: 's' bottom: 'e' "
          "  top: 'm' }"
          "layer { name: 'r3' type: 'ReLU' bottom: 'm' top: 'm' }" TAIL,
          "sum (Eltwise) + r2 (ReLU) + s_r2_0_split (Split)\n");
}

/* The sum behind a Split adds up what its readers write, three of them and one
 * that writes nothing among them; coefficients count. */
TEST(fuse, a_sum_and_the_split_behind_it_are_one)
{
    check(HEAD SUM("coeff: 1 coeff: -2")
          "layer { name: 'e' type: 'Convolution' bottom: 's' top: 'e' "
          "  convolution_param { num_output: 20 kernel_size: 1 "
          "  weight_filler { type: 'xavier' } } }"
          "layer { name: 'f' type: 'Power' bottom: 's' top: 'f' "
          "  power_param { scale: 0.5 } }"
          "layer { name: 'q' type: 'Power' bottom: 's' top: 'q' "
          "  propagate_down: false }"
          "layer { name: 'm' type: 'Eltwise' bottom: 'q' bottom: 's' "
          "  bottom: 'e' bottom: 'f' top: 'm' }" TAIL,
          "sum (Eltwise) + s_sum_0_split (Split)\n");
}

/* c, and behind a convolution, BatchNorm and Scale: e; both added. */
#define BLOCK_END(first, second, coeff)                                      \
    "layer { name: 'e' type: 'Convolution' bottom: 'c' top: 'e' "            \
    "  convolution_param { num_output: 20 kernel_size: 1 "                   \
    "  weight_filler { type: 'xavier' } } }"                                 \
    "layer { name: 'bn' type: 'BatchNorm' bottom: 'e' top: 'e' }"            \
    SCALE("e", "e")                                                          \
    "layer { name: 'sum' type: 'Eltwise' bottom: '" first "' "               \
    "  bottom: '" second "' top: 's' eltwise_param { " coeff " } }"
#define RELU_S "layer { name: 'r' type: 'ReLU' bottom: 's' top: 's' }"
/* Two readers of s. */
#define BOTH                                                                 \
    "layer { name: 'f' type: 'Convolution' bottom: 's' top: 'f' "            \
    "  convolution_param { num_output: 20 kernel_size: 1 "                   \
    "  weight_filler { type: 'xavier' } } }"                                 \
    "layer { name: 'm' type: 'Eltwise' bottom: 's' bottom: 'f' top: 'm' "    \
    "  eltwise_param { operation: PROD } }"

/* On the CPU BatchNorm takes no sum. */
static void check_end(const char *text, const char *on_gpu,
                      const char *on_cpu)
{
    check(text, test_device()->kind == CT_CPU ? on_cpu : on_gpu);
}

TEST(fuse, batch_norm_takes_the_end_of_a_residual_block_on_a_gpu)
{
    check_end(HEAD BLOCK_END("c", "e", "") RELU_S BOTH TAIL,
              "bn (BatchNorm) + sc (Scale) + sum (Eltwise) + r (ReLU) + "
              "s_r_0_split (Split)\n",
              "sum (Eltwise) + r (ReLU) + s_r_0_split (Split)\n");
    check_end(HEAD BLOCK_END("e", "c", "coeff: 1 coeff: 1") RELU_S MORE("s")
              TAIL, "bn (BatchNorm) + sc (Scale) + sum (Eltwise) + r (ReLU)\n",
              "sum (Eltwise) + r (ReLU)\n");
    check_end(HEAD BLOCK_END("c", "e", "") BOTH TAIL,
              "bn (BatchNorm) + sc (Scale) + sum (Eltwise) + "
              "s_sum_0_split (Split)\n",
              "bn (BatchNorm) + sc (Scale)\n");
    check_end(HEAD BLOCK_END("c", "e", "") MORE("s") TAIL,
              "bn (BatchNorm) + sc (Scale) + sum (Eltwise)\n",
              "bn (BatchNorm) + sc (Scale)\n");
}

/* The other branch ends in a BatchNorm of its own, whose values the sum may
 * write over. */
TEST(fuse, both_branches_of_a_residual_block_may_end_in_batch_norm)
{
    check_end(HEAD "layer { name: 'd' type: 'Convolution' bottom: 'c' "
              "  top: 'd' convolution_param { num_output: 20 kernel_size: 1 "
              "  weight_filler { type: 'xavier' } } }"
              "layer { name: 'b1' type: 'BatchNorm' bottom: 'd' top: 'd' }"
              BLOCK_END("d", "e", "") RELU_S BOTH TAIL,
              "bn (BatchNorm) + sc (Scale) + sum (Eltwise) + r (ReLU) + "
              "s_r_0_split (Split)\n",
              "sum (Eltwise) + r (ReLU) + s_r_0_split (Split)\n");
}

/* Coefficients, a bottom without a gradient, and three readers. */
TEST(fuse, sums_that_batch_norm_does_not_take)
{
    check(HEAD BLOCK_END("c", "e", "coeff: 1 coeff: -2") RELU_S MORE("s") TAIL,
          "bn (BatchNorm) + sc (Scale)\n");
    check(HEAD "layer { name: 'k' type: 'Convolution' bottom: 'x' top: 'k' "
          "  param { lr_mult: 0 } param { lr_mult: 0 } "
          "  convolution_param { num_output: 20 kernel_size: 1 "
          "  weight_filler { type: 'xavier' } } }"
          BLOCK_END("k", "e", "") RELU_S MORE("s") TAIL,
          "bn (BatchNorm) + sc (Scale)\n");
    check_end(HEAD BLOCK_END("c", "e", "") RELU_S
              "layer { name: 'f' type: 'Power' bottom: 's' top: 'f' "
              "  power_param { scale: 0.5 } }"
              "layer { name: 'g' type: 'Power' bottom: 's' top: 'g' "
              "  power_param { power: 2 } }"
              "layer { name: 'm' type: 'Eltwise' bottom: 's' bottom: 'f' "
              "  bottom: 'g' top: 'm' }" TAIL,
              "bn (BatchNorm) + sc (Scale) + sum (Eltwise) + r (ReLU)\n",
              "sum (Eltwise) + r (ReLU) + s_r_0_split (Split)\n");
}

/* Both bottoms of the last sum are sums themselves, and each of those writes
 * over the gradient it gets: they must not get it in one place. */
TEST(fuse, sums_of_sums_do_not_write_over_each_other)
{
    check(HEAD SUM("")
          "layer { name: 'r1' type: 'ReLU' bottom: 's' top: 's' }"
          "layer { name: 'e' type: 'Convolution' bottom: 's' top: 'e' "
          "  convolution_param { num_output: 20 kernel_size: 1 "
          "  weight_filler { type: 'xavier' } } }"
          "layer { name: 't' type: 'Eltwise' bottom: 's' bottom: 'e' "
          "  top: 't' }"
          "layer { name: 'r2' type: 'ReLU' bottom: 't' top: 't' }"
          "layer { name: 'm' type: 'Eltwise' bottom: 't' bottom: 's' "
          "  top: 'm' }"
          "layer { name: 'r3' type: 'ReLU' bottom: 'm' top: 'm' }" TAIL,
          "sum (Eltwise) + r1 (ReLU) + s_r1_0_split (Split)\n");
    check(HEAD "layer { name: 'r1' type: 'ReLU' bottom: 'c' top: 'c' }" SUM("")
          "layer { name: 'm' type: 'Eltwise' bottom: 's' bottom: 's' "
          "  bottom: 'd' top: 'm' }" TAIL,
          "sum (Eltwise) + s_sum_0_split (Split)\n");
}

TEST(fuse, kept_blobs_are_all_there)
{
    struct ct_net *net = together(apart, CAFFE__PHASE__TRAIN,
                                  (struct ct_net_options){
                                      .keep_blobs = true });
    const struct ct_blob *s, *r;

    pass(net, 0);
    s = net_blob_named(net, "s");
    r = net_blob_named(net, "r");
    for (int64_t i = 0; i < s->count; i++)
        ASSERT_FLOAT(fmaxf(ct_data(s)[i], 0), ct_data(r)[i], 0);
}

static void count_lines(enum ct_log_level level, const char *line, void *arg)
{
    (void)level;
    *(int *)arg += strstr(line, "[Forward] Layer bn, top blob c data") != NULL;
}

TEST(fuse, debug_info_runs_every_layer_for_itself)
{
    struct ct_net *fused = trained(in_place);
    struct ct_net *other = alone(in_place, CAFFE__PHASE__TRAIN,
                                 (struct ct_net_options){ 0 });
    int n = 0;

    same_numbers(fused, other);
    ct_net_set_debug_info(fused, true);
    ct_log_set_level(CT_LOG_INFO);
    ct_log_set_sink(count_lines, &n);
    pass(fused, 2);
    ct_log_set_sink(NULL, NULL);
    ct_log_set_level(CT_LOG_NONE);
    ct_net_set_debug_info(fused, false);
    pass(other, 2);
    ASSERT_INT(1, n);
    same_numbers(fused, other);
    ASSERT_HAS("run as one:\nnone", net_plan(fused));
}

TEST(fuse, nan_is_found_in_a_group)
{
    struct ct_net *net = trained(in_place);
    int layer;

    pass(net, 0);
    ct_data(net_layer_named(net, "sc")->blob[1])[0] = NAN;
    ASSERT_OK(ct_net_find_nan(net, &layer));
    ASSERT_INT(ct_net_find_layer(net, "sc"), layer);
}
