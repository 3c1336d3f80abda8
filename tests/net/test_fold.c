/* test_fold.c - nets that only run forward give what they give layer by layer.
 *
 * Every net is built as `cortado test` builds it and with CORTADO_IMPL=
 * fuse:none, on the same parameters; the plan says what runs as one. */
#include <stdlib.h>

#include "base/mem.h"
#include "base/rng.h"
#include "net_test.h"

#define INPUT                                                                \
    "layer { name: 'in' type: 'Input' top: 'x' "                             \
    "  input_param { shape { dim: 3 dim: 4 dim: 9 dim: 8 } } }"
#define CONV(name, bottom, words)                                            \
    "layer { name: '" name "' type: 'Convolution' bottom: '" bottom "' "     \
    "  top: '" name "' convolution_param { num_output: 20 " words            \
    "  weight_filler { type: 'xavier' } "                                    \
    "  bias_filler { type: 'uniform' min: -1 } } }"
#define NORM(name, at)                                                       \
    "layer { name: '" name "' type: 'BatchNorm' bottom: '" at "' "           \
    "  top: '" at "' }"
#define SCALE(name, at, words)                                               \
    "layer { name: '" name "' type: 'Scale' bottom: '" at "' "               \
    "  top: '" at "' scale_param { " words                                   \
    "  filler { type: 'uniform' min: -1 } } }"
#define RELU(name, at)                                                       \
    "layer { name: '" name "' type: 'ReLU' bottom: '" at "' top: '" at "' }"
#define SUM(top, a, b)                                                       \
    "layer { name: '" top "' type: 'Eltwise' bottom: '" a "' "               \
    "  bottom: '" b "' top: '" top "' }"
#define TAIL(bottom)                                                         \
    "layer { name: 'fc' type: 'InnerProduct' bottom: '" bottom "' "          \
    "  top: 'fc' inner_product_param { num_output: 5 "                       \
    "  weight_filler { type: 'xavier' } } }"

static struct ct_net *build(const char *text, const char *impl)
{
    struct ct_net *net;

    setenv("CORTADO_IMPL", impl, 1);
    net = net_with(text, CAFFE__PHASE__TEST,
                   (struct ct_net_options){ .forward_only = true,
                                            .fixed_params = true });
    unsetenv("CORTADO_IMPL");
    return net;
}

/* Statistics as a trained net has them: sums of `seed` batches. */
static void put_statistics(struct ct_net *net, uint64_t seed)
{
    for (int i = 0; i < ct_net_n_layers(net); i++) {
        struct ct_layer *l = ct_net_layer(net, i);

        if (strcmp(l->type->name, "BatchNorm") != 0)
            continue;
        for (int64_t k = 0; k < l->blob[0]->count; k++) {
            ct_data(l->blob[0])[k] = ct_normal(seed, 2, (uint64_t)k);
            ct_data(l->blob[1])[k] = ct_uniform(seed, 3, (uint64_t)k) + 0.5f;
        }
        ct_data(l->blob[2])[0] = (float)seed;
    }
    ct_net_params_changed(net);
}

static void run(struct ct_net *net, uint64_t turn)
{
    struct ct_blob *x = net_blob_named(net, "x");

    for (int64_t i = 0; i < x->count; i++)
        ct_data(x)[i] = ct_normal(5, turn, (uint64_t)i);
    ASSERT_OK(ct_net_forward(net, NULL));
}

static void same_output(struct ct_net *one, struct ct_net *other,
                        uint64_t turn)
{
    const struct ct_blob *a = net_blob_named(one, "fc");
    const struct ct_blob *b = net_blob_named(other, "fc");
    double most             = 0;

    run(one, turn);
    run(other, turn);
    for (int64_t i = 0; i < b->count; i++)
        most = fmax(most, fabs((double)ct_data(b)[i]));
    ASSERT(most > 1e-2);
    for (int64_t i = 0; i < b->count; i++)
        ASSERT_FLOAT(ct_data(b)[i], ct_data(a)[i], 1e-5 * most);
}

static void text_free(void *text)
{
    ct_free(text);
}

/* Runs as `group` says and gives the same by every implementation. */
static void check(const char *text, const char *group)
{
    static const char *const impls[] = { "", "conv:gemm,layout:plain",
                                         "conv:ref" };

    for (int i = 0; i < 3; i++) {
        struct ct_net *one   = build(text, impls[i]);
        struct ct_net *other = build(text, "fuse:none");
        char *plan;

        ASSERT_OK(ct_net_plan_text(one, &plan));
        test_defer(text_free, plan);
        ASSERT_HAS(group, plan);
        for (uint64_t turn = 1; turn < 4; turn++) {
            put_statistics(one, turn);
            put_statistics(other, turn);
            same_output(one, other, turn);
            same_output(one, other, turn + 10); /* nothing is made anew */
        }
    }
}

TEST(fold, norm_scale_and_relu_become_the_convolution)
{
    check(INPUT CONV("c", "x", "kernel_size: 3 pad: 1") NORM("n", "c")
          SCALE("s", "c", "bias_term: true bias_filler { type: 'uniform' }")
          RELU("r", "c") TAIL("c"),
          "c (Convolution) + n (BatchNorm) + s (Scale) + r (ReLU)\n");
    check(INPUT CONV("c", "x", "kernel_size: 3 bias_term: false")
          NORM("n", "c") TAIL("c"), "c (Convolution) + n (BatchNorm)\n");
    check(INPUT CONV("c", "x", "kernel_size: 5 stride: 2 group: 2")
          SCALE("s", "c", "") RELU("r", "c") TAIL("c"),
          "c (Convolution) + s (Scale) + r (ReLU)\n");
}

TEST(fold, blobs_of_their_own_fold_too)
{
    check(INPUT CONV("c", "x", "kernel_size: 1")
          "layer { name: 'n' type: 'BatchNorm' bottom: 'c' top: 'n' }"
          "layer { name: 's' type: 'Scale' bottom: 'n' top: 's' }"
          "layer { name: 'r' type: 'ReLU' bottom: 's' top: 'r' }" TAIL("r"),
          "c (Convolution) + n (BatchNorm) + s (Scale) + r (ReLU)\n");
}

TEST(fold, a_residual_block_ends_in_its_last_convolution)
{
    check(INPUT CONV("a", "x", "kernel_size: 3 pad: 1") NORM("n1", "a")
          RELU("r1", "a") CONV("b", "a", "kernel_size: 3 pad: 1")
          NORM("n2", "b") SCALE("s2", "b", "") SUM("m", "a", "b")
          RELU("r2", "m") CONV("d", "m", "kernel_size: 1") SUM("e", "d", "m")
          TAIL("e"),
          "b (Convolution) + n2 (BatchNorm) + s2 (Scale) + m (Eltwise) + "
          "r2 (ReLU)\n");
}

/* What is added is read again behind the sum, or comes from outside. */
TEST(fold, a_summand_that_is_still_wanted_stays)
{
    check(INPUT CONV("a", "x", "kernel_size: 3 pad: 1")
          CONV("b", "a", "kernel_size: 1") SUM("m", "a", "b") RELU("r", "m")
          SUM("e", "m", "a") TAIL("e"),
          "b (Convolution) + m (Eltwise) + r (ReLU)\n");
    check("layer { name: 'in' type: 'Input' top: 'x' "
          "  input_param { shape { dim: 2 dim: 20 dim: 5 dim: 5 } } }"
          CONV("a", "x", "kernel_size: 3 pad: 1") SUM("m", "a", "x")
          TAIL("m"), "a (Convolution) + m (Eltwise)\n");
}

TEST(fold, weighted_sums_and_sums_of_three_are_left_alone)
{
    check(INPUT CONV("a", "x", "kernel_size: 1") CONV("b", "a",
          "kernel_size: 1")
          "layer { name: 'm' type: 'Eltwise' bottom: 'a' bottom: 'b' "
          "  top: 'm' eltwise_param { coeff: 1 coeff: -1 } }" TAIL("m"),
          "run as one:\nnone");
    check(INPUT CONV("a", "x", "kernel_size: 1") CONV("b", "a",
          "kernel_size: 1")
          "layer { name: 'm' type: 'Eltwise' bottom: 'a' bottom: 'b' "
          "  top: 'm' eltwise_param { operation: PROD } }" TAIL("m"),
          "run as one:\nnone");
}

TEST(fold, an_inner_product_takes_them_too)
{
    static const char *const words[] = { "", "transpose: true",
                                         "bias_term: false" };

    for (int i = 0; i < 3; i++) {
        char text[2048];

        snprintf(text, sizeof(text),
                 INPUT "layer { name: 'h' type: 'InnerProduct' bottom: 'x' "
                 "  top: 'h' inner_product_param { num_output: 20 %s "
                 "  weight_filler { type: 'xavier' } "
                 "  bias_filler { type: 'uniform' } } }" NORM("n", "h")
                 SCALE("s", "h", "bias_term: true") RELU("r", "h") TAIL("h"),
                 words[i]);
        check(text, "h (InnerProduct) + n (BatchNorm) + s (Scale) + "
                    "r (ReLU)\n");
    }
}

/* The parameters themselves are as they were: files hold Caffe's. */
TEST(fold, parameters_stay_as_they_are)
{
    static const char *const text =
        INPUT CONV("c", "x", "kernel_size: 3") NORM("n", "c") TAIL("c");
    struct ct_net *one = build(text, ""), *other = build(text, "fuse:none");

    put_statistics(one, 3);
    put_statistics(other, 3);
    same_output(one, other, 1);
    for (size_t i = 0; i < ct_net_arena_count(one); i++)
        ASSERT_FLOAT(ct_net_arena_data(other)[i], ct_net_arena_data(one)[i],
                     0);
}

TEST(fold, other_sizes_and_nets_that_are_taken_apart_give_the_same)
{
    static const char *const text =
        INPUT CONV("a", "x", "kernel_size: 3 pad: 1") NORM("n", "a")
        CONV("b", "a", "kernel_size: 1") SUM("m", "a", "b") RELU("r", "m")
        TAIL("m");
    struct ct_net *one = build(text, ""), *other = build(text, "fuse:none");

    put_statistics(one, 2);
    put_statistics(other, 2);
    same_output(one, other, 1);
    ASSERT_OK(ct_reshape(net_blob_named(one, "x"), CT_SHAPE(7, 4, 9, 8)));
    ASSERT_OK(ct_reshape(net_blob_named(other, "x"), CT_SHAPE(7, 4, 9, 8)));
    same_output(one, other, 2);
    ct_net_set_debug_info(one, true);
    same_output(one, other, 3);
    ct_net_set_debug_info(one, false);
    same_output(one, other, 4);
}
