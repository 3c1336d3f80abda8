/* test_early.c - parameters that are updated while their gradient is made
 * become what they become afterwards, and nobody else is surprised. */
#include <stdlib.h>

#include "cortado/log.h"
#include "solver_test.h"

/* One parameter is stored the other way round, one has no bias, and one leads
 * to no loss: nothing makes its gradient, but it decays. */
#define NET                                                                  \
    "net_param { layer { name: 'x' type: 'DummyData' top: 'x' top: 'y' "     \
    "  dummy_data_param { shape { dim: 6 dim: 3 dim: 5 dim: 5 } "            \
    "  shape { dim: 6 } data_filler { type: 'gaussian' } "                   \
    "  data_filler { value: 1 } } }"                                         \
    "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' "            \
    "  convolution_param { num_output: 4 kernel_size: 3 "                    \
    "  weight_filler { type: 'xavier' } } }"                                 \
    "layer { name: 'a' type: 'InnerProduct' bottom: 'c' top: 'a' "           \
    "  param { lr_mult: 2 decay_mult: 3 } inner_product_param { "            \
    "  num_output: 17 weight_filler { type: 'xavier' } } }"                  \
    "layer { name: 'r' type: 'ReLU' bottom: 'a' top: 'a' }"                  \
    "layer { name: 'b' type: 'InnerProduct' bottom: 'a' top: 'b' "           \
    "  inner_product_param { num_output: 9 transpose: true "                 \
    "  bias_term: false weight_filler { type: 'xavier' } } }"                \
    "layer { name: 'f' type: 'InnerProduct' bottom: 'b' top: 'f' "           \
    "  param { lr_mult: 0 } inner_product_param { num_output: 3 "            \
    "  weight_filler { type: 'xavier' } } }"                                 \
    "layer { name: 'u' type: 'InnerProduct' bottom: 'x' top: 'u' "           \
    "  inner_product_param { num_output: 2 weight_filler { value: 1 } } }"   \
    "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'f' bottom: 'y' "     \
    "  top: 'l' } } max_iter: 9 random_seed: 3 snapshot_after_train: false "

static struct ct_solver *solver(const char *words, const char *impl)
{
    char text[4096];
    struct ct_solver *s;

    snprintf(text, sizeof(text), NET "%s", words);
    setenv("CORTADO_IMPL", impl, 1);
    s = solver_of(text);
    unsetenv("CORTADO_IMPL");
    return s;
}

static const struct ct_blob *weights(struct ct_solver *s, const char *layer)
{
    struct ct_net *net = ct_solver_net(s);

    return ct_net_layer(net, ct_net_find_layer(net, layer))->blob[0];
}

static double diff_of(struct ct_solver *s, const char *layer)
{
    const struct ct_blob *w = weights(s, layer);
    double sum              = 0;

    for (int64_t i = 0; i < w->count; i++)
        sum += fabs((double)ct_diff(w)[i]);
    return sum;
}

/* After five steps; `stored`: gradients are where they always are. */
static void check(const char *words, bool stored)
{
    struct ct_solver *early = solver(words, "update:early");
    struct ct_solver *late  = solver(words, "update:late");
    const struct ct_net *a  = ct_solver_net(early), *b = ct_solver_net(late);

    ASSERT_OK(ct_solver_step(early, 5));
    ASSERT_OK(ct_solver_step(late, 5));
    ASSERT(diff_of(late, "a") > 0 && diff_of(late, "b") > 0);
    ASSERT_INT(stored, diff_of(early, "a") > 0);
    ASSERT_INT(stored, diff_of(early, "b") > 0);
    ASSERT(diff_of(early, "c") > 0);
    for (size_t i = 0; i < ct_net_arena_count(a); i++)
        ASSERT_FLOAT(ct_net_arena_data(b)[i], ct_net_arena_data(a)[i], 2e-6);
}

TEST(early, every_rule_gives_the_same_parameters)
{
    check("base_lr: 0.1 lr_policy: 'step' gamma: 0.5 stepsize: 2 "
          "momentum: 0.9 weight_decay: 0.01", false);
    check("base_lr: 0.1 lr_policy: 'multistep' gamma: 0.5 stepvalue: 2 "
          "stepvalue: 3 momentum: 0.9 type: 'Nesterov' weight_decay: 0.01 "
          "regularization_type: 'L1'", false);
    check("base_lr: 0.01 lr_policy: 'fixed' type: 'Adam' momentum: 0.9",
          false);
    check("base_lr: 0.1 lr_policy: 'fixed' type: 'AdaDelta' momentum: 0.9 "
          "delta: 1e-3", false);
    check("base_lr: 0.1 lr_policy: 'fixed' type: 'AdaGrad'", false);
    check("base_lr: 0.1 lr_policy: 'fixed' momentum: 0.9 warmup_iter: 3",
          false);
}

TEST(early, gradients_that_others_read_are_stored)
{
    const char *const sgd = "base_lr: 0.1 lr_policy: 'fixed' momentum: 0.9 ";
    static const char *const words[] = { "iter_size: 2",
                                         "clip_gradients: 0.1",
                                         "larc: true",
                                         "debug_info: true",
                                         "snapshot_diff: true" };

    for (int i = 0; i < 5; i++) {
        char text[256];

        snprintf(text, sizeof(text), "%s%s", sgd, words[i]);
        check(text, true);
    }
}

/* Passes that a caller runs change no parameter. */
TEST(early, passes_outside_of_a_step_store_their_gradients)
{
    struct ct_solver *s = solver("base_lr: 0.1 lr_policy: 'fixed'",
                                 "update:early");
    struct ct_net *net  = ct_solver_net(s);
    const float before  = ct_data(weights(s, "a"))[0];
    float after;

    ASSERT_OK(ct_net_clear_diffs(net));
    ASSERT_OK(ct_net_forward(net, NULL));
    ASSERT_OK(ct_net_backward(net));
    ASSERT(diff_of(s, "a") > 0);
    ASSERT_FLOAT(before, ct_data(weights(s, "a"))[0], 0);
    ASSERT_OK(ct_solver_apply_update(s));
    after = ct_data(weights(s, "a"))[0];
    ASSERT_FLOAT(before - 0.2f * ct_diff(weights(s, "a"))[0], after, 1e-6);
}
