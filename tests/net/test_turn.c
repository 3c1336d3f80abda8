/* test_turn.c - groups of images that go forward and right away backward give
 * what whole batches give.
 *
 * Every net is built twice, with CORTADO_IMPL=chain:none and with groups of a
 * forced size, on 1 to 3 threads, and runs on the same numbers. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "net/training.h"
#include "net_test.h"

#define LABELS(shape)                                                        \
    "layer { name: 'in' type: 'Input' top: 'x' top: 'label' "                \
    "  input_param { shape { dim: 7 dim: 3 dim: 12 dim: 10 } "               \
    "                shape { " shape " } } }"
#define INPUT LABELS("dim: 7")
#define CONV(name, bottom, out)                                              \
    "layer { name: '" name "' type: 'Convolution' bottom: '" bottom "' "     \
    "  top: '" name "' convolution_param { num_output: " #out " "            \
    "  kernel_size: 3 pad: 1 weight_filler { type: 'xavier' } "              \
    "  bias_filler { type: 'uniform' min: -1 } } }"
#define ONE(name, type, bottom, top, more)                                   \
    "layer { name: '" name "' type: '" type "' bottom: '" bottom "' "        \
    "  top: '" top "' " more " }"
/* These have the same weights, as many as a thread adds at a time. */
#define SHARED(name, bottom)                                                 \
    ONE(name, "Convolution", bottom, name,                                   \
        "param { name: 'w' } convolution_param { num_output: 32 "            \
        "kernel_size: 1 bias_term: false weight_filler { type: 'xavier' } }")
#define PRODUCT(name, bottom, out)                                           \
    ONE(name, "InnerProduct", bottom, name,                                  \
        "inner_product_param { num_output: " #out " "                        \
        "weight_filler { type: 'xavier' } "                                  \
        "bias_filler { type: 'uniform' min: -1 } }")
#define LOSS_OF(name, bottom, label, more)                                   \
    "layer { name: '" name "' type: 'SoftmaxWithLoss' bottom: '" bottom "' " \
    "  bottom: '" label "' top: '" name "' " more " }"
#define LOSS(name, bottom, more) LOSS_OF(name, bottom, "label", more)
#define MINUS(name, bottom)                                                  \
    ONE(name, "Power", bottom, name, "power_param { scale: -1 }")

/* The first product reads a copy of `p` in another layout, and takes a ReLU
 * in; values are left out by samples. */
static const char *const straight =
    INPUT CONV("c1", "x", 32) ONE("r1", "ReLU", "c1", "c1", "")
    CONV("c2", "c1", 16)
    ONE("p", "Pooling", "c2", "p",
        "pooling_param { pool: MAX kernel_size: 3 stride: 2 }")
    PRODUCT("f1", "p", 9) ONE("r2", "ReLU", "f1", "f1", "")
    ONE("d", "Dropout", "f1", "f1", "dropout_param { dropout_ratio: 0.3 }")
    PRODUCT("f2", "f1", 3) LOSS("l", "f2", "");

/* Two losses, of which one leaves labels out and the other weighs them, and
 * layers behind the first. */
static const char *const losses =
    INPUT CONV("c1", "x", 16) PRODUCT("f0", "c1", 3)
    LOSS("l0", "f0", "loss_weight: 0.3 loss_param { ignore_label: 1 }")
    CONV("c2", "c1", 16) ONE("t", "TanH", "c2", "t", "")
    PRODUCT("f1", "t", 3)
    LOSS("l1", "f1", "loss_param { normalization: BATCH_SIZE "
         "weight_by_label_freqs: true class_weighting: 0.5 "
         "class_weighting: 1 class_weighting: 2 }");

static void one_thread(void *unused)
{
    (void)unused;
    unsetenv("CORTADO_IMPL");
    ct_device_cpu_set_threads(1);
}

static const struct ct_net_training pairs = { .pairs = true };
static const struct ct_net_options paired = { .training = &pairs };

static struct ct_net *net_as(const char *text, const char *impl, int threads)
{
    struct ct_net *net;

    test_defer(one_thread, NULL);
    ct_device_cpu_set_threads(threads);
    setenv("CORTADO_IMPL", impl, 1);
    net = net_with(text, CAFFE__PHASE__TRAIN, paired);
    unsetenv("CORTADO_IMPL");
    return net;
}

static struct ct_net *whole(const char *text)
{
    return net_as(text, "chain:none", 1);
}

static void fill(struct ct_net *net, uint64_t turn)
{
    struct ct_blob *x = net_blob_named(net, "x");
    struct ct_blob *y = net_blob_named(net, "label");

    for (int64_t i = 0; i < x->count; i++)
        ct_data(x)[i] = ct_normal(5, turn, (uint64_t)i);
    for (int64_t i = 0; i < y->count; i++)
        ct_data(y)[i] = (float)((i + (int64_t)turn) % 3);
}

/* As a solver makes it. */
static double pass(struct ct_net *net, uint64_t turn)
{
    double loss;

    fill(net, turn);
    ASSERT_OK(ct_net_begin_diffs(net));
    ASSERT_OK(ct_net_forward_paired(net, &loss));
    ASSERT_OK(ct_net_backward(net));
    return loss;
}

/* As anybody may. */
static double halves(struct ct_net *net, uint64_t turn)
{
    double loss;

    fill(net, turn);
    ASSERT_OK(ct_net_forward(net, &loss));
    ASSERT_OK(ct_net_begin_diffs(net));
    ASSERT_OK(ct_net_backward(net));
    return loss;
}

static void same_gradients(struct ct_net *want, struct ct_net *got)
{
    for (int i = 0; i < ct_net_n_params(want); i++) {
        const struct ct_net_param *p = ct_net_param(want, i);

        ASSERT(net_near(ct_net_layer(want, p->layer)->name, p->blob->count,
                        ct_diff(p->blob), ct_diff(ct_net_param(got, i)->blob),
                        5e-6) > 1e-4);
    }
}

static const char *const cuts[] = { "chain:1", "chain:2", "chain:3",
                                    "chain:7" };

static void every_cut(const char *text, const char *chain)
{
    struct ct_net *want = whole(text);
    uint64_t turn       = 0;

    for (int threads = 1; threads <= 3; threads++)
        for (int i = 0; i < 3 + (threads > 1); i++) {
            struct ct_net *got = net_as(text, cuts[i], threads);

            ASSERT_OK(ct_net_seek(got, ct_net_n_passes(want)));
            ASSERT_HAS(chain, net_plan(got));
            ASSERT_HAS("right away backward", net_plan(got));
            for (int k = 0; k < 2; k++, turn++) {
                ASSERT_FLOAT(pass(want, turn), pass(got, turn), 2e-6);
                same_gradients(want, got);
                ASSERT_FLOAT(halves(want, turn), halves(got, turn), 2e-6);
                same_gradients(want, got);
            }
        }
}

TEST(turn, groups_give_what_the_batch_gives)
{
    every_cut(straight, "chains:\nc1 .. l: 7 images");
}

TEST(turn, losses_are_the_sums_of_their_parts)
{
    every_cut(losses, "l1: 7 images");
}

/* Of a net for 61 images, whose passes come in n ways. */
static void same_bits(const char *text, const char *impl, int n_ways)
{
    struct ct_net *net = net_as(text, impl, 3);
    size_t n           = ct_net_arena_count(net);
    float *first;

    setenv("CORTADO_IMPL", impl, 1);
    ASSERT_OK(ct_reshape(net_blob_named(net, "x"), CT_SHAPE(61, 3, 12, 10)));
    ASSERT_OK(ct_reshape(net_blob_named(net, "label"), CT_SHAPE(61)));
    ASSERT_OK(ct_net_reshape(net));
    unsetenv("CORTADO_IMPL");
    pass(net, 0);
    ASSERT_OK(ct_alloc(n, sizeof(*first), "gradients", &first));
    memcpy(first, ct_net_arena_diff(net), n * sizeof(*first));
    for (int i = 0; i < 30; i++) {
        if (i % n_ways == 0)
            pass(net, 0);
        else
            halves(net, 0);
        ASSERT_INT(0, memcmp(first, ct_net_arena_diff(net),
                             n * sizeof(*first)));
    }
    ct_free(first);
}

/* The bits of a pass do not depend on how it was asked for, nor on who took
 * which lane. */
TEST(turn, halves_of_a_pass_have_the_same_bits)
{
    same_bits(losses, "chain:2", 2);
}

/* Nor on who adds lanes up, where layers have one gradient. */
TEST(turn, shared_parameters_have_the_same_bits)
{
    static const char *const shared =
        INPUT CONV("c0", "x", 32) SHARED("s1", "c0") SHARED("s2", "s1")
        SHARED("s3", "s2") SHARED("s4", "s3") SHARED("s5", "s4")
        SHARED("s6", "s5") PRODUCT("f", "s6", 3) LOSS("l", "f", "");

    same_bits(shared, "chain:1", 2);
    same_bits(shared, "chain:1,turn:never", 1);
}

TEST(turn, gradients_of_several_passes_add_up)
{
    struct ct_net *nets[] = { whole(straight),
                              net_as(straight, "chain:2", 2) };
    double loss;

    for (int i = 0; i < 2; i++) {
        pass(nets[i], 0);
        fill(nets[i], 1);
        ASSERT_OK(ct_net_forward_paired(nets[i], &loss));
        ASSERT_OK(ct_net_backward(nets[i]));
    }
    same_gradients(nets[0], nets[1]);
}

TEST(turn, nothing_between_layers_has_memory_of_the_batch)
{
    static const char *const names[] = { "c1", "c2", "p", "f1", "f2" };
    struct ct_net *net               = net_as(straight, "chain:2", 2);

    for (int i = 0; i < 5; i++) {
        ASSERT(!ct_data(net_blob_named(net, names[i])));
        ASSERT(!ct_diff(net_blob_named(net, names[i])));
    }
}

TEST(turn, a_step_allocates_nothing_after_the_first)
{
    struct ct_net *net = net_as(straight, "chain:2", 3);
    uint64_t n_calls;

    pass(net, 0);
    n_calls = ct_mem_stats().n_calls;
    pass(net, 1);
    ASSERT_INT(n_calls, ct_mem_stats().n_calls);
}

TEST(turn, who_reads_factors_has_them)
{
    struct ct_net *want = whole(straight);
    struct ct_net *got  = net_as(straight, "chain:2", 2);

    setenv("CORTADO_IMPL", "chain:2", 1);
    ASSERT_OK(ct_net_keep_factors(got));
    unsetenv("CORTADO_IMPL");
    ASSERT_HAS("chains:\nc1 .. p: 7 images", net_plan(got));
    ASSERT(!strstr(net_plan(got), "right away"));
    ASSERT(ct_data(net_blob_named(got, "p")));
    ASSERT_FLOAT(pass(want, 0), pass(got, 0), 2e-6);
    same_gradients(want, got);
}

TEST(turn, it_can_be_forbidden)
{
    struct ct_net *got = net_as(straight, "chain:2,turn:never", 2);

    ASSERT_HAS("chains:\nc1 .. p: 7 images", net_plan(got));
    ASSERT(!strstr(net_plan(got), "right away"));
}

/* A gradient outside of the chain is made when backward comes to it. */
TEST(turn, layers_that_see_the_batch_keep_a_chain_from_turning)
{
    static const char *const normed =
        INPUT CONV("c0", "x", 16) ONE("b", "BatchNorm", "c0", "b", "")
        CONV("c1", "b", 16) CONV("c2", "c1", 16) PRODUCT("f", "c2", 3)
        LOSS("l", "f", "");
    struct ct_net *want = whole(normed);
    struct ct_net *got  = net_as(normed, "chain:2", 2);

    ASSERT(!strstr(net_plan(got), "right away"));
    ASSERT_FLOAT(pass(want, 0), pass(got, 0), 2e-6);
}

TEST(turn, a_value_that_is_not_finite_is_found_where_it_is_made)
{
    struct ct_net *nets[] = { whole(straight),
                              net_as(straight, "chain:2", 2) };
    int layer[2];

    for (int i = 0; i < 2; i++) {
        struct ct_net *net = nets[i];

        pass(net, 0);
        ASSERT_OK(ct_net_find_nan(net, &layer[i]));
        ASSERT_INT(-1, layer[i]);
        ct_data(net_layer_named(net, "c2")->blob[0])[0] = 3e38f;
        ASSERT_OK(ct_net_find_nan(net, &layer[i]));
    }
    ASSERT(layer[0] >= 0);
    ASSERT_INT(layer[0], layer[1]);
}

TEST(turn, a_wrong_label_is_refused)
{
    struct ct_net *net = net_as(straight, "chain:2", 2);
    double loss;

    fill(net, 0);
    ct_data(net_blob_named(net, "label"))[6] = 3;
    ASSERT_OK(ct_net_begin_diffs(net));
    ASSERT(ct_net_forward_paired(net, &loss) == CT_EINVAL);
    ASSERT_HAS("label 6 is 3", ct_last_error());
}

/* Labels that the chain makes are not there when the loss looks at them, those
 * that it only looks at are. */
TEST(turn, labels_are_there_before_the_chain_runs)
{
    static const char *const made =
        INPUT CONV("c1", "x", 16) MINUS("a", "label") MINUS("b", "a")
        PRODUCT("f", "c1", 3) LOSS_OF("l0", "f", "b", "")
        LOSS_OF("l", "f", "b", "");
    static const char *const seen =
        INPUT CONV("c1", "x", 16)
        ONE("v", "Split", "label", "v0", "top: 'v1'") PRODUCT("f", "c1", 3)
        LOSS_OF("l0", "f", "v0", "") LOSS_OF("l", "f", "v1", "");
    struct ct_net *want = whole(made);
    struct ct_net *got  = net_as(made, "chain:2", 2);

    ASSERT(!strstr(net_plan(got), "right away"));
    for (uint64_t turn = 0; turn < 2; turn++) {
        ASSERT_FLOAT(pass(want, turn), pass(got, turn), 2e-6);
        same_gradients(want, got);
    }
    every_cut(seen, "c1 .. l: 7 images");
}

TEST(turn, classes_may_be_on_any_axis_of_an_image)
{
    static const char *const rows =
        LABELS("dim: 7 dim: 16 dim: 10") CONV("c1", "x", 16)
        CONV("c2", "c1", 16) ONE("t", "TanH", "c2", "t", "")
        LOSS("l", "t", "softmax_param { axis: 2 }");

    every_cut(rows, "c1 .. l: 7 images");
}

TEST(turn, images_that_are_classes_stay_together)
{
    static const char *const images =
        LABELS("dim: 7 dim: 240") CONV("c1", "x", 14)
        CONV("c2", "c1", 14) ONE("t", "TanH", "c2", "t", "")
        LOSS("l", "t", "softmax_param { axis: 0 }");
    struct ct_net *want = whole(images);
    struct ct_net *got  = net_as(images, "chain:2", 2);

    ASSERT(!strstr(net_plan(got), "right away"));
    ASSERT_FLOAT(pass(want, 0), pass(got, 0), 2e-6);
    same_gradients(want, got);
}

TEST(turn, another_seed_leaves_other_values_out)
{
    struct ct_net *want = whole(straight);
    struct ct_net *got  = net_as(straight, "chain:2", 2);

    pass(want, 0);
    pass(got, 0);
    ct_net_reseed(want, 99);
    ct_net_reseed(got, 99);
    ASSERT_FLOAT(pass(want, 1), pass(got, 1), 2e-6);
    same_gradients(want, got);
}

TEST(turn, a_second_backward_pass_makes_the_gradients_again)
{
    struct ct_net *want = whole(straight);
    struct ct_net *got  = net_as(straight, "chain:2", 2);

    pass(want, 0);
    pass(got, 0);
    ASSERT_OK(ct_net_begin_diffs(got));
    ASSERT_OK(ct_net_backward(got));
    same_gradients(want, got);
}

/* 100 images as CIFAR's. */
TEST(turn, small_nets_turn_by_themselves)
{
    static const char *const small =
        "layer { name: 'in' type: 'Input' top: 'x' top: 'label' "
        "  input_param { shape { dim: 100 dim: 3 dim: 32 dim: 32 } "
        "                shape { dim: 100 } } }"
        "layer { name: 'c1' type: 'Convolution' bottom: 'x' top: 'c1' "
        "  convolution_param { num_output: 32 kernel_size: 5 pad: 2 } }"
        ONE("p1", "Pooling", "c1", "p1",
            "pooling_param { kernel_size: 3 stride: 2 }")
        "layer { name: 'c2' type: 'Convolution' bottom: 'p1' top: 'c2' "
        "  convolution_param { num_output: 32 kernel_size: 5 pad: 2 } }"
        ONE("p2", "Pooling", "c2", "p2",
            "pooling_param { kernel_size: 3 stride: 2 }")
        PRODUCT("f", "p2", 10) LOSS("l", "f", "");

    test_defer(one_thread, NULL);
    ct_device_cpu_set_threads(2);
    ASSERT_HAS("right away backward",
               net_plan(net_with(small, CAFFE__PHASE__TRAIN, paired)));
    ASSERT(!strstr(net_plan(net_with(small, CAFFE__PHASE__TRAIN,
                                     (struct ct_net_options){ 0 })),
                   "right away"));
}
